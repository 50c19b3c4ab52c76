"""Products of matrices by the host's BLAS, which has one thread while we use it.

A BLAS wakes its threads for each product of more than some 2**18 terms, and they spin while they wait for each other.
On a busy machine that costs a time slice for each product: a training step of a small language model takes 956 ms
beside eight busy processes with the two threads of OpenBLAS, and 93 ms by one. A product therefore runs on one thread
of BLAS, and a large one is cut into parts for threads of our own, none of which waits for a part that has not begun.
Factorizations, which LAPACK makes of many small products, run on one thread as a whole.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Iterator

import numpy as np

from . import threads

#: The prefixes and suffixes of `openblas_set_num_threads` in builds of OpenBLAS.
_BEFORE, _AFTER = ("", "scipy_"), ("", "64_", "_64", "64")

#: Gives the number of threads of a library, and sets it.
_Library = tuple[Callable[[], int], Callable[[int], None]]


class _State:
    """The libraries of this process, how many contexts of `one_thread` are entered, and what they restore."""

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.libraries: list[_Library] | None = None
        self.before: list[tuple[Callable[[int], None], int]] = []


_state = _State()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A context, or decorator, in which BLAS has one thread.

    It may be entered by several threads; the last to leave restores what was before.
    """
    state = _state
    with state.lock:
        if not state.inside:
            if state.libraries is None:
                state.libraries = _find_libraries()
            state.before = [(change, count) for get, change in state.libraries if (count := get()) > 1]
            for change, _ in state.before:
                change(1)
        state.inside += 1
    try:
        yield
    finally:
        with state.lock:
            state.inside -= 1
            for change, count in state.before if not state.inside else ():
                change(count)


def _find_libraries() -> list[_Library]:
    """Each OpenBLAS of this process; numpy has loaded its own. Other libraries keep their threads.

    What threadpoolctl itself sets belongs to the thread that set it first, and we are called by any thread.
    """
    from threadpoolctl import threadpool_info  # looks through what is loaded, which takes milliseconds

    libraries = []
    for entry in threadpool_info():
        if entry["internal_api"] == "openblas":
            library = ctypes.CDLL(entry["filepath"])
            for before, after in itertools.product(_BEFORE, _AFTER):
                names = [f"{before}openblas_{verb}_num_threads{after}" for verb in ("get", "set")]
                if all(hasattr(library, name) for name in names):
                    libraries.append(tuple(getattr(library, name) for name in names))
                    break
    return libraries


def look_again() -> None:
    """Find out anew which libraries there are, once another one may have been loaded."""
    with _state.lock:
        _state.libraries = None


if hasattr(os, "register_at_fork"):  # after a fork no other thread is there, nor inside
    os.register_at_fork(after_in_child=lambda: globals().update(_state=_State()))

#: The terms of a part of a large product, and a divisor of its rows: BLAS packs the other operand for each part anew.
#: They are part of the definition of a sum in f32, as other parts can have other last bits.
_PART, _ROWS = 1 << 24, 256
#: OpenBLAS keeps to one thread by itself for matrices of so many terms.
_ALONE = 1 << 18


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The products of (batch, M, K) and (batch, K, N) in f32, f64 or a complex type.

    The shape alone decides how a large product is cut: the bits do not depend on the number of threads. No sum is -0,
    which some BLAS give where a single product is not added to +0.
    """
    (batch, rows, length), columns = x.shape, y.shape[-1]
    x, y = _without_gaps(x), _without_gaps(y)
    if 1 not in (rows, columns) and batch * rows * length * columns <= _ALONE:
        result = np.matmul(x, y)
        result += 0
        return result
    result = np.empty((batch, rows, columns), np.result_type(x, y))

    def work(part: tuple[slice, slice]) -> None:
        np.matmul(x[part], y[part[0]], out=result[part])
        result[part] += 0

    with one_thread():
        threads.for_each(work, parts(batch, rows, length * columns, _PART, _ROWS))
    return result


def parts(batch: int, rows: int, each: int, most: int, divisor: int = 1) -> list[tuple[slice, slice]]:
    """The matrices and rows of each part of (batch, rows), in order, where a row counts `each` and a part `most`.

    A part has whole matrices, or some rows of one matrix, of which `divisor` divides the number.
    """
    if rows * each <= most:
        step = most // max(rows * each, 1)
        return [(slice(i, i + step), slice(None)) for i in range(0, batch, step)]
    step = max(most // each // divisor, 1) * divisor
    return [(slice(i, i + 1), slice(j, j + step)) for i in range(batch) for j in range(0, rows, step)]


def _without_gaps(x: np.ndarray) -> np.ndarray:
    """Matrices that BLAS takes as they are: others numpy multiplies by loops of its own."""
    return x if x.flags.c_contiguous or x.swapaxes(-1, -2).flags.c_contiguous else np.ascontiguousarray(x)
