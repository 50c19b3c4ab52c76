"""How much the arrays on devices may take. What has been dropped makes room soon, and at once where there is none."""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable

from ..system import memory
from . import buffers
from .pjrt import shutdown
from .pjrt.runtime import pool

#: So many new bytes are taken without a look at what is left.
_STEP = 1 << 26
#: What has been dropped is forgotten, so that its memory is used again, after so many new bytes in all and for each
#: object: to clear memory that is new to the process takes 0.1 to 0.25 ns a byte, to look at an object 3 ns.
_REUSED, _EACH = 1 << 17, 64
#: How often to look, in seconds, whether something has been dropped, where arrays take so much that it matters.
_EVERY = 0.1
#: Between two looks go by so many times the seconds that a look takes.
_PATIENCE = 50

#: The bytes that may be taken without such a look; who takes few may count them here.
left = 0
_grown = _taken = 0
_is_watched = False


def take(nbytes: int, what: Callable[[], str]) -> None:
    """Count bytes that are about to be used. Raises ResourceError where that is too much."""
    global left, _taken
    _taken += nbytes
    if _taken >= _REUSED and _taken >= _EACH * len(pool.objects):
        _taken = 0
        pool.sweep()
    left -= nbytes
    if left < 0:
        _look(nbytes, what)


def check(nbytes: int, what: Callable[[], str]) -> None:
    """Raises ResourceError where so many bytes, which are needed for a while, are too much."""
    if nbytes >= _STEP:
        memory.require(nbytes, what(), buffers.total())


def grow(nbytes: int) -> None:
    """Count bytes that `take` has counted, and that are there now."""
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
    """Forget arrays that have been dropped, as long as there are large ones."""
    global _is_watched
    here = _thread.get_ident()
    shutdown.is_busy[here] = False
    start = time.perf_counter()
    while buffers.total() >= _STEP and not shutdown.closing:
        # With many arrays this takes its time.
        time.sleep(max(_EVERY, _PATIENCE * (time.perf_counter() - start)))
        start = time.perf_counter()
    del shutdown.is_busy[here]
    _is_watched = False


def _after_fork() -> None:
    global _is_watched
    _is_watched = False


os.register_at_fork(after_in_child=_after_fork)
