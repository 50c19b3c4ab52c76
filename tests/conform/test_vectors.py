"""Test vectors: what is exported, run in C and judged; the forms of files; and which results are acceptable."""

import functools
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.cli import main
from minihlo.interp.conform import run, tester
from minihlo.interp.conform.result import FAIL, CaseResult, load
from minihlo.interp.conform.rows import RowPart
from minihlo.interp.conform.tester import Spec
from minihlo.interp.conform.vectors import acceptable, calls, manifest
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.judging.record import OF_GRADES

from ..thinned import thinned

SOURCE = Path(__file__).parent / "planted.c"
CC = [shutil.which("cc") or "cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
NEEDS_CC = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
CHOICE = ["--ops", "add,multiply", "--formats", "f8E4M3FN"]
#: What two runs of the same results have alike, whether anything can run again or not.
ALIKE = ("verdict", "total", "counts", "failures", "open_points", "choices", "model", "accumulator", "map")

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


Cases = dict[tuple[str, str], CaseResult]


def by_key(path: Path) -> Cases:
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


def compared(folder: Path, into: Path, fault: int, choice: list[str], status: int) -> tuple[Cases, str, int]:
    """The judged results of a fault, which are those of the live run; what the runner said, and its exit status."""
    results, judged, live = into / "results.txt", into / "judged.json", into / "live.json"
    runner, session = (built(folder, program, fault, into) for program in ("runner", "session"))
    ended = subprocess.run([runner, results], capture_output=True, text=True)
    judging = main(["conform", "judge", str(folder), str(results), "--json", str(judged)])
    backend = ["conform", f"exec:--session {session}", *choice, "-j", "1", "--json", str(live)]
    assert main(backend) == judging == status
    recorded, running = by_key(judged), by_key(live)
    assert recorded.keys() == running.keys()
    for key, case in recorded.items():
        for field in ALIKE:
            assert getattr(case, field) == getattr(running[key], field), (key, field)
        assert running[key].message.endswith(case.message)
    return recorded, ended.stdout, ended.returncode


@NEEDS_CC
@pytest.mark.exhaustive
def test_vectors_are_judged_like_live_runs(tmp_path: Path) -> None:
    choice = ["--ops", "maximum,convert,dot_general,sort", "--formats", "f8E4M3FN"]
    assert main(["conform", "export", str(tmp_path / "v"), "--as", "c", *choice]) == 0
    recorded, _, _ = compared(tmp_path / "v", tmp_path, 3, choice, 1)
    assert recorded["convert.f32.f8E4M3FN", "array"].verdict == FAIL
    assert recorded["dot_general.f8E4M3FN.f32", "length-1000"].accumulator is not None


@NEEDS_CC
@pytest.mark.parametrize(
    ("fault", "is_fault"),
    thinned([(0, None), (1, is_672), (2, is_in_tail), (3, is_rounded_twice)], lambda fault, _: fault in (0, 2)),
)
def test_recorded_results_are_judged_like_live_runs(
    exported: Path, tmp_path: Path, fault: int, is_fault: Callable[[CaseResult], bool] | None
) -> None:
    recorded, said, returncode = compared(exported, tmp_path, fault, CHOICE, int(is_fault is not None))
    assert len(recorded) == 52
    failing = [c for c in recorded.values() if c.verdict == FAIL]
    assert bool(failing) == (is_fault is not None)
    assert is_fault is None or all(map(is_fault, failing))
    # The runner by itself has seen each of them but those that are another choice.
    seen = {line.partition(":")[0] for line in said.splitlines() if " are wrong; " in line}
    assert {n.split(".", 2)[0] + "." + n.split(".", 2)[1] for n in seen} <= {c.signature for c in failing}
    assert returncode == int(bool(seen))


def contents(folder: Path) -> dict[str, str]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@functools.cache
def arrays(path: Path) -> dict[str, list[int]]:
    """The codes of the arrays of a file, or numbers of rows, by name; without a name if there is one."""
    if path.suffix == ".npy":
        return {"": np.load(path).ravel().tolist()}
    text = path.read_text()
    if path.suffix == ".hex":
        return {"": [int(word, 16) for word in text.split()]}
    if path.suffix == ".json":
        rows = json.loads(text)["arrays"].items()
        return {n: [x for row in of for x in (row if isinstance(row, list) else [row])] for n, of in rows}
    found = re.findall(r" (\w+_\d+)\[\] = \{(.*?)\};\n", text, re.DOTALL)
    return {name: [int(word, 0) for word in re.findall(r"\w+", of)] for name, of in found}


def listed(folder: Path, at: str) -> list[int]:
    """The codes of an array, or numbers of rows, of an export."""
    path, _, name = at.partition("#")
    return arrays(folder / path)[name]


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
                assert listed(tmp_path / "npy", a.at) == listed(tmp_path / form, b.at)


def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert main(["conform", "export", str(tmp_path), "--case", "negate.f4E2M1FN"]) == 2
    assert "expected an empty folder or a new one" in capsys.readouterr().err
    assert main(["conform", "export", str(tmp_path / "mine"), "--case", "negate.f4E2M1FN"]) == 74
    assert main(["conform", "export", str(tmp_path / "x"), "--case", "type.f8E5M2"]) == 2
    assert "expected a case that a function on arrays can compute" in capsys.readouterr().err


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
    fails = OF_GRADES.index(FAIL)
    rows = found.alternatives[random.permutation(len(found.alternatives))[:8], 0].astype(np.intp)
    for place in {*rows.tolist(), *random.integers(0, size, 8).tolist()}:
        one = part.restrict(np.array([place]))
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
