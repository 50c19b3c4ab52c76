"""The floating-point environment of the process: rounding to nearest, subnormals kept.

A library that is loaded before (LD_PRELOAD, one compiled with -ffast-math) can have subnormals flushed to zero or
another rounding, and arithmetic on f32 and f64, which is the host's, would give other results without a word.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: What is lost beside 1 where that rounds to nearest, and two numbers whose difference is subnormal. They are not
#: literals where they are used, which Python would fold.
_ONE, _TRIFLE, _ABOVE, _LEAST_NORMAL = 1.0, 2.0**-60, 1.5 * 2.0**-1022, 2.0**-1022


def are_default() -> bool:
    """Whether sums are rounded to nearest, and subnormals are read and written as they are.

    Asked before each run: sums and comparisons are as quick with subnormals as without on today's CPUs, products not.
    """
    return _ONE + _TRIFLE == _ONE == _ONE - _TRIFLE and _ABOVE - _LEAST_NORMAL != 0.0


def make_default() -> None:
    """Give this thread, and those it starts from now on, the default environment. Call it before numpy is imported."""
    if are_default() or sys.platform != "linux":
        return
    import ctypes

    try:
        default = ctypes.c_void_p(-1)  # FE_DFL_ENV of glibc and musl
        ctypes.CDLL("libm.so.6").fesetenv(default)
    except (OSError, AttributeError):
        pass


@contextlib.contextmanager
def default() -> Iterator[None]:
    """Within it this thread has the default environment; then again what it had. Only on Linux can it be changed."""
    if sys.platform != "linux":
        yield
        return
    import ctypes

    libm, kept = ctypes.CDLL("libm.so.6"), ctypes.create_string_buffer(64)  # fenv_t has 28 to 32 bytes
    libm.fegetenv(kept)
    libm.fesetenv(ctypes.c_void_p(-1))
    try:
        yield
    finally:
        libm.fesetenv(kept)


def in_default(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function in the default environment, whatever the caller has."""

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if are_default():
            return function(*args, **kwargs)
        with default():
            return function(*args, **kwargs)

    return run
