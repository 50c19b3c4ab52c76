"""Limits the memory of arrays on devices. Dropped arrays are freed soon, and immediately if memory is short."""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable

from ..system import memory
from . import buffers
from .pjrt import shutdown
from .pjrt.runtime import pool

#: The bytes that may be allocated without asking for the free memory.
_STEP = 1 << 26
#: Dropped arrays are freed, so that their memory is used again, after this many new bytes in all and for each object:
#: clearing memory that is new to the process takes 0.1 to 0.25 ns per byte, and looking at an object takes 3 ns.
_REUSED, _EACH = 1 << 17, 64
#: The seconds between two checks for dropped arrays, while large arrays exist.
_EVERY = 0.1
#: The least time between two checks, as a multiple of the time that a check takes.
_PATIENCE = 50

#: The bytes that may still be allocated without asking. Callers that allocate few may subtract them themselves.
left = 0
_grown = _taken = 0
_is_watched = False


def take(nbytes: int, what: Callable[[], str]) -> None:
    """Count bytes that are about to be allocated. Raises ResourceError if they exceed the limit."""
    global left, _taken
    _taken += nbytes
    if _taken >= _REUSED and _taken >= _EACH * len(pool.objects):
        _taken = 0
        pool.sweep()
    left -= nbytes
    if left < 0:
        _look(nbytes, what)


def check(nbytes: int, what: Callable[[], str]) -> None:
    """Raise ResourceError if bytes that are needed for a while exceed the limit."""
    if nbytes >= _STEP:
        memory.require(nbytes, what(), buffers.total())


def grow(nbytes: int) -> None:
    """Count bytes that `take` has counted and that are allocated now."""
    global _grown
    _grown += nbytes
    if _grown >= _STEP:
        _grown = 0
        pool.sweep()


def _look(nbytes: int, what: Callable[[], str]) -> None:
    global left, _is_watched
    left = 0
    used = buffers.total()
    left = min(memory.require(nbytes, what(), used) - nbytes, _STEP)
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
