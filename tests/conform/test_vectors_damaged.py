"""Results of test vectors and vectors that are damaged, and results as a folder or by hand."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.cli import main
from minihlo.interp.conform.result import UNSUPPORTED, load
from minihlo.interp.conform.vectors import manifest

from .conform_planted import right
from .vectors_answers import answered

pytestmark = pytest.mark.usefixtures("in_the_repository")


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
