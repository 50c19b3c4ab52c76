"""The end of the process, while threads still use the platform.

Python ends a thread that wants its lock after the interpreter has shut down, in a way that C++ does not survive: the
process would abort. So before that, threads that come here are put to sleep for good, and the end waits for those that
are on their way. Where the main thread waits for one that sleeps, which has a lock or is to be joined, it is woken.

Threads of the framework itself finish what they do for one of Python's, which would not sleep while it waits for them.
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
#: Called then.
when_closing: list[Callable[[], None]] = []
#: How long to wait, in seconds, for threads that run code of ours or of JAX's; and for any other, which may be in the
#: framework, where nothing can be seen of it, or be one that has nothing to do with us.
_PATIENCE, _MOMENT = 5.0, 0.2
#: How often to look, in seconds.
_LOOK = 0.002
#: How often to look whether the main thread has moved, and how many times in a row it has not when it waits.
_WATCH, _STILL = 0.25, 3

#: The threads of the platform itself, and whether each is at work. The end of the process waits for those that are.
is_busy: dict[int, bool] = {}
#: What the threads that sleep wait for: a lock for each.
_asleep: collections.deque[_thread.LockType] = collections.deque()
_parked: set[int] = set()


@functools.cache
def install() -> None:
    """Have it seen to."""
    atexit.register(_close)


def park() -> None:
    """Sleep for good, or until the main thread waits for this one: for a function that the framework has called.

    The main thread goes on, and so does one of the framework, which has no function of Python's to go back to.
    """
    here = _thread.get_ident()
    if here == threading.main_thread().ident or sys._getframe(1).f_back is None:
        return
    lock = _thread.allocate_lock()
    lock.acquire()
    _asleep.append(lock)
    _parked.add(here)
    # It must not wake by itself: Python may have shut down.
    lock.acquire()
    _parked.discard(here)


def watch() -> None:
    """Wake the threads that sleep whenever the main thread waits. It is for a thread that nothing of C++ has called."""
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
    """Whether another thread is, or may be, in a function of ours or of the framework, and not asleep."""
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
