"""Tasks in several processes of this machine, each with a backend of its own.

`python -m minihlo.interp.conform.workers` is such a process: it reads settings, then tasks, and answers with results.
Messages are JSON (`system.messages`).
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ..backends import BackendError, backend
from ..errors import InputError, WorkersLostError
from ..system import host_floats, messages
from ..system.child import Child, python
from ..system.pool import share
from . import files
from .result import CaseResult
from .run import Done, Task, Workers
from .tester import Tester
from .verdicts import outcome
from .verdicts.outcome import Settings


def processes(jobs: int) -> Workers:
    """Runs tasks in so many processes of this machine."""

    def workers(settings: Settings, work: Sequence[Task]) -> Iterator[Done]:
        pool = [_Process(settings) for _ in range(min(jobs, len(work)))]
        return share(work, pool, _Process.run)

    return workers


#: After so many consecutive deaths before it can take tasks, a process is not restarted: no case is to blame.
_STARTS = 3
#: A process ends its backend within so many seconds, or both are killed.
_END_SECONDS = 1.0


class _Process:
    """A process that runs tasks. If it dies of a task it is restarted, and runs the task's cases one by one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._failed = 0  #: number of consecutive deaths before it was ready
        self._child: Child | None = None
        self._stopped = False

    def run(self, task: Task) -> list[CaseResult]:
        """The results of a task. Raises WorkersLostError if the process cannot be started."""
        while self._child is None:
            why = self._start()
            if self._stopped:
                self.stop()  # it may have been called before there was a process
                return []
            if self._failed >= _STARTS:
                raise WorkersLostError(f"no worker can be started: {why}, {_STARTS} times before it was ready")
        try:
            return files.read(list[CaseResult], self._ask(self._child, task), "results")
        except EOFError:
            why = self._death(self._child)
        if self._stopped:
            return []
        if len(task.specs) > 1:
            return [r for s in task.specs for r in self.run(Task((s,), task.beside))]
        spec = next(iter(task.specs))
        return [outcome.without_result(spec.case, spec.form, "died", why, self._settings)]

    def _start(self) -> str:
        """Starts the process. Returns how it ended if it cannot take tasks."""
        try:
            self._child = Child(python("-m", __name__))
        except OSError as error:
            raise WorkersLostError(f"no worker can be started: {error.strerror or error}") from None
        try:
            self._ask(self._child, self._settings)
        except EOFError:
            self._failed += 1
            return self._death(self._child)
        self._failed = 0
        return ""

    def _ask(self, child: Child, record: Any) -> Any:
        """The answer to settings or a task. Raises the error of the process, and EOFError if it dies."""
        child.send(dataclasses.asdict(record))
        (how, value), _ = child.receive()
        if how == "results":
            return value
        raise InputError(value) if how == _INPUT else BackendError(how, value)

    def _death(self, child: Child) -> str:
        self._child = None
        return f"the process {child.death()}"

    def stop(self) -> None:
        """Ends the process and its backend."""
        self._stopped = True
        child = self._child
        if child is not None:
            child.process.terminate()  # it closes its backend in answer
            child.wait(_END_SECONDS)


#: The answer of a process to what is no fault of its backend.
_INPUT = "input"


def _serve() -> None:
    """The main loop of a process."""
    host_floats.make_default()
    requests, answers = messages.from_stream(sys.stdin.buffer), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    tester: Tester | None = None
    try:
        while True:
            head, _ = messages.read(requests)
            try:
                if tester is None:
                    settings = files.read(Settings, head)
                    tester, results = Tester(backend(settings.backend), settings), []
                else:
                    task = files.read(Task, head)
                    results = list(map(dataclasses.asdict, tester.run(task.specs, task.beside)))
                messages.write(answers, ("results", results))
            except BackendError as error:
                messages.write(answers, (error.how, str(error)))
            except InputError as error:
                messages.write(answers, (_INPUT, str(error)))
    except EOFError:
        pass
    finally:
        if tester is not None:
            tester.backend.close()


if __name__ == "__main__":
    _serve()
