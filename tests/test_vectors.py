"""Test vectors: what is exported, run in C and judged; shards; and results that are damaged."""

import dataclasses
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minihlo.interp.backends.operation import Operation
from minihlo.interp.cli import main
from minihlo.interp.conform import run, tester
from minihlo.interp.conform.result import FAIL, UNSUPPORTED, CaseResult, load
from minihlo.interp.conform.rows import RowPart
from minihlo.interp.conform.tester import Spec
from minihlo.interp.conform.vectors import acceptable, calls, manifest
from minihlo.interp.conform.verdicts.judge import ELEMENT_VERDICTS
from minihlo.interp.conform.verdicts.outcome import Settings

from .conform_planted import right

SOURCE = Path(__file__).parent / "planted.c"
CC = [shutil.which("cc") or "cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
NEEDS_CC = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
CHOICE = ["--ops", "add,multiply", "--formats", "f8E4M3FN"]
#: What two runs of the same results have alike, whether anything can run again or not.
ALIKE = ("verdict", "total", "counts", "failures", "open_points", "choices", "model", "accumulator", "map", "message")

pytestmark = pytest.mark.usefixtures("in_the_repository")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors as C."""
    folder = tmp_path_factory.mktemp("vectors") / "v"
    assert main(["conform", "export", str(folder), "--as", "c", *CHOICE]) == 0
    return folder


def built(folder: Path, program: str, fault: int, into: Path) -> Path:
    made = into / f"{program}{fault}"
    command = [*CC, f"-DFAULT={fault}", f"-I{folder}", str(folder / f"{program}.c"), str(SOURCE), "-o", str(made)]
    subprocess.run([*command, "-lm"], check=True)
    return made


def by_key(path: Path) -> dict[tuple[str, str], CaseResult]:
    return {c.key: c for c in load(path).cases}


def is_672(case: CaseResult) -> bool:
    """Whether the first failure is one sum, or product, beyond the range and its code is that of the fault."""
    first = case.failures[0]
    x, y = (float(v[0]) for v in first.values)
    return abs(x + y if case.op == "add" else x * y) == 672 and (first.got or 0) & 0x7F == 0x7D


def is_in_tail(case: CaseResult) -> bool:
    """Whether the first failure is a subnormal result that became zero after the last vector of eight."""
    first = case.failures[0]
    return first.index >= first.size // 8 * 8 and (first.got or 0) & 0x7F == 0 and 0 < first.expected & 0x7F < 8


def is_rounded_twice(case: CaseResult) -> bool:
    return abs(case.failures[0].error) == 1


@NEEDS_CC
@pytest.mark.parametrize(
    ("fault", "is_fault"), [(0, None), (1, is_672), (2, is_in_tail), (3, is_rounded_twice)]
)  # fmt: skip
def test_recorded_results_are_judged_as_those_of_a_live_run(
    exported: Path, tmp_path: Path, fault: int, is_fault: Callable[[CaseResult], bool] | None
) -> None:
    results, judged, live = tmp_path / "results.txt", tmp_path / "judged.json", tmp_path / "live.json"
    runner, session = (built(exported, program, fault, tmp_path) for program in ("runner", "session"))
    ended = subprocess.run([runner, results], capture_output=True, text=True)
    status = main(["conform", "judge", str(exported), str(results), "--json", str(judged)])
    backend = ["conform", f"exec:--session {session}", *CHOICE, "-j", "1", "--json", str(live)]
    assert main(backend) == status == int(is_fault is not None)
    recorded, running = by_key(judged), by_key(live)
    assert recorded.keys() == running.keys()
    assert len(recorded) == 52
    for key, case in recorded.items():
        for field in ALIKE:
            assert getattr(case, field) == getattr(running[key], field), (key, field)
    failing = [c for c in recorded.values() if c.verdict == FAIL]
    assert bool(failing) == (is_fault is not None)
    assert is_fault is None or all(map(is_fault, failing))
    # The runner by itself has seen each of them but those that are another choice.
    seen = {line.partition(":")[0] for line in ended.stdout.splitlines() if " are wrong; " in line}
    assert {n.split(".", 2)[0] + "." + n.split(".", 2)[1] for n in seen} <= {c.signature for c in failing}
    assert ended.returncode == int(bool(seen))


# -- all kinds of cases, without C -------------------------------------------------------------------------------------


def answered(folder: Path, into: Path, function: Callable[[Operation, list[np.ndarray]], np.ndarray | str]) -> Path:
    """Results that a function of operations and arrays gives, from the files of an export `--as npy`."""
    read = json.loads((folder / "manifest.json").read_text())
    lines = ["minihlo.results/1", f"vectors {read['vectors']}", "backend chip"]
    for case in read["cases"]:
        arrays = [np.load(folder / t["at"]) for t in case["operands"]]
        types = tuple(t["type"] for t in case["operands"])
        given = [a.astype(bool) if t == "i1" else a for a, t in zip(arrays, types, strict=True)]
        found = function(Operation(case["op"], types, case["result"]["type"], case["attributes"]), given)
        lines.append(f"case {case['name']}")
        if isinstance(found, str):
            lines.append(f"unsupported {found}")
        else:
            assert list(found.shape) == case["result"]["shape"]
            codes = np.array(found, order="C")
            codes = codes.view(np.uint8) if codes.dtype == bool else codes
            lines.append(codes.astype(codes.dtype.newbyteorder(">")).tobytes().hex(" ", codes.dtype.itemsize))
    into.write_text("\n".join([*lines, f"end {len(read['cases'])}\n"]))
    return into


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Vectors of many kinds as arrays, with right results."""
    folder = tmp_path_factory.mktemp("many")
    words = ["--ops", "tanh,maximum,sort,reduce_add,compare_LT,select", "--formats", "f4E2M1FN"]
    assert main(["conform", "export", str(folder / "v"), *words]) == 0
    return folder / "v", answered(folder / "v", folder / "r.txt", lambda operation, x: right(operation, x))


def test_right_results_of_all_kinds_pass(many: tuple[Path, Path], tmp_path: Path) -> None:
    folder, results = many
    assert main(["conform", "judge", str(folder), str(results), "--json", str(tmp_path / "j.json")]) == 0
    report = load(tmp_path / "j.json")
    assert {c.op for c in report.cases} >= {"tanh", "maximum", "sort", "reduce_add", "compare_LT", "select"}
    assert {c.verdict for c in report.cases} <= {"PASS", "DIVERGENT"}
    assert report.run.backend == "chip"


def without_times(path: Path) -> bytes:
    """The bytes of a report, but for its times."""
    lines = path.read_bytes().splitlines()
    kept = [x for x in lines if not x.startswith((b' "seconds"', b' "started"'))]
    return b"\n".join(x.rpartition(b'"seconds": ')[0] + x[-2:] if b'"seconds": ' in x else x for x in kept)


def test_shards_join_to_the_report_of_one_run(many: tuple[Path, Path], tmp_path: Path) -> None:
    folder, results = many
    whole = tmp_path / "whole.json"
    assert main(["conform", "judge", str(folder), str(results), "--json", str(whole)]) == 0
    shards = [tmp_path / f"{i}.json" for i in (1, 2, 3)]
    for i, shard in enumerate(shards, 1):
        words = ["judge", str(folder), str(results), "--shard", f"{i}/3", "--json", str(shard)]
        assert main(["conform", *words]) == 0
        assert load(shard).cases
    joined = tmp_path / "joined.json"
    assert main(["conform", "merge", *map(str, reversed(shards)), "--json", str(joined)]) == 0
    assert without_times(joined) == without_times(whole)


def test_shards_of_vectors_join_too(tmp_path: Path) -> None:
    choice = ["--ops", "add,negate,abs,sign", "--formats", "f4E2M1FN", "--form", "array"]
    reports = []
    for shard in ("", "1/2", "2/2"):
        folder, name = tmp_path / f"v{shard[:1]}", tmp_path / f"{shard[:1]}.json"
        assert main(["conform", "export", str(folder), *choice, *(["--shard", shard] if shard else [])]) == 0
        results = answered(folder, tmp_path / f"{shard[:1]}.txt", lambda operation, x: right(operation, x) ^ 1)
        assert main(["conform", "judge", str(folder), str(results), "--json", str(name)]) == 1
        reports.append(name)
    assert main(["conform", "merge", *map(str, reports[1:]), "--json", str(tmp_path / "m.json")]) == 1
    assert without_times(tmp_path / "m.json") == without_times(reports[0])


def test_live_shards_join(tmp_path: Path) -> None:
    choice = ["minihlo", "--ops", "negate,abs,sign,floor", "--formats", "f4E2M1FN", "-j", "1"]
    names = [str(tmp_path / f"{i}.json") for i in range(6)]
    assert main(["conform", *choice, "--json", names[0]]) == 0
    for i in range(1, 6):  # some have no case
        assert main(["conform", *choice, "--shard", f"{i}/5", "--json", names[i]]) == 0
    assert any(not load(n).cases for n in names[1:])
    assert main(["conform", "merge", *names[1:], "--json", str(tmp_path / "m.json")]) == 0
    assert without_times(tmp_path / "m.json") == without_times(Path(names[0]))


def changed(path: Path, into: Path, **fields: Any) -> str:
    report = load(path)
    report.run = dataclasses.replace(report.run, **fields)
    report.save(into)
    return str(into)


def test_reports_that_are_no_shards_of_one_run_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = ["minihlo", "--ops", "negate,abs,sign", "--formats", "f4E2M1FN", "--form", "array", "-j", "1"]
    whole, one, two = (tmp_path / f"{n}.json" for n in ("whole", "one", "two"))
    for name, shard in ((whole, []), (one, ["--shard", "1/2"]), (two, ["--shard", "2/2"])):
        assert main(["conform", *choice, *shard, "--json", str(name)]) == 0
    other, few = tmp_path / "other.json", tmp_path / "few.json"
    lines = two.read_text().splitlines()
    few.write_text("\n".join([*lines[:-2], "]}"]).replace(",\n]}", "\n]}"))
    refused = {
        "expected the report of a shard": [whole],
        "expected all shards, got none for 2/2": [one],
        "expected a shard that no other has, got 1/2": [one, one],
        "expected the same seed as": [one, changed(two, other, seed=3)],
        "expected the same backend as": [one, changed(two, tmp_path / "b.json", backend="jax:cpu")],
        "expected a complete run": [one, changed(two, tmp_path / "c.json", complete=False)],
        "expected one of 2 shards": [one, changed(two, tmp_path / "d.json", options={
            "form": ["array"], "shard": ["2/3"]})],
        "is not a result of minihlo conform": [one, SOURCE],
        "No such file": [one, tmp_path / "none.json"],
    }  # fmt: skip
    if few.read_text() != two.read_text():
        refused["expected all cases of the run, got none for"] = [one, few]
    capsys.readouterr()
    for reason, names in refused.items():
        assert main(["conform", "merge", *map(str, names)]) == 2, reason
        told = capsys.readouterr()
        assert reason in told.err
        assert told.err.count("\n") == 1
        assert not told.out


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2", "1/20000", "1/2/3"])
def test_shards_that_are_none(shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "minihlo", "--case", "negate.f4E2M1FN", f"--shard={shard}"]) == 2
    assert capsys.readouterr().err.startswith("--shard: expected I/N")


