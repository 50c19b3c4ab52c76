"""A backend in a child process: what crashes or hangs there is a BackendError here."""

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
from .base import PROGRAMS, BackendError

if TYPE_CHECKING:
    from .operation import Operation

#: How long a backend may take for one program, and to start.
SECONDS = 300.0
START_SECONDS = 300.0

_LENGTH = struct.Struct("<Q")


@dataclasses.dataclass(frozen=True)
class Strided:
    """An array on its way to another process, which gets it with its strides; a pickle alone would lose them."""

    memory: np.ndarray  #: what it is a view of
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> np.ndarray | Strided:
        """The array itself, where it is not a part of another one and lies as it is read."""
        base = array.base
        if not isinstance(base, np.ndarray) or not base.flags.c_contiguous:
            return array
        first, start = (x.__array_interface__["data"][0] for x in (array, base))
        if array.flags.c_contiguous and first == start:
            return array
        return cls(base, array.shape, first - start, array.strides)

    def array(self) -> np.ndarray:
        """The array, as a view of the memory in this process."""
        return np.ndarray(self.shape, self.memory.dtype, self.memory, self.offset, self.strides)


class ChildBackend:
    """A backend in a child process. `environment` is added to that of this process; `seconds` is a program's time.

    The child has a session of its own: Ctrl-C in the terminal is for this process, and what the child has started
    ends with it.
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
        self._environment = {"TF_CPP_MIN_LOG_LEVEL": "1", **os.environ, **(environment or {})}
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def takes(self) -> str:
        """`programs` or `operations`. Where only the child can tell, this starts it."""
        if not self._takes:
            self._running()
        return self._takes

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        return self._answer("the program", text, list(arrays))

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return self._answer("the operation", operation, [Strided.of(a) for a in arrays])

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # its process group, which is named as its first process
            child.kill()
            with contextlib.suppress(BrokenPipeError), child:
                child.wait()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _answer(self, what: str, *request: Any) -> Any:
        child = self._running()
        assert child.stdin is not None
        with self._reporting_its_end():
            write_frame(child.stdin, pickle.dumps(request))
            how, value = self._receive(child, self.seconds)
        if how == "results":
            return value
        raise BackendError(how, f"{self.name} {'refuses ' + what if how == 'refused' else how}: {value}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = child = self._start()
            with self._reporting_its_end():
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
    def _reporting_its_end(self) -> Any:
        """Leaves no child behind that still has something to say, and tells how one died."""
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
        """What the child said as it died, as far as that is an error."""
        assert self._log is not None
        self._log.seek(0)
        return last_words(self._log.read()[-20000:].decode(errors="replace"))


def last_words(text: str) -> str:
    """The last line that tells an error, else the last."""
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    errors = [x for x in lines if any(w in x for w in ("rror", "ssertion", "Check failed", "UNREACHABLE", "LLVM"))]
    return " ".join((errors or lines or [""])[-1].split())[:300]


def death(code: int) -> str:
    """How a process ended, in words."""
    try:
        return f"died ({signal.Signals(-code).name})"
    except ValueError:
        return f"ended with exit status {code}"


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Send a message through a pipe: its length, and itself."""
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """The next message of a pipe. Raises EOFError where it ends before."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return body
