"""Mistakes that people make first: each is reported in one line that says what to do."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import load
from minihlo.interp.errors import InputError, ProgramError, escape

from ..processes import commands_of
from ..thinned import thinned

ADD = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


Run = Callable[..., tuple[Any, str, str]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs a command line: exit status, output and errors."""
    with commands_of() as commands:
        yield commands


def refused(run: Run, *arguments: str) -> str:
    """The line that a command is refused with; nothing but one line is printed, of what a terminal shows."""
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    return err.strip()


@pytest.mark.parametrize("content", [b"", b"\n", b"  \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_program(run: Run, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.mlir"
    path.write_bytes(content)
    if content != b"\xef\xbb\xbf":
        for words in (["run"], ["profile"], ["diff", "--target", "h100", "--target", "b200"]):
            assert refused(run, *words, str(path)) == f"{path}: expected a program, got nothing but white space"
        for source in (path, str(path), content, *([content.decode()] if b"\n" in content else [])):
            with pytest.raises(ProgramError, match="expected a program, got nothing but white space"):
                load(source)
    with pytest.raises(ProgramError, match=r"^expected a program or a path, got an empty string$"):
        load("")


def test_a_byte_order_mark_is_skipped(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bom.mlir"
    path.write_bytes(b"\xef\xbb\xbf" + ADD.encode())
    status, out, _ = run("run", str(path), "--input", "2xf32=1,2")
    assert status == 0
    assert "2.000000e+00, 4.000000e+00" in out
    for source in (path, "\ufeff" + ADD, path.read_bytes()):
        assert load(source)(np.array([1, 2], np.float32))[0].tolist() == [2, 4]
    (tmp_path / "bad.mlir").write_bytes(b"\xef\xbb\xbf ?" + ADD.encode())
    with pytest.raises(ProgramError, match=r"bad.mlir:1:2: "):  # the mark is no column
        load(tmp_path / "bad.mlir")


@pytest.mark.parametrize("policy", ["exact", {"accumulate": "exact"}, 3])
def test_a_policy_that_is_none(policy) -> None:
    with pytest.raises(InputError, match=f"^policy: expected a minihlo.interp.Policy, got {type(policy).__name__}$"):
        load(ADD)(np.ones(2, np.float32), policy=policy)
    with pytest.raises(InputError, match="Policy"):
        load(ADD).plan(policy=policy)
    with pytest.raises(InputError, match=f"got {type(policy).__name__}$"), interp.policy(policy):
        pass


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.array([1, 2], mask=[False, True], dtype=np.float32)
    with pytest.raises(InputError, match=r"^input 0: expected an array without a mask"):
        load(ADD)(masked)
    for call in (lambda: interp.cast(masked, "f16"), lambda: interp.scale(masked, "f8E4M3FN")):
        with pytest.raises(InputError, match="masked array"):
            call()
    with pytest.raises(InputError, match="masked array"):
        interp.pack(masked.astype(np.uint8), "i4")
    assert load(ADD)(masked.filled(0))[0].tolist() == [2, 0]


def test_a_shape_beyond_its_bound_tells_the_bound() -> None:
    t = "tensor<?x2xf32, #stablehlo.bounds<4, ?>>"
    program = load(f"func.func @main(%x: {t}) -> {t} {{ return %x : {t} }}")
    with pytest.raises(InputError, match=r"expected shape \[at most 4, 2\] for .*, got \[5, 2\]$"):
        program(np.ones((5, 2), np.float32))
    assert program(np.ones((4, 2), np.float32))[0].shape == (4, 2)


def test_no_main_has_a_place(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text("\nfunc.func @a() { return }\nfunc.func @b() { return }\n")
    assert refused(run, "run", str(path)).startswith(f"{path}:2:1: no function @main")
    assert refused(run, "run", str(path), "--function", "c").startswith(f"{path}:2:1: no function @c")


NAMES = {
    "newline": "a\\0Aimport os",
    "escape sequence": "a\\1B[31m",
    "null": "a\\00b",
    "bell": "a\\07",
    "carriage return": "a\\0D\\0D",
    "direction": "a\\E2\\80\\AEb",
    "line separator": "a\\E2\\80\\A8b",
}


@pytest.mark.parametrize("name", thinned(NAMES, lambda name: name in ("newline", "escape sequence")))
def test_names_cannot_leave_their_line(run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "name.mlir"
    path.write_text(
        f'func.func @"{NAMES[name]}"() -> tensor<f32> {{\n'
        f'  %0 = stablehlo.constant dense<1.0> : tensor<f32> loc("{NAMES[name]}":3:4)\n  return %0 : tensor<f32>\n}}\n'
    )
    assert run("run", str(path))[0] == 0
    status, traced, err = run("run", "--trace", str(path))
    assert (status, err) == (0, "")
    assert all(line.isprintable() for line in traced.split("\n"))
    status, out, err = run("run", "--print-plan", str(path))
    assert (status, err) == (0, "")
    assert all(line.isprintable() for line in out.split("\n"))
    assert sum(line.startswith("@") for line in out.split("\n")) == 1
    refused(run, "run", str(path), "--function", "x")
    refused(run, "run", str(path), "--input", "f32=1")


def test_what_is_shown_of_a_name() -> None:
    assert escape("a\nb\x1b[31m\x00\u202e\x7fé") == "a\\nb\\x1b[31m\\x00\\u202e\\x7fé"


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000L,), }", b""),  # as Python 2 wrote it
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 20000 + "), }", b"\0\0\0\0"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }", b""),
    ],
)
def test_headers_of_npy_files(run: Run, tmp_path: Path, header: str, body: bytes) -> None:
    program, path = tmp_path / "add.mlir", tmp_path / "x.npy"
    program.write_text(ADD)
    text = header.encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text + body)
    assert "expected a readable .npy file" in refused(run, "run", str(program), "--input", f"@{path}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_as_an_input_does_not_hang(run: Run, tmp_path: Path) -> None:
    (tmp_path / "add.mlir").write_text(ADD)
    os.mkfifo(tmp_path / "pipe")
    for value in (f"@{tmp_path / 'pipe'}", f"2xf32=@{tmp_path / 'pipe'}"):
        assert "expected a regular file" in refused(run, "run", str(tmp_path / "add.mlir"), "--input", value)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such devices")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full"])
def test_a_device_without_an_end_is_no_program(run: Run, device: str) -> None:
    assert (
        f"{device}: expected MLIR (text, bytecode, a portable artifact), a file of jax.export, or HLO, got a zero byte"
        in refused(run, "run", device)
    )
    with pytest.raises(ProgramError, match="a zero byte"):
        load(device)


def test_a_program_from_a_pipe() -> None:
    command = [sys.executable, "-P", "-m", "minihlo.interp.cli", "run"]
    inputs = ["--input", "2xf32=1,2"]
    for name in ("-", "/dev/stdin"):
        done = subprocess.run(
            [*command, name, *inputs], input=ADD.encode(), capture_output=True, timeout=60, check=True
        )
        assert b"4.000000e+00" in done.stdout


@pytest.mark.parametrize("number", ["0", "-3", "1025", "x", "9" * 30])
def test_a_number_out_of_its_range(run: Run, number: str) -> None:
    line = refused(run, "conform", "minihlo", "-j", number)
    assert line.startswith(f"minihlo conform: argument -j/--jobs: expected an integer from 1 to 1024, got {number!r}")
