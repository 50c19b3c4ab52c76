"""Tasks in several processes of this machine, each with a backend of its own.

`python -m minihlo.interp.conform.workers` is such a process: it answers requests (`system.child`), the first with the
settings, others with a task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from ..backends import BackendError, backend
from ..errors import InputError, WorkersLostError
from ..system import host_floats
from ..system.child import Ended, Worker, python, serve, share
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


class _Process(Worker):
    """A process that runs tasks. If it dies of a task it is restarted, and runs the task's cases one by one."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(python("-m", __name__))
        self._settings = settings

    def run(self, task: Task) -> list[CaseResult]:
        """The results of a task. Raises WorkersLostError if the process cannot be started."""
        if self.child is None:
            self._start()
        try:
            return [] if self.is_stopped else files.read(list[CaseResult], self._results(task), "results")
        except Ended as end:
            if self.is_stopped:
                return []
            if len(task.specs) > 1:
                return [r for s in task.specs for r in self.run(Task((s,), task.beside))]
            spec = next(iter(task.specs))
            return [outcome.without_result(spec.case, spec.form, "died", f"the process {end}", self._settings)]

    def _start(self) -> None:
        why = ""
        for _ in range(_STARTS):
            try:
                self._results(self._settings)
                return
            except OSError as error:
                raise WorkersLostError(f"no worker can be started: {error.strerror or error}") from None
            except Ended as end:
                why = str(end)
            if self.is_stopped:
                return
        raise WorkersLostError(f"no worker can be started: the process {why}, {_STARTS} times before it was ready")

    def _results(self, record: Any) -> Any:
        """The answer to settings or a task. Raises the error of the process."""
        (how, value), _ = self.ask(dataclasses.asdict(record))
        if how == "results":
            return value
        raise InputError(value) if how == _INPUT else BackendError(how, value)


#: The answer of a process to what is no fault of its backend.
_INPUT = "input"


def _serve() -> None:
    """The main loop of a process."""
    host_floats.make_default()
    tester: Tester | None = None

    def answer(head: Any, _: Any) -> Iterator[tuple[Any, tuple[()]]]:
        nonlocal tester
        try:
            if tester is None:
                settings = files.read(Settings, head)
                tester, results = Tester(backend(settings.backend), settings), []
            else:
                task = files.read(Task, head)
                results = list(map(dataclasses.asdict, tester.run(task.specs, task.beside)))
            yield ("results", results), ()
        except BackendError as error:
            yield (error.how, str(error)), ()
        except InputError as error:
            yield (_INPUT, str(error)), ()

    serve(answer)


if __name__ == "__main__":
    _serve()
