"""Every command in environments that are none: no home, no room, other variables, no JAX, flushed subnormals."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ADD = """\
func.func @main() -> tensor<4xf8E4M3FN> {
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf8E4M3FN>
  %1 = stablehlo.add %0, %0 : tensor<4xf8E4M3FN>
  check.expect_eq_const %1, dense<[2.0, 4.0, 6.0, 8.0]> : tensor<4xf8E4M3FN>
  return %1 : tensor<4xf8E4M3FN>
}
"""
COMMANDS = {
    "run": "run add.mlir --format codes",
    "cast": "cast 1 f8E4M3FN",
    "formats": "formats f8E4M3FN",
    "ops": "ops add",
    "test": "test add.mlir -j 1",
    "diff": "diff add.mlir reference",
    "conform": "conform minihlo --ops add --formats f8E4M3FN --form array -j 1",
}
#: What is printed, in part; nothing is said on standard error.
PRINTED = {
    "run": "4xf8E4M3FN=[0x40 0x48 0x4C 0x50]\n",
    "cast": "to     f8E4M3FN 0x38 = 1\n",
    "formats": "largest            448",
    "ops": "stablehlo.add\n",
    "test": "1 program in",
    "diff": "1 PASS",
    "conform": "1 PASS",
}
#: Variables to set, or None to unset, and a line of shell before the command.
ENVIRONMENTS: dict[str, tuple[Mapping[str, str | None], str]] = {
    "no temporary directory": ({"TMPDIR": "/dev/null"}, ""),
    "no home": ({"HOME": None, "XDG_CACHE_HOME": None}, ""),
    "a home that is none": ({"HOME": "/dev/null", "XDG_CACHE_HOME": None}, ""),
    "few descriptors": ({}, "ulimit -n 20"),
    "no core and little stack": ({}, "ulimit -c 0; ulimit -s 1024"),
    "no files of any size": ({}, "ulimit -f 0"),
    "a umask": ({}, "umask 777"),
    "optimized": ({"PYTHONOPTIMIZE": "2"}, ""),
    "a hash seed": ({"PYTHONHASHSEED": "1"}, ""),
    "locale C": ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, ""),
    "an unknown locale": ({"LC_ALL": "xx_YY.nothing"}, ""),
    "x64 of JAX": ({"JAX_ENABLE_X64": "1"}, ""),
    "variables of JAX that are wrong": (
        {"JAX_ENABLE_X64": "maybe", "JAX_PLATFORMS": "nothing", "XLA_FLAGS": "--x"},
        "",
    ),
    "development mode": ({"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "ignore"}, ""),
    "no byte code and no buffers": ({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}, ""),
    "a dumb terminal of one column": ({"TERM": "dumb", "COLUMNS": "1"}, ""),
    "a directory that is gone": ({}, "mkdir gone; cp add.mlir gone; F=$PWD/add.mlir; cd gone; rm -r ../gone"),
    "signals that are ignored": ({}, "trap '' INT HUP QUIT TERM PIPE"),
    "one thread": ({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}, ""),
    "no path": ({"PATH": ""}, ""),
}
#: Environments that no line of ours asks about.
HARMLESS = ("a hash seed", "no byte code and no buffers", "one thread", "no core and little stack")
#: The others are tried by `make exhaustive`.
QUICK = [*((name, "run") for name in ENVIRONMENTS if name not in HARMLESS)][::2] + [("no files of any size", "diff")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "add.mlir").write_text(ADD)
    return tmp_path


def ran(command: str, folder: Path, variables: Mapping[str, str | None], before: str) -> tuple[int, str, str]:
    """What a shell gives for a command."""
    environment = {k: v for k, v in {**os.environ, **variables}.items() if v is not None}
    text = f'{before or ":"}\n"$0" -P -m minihlo.interp.cli {command.replace("add.mlir", "${F:-add.mlir}")}'
    words = ["/bin/sh", "-c", text, sys.executable]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    ("name", "command"),
    [
        pytest.param(name, command, marks=[pytest.mark.exhaustive] * ((name, command) not in QUICK))
        for i, name in enumerate(ENVIRONMENTS)
        for k, command in enumerate(COMMANDS)
        if (name, command) in QUICK or (i + k) % 2 == 0
    ],
)
def test_it_works(name: str, command: str, folder: Path) -> None:
    status, out, err = ran(COMMANDS[command], folder, *ENVIRONMENTS[name])
    assert (status, err) == (0, "")
    if not (name == "optimized" and command == "ops"):  # which takes the docstrings away
        assert PRINTED[command] in out


@pytest.mark.parametrize("command", ["run", "cast", "formats", "ops"])
def test_without_room_for_a_library(command: str, folder: Path) -> None:
    """200 MB of address space do not hold jaxlib: one line, or results for what does not need it."""
    status, out, err = ran(COMMANDS[command], folder, {}, "ulimit -v 200000")
    assert "Traceback" not in err
    assert (status, err) == (0, "") if status == 0 else (status, out, err.count("\n")) == (2, "", 1)


_NO_JAX = """\
import importlib.abc, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "scipy", "mpmath", "onnx", "torch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("command", [pytest.param(c, marks=[pytest.mark.exhaustive] * (c != "run")) for c in COMMANDS])
def test_without_jax(command: str, folder: Path) -> None:
    """Only jaxlib, numpy, ml_dtypes and rich are needed."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(_NO_JAX)
    path = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    status, out, err = ran(COMMANDS[command], folder, {"PYTHONPATH": path}, "")
    assert (status, err) == (0, "")
    assert PRINTED[command] in out
    status, out, err = ran("diff add.mlir jax:cpu", folder, {"PYTHONPATH": path}, "")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "jax" in err
