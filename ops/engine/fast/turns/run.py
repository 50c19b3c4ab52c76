"""The code of turns on vectors, made by LLVM in some ten milliseconds, and called."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence

import numpy as np

from ....blas import one_thread
from ... import blas_calls
from ...compiled import compiled_function
from ...gemm import is_alone
from ...native import code
from ..registers import Unknown
from .memory import LINE
from .record import Turn

#: Makes turns from one to another on the arrays of states, rows, results and what is shared; gives the turn that has
#: still to be made. States are written over. Of the rows the bytes from one to the next are given.
Run = Callable[[Sequence[np.ndarray], Sequence[int], int, int], int]


def run_of(turn: Turn) -> Run | None:
    """The code of a turn; None where something is not there that it needs."""
    try:
        text = importlib.import_module(".text", __package__)  # and with it LLVM
        lines, size = text.text(turn, _function, _product)
        made = code.compiled(lines, text.OPERANDS)
    except (Unknown, ImportError, RuntimeError):  # the last of LLVM
        return None
    is_large = not all(is_alone(p.rows, p.columns, p.terms) for p in turn.products)

    def run(arrays: Sequence[np.ndarray], strides: Sequence[int], first: int, last: int) -> int:
        places = np.array([*[x.ctypes.data for x in arrays], *strides], np.int64)
        room, start = np.empty(size + LINE, np.uint8), places.ctypes.data
        memory = -(-room.ctypes.data // LINE) * LINE
        with one_thread() if is_large else contextlib.nullcontext():
            return made(start, start + len(arrays) * places.itemsize, memory, first, last)

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
