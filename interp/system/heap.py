"""Freed memory is kept for the next array instead of being given back to the system and cleared anew.

The rule. glibc takes what is larger than 128 KiB from the system and gives it back when it is freed; each page is then
cleared, and mapped, when it is written to again, at 0.1 to 0.25 ns a byte. So when a program with arrays of that size
is planned, glibc is told once to take arrays of up to 32 MiB from its heap, and to keep up to 64 MiB there that are
free. Larger arrays come and go as before. What the user has told glibc himself stays.

Measured in a process that does nothing else, page faults of a call without and with: matmul 512² 1984 and 0,
convolution 1510 and 0, dequantize 780 and 0, gelu 117 and 13; of processor time convolution takes a third less.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable

#: From which size on arrays are not kept without this.
LARGE = 1 << 17
#: What `mallopt` calls the size from which memory is the system's, and the most that is kept; and what they become.
_SETTINGS = {-3: 1 << 25, -1: 1 << 26}
#: Environment variables by which the user tells glibc, and those of their settings that are ours.
_TOLD = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
_TUNABLES = ("glibc.malloc.mmap_threshold", "glibc.malloc.trim_threshold")

_is_set = False


def keep() -> None:
    """Let freed memory be kept, in this process and from now on. Does nothing where the allocator is not glibc's."""
    global _is_set
    if _is_set:
        return
    _is_set = True
    mallopt = _mallopt()
    if mallopt is None or any(name in os.environ for name in _TOLD):
        return
    if any(name in os.environ.get("GLIBC_TUNABLES", "") for name in _TUNABLES):
        return
    for parameter, size in _SETTINGS.items():
        mallopt(parameter, size)


def _mallopt() -> Callable[[int, int], int] | None:
    """glibc's function of that name; None on other systems."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        if (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return ctypes.CDLL(None).mallopt
    return None
