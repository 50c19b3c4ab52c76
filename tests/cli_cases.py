"""What the tests of the command line share: programs, and commands in processes of their own or in this one."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from minihlo.interp import cli

ADD = """\
func.func @main(%a: tensor<4xf8E4M3FN>, %b: tensor<4xf8E4M3FN>) -> (tensor<4xf8E4M3FN>, tensor<4xi1>) {
  %0 = stablehlo.add %a, %b : tensor<4xf8E4M3FN>
  %1 = stablehlo.compare LT, %a, %b : (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>) -> tensor<4xi1>
  return %0, %1 : tensor<4xf8E4M3FN>, tensor<4xi1>
}
"""


#: Three programs: one without a function, one whose check holds, one whose check, on line 13, does not.
CHECKS = """\
// a comment
// -----
func.func @main() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>
  check.expect_eq_const %0, dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>
  return
}

// -----

func.func @other() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>
  check.expect_eq_const %0, dense<[1.0, 3.0]> : tensor<2xf8E4M3FN>
  return
}
"""


FOREVER = """\
func.func @main() -> tensor<i1> {
  %0 = stablehlo.constant dense<true> : tensor<i1>
  %1 = stablehlo.while(%x = %0) : tensor<i1>
    cond { stablehlo.return %x : tensor<i1> }
    do { stablehlo.return %x : tensor<i1> }
  return %1 : tensor<i1>
}
"""


INPUTS = ("--input", "4xf8E4M3FN=1,2,3,448", "--input", "4xf8E4M3FN=1,1,4,448")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "minihlo.interp.cli", *arguments]


def minihlo(*arguments: str, stdin: str | bytes = b"", cwd: Path | None = None) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a process."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(command(*arguments), input=data, capture_output=True, cwd=cwd, timeout=180)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def in_process(*arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """The same without a process of its own, which takes a twentieth of the time."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(cli, "run_isolated", lambda run, _: run())
        if cwd:
            patch.chdir(cwd)
        code = cli.main(arguments)
    return code, out.getvalue(), err.getvalue()


def refused(code: int, out: str, err: str, status: int = 2) -> str:
    """The one line on standard error of a command that is bad input and prints nothing else."""
    assert (code, out) == (status, ""), err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err.rstrip("\n")


def write_programs(folder: Path) -> Path:
    (folder / "add.mlir").write_text(ADD)
    (folder / "checks.mlir").write_text(CHECKS)
    return folder
