"""A backend in a child process. A crash or hang there raises BackendError here."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import select
import signal
import struct
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ..system.child_python import log_file, python
from ..system.streams import XLA_WARNS_ONLY
from .base import PROGRAMS, BackendError

if TYPE_CHECKING:
    from .operation import Operation

#: The time limits, in seconds, for one program and for the start of a backend.
SECONDS = 300.0
START_SECONDS = 300.0

_LENGTH = struct.Struct("<Q")


@dataclasses.dataclass(frozen=True)
class Strided:
    """An array with its strides, to send to another process. A pickled array loses them."""

    memory: np.ndarray  #: the bytes of the array that it is a view of
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> np.ndarray | Strided:
        """Return the array itself if it is contiguous and not a part of another one, else a Strided."""
        base = array.base
        if not isinstance(base, np.ndarray) or not base.flags.c_contiguous:
            return array
        first, start = (x.__array_interface__["data"][0] for x in (array, base))
        if array.flags.c_contiguous and first == start:
            return array
        # The other array may have elements of another type.
        return cls(base.reshape(-1).view(np.uint8), array.dtype, array.shape, first - start, array.strides)

    def array(self) -> np.ndarray:
        """Return the array as a view of the memory in this process."""
        return np.ndarray(self.shape, self.dtype, self.memory, self.offset, self.strides)


class ChildBackend:
    """A backend in a child process. `environment` extends that of this process; `seconds` limits the time of a program.

    The child has a session of its own: Ctrl-C in the terminal reaches this process only, and processes that the child
    has started end with it.
    """

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
        takes: str = PROGRAMS,
        packages: tuple[str, ...] = (),
    ) -> None:
        self.name, self.seconds, self.packages = name, seconds, packages
        self._takes = takes
        self._environment = {**XLA_WARNS_ONLY, **os.environ, **(environment or {})}
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def takes(self) -> str:
        """`programs` or `operations`. Starts the child if only the child knows."""
        if not self._takes:
            self._running()
        return self._takes

    @property
    def pid(self) -> int | None:
        """The number of the child process, or None if it is not running."""
        return self._child.pid if self._child is not None else None

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Return the results of a program; see `base.Backend`."""
        return self._answer("the program", text, list(arrays))

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the codes of the result of an operation; see `operation.OperationBackend`."""
        return self._answer("the operation", operation, [Strided.of(a) for a in arrays])

    def close(self) -> None:
        """End the child process. The backend can be used again."""
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # its process group, which has the number of its first process
            child.kill()
            with contextlib.suppress(BrokenPipeError), child:
                child.wait()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _answer(self, what: str, *request: Any) -> Any:
        child = self._running()
        assert child.stdin is not None
        with self._report_end():
            write_frame(child.stdin, pickle.dumps(request))
            how, value = self._receive(child, self.seconds)
        if how == "results":
            return value
        raise BackendError(how, f"{self.name} {'refuses ' + what if how == 'refused' else how}: {value}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = child = self._start()
            with self._report_end():
                how, value = self._receive(child, START_SECONDS)
            if how != "results":
                self.close()
                raise BackendError("absent", f"{self.name} cannot be started: {value}")
            self._takes = value
        return self._child

    def _start(self) -> subprocess.Popen[bytes]:
        self._log = log_file()
        return subprocess.Popen(
            python("-m", f"{__package__}.worker", self.name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,
        )

    def _receive(self, child: subprocess.Popen[bytes], seconds: float) -> tuple[str, Any]:
        assert child.stdout is not None
        if not select.select([child.stdout], [], [], seconds)[0]:
            raise BackendError("slow", f"{self.name} gave no answer in {seconds:g} s")
        return pickle.loads(read_frame(child.stdout))

    @contextlib.contextmanager
    def _report_end(self) -> Any:
        """End the child after an error of communication, and report how it died."""
        try:
            yield
        except (EOFError, BrokenPipeError):
            assert self._child is not None
            code, last_line = self._child.wait(), self._last_words()
            self.close()
            raise BackendError("died", f"{self.name} {death(code)}: {last_line or 'it wrote no message'}") from None
        except BaseException:
            self.close()
            raise

    def _last_words(self) -> str:
        """Return the error that the child printed last."""
        assert self._log is not None
        self._log.seek(0)
        return last_words(self._log.read()[-20000:].decode(errors="replace"))


def last_words(text: str) -> str:
    """Return the last line that describes an error, or else the last line."""
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    errors = [x for x in lines if any(w in x for w in ("rror", "ssertion", "Check failed", "UNREACHABLE", "LLVM"))]
    return " ".join((errors or lines or [""])[-1].split())[:300]


def death(code: int) -> str:
    """Describe the exit status of a process."""
    try:
        return f"died ({signal.Signals(-code).name})"
    except ValueError:
        return f"ended with exit status {code}"


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Send a message through a pipe: its length, and itself."""
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Return the next message of a pipe. Raises EOFError if the pipe ends before."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return body
