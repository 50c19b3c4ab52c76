"""Programs that check themselves: on any backend they say what the tester says of the same cases."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import BackendError, backend
from minihlo.interp.cli import main
from minihlo.interp.conform import run, tester
from minihlo.interp.conform.result import CRASH, FAIL, UNSUPPORTED, CaseResult
from minihlo.interp.conform.vectors import mlir, targets
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.errors import ProgramError
from minihlo.interp.oracle import rounding
from minihlo.interp.oracle.formats import FORMATS, MINIFLOATS

pytestmark = pytest.mark.usefixtures("in_the_repository")

#: Cases, with forms: each kind of op, of result and of open point. XLA or the reference interpreter fails on some.
CASES = [
    ("sqrt.f8E3M4", "array"),
    ("sqrt.f8E3M4", "upcast"),
    ("sqrt.f8E3M4", "chain"),
    ("add.f8E3M4", "scalar"),
    ("round_nearest_even.f8E3M4", "constant"),
    ("maximum.f8E8M0FNU", "size-33"),
    ("sqrt.f8E8M0FNU", "array"),
    ("convert.f8E4M3FN.f8E8M0FNU", "constant"),
    ("convert.f4E2M1FN.f8E8M0FNU", "array"),
    ("convert.f32.f4E2M1FN", "size-1000"),
    ("convert.f8E5M2.i4", "array"),
    ("convert.f8E5M2.ui64", "array"),
    ("convert.f8E5M2.f64", "array"),
    ("convert.i32.ui8", "array"),
    ("exponential.f8E5M2", "array"),
    ("logistic.f8E4M3FNUZ", "array"),
    ("compare_LT_TOTALORDER.f8E4M3FNUZ", "array"),
    ("is_finite.f8E5M2", "array"),
    ("clamp.f8E4M3FN", "array"),
    ("add.f8E5M2", "size-0"),
    ("add.f8E5M2", "rank-0"),
    ("add.f8E5M2", "transposed"),
    ("sort.f8E5M2", "length-17"),
    ("reduce_maximum.f8E4M3FN", "length-17"),
]
#: Those that XLA and the reference interpreter run in every test; each program takes XLA a quarter of a second.
SAMPLE = [
    c for c in CASES if c[0].startswith(("sqrt", "round", "add.f8E3M4", "convert.f4", "compare")) or c[1] == "size-0"
]
Told = dict[tuple[str, str], tuple[CaseResult, list[tuple[int, int]]]]


class Programs:
    takes = "programs"


def verdicts_of(name: str, cases: list[tuple[str, str]], made: Any = None) -> Told:
    """The tester's result of each case, and what its programs give."""
    made = backend(name) if made is None else made
    settings = Settings(name)
    by_signature: dict[str, tuple[str, ...]] = {}
    for signature, form in cases:
        by_signature[signature] = (*by_signature.get(signature, ()), form)
    choice = run.Choice(listed=tuple(by_signature.items()))
    tasks = run.tasks(choice, settings, "programs")
    results: Told = {}
    try:
        session = run.Session(run.describe_run(settings, choice, made), settings, tasks, None)
        live = {c.key: c for c in session.run(run.in_this_process(made)).cases}
        judge = tester.Tester(Programs(), settings)
        for spec in (s for t in tasks for s in t.specs):
            key = spec.case.signature, spec.form
            if live[key].verdict in (UNSUPPORTED, CRASH):
                continue
            made.seconds = 60.0
            count, first = made.evaluate(mlir.program(judge.part(spec), settings.ulp), [])
            assert (count.dtype, count.shape) == (first.dtype, first.shape) == (np.int32, ())
            results.setdefault(key, (live[key], []))[1].append((int(count), int(first)))
    finally:
        if hasattr(made, "close"):
            made.close()
    return results


