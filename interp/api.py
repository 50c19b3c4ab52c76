"""The Python interface: load a program, call it."""

from __future__ import annotations

import os
import stat
from typing import IO, Any

from .errors import InputError, ProgramError
from .loaded import LoadedProgram
from .lowered import of_jax
from .parse import containers, parser
from .parse.attributes import Elided
from .samples import fill_elided
from .settings import default_settings
from .system.child import python
from .system.isolate import death_in_child

#: The most bytes to read from a pipe or device, which may be endless. Files may be larger.
MOST_STREAMED = 1 << 30
_PART = 1 << 20
#: Damaged bytecode can make jaxlib's reader loop; it reads at least so many bytes a second.
_READER_SECONDS, _BYTES_A_SECOND = 30.0, 1e6


def load(source: str | bytes | os.PathLike[str] | Any, *, without: str = "", elided: str = "") -> LoadedProgram:
    """Read a program.

    Args:
        source: The program in one of these forms:

            - a path, as a string or path object;
            - MLIR text. A string is text if it has a line break, or if it looks like MLIR and no file has that name;
            - bytes of MLIR bytecode, of a StableHLO portable artifact, of a file of `jax.export`
              (`Exported.serialize()`), or of an HLO module (HloModuleProto, HloProto); HLO text;
            - an `ir.Module` of jaxlib;
            - a function of `jax.jit` that JAX has traced, lowered or compiled (`jax.stages`), or exported
              (`jax.export.Exported`, with symbolic sizes too). Of a compiled one the optimized HLO runs.
        without: Optimizations to turn off, such as `"tables,threads"`, beside those that the environment variable
            `MINIHLO_WITHOUT` lists. No result changes.
        elided: What stands for constants whose data the program leaves out (`dense_resource<__elided__>`): `"zeros"`
            or `"sample"`, ordinary numbers. By default such a program is an error.

    Returns:
        A LoadedProgram. A function of JAX gives a JaxProgram, whose method `call` takes and returns the
        pytrees of the function.

    Raises:
        ProgramError: The program cannot be read. The message starts with the file, the line and the column.
        InputError: `source` is none of these forms, `without` names an unknown optimization, or `elided` is
            another word.

    jaxlib's reader of bytecode can abort or loop on damaged input. A child process tries it first, which takes about
    0.2 s.
    """
    settings = default_settings().without(without) if without else None
    program = _load(source, fill_elided(elided) if elided else None)
    program.settings = settings
    return program


def _load(source: str | bytes | os.PathLike[str] | Any, elided: Elided | None) -> LoadedProgram:
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)
    if isinstance(source, bytes | str | os.PathLike):
        data, file = (source, "<bytes>") if isinstance(source, bytes) else contents(source)
        if not data.strip():
            raise ProgramError(f"{file}: expected a program, got nothing but white space")
        if isinstance(data, bytes):
            _check_reader(data, file)
        return LoadedProgram(parser.parse(data, file, elided=elided))
    if hasattr(source, "operation"):
        return LoadedProgram(parser.from_module(source, "<module>"))
    program = of_jax(source)
    if program is None:
        kinds = "a path, MLIR text, bytes, an ir.Module, a stage of jax.jit or jax.export.Exported"
        raise InputError(f"expected {kinds}, got {type(source).__name__}")
    return program


def contents(source: str | os.PathLike[str]) -> tuple[str | bytes, str]:
    """Return the program that a string or the file of that name contains, and its name in error messages.

    Raises ProgramError where there is nothing, and where the file cannot be read.
    """
    text = os.fspath(source)
    if text == "":
        raise ProgramError("expected a program or a path, got an empty string")
    if isinstance(source, str) and ("\n" in text or "{" in text or "func" in text) and not os.path.exists(text):
        return text, "<string>"
    return read(text), text


def _check_reader(data: bytes, file: str) -> None:
    """Raise ProgramError for bytecode on which jaxlib's reader aborts or loops."""
    if containers.is_binary(data):
        child = f"import sys; from {parser.__name__} import parse; parse(sys.stdin.buffer.read())"
        death = death_in_child(python("-c", child), data, _READER_SECONDS + len(data) / _BYTES_A_SECOND)
        if death:
            raise ProgramError(f"{file}: {death}")


def read(path: str) -> bytes:
    """Return the bytes of a file. Raises ProgramError if it cannot be read, or if it is an endless device or pipe."""
    try:
        with open(path, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else read_stream(file, path)
    except (OSError, ValueError) as error:
        short = path if len(path) <= 200 else f"{path[:200]}…"
        raise ProgramError(f"{short}: {getattr(error, 'strerror', None) or error}") from None


def read_stream(file: IO[bytes], name: str) -> bytes:
    """Return the bytes of a pipe or device. Raises ProgramError if they are no program or too many."""
    parts: list[bytes] = []
    size = 0
    try:
        while part := file.read(_PART):
            parts.append(part)
            size += len(part)
            if b"\0" in part and not (containers.BYTECODE in parts[0] or containers.is_binary(parts[0])):
                raise ProgramError(f"{name}: expected {parser.READABLE}, got a zero byte")
            if size > MOST_STREAMED:
                raise ProgramError(f"{name}: expected at most {MOST_STREAMED} bytes from a pipe or device, got more")
    except OSError as error:  # a closed stream, or a directory
        raise ProgramError(f"{name}: {error.strerror or error}") from None
    return b"".join(parts)
