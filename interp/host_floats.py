"""The floating-point environment of the process: rounding to nearest, subnormals kept.

A library that is loaded before (LD_PRELOAD, one compiled with -ffast-math) can have subnormals flushed to zero or
another rounding, and arithmetic on f32 and f64, which is the host's, would give other results without a word.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

#: The smallest number, and a power of two of which two bring it to 1. Not literals below: Python would fold those.
_LEAST, _UP = 5e-324, 2.0**537


#: What is lost beside 1 where that rounds to nearest; not literals below either.
_ONE, _TRIFLE = 1.0, 2.0**-60


def rounds_to_nearest() -> bool:
    """Whether sums are rounded to nearest; a tenth of what `are_default` takes, as CPUs are slow on subnormals."""
    return _ONE + _TRIFLE == _ONE == _ONE - _TRIFLE


def are_default() -> bool:
    """Whether subnormals are read and written as they are, and ties are rounded to even."""
    return _LEAST * 1.5 * _UP * _UP == 2.0 and -_LEAST * 1.5 * _UP * _UP == -2.0


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
