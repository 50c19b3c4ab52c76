"""mlir_tests/: every op in every format it takes, and every file is what the generator makes of the declarations."""

import pytest

from minihlo.interp import cli, load
from minihlo.interp.commands import run
from minihlo.interp.errors import CheckFailure
from minihlo.ops.op import ops
from tools.mlir_tests import catalog, coverage, numbers, write
from tools.mlir_tests.chunk import Chunk
from tools.mlir_tests.elementwise import binary

from ..oracle import FORMATS, Fraction

FILES = catalog.files()


def test_no_op_lacks_a_file_and_no_format_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{coverage.table()}\nnot tested: {'; '.join(f'{n} ({why})' for n, why in catalog.NOT_TESTED.items())}")
    assert not coverage.missing()
    assert set(catalog.NOT_TESTED) <= set(ops())
    assert set(catalog.FOLDER.glob("*.mlir")) == set(FILES)


def test_every_type_of_16_bits_and_less_is_tested() -> None:
    assert set(numbers.TESTED) == {name for name, fmt in FORMATS.items() if fmt.bits <= 16}


#: Ops whose expected results take long to find; and how many of the others are made anew in every run: one of so many.
SLOW, FEW = {"stablehlo.convert", "stablehlo.remainder", "chlo.polygamma"}, 9


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.exhaustive] * (n in SLOW or i % FEW > 0))
        for i, n in enumerate(FILES.values())
    ],
)
def test_files_are_current(name: str) -> None:
    """Making a file anew also confirms every expected value by both of its sources."""
    path = catalog.file_of(name)
    assert path.exists(), "run `make generate`"
    assert write.make(name) == path.read_text(), "run `make generate`"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FILES.values())
def test_files_run_alone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As `minihlo run FILE` has it, but for the process that it is done in."""
    options = cli.command_parser().parse_args(["run", str(catalog.file_of(name))])
    assert run.main(options) == 0
    assert capsys.readouterr().out == ""


def test_names_of_functions_are_unique() -> None:
    names = [f for path in FILES for f in coverage.functions_of(path)]
    assert len(set(names)) == len(names)


def test_generator_needs_two_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(binary.__globals__["oracle"].BINARY, "add", lambda x, y: Fraction(1))
    with pytest.raises(AssertionError, match=r"stablehlo\.add: .*expect_eq_const: element \[0\]"):
        write.make("stablehlo.add")


def test_an_op_without_cases_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(catalog._MAKERS, "stablehlo.add")
    with pytest.raises(KeyError, match="nothing says how to make test cases"):
        catalog.chunks("stablehlo.add")


def test_a_missing_format_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "functions_of", lambda _: ["add_f16", "add_f8E4M3FN"])
    assert "stablehlo.add in f8E4M3FNUZ" in coverage.missing()
    assert "stablehlo.add in f8E4M3FN" not in coverage.missing()


@pytest.mark.parametrize(
    ("element", "codes", "shown"),
    [
        ("f8E4M3FN", [0x00, 0x80, 0x38, 0x7E, 0x7F, 0xFF], ["0", "-0", "1", "448", "nan", "nan"]),
        ("f8E8M0FNU", [0x00, 0x7F, 0xFE, 0xFF], ["2^-127", "1", "2^127", "nan"]),
        ("f8E5M2", [0x7C, 0xFC, 0x01], ["inf", "-inf", "2^-16"]),
    ],
)
def test_values_beside_codes(element: str, codes: list[int], shown: list[str]) -> None:
    assert [numbers.format_value(element, c) for c in codes] == shown


def test_only_nan_may_differ_in_its_code() -> None:
    chunk = Chunk("x")
    value = chunk.constant(numbers.array([0x00, 0xFF]), "f8E4M3FN")
    chunk.expect(value, numbers.array([0x00, 0xFF]))
    assert "check.expect_eq_const %x_one_nan, dense<[0x00, 0x7F]>" in chunk.text
    chunk.expect(value, numbers.array([0x00, 0xFF]), every_bit=True)
    assert "check.expect_eq_const %x_codes3, dense<[0x00, 0xFF]>" in chunk.text


def test_a_sum_of_codes_tells_one_wrong_result() -> None:
    codes = numbers.array(range(256))
    texts = []
    for wrong in (None, 0, 77, 254):
        chunk = Chunk("x")
        results = codes.copy()
        if wrong is not None:
            results[wrong] ^= 1
        chunk.expect_sum(chunk.constant(codes, "f8E5M2FNUZ"), results)
        texts.append(chunk.text)
    assert len(set(texts)) == 4
    load(texts[0])()
    for text in texts[1:]:
        with pytest.raises(CheckFailure):
            load(text)()