# -- the files ---------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, str]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def listed(folder: Path, form: str, at: str) -> list[int]:
    """The codes of an array, or numbers of rows, of an export."""
    path, _, name = at.partition("#")
    if form == "npy":
        return np.load(folder / path).ravel().tolist()
    if form == "hex":
        return [int(word, 16) for word in (folder / path).read_text().split()]
    if form == "json":
        rows = json.loads((folder / path).read_text())["arrays"][name]
        return [x for row in rows for x in (row if isinstance(row, list) else [row])]
    text = (folder / path).read_text().partition(f" {name}[] = {{")[2].partition("};\n")[0]
    words = text.replace("{", "").replace("}", "").split(",")
    return [int(w, 0) for w in words if w.strip()]


def test_all_forms_of_files_have_the_same_vectors(tmp_path: Path) -> None:
    words = ["--ops", "add,tanh,convert", "--case", "*.f4E2M1FN", "--form", "array"]
    for form in ("npy", "hex", "json", "c"):
        assert main(["conform", "export", str(tmp_path / form), "--as", form, *words]) == 0
    assert main(["conform", "export", str(tmp_path / "again"), "--as", "c", *words]) == 0
    assert contents(tmp_path / "again") == contents(tmp_path / "c")
    found = {form: manifest.load(tmp_path / form) for form in ("npy", "hex", "json", "c")}
    assert len({m.vectors for m in found.values()}) == 1
    first = found["npy"]
    for form, other in found.items():
        assert set(other.files) == set(contents(tmp_path / form)) - {"manifest.json"}
        for entry, same in zip(first.cases, other.cases, strict=True):
            pairs = [*zip((*entry.operands, entry.result), (*same.operands, same.result), strict=True)]
            if entry.alternatives and same.alternatives:
                pairs.append((entry.alternatives, same.alternatives))
            for a, b in pairs:
                assert listed(tmp_path / "npy", "npy", a.at) == listed(tmp_path / form, form, b.at)


