"""Limits the memory of arrays on devices. Dropped arrays are freed soon, and immediately if memory is short."""

from __future__ import annotations

import _thread
import ctypes
import os
import time
from typing import Any

from ..system import memory
from . import buffers
from .pjrt import shutdown
from .pjrt.runtime import fallible, objects, pool

#: The bytes that may be allocated without asking for the free memory.
_STEP = 1 << 26
#: Dropped arrays are freed after this many new bytes in all and for each object, so that their memory is used again:
#: memory that is new to the process has to be cleared, which takes longer than a look at an object.
_REUSED, _EACH = 1 << 17, 64
#: The seconds between two checks for dropped arrays, while large arrays exist.
_EVERY = 0.1
#: The least time between two checks, as a multiple of the time that a check takes.
_PATIENCE = 50

#: The bytes that may still be allocated without asking.
_left = 0
_grown = _taken = 0
_is_watched = False


def take(nbytes: int, user: object) -> None:
    """Count bytes that are about to be allocated for `user`. Raises ResourceError if they exceed the limit."""
    global _left, _taken
    _taken += nbytes
    if _taken >= _REUSED and _taken >= _EACH * len(pool.objects):
        _taken = 0
        pool.sweep()
    _left -= nbytes
    if _left < 0:
        _look(nbytes, user)


def check(nbytes: int, user: object) -> None:
    """Raise ResourceError if bytes that are needed for a while exceed the limit."""
    if nbytes >= _STEP:
        memory.require(nbytes, user, buffers.total())


def grow(nbytes: int) -> None:
    """Count bytes that `take` has counted and that are allocated now."""
    global _grown
    _grown += nbytes
    if _grown >= _STEP:
        _grown = 0
        pool.sweep()


@fallible("Device_MemoryStats")
def _memory_stats(a: Any) -> None:
    for name, kind in a._fields_:
        if kind in (ctypes.c_int64, ctypes.c_bool):
            setattr(a, name, 0)
    a.bytes_in_use, used = buffers.total(objects[a.device]), buffers.total()
    a.bytes_limit = a.bytes_reservable_limit = memory.ceiling() or used + memory.limit(used)
    a.bytes_limit_is_set = a.bytes_reservable_limit_is_set = True


def _look(nbytes: int, user: object) -> None:
    global _left, _is_watched
    _left = 0
    used = buffers.total()
    _left = min(memory.require(nbytes, user, used) - nbytes, _STEP)
    if used + nbytes >= _STEP and not _is_watched and not shutdown.closing:
        _is_watched = True
        _thread.start_new_thread(_watch, ())


def _watch() -> None:
    """Free dropped arrays regularly, as long as large arrays exist."""
    global _is_watched
    here = _thread.get_ident()
    shutdown.is_busy[here] = False
    start = time.perf_counter()
    while buffers.total() >= _STEP and not shutdown.closing:
        # This is slow with many arrays.
        time.sleep(max(_EVERY, _PATIENCE * (time.perf_counter() - start)))
        start = time.perf_counter()
    del shutdown.is_busy[here]
    _is_watched = False


def _after_fork() -> None:
    global _is_watched
    _is_watched = False


os.register_at_fork(after_in_child=_after_fork)