def check(results: Told) -> set[tuple[str, str]]:
    """Whether programs say what the tester says; the cases that fail."""
    for key, (live, counts) in results.items():
        fails = any(count for count, _ in counts)
        assert fails == (live.verdict == FAIL), (key, live.verdict, live.counts, counts)
        assert all((count == 0) == (first == -1) for count, first in counts), (key, counts)
        if fails and not live.open_points:  # else there are several ways to count
            assert sum(count for count, _ in counts) == live.counts[FAIL], (key, live.counts, counts)
            if len(counts) == 1:
                assert counts[0][1] == live.failures[0].index, (key, live.failures, counts)
    return {key for key, (live, _) in results.items() if live.verdict == FAIL}


def test_programs_on_minihlo() -> None:
    results = verdicts_of("minihlo", CASES)
    assert len(results) == len(CASES)
    assert check(results) == set()


@pytest.mark.parametrize("cases", [SAMPLE, pytest.param(CASES, marks=pytest.mark.exhaustive)], ids=["some", "all"])
def test_programs_on_xla(cases: list[tuple[str, str]]) -> None:
    pytest.importorskip("jax")
    results = verdicts_of("jax:cpu", cases)
    failing = check(results)
    assert len(results) > len(cases) - 4
    # What XLA gets wrong at run time, what it folds in another way, and a scalar that it simplifies.
    assert {("sqrt.f8E3M4", "array"), ("round_nearest_even.f8E3M4", "constant"), ("add.f8E3M4", "scalar")} <= failing


@pytest.mark.parametrize("cases", [SAMPLE, pytest.param(CASES, marks=pytest.mark.exhaustive)], ids=["some", "all"])
def test_programs_on_the_reference_interpreter(cases: list[tuple[str, str]]) -> None:
    results = verdicts_of("reference", cases)
    assert check(results)
    assert len(results) > len(cases) - 4


def wrong(change: Callable[[str], str]) -> Any:
    class Wrong:
        takes = "programs"

        def evaluate(self, text: str, arrays: Any) -> list[np.ndarray]:
            try:
                return backend("minihlo").evaluate(change(text), arrays)
            except ProgramError as error:  # of slices that one element does not have
                raise BackendError("refused", str(error)) from None

    return Wrong()


@pytest.mark.parametrize("form", ["array", "constant", "size-17", "scalar", "upcast", "chain", "sliced", "unaligned"])
def test_a_planted_fault_is_counted_in_every_form(form: str) -> None:
    cases = [("multiply.f8E5M2", form), ("multiply.f6E2M3FN", form)]
    made = wrong(lambda text: text.replace('"stablehlo.multiply"', '"stablehlo.add"'))
    assert check(verdicts_of("minihlo", cases, made)) == set(cases)


OVERFLOW = [("convert.f32.f8E5M2", "array"), ("convert.f32.f8E4M3FNUZ", "array"), ("add.f8E4M3FN", "array")]


def test_one_choice_at_all_elements_is_right() -> None:
    from ..conform_profile_backends import saturating

    class Saturating:
        takes = "programs"
        evaluate = staticmethod(saturating)

    results = verdicts_of("minihlo", OVERFLOW, Saturating())
    assert check(results) == set()
    assert all(live.open_points["overflow"].keys() == {"largest"} for live, _ in results.values())


def test_two_choices_in_turn_are_wrong_under_each() -> None:
    judge = tester.Tester(Programs(), Settings("minihlo"))
    choice = run.Choice(listed=((OVERFLOW[0][0], ("array",)),))
    (spec,) = (s for t in run.tasks(choice, judge.settings, "programs") for s in t.specs)
    part = judge.part(spec)
    codes = part.expected.codes.copy()
    fmt = FORMATS["f8E5M2"]
    beyond = np.flatnonzero(part.expected.left_open == rounding.OVERFLOW)
    codes[beyond[::2]] = fmt.max_code | (codes[beyond[::2]] & fmt.sign_bit)
    fits = [accepts(t, codes) for t in targets.targets(part, 4)]
    assert len(fits) == 2
    assert all(0 < (~f).sum() < len(beyond) for f in fits)
    assert {int((~f).sum()) for f in fits} == {len(beyond[::2]), len(beyond) - len(beyond[::2])}


