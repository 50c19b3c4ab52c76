"""The command line: `minihlo test`, and the commands that print tables."""

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ..cli_cases import CHECKS, command, in_process, minihlo, refused, write_programs
from ..processes import started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_programs(tmp_path)


def test_failures_and_scores(folder: Path) -> None:
    code, out, err = minihlo("test", "checks.mlir", cwd=folder)
    lines = out.splitlines()
    assert (code, err) == (1, "")
    assert lines[0].startswith("checks.mlir:13:3: check.expect_eq_const: element [1]: ")
    assert [line.split() for line in lines if line.lstrip().startswith(". ")] == [[".", "1", "3", "2", "1"]]
    (folder / "checks.mlir").write_text(CHECKS.replace("3.0", "2.0"))
    code, out, _ = minihlo("test", "checks.mlir", "-j", "2", cwd=folder)
    assert code == 0
    assert "checks.mlir" not in out


def test_folders_are_searched_and_other_programs_go_on(folder: Path) -> None:
    deep = folder / "deep" / "er"
    deep.mkdir(parents=True)
    passing = CHECKS.split("// -----")[1]
    bad = "func.func @main() {\n  %0 = stablehlo.constant dense<1> : tensor<99xi32>\n  return %0\n}\n"
    (deep / "a.mlir").write_text("// -----".join([passing, bad, passing]))
    (deep / "b.mlir").write_bytes(b"\xff")
    (deep / "c.txt").write_text("not this one")
    (folder / "add.mlir").unlink()
    (folder / "checks.mlir").unlink()
    code, out, err = in_process("test", ".", "-j2", cwd=folder)
    failures = sorted(line for line in out.splitlines() if line.startswith("deep"))
    assert (code, err) == (1, "")
    assert [f.split(":")[0] for f in failures] == ["deep/er/a.mlir", "deep/er/b.mlir"]
    assert failures[0].startswith("deep/er/a.mlir:10:12: ")
    assert ["deep/er", "2", "4", "2", "2"] in [line.split() for line in out.splitlines()]


def test_a_worker_that_dies_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from minihlo.interp.commands import test as command

    # The second program ends its process, as a crash of the parser would.
    script = (
        "import os, sys\n"
        "from minihlo.interp.system import messages\n"
        "out = sys.stdout.buffer\n"
        "while True:\n"
        "    (path, skip), _ = messages.read(messages.from_stream(sys.stdin.buffer))\n"
        "    for number, line in list(enumerate((1, 10, 20)))[skip:]:\n"
        "        messages.write(out, ['start', [line, number]])\n"
        "        if line == 10: os.abort()\n"
        "        messages.write(out, ['done', None])\n"
        "    messages.write(out, ['end', None])\n"
    )
    monkeypatch.setattr(command, "python", lambda *_: [sys.executable, "-c", script])
    outcomes = [o for actual in command.run_files(["x.mlir", "y.mlir"], 1) for o in actual]
    assert [(o.path, o.line, o.failure) for o in outcomes] == [
        (path, line, "the process died (SIGABRT)" if line == 10 else None)
        for path in ("x.mlir", "y.mlir")
        for line in (1, 10, 20)
    ]


