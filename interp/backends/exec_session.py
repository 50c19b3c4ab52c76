"""A command that answers many requests: `exec:--session COMMAND`. docs/exec-protocol.md describes the messages.

A message is lines of text, the last of which is `data N` before N bytes. Codes travel with their lowest byte first.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Sequence
from typing import IO, Any, NoReturn

import numpy as np

from ..system.child import Child
from .base import OPERATIONS, PROGRAMS, BackendError
from .operation import Operation, attribute_text, result_shape

GREETING = "minihlo-exec 1"
#: A command that has closed its output ends within so many seconds, or is killed.
_PATIENCE = 5.0
#: No line of an answer is longer.
_LINE = 1 << 16
#: The types of the results of programs.
_TYPES = ("bool", *(f"{sign}int{n}" for sign in ("u", "") for n in (8, 16, 32, 64)), "float32", "float64")


class Session:
    """A running command, started again after it has ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._child: Child | None = None
        self.takes = ""
        self._start()

    def _start(self) -> None:
        try:
            self._child = Child(self._command)
        except OSError as error:
            raise BackendError("absent", f"{self._command[0]} cannot be run: {error.strerror}") from None
        line = self._line()
        takes = line.removeprefix(GREETING).strip()
        if not line.startswith(GREETING) or takes not in (OPERATIONS, PROGRAMS) or takes != (self.takes or takes):
            self._end()
            wanted = f"{GREETING} {self.takes or f'{OPERATIONS} or {PROGRAMS}'}"
            raise BackendError("absent", f"expected its first line to be {wanted}, got {line[:80]!r}")
        self.takes = takes

    def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the results of a program."""
        program = text.encode()
        head = [f"program {len(program)}", *(_tensor("operand", a.dtype.name, a) for a in arrays)]
        shapes, data = self._ask(head, [program, *map(_bytes, arrays)])
        if not shapes:
            raise BackendError("died", "the answer to a program has no line result TYPE BYTES RANK SIZES")
        found, start = [], 0
        for dtype, shape in shapes:
            size = int(np.prod(shape)) * dtype.itemsize
            found.append(_array(data[start : start + size], dtype, shape))
            start += size
        if start != len(data):
            raise BackendError("died", f"expected {start} bytes of results, got {len(data)}")
        return found

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the codes of the result of an operation."""
        from ..oracle.formats import code_dtype

        kind = np.dtype(code_dtype(operation.result))
        shape = result_shape(operation, [a.shape for a in arrays])
        rank = " ".join(map(str, (len(shape), *shape)))
        head = [
            f"operation {operation.op}",
            *(f"attribute {k} {attribute_text(v)}" for k, v in operation.attributes.items()),
            *(_tensor("operand", t, a) for t, a in zip(operation.operands, arrays, strict=True)),
            f"result {operation.result} {kind.itemsize} {rank}",
        ]
        _, data = self._ask(head, list(map(_bytes, arrays)))
        return _array(data, np.dtype(f"u{kind.itemsize}"), shape)

    def _ask(self, head: list[str], pieces: list[bytes]) -> tuple[list[tuple[np.dtype, tuple[int, ...]]], bytes]:
        if self._child is None:
            self._start()
        stdin, _ = self._pipes()
        text = "".join(f"{line}\n" for line in [*head, f"data {sum(map(len, pieces))}"])
        try:
            for piece in (text.encode(), *pieces):
                stdin.write(piece)
            stdin.flush()
        except BrokenPipeError:
            self._raise_end()
        return self._answer()

    def _answer(self) -> tuple[list[tuple[np.dtype, tuple[int, ...]]], bytes]:
        shapes: list[tuple[np.dtype, tuple[int, ...]]] = []
        while True:
            line = self._line()
            word, _, rest = line.partition(" ")
            if word in ("unsupported", "failed"):
                raise BackendError("refused" if word == "unsupported" else "died", rest.strip() or "no reason given")
            if word == "data" and _is_size(rest):
                return shapes, self._read(int(rest))
            result = _result(rest) if word == "result" else None
            if result is None:
                self._end()
                expected = "data N, result TYPE BYTES RANK SIZES, unsupported REASON or failed REASON"
                raise BackendError("died", f"expected {expected}, got {line[:80]!r}")
            shapes.append(result)

    def _line(self) -> str:
        line = self._pipes()[1].readline(_LINE)
        if not line.endswith(b"\n"):
            self._raise_end()
        return line.decode(errors="replace").rstrip("\r\n")

    def _read(self, size: int) -> bytes:
        data = self._pipes()[1].read(size)
        if len(data) < size:
            self._raise_end()
        return data

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """The standard input and output of the command."""
        assert self._child is not None
        process = self._child.process
        assert process.stdin is not None
        assert process.stdout is not None
        return process.stdin, process.stdout

    def _raise_end(self) -> NoReturn:
        """Raise an error that describes how the command ended."""
        child, self._child = self._child, None
        assert child is not None
        assert child.process.stdin is not None
        with contextlib.suppress(OSError):
            child.process.stdin.close()
        try:
            child.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            child.end()
            raise BackendError("died", f"{self._command[0]} closed its standard output, or gave half a line") from None
        raise BackendError("died", f"{self._command[0]} {child.death()}")

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


def start(command: Sequence[str]) -> tuple[str, Callable[..., Any]]:
    """Return the kind of the command and the function that asks it."""
    session = Session(command)
    return session.takes, session.operate if session.takes == OPERATIONS else session.evaluate


def _tensor(word: str, element: str, array: np.ndarray) -> str:
    return " ".join(map(str, (word, element, array.itemsize, array.ndim, *array.shape)))


def _bytes(array: np.ndarray) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _array(data: bytes, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape)) * dtype.itemsize
    if len(data) != size:
        raise BackendError("died", f"expected {size} bytes of a result, got {len(data)}")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _result(rest: str) -> tuple[np.dtype, tuple[int, ...]] | None:
    """The type and shape of `TYPE BYTES RANK SIZES`; None for other text."""
    name, *numbers = rest.split() or [""]
    if name not in _TYPES or len(numbers) < 2 or not all(map(_is_size, numbers)):
        return None
    width, rank, *shape = map(int, numbers)
    return (np.dtype(name), tuple(shape)) if width == np.dtype(name).itemsize and rank == len(shape) else None
