"""Runs many programs on StableHLO's reference interpreter, which aborts the process on unsupported ones.

`python -m tools.crosscheck.forked` reads programs and answers with what each gave. It forks a process that runs them in
order; where that dies at a program, it forks another for those that are left, which takes milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from minihlo.interp.backends import reference
from minihlo.interp.backends.base import BackendError, call
from minihlo.interp.system.child import describe_end, last_words

#: A program's text and its inputs.
Program = tuple[str, Sequence[np.ndarray]]
#: After so many seconds a program is taken for one that hangs.
_SECONDS = 120
_ROOT = Path(__file__).parents[2]


def evaluate(programs: Sequence[Program]) -> list[list[np.ndarray] | BackendError]:
    """The results of each program on the reference interpreter, or its error."""
    command = [sys.executable, "-m", __name__]
    with tempfile.TemporaryDirectory() as folder:  # the interpreter leaves files behind
        paths = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": paths}
        result = subprocess.run(
            command, input=pickle.dumps(list(programs)), stdout=subprocess.PIPE, cwd=folder, env=environment, check=True
        )
    answers: list[tuple[str, Any]] = pickle.loads(result.stdout)
    return [value if how == "results" else BackendError(how, value) for how, value in answers]


def _serve(programs: Sequence[Program]) -> list[tuple[str, Any]]:
    answers: list[tuple[str, Any]] = []
    with tempfile.TemporaryFile() as log:
        while len(answers) < len(programs):
            answers += _until_death(programs[len(answers) :], log)
    return answers


def _until_death(programs: Sequence[Program], log: BinaryIO) -> list[tuple[str, Any]]:
    """The answers for programs up to and including the one at which a process dies, or for all."""
    log.seek(0)
    log.truncate()
    receive, send = os.pipe()
    process = os.fork()
    if not process:
        os.close(receive)
        os.dup2(log.fileno(), 2)
        os.dup2(log.fileno(), 1)
        _run(programs, os.fdopen(send, "wb"))
        os._exit(0)
    os.close(send)
    answers = []
    with os.fdopen(receive, "rb") as pipe, contextlib.suppress(EOFError, pickle.UnpicklingError):
        while len(answers) < len(programs):
            answers.append(pickle.load(pipe))
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if len(answers) < len(programs):
        log.seek(0)
        answers.append(("died", f"{describe_end(code)}: {last_words(log.read().decode(errors='replace'))}"))
    return answers


def _run(programs: Sequence[Program], pipe: BinaryIO) -> None:
    evaluate = reference.start("")
    for text, inputs in programs:
        signal.alarm(_SECONDS)
        answer = call(evaluate, text, inputs)
        pickle.dump(answer, pipe)
        pipe.flush()


def _main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    answers, results = sys.stdin.buffer.read(), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with results:
        results.write(pickle.dumps(_serve(pickle.loads(answers))))


if __name__ == "__main__":
    _main()
