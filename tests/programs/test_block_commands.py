"""`minihlo cast` to block formats and `minihlo formats` of them."""

import pytest

from minihlo.interp import cli
from minihlo.interp.command_options.tables import SCALE_RULES
from minihlo.ops.blocks.formats import BLOCK_FORMATS
from minihlo.ops.blocks.scales import RULES


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = cli.main(list(arguments))
    out = capsys.readouterr()
    return status, out.out, out.err


def test_the_rules_of_the_command_line_are_those_there_are() -> None:
    assert SCALE_RULES == RULES


def test_cast_shows_scale_codes_and_errors(capsys) -> None:
    status, out, _ = run(capsys, "cast", "[1, 2, 449]", "mxfp8_e4m3", "--scale", "rceil")
    assert status == 0
    assert out.splitlines() == [
        "mxfp8_e4m3: 32 f8E4M3FN, scale f8E8M0FNU, rceil",
        "block 0  scale 0x80 = 2",
        "  1    0x30 = 0.5  = 1    error 0",
        "  2    0x38 = 1    = 2    error 0",
        "  449  0x76 = 224  = 448  error -1",
    ]


def test_cast_rounds_a_literal_from_its_exact_value(capsys) -> None:
    """One f64 above 448, and what f64 cannot tell from 448, both need a larger scale."""
    for text, scale in (("448", "0x7F"), ("448.00000000000001", "0x80"), ("448.000000000000000000000001", "0x80")):
        assert f"scale {scale}" in run(capsys, "cast", f"[{text}]", "mxfp8_e4m3", "--scale", "rceil")[1]


@pytest.mark.parametrize("value", ["[[1, 2], [3, 4]]", "2x2xbf16=1,2,3,4", "1.5", "-3", "[]", "[nan, -inf, 1e400]"])
@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_every_block_format(capsys, name: str, value: str) -> None:
    status, out, err = run(capsys, "cast", value, name)
    assert (status, err) == (0, "")
    assert out.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["[1, 2", "mxint8"], "expected a number, or a list of numbers such as '[1, 2, 448]', got '[1, 2'"),
        (["[[1], [2, 3]]", "mxint8"], "expected lists of one length"),
        (["[a]", "mxint8"], "expected a number, got 'a'"),
        (["1", "f8E4M3FN", "--scale", "ceil"], "--scale: expected a block format"),
        (["1", "mxint8", "--scale", "up"], "argument --scale: invalid choice: 'up'"),
        (["complex<f32>=(1,2)", "mxint8"], "expected a real type"),
    ],
)
def test_bad_casts(capsys, arguments: list[str], message: str) -> None:
    status, _, err = run(capsys, "cast", *arguments)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_formats_prints_facts_and_a_program(capsys, name: str) -> None:
    status, out, _ = run(capsys, "formats", name)
    assert status == 0
    assert f"block format         {name}\n" in out
    assert "func.func @main(%x: tensor<" in out
    assert name in run(capsys, "formats")[1]


def test_codes_of_a_block_format_are_refused(capsys) -> None:
    status, _, err = run(capsys, "formats", "nvfp4", "--codes")
    assert (status, err) == (2, "--codes: expected a floating-point format, such as f8E4M3FN, got nvfp4\n")
