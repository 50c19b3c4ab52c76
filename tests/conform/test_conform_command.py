"""`minihlo conform` as a command: what it lists, refuses and reports; runs compared."""

import json
import shlex
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.cli import main
from minihlo.interp.conform.cases import cases
from minihlo.interp.conform.result import FAIL, load

from .conform_results import found

pytestmark = pytest.mark.usefixtures("in_the_repository")


def test_the_list_has_every_signature(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--list", "--formats", "f8E5M2"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert {"add.f8E5M2", "convert.f64.f8E5M2", "dot_general.f8E5M2.f32", "compare_LT_TOTALORDER.f8E5M2"} <= set(listed)
    assert listed["add.f8E5M2"].split()[:3] == ["array", "constant", "scalar"]
    assert len(listed) == len({c.signature for c in cases.select_cases(cases.cases(1), formats=["f8E5M2"])})


def test_signatures_are_unique() -> None:
    signatures = [c.signature for c in cases.cases(3)]
    assert len(signatures) == len(set(signatures))


def test_expected_failures_do_not_count(report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.txt"
    known.write_text("# of our board\nadd.f8E5M2 constant\nadd.f8E4M3*  # all forms\n")
    arguments = ("tests.conform_faults:folded", "--ops", "add", "--xfail", str(known))
    code, r = report(*arguments, "--formats", "f8E4M3FN,f8E5M2")
    assert code == 0
    assert all(c.is_expected for c in r.cases if c.verdict == FAIL)
    assert "2 expected" in capsys.readouterr().out
    code, r = report(*arguments, "--formats", "f8E4M3FN,f8E5M2FNUZ")
    assert code == 1


def test_expected_failures_that_are_none_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.txt"
    known.write_text("add.f8E5M2 array\nadd.f9\nmultiply.f8E5M2\nadd.f8E5M2 constant\n")
    words = ["conform", "tests.conform_faults:folded", "--ops", "add", "--formats", "f8E5M2", "--xfail", str(known)]
    assert main([*words, "-j", "1"]) == 0
    told = capsys.readouterr().err.replace(str(known), "K").splitlines()
    assert told == ["--xfail K: add.f8E5M2 array: does not fail any more", "--xfail K: add.f9: there is no such case"]


def test_a_backend_that_dies_of_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = f"{sys.executable} -c 1/0"
    words = ["conform", f"exec:{program}", "--ops", "add,negate", "--formats", "f8E5M2", "--form", "array", "-j", "1"]
    assert main(words) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert "crashes on a type, so no case of that type was run" in told[0]
    assert told[0].endswith("--case type.f8E5M2 --form array")
    assert main([*shlex.split(told[0].partition(": minihlo ")[2]), "-j", "1"]) == 1
    assert "CRASH type.f8E5M2" in capsys.readouterr().out
    known = tmp_path / "known.txt"
    known.write_text("type.*\n")
    assert main([*words, "--xfail", str(known)]) == 0


def test_a_backend_that_cannot_be_started_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    # From worker processes, so what is wrong has to be sent from one to the other.
    assert main(["conform", "exec:/no/such", "--case", "add.f8E5M2", "-j", "2"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert "/no/such" in told[0]


@pytest.mark.parametrize("option", ["json", "junit", "html"])
def test_files_that_cannot_be_written(tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    kinds = ((tmp_path / "no" / "x", "No such file"), (tmp_path, "Is a directory"), (blocked / "x", "Not a directory"))
    for name, told in (*kinds, (tmp_path / ("n" * 300), "File name too long")):
        assert main(["conform", "minihlo", "--case", "negate.f8E5M2", f"--{option}", str(name)]) == 74
        error = capsys.readouterr().err
        assert error.startswith(f"--{option} {name}: {told}")
        assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["json", "junit", "html"])
def test_a_full_disk(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the status of FAIL; and the report is still printed."""
    words = ["conform", "minihlo", "--case", "negate.f8E5M2", "--form", "array", "-j", "1", f"--{option}", "/dev/full"]
    assert main(words) == 74
    told = capsys.readouterr()
    assert told.err == "/dev/full: No space left on device\n"
    assert "1 PASS" in told.out


_DAMAGES = [
    "",
    "{",
    "[]",
    "7",
    '"x"',
    '{"schema": "minihlo.conform/1"}',
    '{"schema": "minihlo.conform/1", "run": {}, "cases": []}',
    '{"schema": "minihlo.conform/1", "run": {"backend": "x", "level": "1"}, "cases": []}',
    '{"schema": "minihlo.conform/1", "run": {"backend": "x", "level": 1}, "cases": "abc"}',
    '{"schema": "minihlo.conform/1", "run": {"backend": "x", "level": 1}, "cases": ["abc"]}',
    '{"schema": "minihlo.conform/1", "run": {"backend": "x", "level": 1}, "cases": [{}]}',
    '{"schema": "minihlo.conform/2", "run": {"backend": "x", "level": 1}, "cases": []}',
    "[" * 5000,
]


@pytest.mark.parametrize("text", _DAMAGES)
def test_damaged_reports(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "d.json"
    damaged.write_text(text)
    assert main(["conform", "diff", str(damaged), str(damaged)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{damaged} is not a result of minihlo conform: ")
    assert error.count("\n") == 1


def test_fields_of_other_types_in_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every field of a case that fails, with values of every other type."""
    path, damaged = tmp_path / "r.json", tmp_path / "d.json"
    words = ["conform", "tests.conform_faults:folded", "--case", "add.f8E5M2", "--form", "constant", "-j", "1"]
    assert main([*words, "--json", str(path)]) == 1
    data = json.loads(path.read_text())
    place = next(i for i, c in enumerate(data["cases"]) if c["verdict"] == FAIL)
    for where in (data["cases"][place], data["cases"][place]["failures"][0], data["cases"][place]["map"], data["run"]):
        for field, value in list(where.items()):
            for other in ({"a": []}, [[None]], "x", None):
                where[field] = other
                damaged.write_text(json.dumps(data))
                assert main(["conform", "diff", str(path), str(damaged)]) in (0, 1, 2), (field, other)
                assert capsys.readouterr().err.count("\n") <= 1
            where[field] = value
    damaged.write_bytes(path.read_bytes().replace(b"add", b"\xff\xfe\xfd"))
    assert main(["conform", "diff", str(path), str(damaged)]) == 2


def test_a_new_case_that_fails_is_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["conform", "tests.conform_faults:folded", "--formats", "f8E5M2", "-j", "1", "--form", "constant"]
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    main([*words, "--ops", "negate", "--json", str(before)])
    main([*words, "--ops", "negate,add", "--json", str(after)])
    capsys.readouterr()
    assert main(["conform", "diff", str(before), str(after)]) == 1
    assert "1 new that fail" in capsys.readouterr().out
    assert main(["conform", "diff", str(after), str(before)]) == 0
    known = tmp_path / "known.txt"
    known.write_text("add.f8E5M2 constant\n")
    main([*words, "--ops", "negate,add", "--json", str(after), "--xfail", str(known)])
    assert main(["conform", "diff", str(before), str(after)]) == 0


def test_a_group_is_expected_if_all_of_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.txt"
    known.write_text("add.f8E5M2 size-64\n")
    words = ["conform", "tests.conform_faults:last_three", "--ops", "add", "--formats", "f8E5M2", "-j", "1"]
    assert main([*words, "--xfail", str(known)]) == 1
    groups = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL add")]
    assert [g for g in groups if "(expected)" in g] == [g for g in groups if "add.f8E5M2 size-64 " in g]
    assert 1 == sum("(expected)" in g for g in groups) < len(groups)


def test_control_characters_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "\x1b[2J\x1b]0;title\x07 no\u202esuch\x9bop"
    script = tmp_path / "backend.py"
    script.write_text(f"import sys\nsys.stderr.write({said!r})\nsys.exit(3)\n")
    path = tmp_path / "r.json"
    name = f"exec:{sys.executable} {script}"
    words = ["conform", name, "--case", "type.f8E5M2", "-j", "1", "--json", str(path)]
    assert main(words) == 1
    told = capsys.readouterr()
    assert "such" in told.out
    assert not [c for c in told.out + told.err if not c.isprintable() and c != "\n"]
    main(["conform", "diff", str(path), str(path)])
    assert not [c for c in capsys.readouterr().out if not c.isprintable() and c != "\n"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ops", "addd,negate"], "--ops: expected an op or a pattern, got addd (did you mean add"),
        (["--formats", "f8E5M2", "--formats", "f9"], "--formats: expected an element type or a pattern, got f9"),
        (["--case", "add.f8E5M"], "--case: expected a signature or a pattern, got add.f8E5M (did you mean add.f8E5M2"),
        (["--form", "arrays"], "--form: expected a form or a pattern, got arrays (did you mean array"),
        (["--ops", "add", "--case", "negate.f8E5M2"], "expected options that select a case"),
    ],
)
def test_what_there_is_not(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["conform", "minihlo"], ["conform", "--list"]):
        assert main([*command, *words]) == 2
        assert told in capsys.readouterr().err


def test_junit(tmp_path: Path) -> None:
    path = tmp_path / "j.xml"
    words = ["conform", "tests.conform_faults:folded", "--ops", "add", "--formats", "f8E5M2", "--junit", str(path)]
    assert main([*words, "-j", "1"]) == 1
    suite = ET.parse(path).getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    bad = [t for t in suite if t.find("failure") is not None]
    assert [(t.get("classname"), t.get("name")) for t in bad] == [("add", "add.f8E5M2 constant")]
    assert "--form constant" in (bad[0].findtext("failure") or "")


def test_processes_find_the_same(tmp_path: Path) -> None:
    words = ["conform", "tests.conform_faults:folded", "--ops", "add", "--formats", "f4*,f6E2M3FN"]
    found = []
    for jobs in ("1", "2"):
        path = tmp_path / f"{jobs}.json"
        assert main([*words, "-j", jobs, "--json", str(path)]) == 1
        found.append([(c.key, c.verdict, c.diagnosis, c.counts) for c in load(path).cases])
    assert found[0] == found[1]


def test_diff_tells_better_and_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = tmp_path / "right.json", tmp_path / "wrong.json"
    words = ["conform", "--ops", "add", "--formats", "f8E5M2", "-j", "1"]
    main([*words, "minihlo", "--json", str(right)])
    main([*words, "tests.conform_faults:folded", "--json", str(wrong)])
    capsys.readouterr()
    assert main(["conform", "diff", str(right), str(wrong)]) == 1
    assert capsys.readouterr().out.splitlines()[0].startswith("worse   add.f8E5M2 constant: PASS -> FAIL (")
    assert main(["conform", "diff", str(wrong), str(right)]) == 0
    assert "1 better" in capsys.readouterr().out
    assert main(["conform", "diff", str(right), str(right)]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nonsense"], "expected a backend, got 'nonsense'"),
        (["minihlo", "--ops", "nonsense"], "--ops: expected an op or a pattern, got nonsense"),
        (["minihlo", "--case", "add.f8E5M2", "--operands", "0x00"], "takes 2 operands"),
        (["minihlo", "--case", "add.f8E5M2", "--operands", "0x00,0x100"], "not a code of f8E5M2"),
        (["minihlo", "--case", "add.*", "--operands", "0x00,0x00"], "--operands: expected one --case"),
        (["minihlo", "--case", "negate.f8E5M2", "--operands", "0,0"], "negate.f8E5M2 takes 1 operand\n"),
        (["minihlo", "--errors", "0"], "--errors"),
        (["minihlo", "--xfail", "no such file"], "--xfail"),
        (["diff", "a.json"], "the following arguments are required: B.json"),
        ([], "expected one backend, got none"),
    ],
)
def test_bad_input_is_told_in_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", *words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_maps_and_curves_hold_the_errors(report) -> None:
    _, r = report(
        "tests.conform_faults:Flushed", "--ops", "multiply,negate", "--formats", "f8E4M3FN", "--form", "array"
    )
    errors = found(r, "multiply.f8E4M3FN").map
    assert errors is not None
    array = errors.array()
    assert array.shape == (256, 256)
    assert np.count_nonzero(array) == found(r, "multiply.f8E4M3FN").counts[FAIL]
    assert array[0x08, 0x30] == -4  # 2**-6 times 0.5: four steps above zero
    curve = found(r, "negate.f8E4M3FN").curve
    assert curve is None or len(curve.codes) == len(curve.values) == len(curve.errors)
