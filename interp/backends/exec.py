"""A command: a simulator, a board, any program that reads and writes files.

`exec:COMMAND` runs COMMAND, split into words as a shell does and without one, with the path of a folder as one more
argument, once for each program. In the folder are

- `program.mlir`: StableHLO; the function is `@main`. Its arguments and results are of types that numpy has, codes as
  `ui8` and the like; the program itself turns them into minifloats (`bitcast_convert`) and back.
- `input_0.npy`, `input_1.npy` …: the arguments.

The command writes `output_0.npy`, `output_1.npy` … there and ends with exit status

- 0: those are the results;
- 69: it does not support the program; the last line on standard error says why;
- any other, or a signal: it failed, which counts as a crash.

`exec:--session COMMAND` starts COMMAND once and asks it over standard input and output (`exec_session`): operations on
codes, or programs. docs/exec-protocol.md describes both.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..system.child import describe_end, last_words, run
from . import exec_session
from .base import PROGRAMS, BackendError, Evaluate, Kind

UNSUPPORTED = 69  #: EX_UNAVAILABLE of sysexits.h


def _environment(command: str) -> Mapping[str, str]:
    if not _words(command)[1]:  # raises ValueError for an open quotation
        raise ValueError("expected a command, got none")
    return {}


def _words(rest: str) -> tuple[bool, list[str]]:
    """Whether the command is a session, and its words."""
    words = shlex.split(rest)
    is_session = words[:1] == [_SESSION]
    return is_session, words[is_session:]


_SESSION = "--session"
KIND = Kind("exec:[--session ]COMMAND", rest="(?s:.+)", takes="", environment=_environment)


def start(rest: str) -> tuple[str, Callable[..., Any]]:
    """Return the kind of the command and the function that runs it.

    Raises FileNotFoundError if there is no command of that name.
    """
    is_session, command = _words(rest)
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"expected an executable command, got {command[0]}")
    if is_session:
        return exec_session.start(command)
    return PROGRAMS, _once(command)


def _once(command: list[str]) -> Evaluate:
    """The function that starts the command for each program."""

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with tempfile.TemporaryDirectory(prefix="minihlo-exec-") as name:
            folder = Path(name)
            (folder / "program.mlir").write_text(text, encoding="utf-8")
            for i, array in enumerate(arrays):
                np.save(folder / f"input_{i}.npy", array)
            try:
                code, _, message = run([*command, name])
            except OSError as error:
                raise BackendError("died", f"{command[0]} cannot be run: {error.strerror}") from None
            if code == UNSUPPORTED:
                raise BackendError("refused", (message.splitlines() or ["no reason given"])[-1])
            if code:
                raise BackendError("died", f"{command[0]} {describe_end(code)}: {last_words(message)}")
            return _outputs(folder)

    return evaluate


def _outputs(folder: Path) -> list[np.ndarray]:
    arrays: list[np.ndarray] = []
    while (path := folder / f"output_{len(arrays)}.npy").exists():
        try:
            arrays.append(np.load(path, allow_pickle=False))
        except (ValueError, OSError, EOFError) as error:
            raise BackendError("died", f"{path.name} cannot be read: {error}") from None
    if not arrays:
        raise BackendError("died", "the command ended with exit status 0 and wrote no output_0.npy")
    return arrays
