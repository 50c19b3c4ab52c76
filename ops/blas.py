"""The host's BLAS on one thread, for as long as we multiply.

A BLAS wakes its threads for each product of more than some 2**18 terms, and they spin while they wait for each other.
On a busy machine that costs a time slice for each product. So products run on one thread of it, and `gemm.py` cuts
large ones into parts for our own threads, which do not wait for a part that has not begun. Factorizations, which LAPACK
makes of many small products, run on one thread as a whole.

Measured beside three busy processes, ms, by two threads of OpenBLAS and by one: eigenvalues and vectors of 100x100
numbers 110 and 2.9, of 300x300 3,156 and 23; singular values and vectors of 300x300 3,036 and 51.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: How builds of OpenBLAS name their functions: what stands before `openblas_set_num_threads`, and after it.
_BEFORE, _AFTER = ("", "scipy_"), ("", "64_", "_64", "64")

#: Gives the number of threads of a library, and sets it.
_Library = tuple[Callable[[], int], Callable[[int], None]]


class _OneThread:
    """A context in which BLAS has one thread. It may be entered by several threads; the last to leave restores it."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._libraries: list[_Library] | None = None
        self._before: list[tuple[Callable[[int], None], int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                if self._libraries is None:
                    self._libraries = _loaded()
                self._before = [(change, count) for get, change in self._libraries if (count := get()) > 1]
                for change, _ in self._before:
                    change(1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for change, count in self._before:
                    change(count)

    def look_again(self) -> None:
        """Another library may have been loaded since."""
        with self._lock:
            self._libraries = None


def _loaded() -> list[_Library]:
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


def functions_named(name: str) -> list[tuple[int, int]]:
    """Where a function is in each OpenBLAS of this process, numpy's first, and how many bits its whole numbers have."""
    from threadpoolctl import threadpool_info

    files = [str(e["filepath"]) for e in threadpool_info() if e["internal_api"] == "openblas"]
    found = []
    for file in sorted(files, key=lambda file: "numpy" not in file):
        library = ctypes.CDLL(file)
        for before, after in itertools.product(_BEFORE, _AFTER):
            function = getattr(library, f"{before}{name}{after}", None)
            if function is not None:
                address = ctypes.cast(function, ctypes.c_void_p).value
                assert address is not None
                found.append((address, 64 if after else 32))
    return found


_state = _OneThread()


def one_thread() -> _OneThread:
    """The context in which BLAS has one thread."""
    return _state


def on_one_thread(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function, with one thread of BLAS while it runs."""

    @functools.wraps(function)
    def run(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        with _state:
            return function(*arguments, **keywords)

    return run


def look_again() -> None:
    """Find out anew which libraries there are, once another one may have been loaded."""
    _state.look_again()


def _begin_anew() -> None:
    """After a fork no other thread of the child is inside."""
    global _state
    _state = _OneThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
