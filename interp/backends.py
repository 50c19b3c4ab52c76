"""What can run a program: minihlo itself, any platform of JAX, and StableHLO's C++ reference interpreter.

The last two are C++ that can abort on what they do not support, so each lives in a child process (`backend_worker`),
which is started when it is first needed and again after it has died.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

import numpy as np

from ..ops.policy import COMPUTE_TYPES, Policy
from .errors import Error, InputError

#: How backends are named.
KINDS = "minihlo, minihlo:upcast, jax:PLATFORM, reference"

#: How long a backend may take for one program.
SECONDS = 300.0

LENGTH = struct.Struct("<Q")


class BackendError(Error):
    """A backend gave no results: it `refused` the program, `died` of it, or was `slow`."""

    def __init__(self, how: str, text: str) -> None:
        super().__init__(text)
        self.how = how


class Backend(Protocol):
    """Runs programs given as text."""

    @property
    def name(self) -> str: ...

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """The results of `@main`, whose arguments and results are of types that numpy has itself.

        Raises BackendError where the backend gives none.
        """
        ...

    def close(self) -> None:
        """Give back what it holds; it can be used again."""
        ...


def backend(name: str) -> Backend:
    """The backend of that name. Raises InputError where there is none."""
    kind, _, rest = name.partition(":")
    if kind == "minihlo":
        if (rest and rest.partition(":")[0] != "upcast") or rest.endswith(":"):
            raise InputError(f"there is no backend {name!r} (would be {KINDS})")
        try:
            return Minihlo(name, Policy(arithmetic=rest or "direct"))
        except ValueError:
            types = ", ".join(COMPUTE_TYPES)
            raise InputError(f"there is no backend {name!r} (minihlo:upcast:TYPE, TYPE one of {types})") from None
    if kind == "jax" and rest.isidentifier():
        return ChildBackend(name, {"JAX_PLATFORMS": rest, "JAX_ENABLE_X64": "1"})
    if name == "reference":
        return ChildBackend(name)
    raise InputError(f"there is no backend {name!r} (would be {KINDS})")


class Minihlo:
    """This interpreter, under a policy, in this process."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name, self.policy = name, policy

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        from .api import LoadedProgram
        from .parser import parse

        return LoadedProgram(parse(text))(*arrays, policy=self.policy)

    def close(self) -> None:
        pass


class ChildBackend:
    """A backend in a child process. `environment` is added to that of this process; `seconds` is a program's time."""

    def __init__(self, name: str, environment: Mapping[str, str] | None = None, seconds: float = SECONDS) -> None:
        self.name, self._seconds = name, seconds
        self._environment = {"TF_CPP_MIN_LOG_LEVEL": "1", **os.environ, **(environment or {})}
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        answer = self._ask(pickle.dumps((text, list(arrays))))
        if isinstance(answer, str):
            raise BackendError("refused", f"{self.name} refuses the program: {answer}")
        return answer

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            with child:
                child.wait()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the child
        return subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.backend_worker", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self._environment,
        )

    def _ask(self, request: bytes) -> Any:
        if self._child is None:
            self._child = self._start()
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(LENGTH.pack(len(request)) + request)
            child.stdin.flush()
            if not select.select([child.stdout], [], [], self._seconds)[0]:
                self.close()
                raise BackendError("slow", f"{self.name} gave no answer in {self._seconds:g} s")
            return pickle.loads(read_frame(child.stdout))
        except (EOFError, BrokenPipeError):
            code, said = child.wait(), self._last_words()
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            child.stdout.close()
            self._child = None
            self.close()
            raise BackendError("died", f"{self.name} {_death(code)}: {said or 'it said nothing'}") from None

    def _last_words(self) -> str:
        """What the child said as it died, as far as that is an error."""
        assert self._log is not None
        self._log.seek(0)
        lines = [x.strip() for x in self._log.read()[-20000:].decode(errors="replace").splitlines()]
        told = [x for x in lines if any(w in x for w in ("rror", "ssertion", "Check failed", "UNREACHABLE", "LLVM"))]
        return " ".join((told or lines or [""])[-1].split())[:300]


def read_frame(stream: IO[bytes]) -> bytes:
    """The next message of a pipe: a length and so many bytes. Raises EOFError where it ends before."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return body


def _death(code: int) -> str:
    try:
        return f"died ({signal.Signals(-code).name})"
    except ValueError:
        return f"ended with exit status {code}"
