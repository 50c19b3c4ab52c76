"""Damaged programs and inputs through the command line: results, or one line and the right exit status."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp import load
from minihlo.interp.errors import InputError
from minihlo.interp.values import npy

from ..processes import commands_of
from .mutants import FORMS, commands

SEED = 20250117
#: No mutant runs for long, however quick the machine is: those that would never end stop after so many steps.
LIMITS = ["--max-steps", "100000", "--timeout", "60"]


def wrong(seen: tuple[object, str, str]) -> bool:
    """Whether a user would have seen anything but results, or a line that says what is wrong."""
    status, out, err = seen
    if "Traceback" in out + err or not all(line.isprintable() for line in err.split("\n")):
        return True
    if status == 0:
        return not out or err != ""
    return status not in (1, 2, 124) or err.count("\n") != 1 or not err.strip()


@pytest.mark.parametrize(
    ("count", "seed"), [(30, SEED), pytest.param(250, SEED + 1, marks=pytest.mark.exhaustive)], ids=["few", "many"]
)
def test_one_line_and_the_right_status(count: int, seed: int, tmp_path: Path) -> None:
    lines = {name: [*line, *LIMITS] for name, line in commands(count, seed, tmp_path).items()}
    with commands_of(limit=60 + 3 * count) as run:
        found = {name: run(*line) for name, line in lines.items()}
    assert {name: seen for name, seen in found.items() if wrong(seen)} == {}
    statuses = Counter((name.rstrip("0123456789"), seen[0]) for name, seen in found.items())
    assert all(statuses[form, 2] for form in FORMS), statuses  # they are damaged
    assert sum(n for (_, status), n in statuses.items() if status == 0) > count / 20  # and not all beyond reading


DEEP, NESTED = 100_000, "expected at most 1000 nested brackets, got more"
HUGE = b"%0 = stablehlo.constant dense<0.0> : tensor<9999999999x9999999999xf64> return"
REFUSED = {
    "tuples": (b"func.func @main(%a: " + b"tuple<" * DEEP, NESTED),
    "parentheses": (b"(" * DEEP, NESTED),
    "regions": (b'"a.b"() ({\n' * DEEP, NESTED),
    "attributes": (b'"a.b"() {a = ' + b"[" * DEEP, NESTED),
    "not UTF-8": (b"func.func @main() {\xff}", "1:20: expected UTF-8 (a program is"),
    "zeros": (bytes(1000), "got a zero byte"),
    "empty bytecode": (b"ML\xefR", "not valid MLIR bytecode"),
    "huge type": (b"func.func @main(%a: tensor<9223372036854775807x9223372036854775807xf32>) { return }", "1 input"),
    "huge constant": (b"func.func @main() {\n" + HUGE + b" }", "2:6: stablehlo.constant: "),
}


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with commands_of() as run:
        for name, (data, message) in REFUSED.items():
            (tmp_path / name).write_bytes(data)
            status, out, err = run("run", str(tmp_path / name))
            assert (status, out, err.count("\n")) == (2, "", 1), err
            assert name in err
            assert message in err


def test_bytecode_through_the_command(tmp_path: Path) -> None:
    lines = [line for name, line in commands(18, SEED + 2, tmp_path).items() if name.startswith("bytecode")]
    for line in lines:
        command = [sys.executable, "-P", "-m", "minihlo.interp.cli", *line, *LIMITS]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert not wrong((done.returncode, done.stdout, done.stderr)), (line, done)


def test_a_zero_byte_in_the_name_of_an_attribute() -> None:
    t = "tensor<2xf32>"
    text = (
        f'func.func @main(%x: {t} {{a.b = {{"c\\00d" = 3 : i32}}, "a.e\\00f" = 1 : i32}}) -> {t} {{ return %x : {t} }}'
    )
    assert load(text)(np.ones(2, np.float32))[0].tolist() == [1, 1]


@pytest.mark.parametrize("header", ["{", "{'descr': (", '"""', "\x0c {\n", "{'descr': '<f4', 'shape': (2,), 'x\u00e9"])
def test_what_python_raises_for_a_header_is_one_line(header: str, tmp_path: Path) -> None:
    text, path = header.encode("latin-1") + b"\n", tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8))
    with pytest.raises(InputError, match=r"expected a readable .npy file, got: [^\x00-\x1f]+$"):
        npy.load(str(path))