def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert main(["conform", "export", str(tmp_path), "--case", "negate.f4E2M1FN"]) == 2
    assert "expected an empty folder or a new one" in capsys.readouterr().err
    assert main(["conform", "export", str(tmp_path / "mine"), "--case", "negate.f4E2M1FN"]) == 74
    assert main(["conform", "export", str(tmp_path / "x"), "--case", "type.f8E5M2"]) == 2
    assert "expected a case that a function on arrays can compute" in capsys.readouterr().err


# -- results that are damaged ------------------------------------------------------------------------------------------


def replaced(old: str, new: str, count: int = 1) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, count)

    return change


def without_case(text: str) -> str:
    start = text.index("case abs.f4E2M1FN.array")
    return (text[:start] + text[text.index("case", start + 4) :]).replace("end 2", "end 1")


DAMAGE: dict[str, tuple[Callable[[str], str], str]] = {
    "empty": (lambda _: "", "expected minihlo.results/1, got nothing"),
    "another file": (lambda _: "hello\n", "expected minihlo.results/1, got 'hello'"),
    "no vectors": (lambda t: t.replace("vectors ", "vector "), "expected vectors and their SHA-256"),
    "other vectors": (lambda t: t.replace("vectors ", "vectors 0"), "expected results of the vectors"),
    "a case is missing": (without_case, "expected results of every case, got none for abs.f4E2M1FN.array"),
    "cut off": (lambda t: t[: len(t) // 2], ""),
    "no end": (replaced("end 2\n", ""), "expected the line end, got the end of the file"),
    "wrong count": (replaced("end 2", "end 3"), "expected end 2, got end 3"),
    "more after the end": (lambda t: t + "case abs.f4E2M1FN.array\n", "expected nothing after the end"),
    "too short": (replaced("case abs.f4E2M1FN.array\n00 ", "case abs.f4E2M1FN.array\n"), "16 codes of abs.f4E2M1FN"),
    "too long": (replaced("case abs.f4E2M1FN.array\n00 ", "case abs.f4E2M1FN.array\n00 00 "), "expected 16 codes"),
    "no digits": (replaced("array\n00 ", "array\n0g "), "expected codes of 2 hexadecimal digits, got '0g'"),
    "half a code": (replaced("array\n00 ", "array\n0 "), "expected codes of 2 hexadecimal digits, got '0'"),
    "foreign": (replaced("case abs.f4E2M1FN.array", "case abs.f8.array"), "a case of the manifest, got 'abs.f8.array'"),
    "doubled": (replaced("case abs.", "case negate."), "got a second one of negate.f4E2M1FN.array"),
    "codes of no case": (replaced("case abs.f4E2M1FN.array\n", "", 1), ""),
    "control characters": (replaced("case abs.f4E2M1FN.array", "case \x1b[31m"), r"a case of the manifest"),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("small")
    words = ["--case", "*.f4E2M1FN", "--ops", "abs,negate", "--form", "array"]
    assert main(["conform", "export", str(folder / "v"), *words]) == 0
    return folder / "v", answered(folder / "v", folder / "r.txt", lambda operation, x: right(operation, x))


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_results_are_one_line(
    small: tuple[Path, Path], damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, results = small
    change, reason = DAMAGE[damage]
    (tmp_path / "r.txt").write_text(change(results.read_text()))
    assert main(["conform", "judge", str(folder), str(tmp_path / "r.txt")]) == 2
    told = capsys.readouterr()
    assert reason in told.err
    assert told.err.count("\n") == 1
    assert "\x1b" not in told.err
    assert not told.out


def test_damaged_vectors_are_one_line(
    small: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, results = small
    array = next(p for p in sorted((folder / "arrays").iterdir()))

    def flip(path: Path, place: int) -> None:
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)

    damages: dict[str, Callable[[Path], object]] = {
        "has changed": lambda f: flip(f / "arrays" / array.name, -1),
        "bytes, got": lambda f: (f / "arrays" / array.name).write_bytes(b""),
        "expected a file of": lambda f: (f / "arrays" / array.name).unlink(),
        "the file has changed": lambda f: flip(f / "manifest.json", (f / "manifest.json").read_bytes().index(b"abs")),
        "expected the manifest": lambda f: (f / "manifest.json").unlink(),
        "expected a manifest of minihlo": lambda f: (f / "manifest.json").write_text("[]"),
        "expected a folder": shutil.rmtree,
    }
    for i, (reason, damage) in enumerate(damages.items()):
        copy = tmp_path / str(i)
        shutil.copytree(folder, copy)
        damage(copy)
        assert main(["conform", "judge", str(copy), str(results)]) == 2, reason
        told = capsys.readouterr().err
        assert reason in told
        assert told.count("\n") == 1


def test_results_as_a_folder(small: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = small
    read = manifest.load(folder)
    expected = {e.name: np.load(folder / e.result.at) for e in read.cases}
    (tmp_path / "vectors").write_text(f"{read.vectors}\n")
    np.save(tmp_path / "abs.f4E2M1FN.array.npy", expected["abs.f4E2M1FN.array"])
    words = ["conform", "judge", str(folder), str(tmp_path), "--json", str(tmp_path.parent / "j.json")]
    assert main(words) == 2
    assert "got none for negate.f4E2M1FN.array" in capsys.readouterr().err
    digits = expected["negate.f4E2M1FN.array"].tobytes().hex()
    (tmp_path / "negate.f4E2M1FN.array.hex").write_text(f"# by hand\n{digits}\n")
    assert main(words) == 0
    (tmp_path / "negate.f4E2M1FN.array.unsupported").write_text("no sign")
    assert main(words) == 2
    assert "got a second one of negate.f4E2M1FN.array" in capsys.readouterr().err
    (tmp_path / "negate.f4E2M1FN.array.hex").unlink()
    assert main(words) == 0
    verdicts = {c.signature: (c.verdict, c.message) for c in load(tmp_path.parent / "j.json").cases}
    assert verdicts == {"abs.f4E2M1FN": ("PASS", ""), "negate.f4E2M1FN": (UNSUPPORTED, "no sign")}
    for name, save, reason in (
        ("x.npy", expected["abs.f4E2M1FN.array"], "a case of the manifest, got 'x'"),
        ("abs.f4E2M1FN.array.npy", np.zeros(15, np.uint8), "expected the shape [16], got [15]"),
        ("abs.f4E2M1FN.array.npy", np.zeros(16, np.float32), "expected codes of the type uint8, got float32"),
    ):
        np.save(tmp_path / name, save)
        assert main(words) == 2
        assert reason in capsys.readouterr().err
        (tmp_path / name).unlink()


def test_a_case_that_crashed_can_be_said_by_hand(small: tuple[Path, Path], tmp_path: Path) -> None:
    folder, results = small
    text = results.read_text()
    start = text.index("case abs")
    end = text.index("\n", start) + 1
    stop = text.index("case" if "case" in text[end:] else "end", end)
    (tmp_path / "r.txt").write_text(f"{text[:end]}failed a bus error\n{text[stop:]}")
    words = ["conform", "judge", str(folder), str(tmp_path / "r.txt"), "--json", str(tmp_path / "j.json")]
    assert main(words) == 1
    assert {c.signature: c.verdict for c in load(tmp_path / "j.json").cases} == {
        "abs.f4E2M1FN": "CRASH",
        "negate.f4E2M1FN": "PASS",
    }


# -- acceptable results ------------------------------------------------------------------------------------------------


class Nothing:
    takes, name, seconds = "operations", "nothing", 0.0


CASES = ("divide.f8E8M0FNU", "convert.f8E4M3FNUZ.i4", "maximum.f6E2M3FN", "compare_LT_TOTALORDER.f8E5M2FNUZ",
         "logistic.f8E4M3", "convert.f32.f4E2M1FN", "log_plus_one.f8E4M3B11FNUZ")  # fmt: skip
MORE_CASES = ("divide.f8E4M3FN", "tanh.f8E5M2", "convert.ui16.i8", "power.f8E3M4", "exponential.f16", "atan2.f6E3M2FN")


@pytest.mark.parametrize("signature", [*CASES, *(pytest.param(s, marks=pytest.mark.exhaustive) for s in MORE_CASES)])
def test_what_is_acceptable_is_what_the_tester_accepts(signature: str) -> None:
    """Each listed code is accepted alone; of the others none is, at elements drawn at random."""
    made = tester.Tester(Nothing(), Settings("vectors"))
    (case,) = run.Choice(case=signature).cases(1)
    part = made.part(Spec(case, "array"))
    assert not isinstance(part, RowPart)
    found = acceptable.acceptable(part, 4)
    random = np.random.default_rng(0)
    size = len(found.expected)
    codes = np.arange(1 << 8 * found.expected.dtype.itemsize if found.expected.dtype != bool else 2)
    fails = ELEMENT_VERDICTS.index(FAIL)
    rows = found.alternatives[random.permutation(len(found.alternatives))[:20], 0].astype(np.intp)
    for place in {*rows.tolist(), *random.integers(0, size, 20).tolist()}:
        one = part.restricted(np.array([place]))
        own = found.alternatives[found.alternatives[:, 0] == place]
        right = int(found.expected[place])
        tried = codes
        if len(codes) > 256:
            near = (right + np.arange(-9, 9)) % len(codes)
            tried = np.unique(np.append(random.integers(0, len(codes), 200), near))
        for code in tried.tolist():
            nans = manifest.nan_codes(case.result)
            both = all(any(low <= c <= high for low, high in nans) for c in (code, right))
            is_listed = code == right or both or any(low <= code <= high for _, low, high in own.tolist())
            got = np.array([code]).astype(found.expected.dtype)
            accepted = one.judge(got, 4, True)[0].verdicts[0] != fails
            assert bool(accepted) == is_listed, (signature, place, hex(code), hex(right), own)


def test_names_are_of_one_call_each() -> None:
    tasks = run.tasks(run.Choice(formats=("f8E5M2",)), Settings("vectors"), "operations")
    made = tester.Tester(Nothing(), Settings("vectors"))
    names: list[str] = []
    for spec in (s for t in tasks for s in t.specs if not s.form.startswith("length")):
        every = calls.calls(made.part(spec))
        names += [calls.name(spec, 1, i, len(every)) for i in range(len(every))]
    assert len(names) == len(set(names))


# -- profiles ----------------------------------------------------------------------------------------------------------

PROFILE = """name = "signs"
version = "1.0"
title = "Signs"
sources = ["none"]
[[cases]]
need = "required"
ops = ["negate", "abs", "sign", "floor"]
formats = ["f4E2M1FN"]
forms = ["array", "size-7"]
"""


def test_a_profile_by_way_of_files_and_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict is that of all cases; a shard has none."""
    profile = tmp_path / "signs.toml"
    profile.write_text(PROFILE)
    folder, results = tmp_path / "v", tmp_path / "r.txt"
    assert main(["conform", "export", str(folder), "--profile", str(profile)]) == 0
    answered(folder, results, lambda operation, x: right(operation, x))
    words = ["conform", "judge", str(folder), str(results)]
    capsys.readouterr()
    assert main(words) == 2
    assert "expected a profile" in capsys.readouterr().err  # it is none of minihlo's own
    words += ["--profile", str(profile)]
    assert main([*words, "--submit", str(tmp_path / "s.zip")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("conformant")
    assert main(["conform", "verify", str(tmp_path / "s.zip")]) == 0
    assert main([*words, "--json", str(tmp_path / "whole.json")]) == 0
    capsys.readouterr()
    shards = [str(tmp_path / f"{i}.json") for i in (1, 2)]
    for i, name in enumerate(shards, 1):
        assert main([*words, "--shard", f"{i}/2", "--json", name]) == 0
        assert "conformant" not in capsys.readouterr().out
        assert main([*words, "--shard", f"{i}/2", "--badge", str(tmp_path / "b.svg")]) == 2
        capsys.readouterr()
    joined = tmp_path / "joined.json"
    assert main(["conform", "merge", *shards, "--profile", str(profile), "--json", str(joined)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("conformant")
    assert without_times(joined) == without_times(tmp_path / "whole.json")
    live = ["conform", "minihlo", "--profile", str(profile), "-j", "1"]
    for i, name in enumerate(shards, 1):
        assert main([*live, "--shard", f"{i}/2", "--json", name]) == 0
        assert "conformant" not in capsys.readouterr().out
    assert main(["conform", "merge", *shards, "--profile", str(profile)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("conformant")


def test_options_beside_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "signs.toml").write_text(PROFILE)
    given = ["--profile", str(tmp_path / "signs.toml")]
    for words, reason in (
        (["export", str(tmp_path / "v"), *given, "--ops", "add"], "--ops: expected none with --profile"),
        (["export", str(tmp_path / "v"), "--profile", "none"], "expected a profile"),
        (["minihlo", *given, "--shard", "1/2", "--submit", str(tmp_path / "x.zip")], "--submit: expected none with"),
    ):
        assert main(["conform", *words]) == 2
        told = capsys.readouterr().err
        assert reason in told
        assert told.count("\n") == 1
