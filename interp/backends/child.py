"""A backend in a child process. A crash or hang there raises BackendError here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..system.child import Ended, Worker, python
from ..system.messages import MessageError
from ..system.streams import XLA_WARNS_ONLY
from .base import PROGRAMS, BackendError
from .operation import Operation

#: The time limits, in seconds, for one program and for the start of a backend.
SECONDS = 300.0
START_SECONDS = 300.0


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
        environment = {**XLA_WARNS_ONLY, **os.environ, **(environment or {})}
        self._worker = Worker(python("-m", f"{__package__}.worker", name), environment)

    @property
    def takes(self) -> str:
        """`programs` or `operations`. Starts the child if only the child knows."""
        if not self._takes:
            self._start()
        return self._takes

    @property
    def pid(self) -> int | None:
        """The number of the child process, or None if it is not running."""
        return self._worker.child.process.pid if self._worker.child is not None else None

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Return the results of a program; see `base.Backend`."""
        program = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)  # a header is short
        return self._answer("the program", None, [program, *map(np.asarray, arrays)])

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the codes of the result of an operation; see `operation.OperationBackend`."""
        return self._answer("the operation", dataclasses.asdict(operation), arrays)[0]

    def close(self) -> None:
        """End the child process. The backend can be used again."""
        self._worker.close()

    def _answer(self, what: str, head: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self._worker.child is None:
            self._start()
        (how, value), results = self._ask(head, arrays, self.seconds)
        if how == "results":
            return results
        raise BackendError(how, f"{self.name} {'refuses ' + what if how == 'refused' else how}: {value}")

    def _start(self) -> None:
        try:
            (how, value), _ = self._ask(None, (), START_SECONDS)
        except OSError as error:
            raise BackendError("absent", f"{self.name} cannot be started: {error.strerror or error}") from None
        if how != "results":
            self.close()
            raise BackendError("absent", f"{self.name} cannot be started: {value}")
        self._takes = value

    def _ask(self, head: Any, arrays: Sequence[np.ndarray], seconds: float) -> tuple[Any, list[np.ndarray]]:
        try:
            return self._worker.ask(head, arrays, seconds)
        except Ended as end:
            raise BackendError("died", f"{self.name} {end}") from None
        except TimeoutError:
            raise BackendError("slow", f"{self.name} gave no answer in {seconds:g} s") from None
        except (MessageError, TypeError, ValueError) as error:
            raise BackendError("died", f"{self.name} gave no answer: {error}") from None
