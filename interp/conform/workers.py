"""Tasks in several processes of this machine, each with a backend of its own.

`python -m minihlo.interp.conform.workers` is such a process: it reads settings, then tasks, and answers with results.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

from ..backends import BackendError, backend
from ..backends.child import death, last_words, read_frame, write_frame
from ..errors import InputError, WorkersLostError
from ..system import host_floats
from ..system.child_python import end_with_parent, log_file, python
from ..system.pool import share
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


#: The message of a process that can take tasks.
_READY = b"ready"
#: After so many consecutive deaths before that message, a process is not restarted: no case is to blame.
_STARTS = 3


class _Process:
    """A process that runs tasks. If it dies of a task it is restarted, and runs the task's cases one by one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._failed = 0  #: number of consecutive deaths before it was ready
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._stopped = False

    def run(self, task: Task) -> list[CaseResult]:
        """The results of a task. Raises WorkersLostError if the process cannot be started."""
        while not self._is_started():
            self._failed += 1
            why = self._death()
            if self._stopped:
                return []
            if self._failed >= _STARTS:
                raise WorkersLostError(f"no worker can be started: {why}, {_STARTS} times before it was ready")
        try:
            return self._ask(task)
        except EOFError:
            why = self._death()
        if self._stopped:
            return []
        if len(task.specs) > 1:
            return [r for s in task.specs for r in self.run(Task((s,), task.beside))]
        spec = next(iter(task.specs))
        return [outcome.without_result(spec.case, spec.form, "died", why, self._settings)]

    def _is_started(self) -> bool:
        """Starts the process if it is not running; returns whether it can take tasks."""
        if self._process is not None:
            return True
        self._log = log_file()
        self._process = subprocess.Popen(
            python("-m", __name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C in the terminal is for this process
        )
        try:
            self._send(self._settings)
            self._receive()
        except EOFError:
            return False
        self._failed = 0
        return True

    def _ask(self, task: Task) -> list[CaseResult]:
        self._send(task)
        return self._receive()

    def _receive(self) -> Any:
        assert self._process
        assert self._process.stdout
        answer = pickle.loads(read_frame(self._process.stdout))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _send(self, message: Any) -> None:
        assert self._process
        assert self._process.stdin
        try:
            write_frame(self._process.stdin, pickle.dumps(message))
        except BrokenPipeError:
            raise EOFError from None

    def _death(self) -> str:
        code = self._wait()
        said = ""
        if self._log is not None:
            self._log.seek(0)
            said = last_words(self._log.read()[-20000:].decode(errors="replace"))
            self._log.close()
        return f"the process {death(code)}: {said or 'it wrote no message'}"

    def stop(self) -> None:
        """Ends the process and its backend."""
        self._stopped = True
        if self._process is not None:
            self._process.terminate()  # it closes its backend in answer
            self._wait()
        if self._log is not None:
            self._log.close()

    def _wait(self) -> int:
        process, self._process = self._process, None
        assert process
        with contextlib.suppress(BrokenPipeError), process:
            process.wait()
        return process.returncode


def _serve() -> None:
    """The main loop of a process."""
    end_with_parent()
    host_floats.make_default()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    settings = pickle.loads(read_frame(sys.stdin.buffer))
    try:
        made = backend(settings.backend)
    except (BackendError, InputError) as error:
        write_frame(answers, pickle.dumps(error))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        tester = Tester(made, settings)
        write_frame(answers, pickle.dumps(_READY))
        while True:
            try:
                task = pickle.loads(read_frame(sys.stdin.buffer))
            except EOFError:
                return
            try:
                answer: Any = tester.run(task.specs, task.beside)
            except (BackendError, InputError) as error:
                answer = error
            write_frame(answers, pickle.dumps(answer))
    finally:
        made.close()


if __name__ == "__main__":
    _serve()
