"""The end of the process, while threads still use the platform.

After the interpreter has shut down, Python ends each thread that needs its lock, in a way that makes C++ abort the
process. So before that, threads that call functions of the platform are put to sleep for good, and the end of the
process waits for threads that are in such a function or on their way to one. If the main thread waits for a thread that
sleeps, because that holds a lock or is joined, the thread is woken.

Threads of the framework itself continue: a thread of Python may wait for their work.
"""

from __future__ import annotations

import _thread
import atexit
import collections
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from . import interrupts

#: Whether the interpreter is about to shut down.
closing = False
#: Functions to call then.
when_closing: list[Callable[[], None]] = []
#: The seconds to wait for threads that run code of the platform or of JAX, and for any other thread. Another thread may
#: be in the framework, where Python cannot see it, or may have nothing to do with JAX.
_PATIENCE, _MOMENT = 5.0, 0.2
#: The seconds between two checks.
_LOOK = 0.002
#: The seconds between two checks of the main thread, and the number of checks without progress that mean it waits.
_WATCH, _STILL = 0.25, 3

#: The threads of the platform itself, and whether each is at work. The end of the process waits for those that are.
is_busy: dict[int, bool] = {}
#: The locks that sleeping threads wait for, one each.
_asleep: collections.deque[_thread.LockType] = collections.deque()
_parked: set[int] = set()


@functools.cache
def install() -> None:
    """Register the handler that runs before the interpreter shuts down."""
    atexit.register(_close)


def park() -> None:
    """Sleep for good, or until the main thread waits for this thread. Functions that the framework calls use this.

    The main thread continues. So does a thread of the framework, which has no Python function to return to.
    """
    here = _thread.get_ident()
    if here == threading.main_thread().ident or sys._getframe(1).f_back is None:
        return
    lock = _thread.allocate_lock()
    lock.acquire()
    _asleep.append(lock)
    _parked.add(here)
    # A timeout must not wake it: Python may have shut down.
    lock.acquire()
    _parked.discard(here)


def watch() -> None:
    """Wake the sleeping threads whenever the main thread waits. Runs in a thread that C++ has not called."""
    before, still = None, 0
    while True:
        time.sleep(_WATCH)
        place = _place(sys._current_frames().get(threading.main_thread().ident or 0))
        still = still + 1 if place == before else 0
        before = place
        if still >= _STILL:
            still = 0
            _wake()


def _wake() -> None:
    for _ in range(len(_asleep)):
        _asleep.popleft().release()


def _place(frame: FrameType | None) -> object:
    return frame and (id(frame), frame.f_lasti)


def _close() -> None:
    global closing
    closing = True
    for function in when_closing:
        function()
    start = time.monotonic()
    while (gone := time.monotonic() - start) < _PATIENCE and _must_wait(gone < _MOMENT):
        time.sleep(_LOOK)


def _must_wait(has_to_look_further: bool) -> bool:
    """Return whether a thread that does not sleep is, or may be, in a function of the platform or of the framework."""
    here = _thread.get_ident()
    for ident, frame in sys._current_frames().items():
        if ident == here or ident in _parked:
            continue
        if ident in is_busy:
            if is_busy[ident]:
                return True
            continue
        at: FrameType | None = frame
        while at is not None:
            if interrupts.delays(at) or str(at.f_globals.get("__name__")).partition(".")[0] == "jax":
                return True
            at = at.f_back
        if has_to_look_further:
            return True
    return False


os.register_at_fork(after_in_child=is_busy.clear)
