"""The code of turns on small vectors, made by LLVM in some ten milliseconds, and called."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

import numpy as np

from ... import blas_calls
from ...compiled import compiled_function
from ...native import code
from ..registers import Unknown
from .record import Turn

#: Makes turns from one to another on the arrays of states, rows, results and what is shared; gives the turn that has
#: still to be made. States are written over.
Run = Callable[[Sequence[np.ndarray], int, int], int]


def run_of(turn: Turn) -> Run | None:
    """The code of a turn; None where something is not there that it needs."""
    try:
        text = importlib.import_module(".text", __package__)  # and with it LLVM
        made = code.compiled(text.text(turn, _function, _product), text.OPERANDS)
    except (Unknown, ImportError, RuntimeError):  # the last of LLVM
        return None

    def run(arrays: Sequence[np.ndarray], first: int, last: int) -> int:
        places = np.array([x.ctypes.data for x in arrays], np.int64)
        return made(places.ctypes.data, first, last)

    return run


def _function(kind: int) -> int:
    address = compiled_function(kind)
    if address is None:
        raise Unknown
    return address


def _product(product: blas_calls.Product) -> blas_calls.Function:
    function = blas_calls.function_of(product)
    if function is None:
        raise Unknown
    return function
