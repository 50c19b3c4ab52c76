"""Every command on streams that are closed, full, without a reader or ASCII: one line and the right exit status."""

import functools
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..processes import started
from ..thinned import rotated

BIG = """\
func.func @main() -> tensor<4000xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<4000xf32>
  return %0 : tensor<4000xf32>
}
"""
CHECKS = """\
func.func @main() {{
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>
  check.expect_eq_const %0, dense<[1.0, {}]> : tensor<2xf8E4M3FN>
  return
}}
"""
ADD = "--ops add --formats f8E4M3FN --form array -j 1"
#: Commands that print, with their exit status where they can.
PRINT = {
    "run big.mlir": 0,
    "run big.mlir --full": 0,
    "run big.mlir --trace --format json": 0,
    "run big.mlir --print-plan": 0,
    "run big.mlir --expected f32=1": 2,
    "cast 0.3 f8E4M3FN": 0,
    "formats": 0,
    "formats f16 --codes": 0,
    "ops": 0,
    "ops add": 0,
    "--help": 0,
    "--version": 0,
    "conform --help": 0,
    f"conform minihlo {ADD}": 0,
    "conform --list --ops add": 0,
}
#: The same of those that start processes, which takes a second.
SLOW = {"test holds.mlir": 0, "test fails.mlir": 1, "diff big.mlir reference": 0, "conform no.such:thing": 2}
#: Commands that say one thing on standard error and nothing else.
TELL = {"run none.mlir": 2, "run fails.mlir": 1, "run -": 2, "cast x f8E4M3FN": 2, "walk": 2, "run --seed x y": 2}
OUT = ("stdout full", "stdout closed", "stdout without reader")
OTHER = ("ascii", "stderr full", "stderr closed", "stdin closed")

Run = Callable[[str, str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "big.mlir").write_text(BIG)
    (folder / "holds.mlir").write_text(CHECKS.format("2.0"))
    (folder / "fails.mlir").write_text(CHECKS.format("3.0"))
    command = [sys.executable, "-P", str(Path(__file__).with_name("stream_driver.py"))]
    with started(command, stdin=subprocess.PIPE, stderr=None, text=True, cwd=folder) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None

        @functools.cache
        def ran(command: str, state: str) -> tuple[int, str, str]:
            print(json.dumps([command.split(), state]), file=driver.stdin, flush=True)
            status, out, err = json.loads(driver.stdout.readline())
            return status, re.sub(r" in [0-9.]+ s$", "", out, flags=re.MULTILINE), err

        yield ran
        driver.stdin.close()


def is_one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n") and "Traceback" not in text


@pytest.mark.parametrize(
    ("command", "state"),
    [
        pytest.param(command, state, marks=[pytest.mark.exhaustive] * (command in SLOW and state != "stdout full"))
        for command, status in [*PRINT.items(), *SLOW.items()]
        for state in OUT
        if status != 2
    ],
)
def test_output_that_cannot_be_written(command: str, state: str, run: Run) -> None:
    status, out, err = run(command, state)
    assert out == ""
    if state == "stdout without reader":
        assert (status, err) == (141, "")
    else:
        reason = "No space left on device" if state == "stdout full" else "Bad file descriptor"
        assert (status, err) == (74, f"minihlo: standard output: {reason}\n")


@pytest.mark.parametrize(
    ("command", "state"),
    [*rotated(PRINT, OTHER), *(pytest.param(*c, marks=pytest.mark.exhaustive) for c in itertools.product(SLOW, OTHER))],
)
def test_other_streams_change_nothing(command: str, state: str, run: Run) -> None:
    status, out, err = run(command, state)
    usual = run(command, "open")
    assert status == usual[0] == {**PRINT, **SLOW}[command]
    if state == "ascii":
        assert out.isascii()
        assert len(out) >= len(usual[1])
        assert "\\u" not in out, "ours are spelled"
    else:
        assert out == usual[1]
    assert err == ("" if state.startswith("stderr") else usual[2])


@pytest.mark.parametrize("state", ["open", *OUT, *OTHER, "all closed"])
@pytest.mark.parametrize("command", TELL)
def test_mistakes_are_reported_on_whatever_there_is(command: str, state: str, run: Run) -> None:
    status, out, err = run(command, state)
    assert (status, out) == (TELL[command], "")
    if state in ("stderr full", "stderr closed", "all closed"):
        assert err == ""
    else:
        assert is_one_line(err), err


def test_a_closed_standard_input_is_reported(run: Run) -> None:
    assert run("run -", "stdin closed")[2] == "<stdin>: Bad file descriptor\n"


def test_streams_of_a_real_process() -> None:
    """What the driver imitates: Python itself has started on them."""
    minihlo = f"{sys.executable} -P -m minihlo.interp.cli"
    for redirection, status, reported in (
        (">/dev/full", 74, "minihlo: standard output: No space left on device\n"),
        (">&-", 74, "minihlo: standard output: Bad file descriptor\n"),
        ("2>&-", 0, ""),
        ("<&- 2>&- >&-", 74, ""),
    ):
        done = subprocess.run(f"{minihlo} cast 1 f8E4M3FN {redirection}", shell=True, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (status, reported), redirection
        assert ("to" in done.stdout) == (status == 0)