def test_formats() -> None:
    code, out, _ = in_process("formats")
    assert code == 0
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == ["f8E4M3FNUZ"])
    assert row[1:8] == ["float8_e4m3fnuz", "8", "1", "4", "3", "8", "240"]
    _, out, _ = in_process("formats", "f8E5M2")
    assert "57344" in out
    assert "0x7C" in out
    _, out, _ = in_process("formats", "f8E4M3FN", "--codes")
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines] == [f"0x{code:02X}" for code in range(256)]
    values = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(float)
    assert [str(float(line[2])) for line in lines] == [str(v) for v in values]
    assert lines[0x7E] == ["0x7E", "0.1111.110", "448"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "0.1 f8E4M3FN",
            "to f8E4M3FN 0x1D = 0.1015625|error +0.0015625 (+0.2 ULP)|below 0x1C = 0.09375|above 0x1E = 0.109375",
        ),
        ("-inf f8E5M2", "to f8E5M2 0xFC = -inf|below none|above 0xFB = -57344"),
        ("448 f8E4M3FN", "to f8E4M3FN 0x7E = 448|error 0|below 0x7D = 416|above none"),
        ("57344 f8E5M2", "to f8E5M2 0x7B = 57344|error 0|below 0x7A = 49152|above 0x7C = inf"),
        ("-0.0 f8E4M3FN", "to f8E4M3FN 0x80 = -0|error 0|below 0x81 = -0.001953125|above 0x01 = 0.001953125"),
        ("-0x1p-10 f8E4M3FNUZ", "to f8E4M3FNUZ 0x81 = -0.0009765625|error 0|below 0x82 = -0.001953125|above 0x00 = 0"),
        (
            "500 f8E4M3FN --overflow saturate",
            "to f8E4M3FN 0x7E = 448|error -52 (-1.62 ULP)|below 0x7D = 416|above none",
        ),
        ("nan f8E4M3FN", "to f8E4M3FN 0x7F = nan|below none|above none"),
        ("1 f8E8M0FNU", "to f8E8M0FNU 0x7F = 1|error 0|below 0x7E = 0.5|above 0x80 = 2"),
        ("300.7 i8", "to i8 127|error -173.7|below 126|above none"),
        ("9007199254740993 i64", "to i64 9007199254740993|error 0|below 9007199254740992|above 9007199254740994"),
        (
            "0x3DCCCCCD f8E8M0FNU --from f32 --rounding up",
            "from f32 0x3DCCCCCD = 0.1|to f8E8M0FNU 0x7C = 0.125|error +0.025 (+0.2 ULP)|"
            "below 0x7B = 0.0625|above 0x7D = 0.25",
        ),
        (
            "f8E4M3FNUZ=0x80 f4E2M1FN",  # what is open is as ml_dtypes has it
            "from f8E4M3FNUZ 0x80 = nan|to f4E2M1FN 0x0 = 0|below 0x9 = -0.5|above 0x1 = 0.5",
        ),
    ],
)
def test_cast(arguments, expected) -> None:
    code, out, _ = in_process("cast", *arguments.split())
    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()] == expected.split("|")


def test_ops() -> None:
    code, out, _ = in_process("ops")
    assert code == 0
    row = next(line for line in out.splitlines() if line.split()[:1] == ["stablehlo.add"])
    assert "correctly rounded" in row
    _, out, _ = in_process("ops", "and")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if line and line.split()[0] in ("i8", "f32"))
    assert {k: v.strip() for k, v in lines.items()} == {"i8": "exact", "f32": "not supported"}


def test_help_and_version() -> None:
    code, out, _ = in_process("--version")
    assert code == 0
    assert out.startswith("minihlo ")
    for arguments in (("--help",), ("run", "--help"), ("cast", "--help")):
        code, out, _ = in_process(*arguments)
        assert code == 0
        assert "usage: minihlo" in out


def test_a_closed_pipe_is_no_error() -> None:
    with started(command("formats", "f16", "--codes")) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=90) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run --el", ["--elided"]),
        ("run --elided ", ["zeros", "sample"]),
        ("conform exp", ["export"]),
        ("conform export --a", ["--as"]),
        ("conform reference --prof", ["--profile"]),
    ],
)
def test_completion(words: str, expected: list[str], tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    status, script, _ = in_process("completion", "bash")
    assert status == 0
    array = " ".join(f'"{w}"' for w in ["minihlo", *words.split(" ")])
    script += f"\nCOMP_WORDS=({array}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shtab_minihlo\n"
    done = subprocess.run(
        ["bash"], input=f'{script}printf "%s\\n" "${{COMPREPLY[@]}}"', capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.split() == expected


def test_completion_without_shtab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "expected the package shtab (pip install 'minihlo[completion]')" in refused(*in_process("completion", "zsh"))
