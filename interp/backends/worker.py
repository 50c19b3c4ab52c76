"""The child process of a backend: reads programs or operations with arrays, answers with arrays.

`python -m minihlo.interp.backends.worker NAME`. Messages are pickles with their lengths before them; an answer is a
pair (see `base.call`). The first answer needs no request: whether the backend takes programs or operations.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from ..system.child_python import end_with_parent, without_core_file
from . import kind_of, python
from .base import call
from .child import Strided, read_frame, write_frame


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
    end_with_parent()
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of C++ must not mix with answers
    how, started = call(_start, name)
    function = None
    if how == "results":
        started, function = started
    write_frame(answers, pickle.dumps((how, started)))
    while function is not None:
        try:
            request = pickle.loads(read_frame(requests))
        except EOFError:
            return
        what, arrays = request
        arguments = [a.array() if isinstance(a, Strided) else a for a in arrays]
        write_frame(answers, pickle.dumps(call(function, what, arguments)))


if __name__ == "__main__":
    _serve(sys.argv[1])
