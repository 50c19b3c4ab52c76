"""The child process of a backend: reads programs or operations with arrays, answers with arrays.

`python -m minihlo.interp.backends.worker NAME` reads messages (`system.messages`) from standard input. Those of a
program have its text as their first array, those of an operation its fields as their header. The header of an answer is
"results" and None, or `how` and the text of a BackendError. The first answer needs no request: it has what the backend
takes, programs or operations.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ..system import messages
from ..system.isolate import without_core_file
from . import kind_of, python
from .base import call
from .operation import from_json


def _start(name: str) -> tuple[str, Callable[..., Any]]:
    """Return whether the backend takes programs or operations, and its function."""
    kind = kind_of(name)
    if kind is python.KIND:
        return python.start(name)
    word, _, rest = name.partition(":")
    started = importlib.import_module(f".{word}", __package__).start(rest)
    return (kind.takes, started) if kind.takes else started


def _serve(name: str) -> None:
    without_core_file()
    requests, answers = messages.from_stream(sys.stdin.buffer), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of C++ must not mix with answers
    how, started = call(_start, name)
    takes, function = started if how == "results" else (started, None)
    messages.write(answers, (how, takes))
    while function is not None:
        try:
            operation, arrays = messages.read(requests)
        except EOFError:
            return
        if operation is None:
            program, *arrays = arrays
            how, value = call(function, program.tobytes().decode(errors="surrogatepass"), arrays)
        else:
            how, value = call(lambda *request: [function(*request)], from_json(operation), arrays)
        try:
            messages.write(answers, (how, None), list(value)) if how == "results" else messages.write(
                answers, (how, value)
            )
        except messages.MessageError as error:
            messages.write(answers, ("died", str(error)))


if __name__ == "__main__":
    _serve(sys.argv[1])
