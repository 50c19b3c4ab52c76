"""The floating-point environment of the process: rounding to nearest, subnormals kept.

A library that is loaded first (by LD_PRELOAD, or compiled with -ffast-math) can make the processor flush subnormals to
zero or round in another way. Arithmetic on f32 and f64 is the host's, so it would silently give other results.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import sys
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: A number that is lost when it is added to 1 or taken from it and the result is rounded to nearest, and a subnormal
#: number, by its bits: where subnormals are flushed, Python would compute it as zero. They are variables, since Python
#: folds operations on literals.
_ONE, _TRIFLE, (_SUBNORMAL,) = 1.0, 2.0**-60, struct.unpack("<d", (1 << 14).to_bytes(8, "little"))


def are_default() -> bool:
    """Return whether sums are rounded to nearest, and subnormals are kept as operands and results.

    This runs before each program. Any other rounding makes the sum or the difference with 1 another number. It takes
    60 ns: current CPUs add two subnormals as fast as other numbers, but take 0.1 us to subtract normal numbers whose
    difference is subnormal, and for products.
    """
    return _ONE + _TRIFLE == _ONE - _TRIFLE and _SUBNORMAL + _SUBNORMAL != 0.0


def make_default() -> None:
    """Set the default environment in this thread and those it starts later. Call it before numpy is imported."""
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
    """Set the default environment in this thread for the duration of a block. It can be changed on Linux only."""
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
    """Decorate a function to run in the default environment, whatever the environment of its caller."""

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if are_default():
            return function(*args, **kwargs)
        with default():
            return function(*args, **kwargs)

    return run
