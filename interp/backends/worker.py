"""The child process of a backend: reads programs or operations with arrays, answers with arrays.

`python -m minihlo.interp.backends.worker NAME` answers requests (`system.child`). The first one, of anything, is for
what the backend takes, programs or operations. Those of a program have its text as their first array, those of an
operation its fields as their header. The header of an answer is "results" and a value, or `how` and the text of a
BackendError.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..system.child import serve
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
    function: Callable[..., Any] | None = None

    def answer(operation: Any, arrays: list[np.ndarray]) -> Iterator[tuple[Any, Sequence[np.ndarray]]]:
        nonlocal function
        if function is None:
            how, value = call(_start, name)
            if how == "results":
                value, function = value
        elif operation is None:
            program, *arrays = arrays
            how, value = call(function, program.tobytes().decode(errors="surrogatepass"), arrays)
        else:
            how, value = call(lambda run, *request: [run(*request)], function, from_json(operation), arrays)
        if how == "results" and not isinstance(value, str):
            yield (how, None), list(value)
        else:
            yield (how, value), ()

    serve(answer)


if __name__ == "__main__":
    _serve(sys.argv[1])