def accepts(target: targets.Target, codes: np.ndarray) -> np.ndarray:
    found = np.zeros(len(codes), bool)
    for low, high in target:
        found |= (codes >= low) & (codes <= high)
    return found


@pytest.mark.parametrize("name", MINIFLOATS)
def test_the_codes_of_nan_are_those_of_the_format(name: str) -> None:
    fmt = FORMATS[name]
    codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
    found = {c for first, last in targets.nan_codes(name) for c in range(first, last + 1)}
    assert found == set(codes[np.isnan(fmt.decode(codes))].tolist())


def test_files_and_their_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["conform", "export", str(tmp_path / "p"), "--as", "mlir", "--case", "negate.f8E5M2", "--form", "size-7"]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path}/p: 1 program, ")
    manifest = json.loads((tmp_path / "p" / "manifest.json").read_text())
    (listed,) = manifest["programs"]
    raw = (tmp_path / "p" / listed["file"]).read_bytes()
    assert (listed["sha256"], listed["elements"]) == (hashlib.sha256(raw).hexdigest(), 7)
    assert b"check." not in raw
    assert [int(x) for x in interp.load(tmp_path / "p" / listed["file"])()] == [0, -1]
    assert main(words) == 2
    assert "expected an empty folder or a new one, got one with files" in capsys.readouterr().err


def test_sums_are_left_out_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--as", "mlir", "--ops", "reduce_*,sort", "--formats", "f8E4M3FNUZ", "--form", "length-3"]
    assert main(["conform", "export", str(tmp_path / "p"), *words]) == 0
    assert capsys.readouterr().out.endswith("; 3 of sums, blocks and tests left out\n")
    manifest = json.loads((tmp_path / "p" / "manifest.json").read_text())
    left_out = ["reduce_add.f8E4M3FNUZ", "reduce_multiply.f8E4M3FNUZ", "sort.f8E4M3FNUZ"]
    assert [key for key, _ in manifest["left_out"]] == left_out
    assert len(manifest["programs"]) == 2


@pytest.mark.parametrize("version", ["1.0.0", "1.9.0"])
def test_portable_artifacts(tmp_path: Path, version: str) -> None:
    words = ["--as", "mlir", "--case", "add.f8E5M2", "--form", "size-9", "--stablehlo-version", version]
    assert main(["conform", "export", str(tmp_path / "p"), *words]) == 0
    path = tmp_path / "p" / "add.f8E5M2.size-9.mlirbc"
    assert path.read_bytes().startswith(b"ML\xefR")
    assert b"StableHLO_v" + version.encode() in path.read_bytes()
    assert [int(x) for x in interp.load(path)()] == [0, -1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--formats", "f8E3M4", "--stablehlo-version", "1.0.0"),
            "expected 1.7.0 or later for f8E3M4 (1.7.0), got 1.0.0",
        ),
        (("--formats", "f4E2M1FN", "--stablehlo-version", "1.7.9"), "1.8.0 or later for f4E2M1FN (1.8.0), got 1.7.9"),
        (("--stablehlo-version", "2.0.0"), "--stablehlo-version: expected a version from 0."),
        (("--stablehlo-version", "new"), "--stablehlo-version: expected a version from 0."),
        (("--profile", "ocp"), "expected a profile or a TOML file, got ocp"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    ops = () if "--profile" in words else ("--ops", "negate", "--form", "array")
    assert main(["conform", "export", str(tmp_path / "p"), "--as", "mlir", *ops, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert message in err


def test_a_version_needs_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "export", str(tmp_path / "p"), "--ops", "negate", "--stablehlo-version", "1.0.0"]) == 2
    assert capsys.readouterr().err == "--stablehlo-version: expected --as mlir with it\n"
