"""The end of the process, while threads still use the platform.

Python ends a thread that wants its lock after the interpreter has shut down, in a way that C++ does not survive: the
process would abort. So before that, threads that come here are put to sleep for good.
"""

from __future__ import annotations

import atexit
import functools
import sys
import threading
import time
from collections.abc import Callable

from . import interrupts

#: Whether the interpreter is about to shut down.
closing = False
#: Called then.
when_closing: list[Callable[[], None]] = []
#: How long to wait, in seconds, for threads that compute, and then for those that are on their way here.
_PATIENCE, _MOMENT = 2.0, 0.03


@functools.cache
def install() -> None:
    """Have it seen to."""
    atexit.register(_close)


def park() -> None:
    """Never return, unless this is the main thread."""
    while threading.current_thread() is not threading.main_thread():
        time.sleep(3600)


def _close() -> None:
    global closing
    closing = True
    for function in when_closing:
        function()
    if threading.active_count() == 1:
        return
    end = time.monotonic() + _PATIENCE
    while _is_busy() and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(_MOMENT)


def _is_busy() -> bool:
    """Whether another thread is in a function of ours and not parked."""
    for ident, frame in sys._current_frames().items():
        if ident == threading.get_ident():
            continue
        at = frame
        while at is not None and at.f_code is not park.__code__:
            if interrupts.is_protected(at.f_code):
                return True
            at = at.f_back
    return False
