"""Ctrl-C, which must not raise where the framework waits for an answer.

Python runs the handler of a signal between any two steps of its main thread: also in a function that the framework has
called, which cannot take an exception. So while one of these runs, KeyboardInterrupt is put off until it has returned;
only a long piece of work, which `interruptible` runs, is broken off at once.
"""

from __future__ import annotations

import _thread
import collections
import functools
import signal
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

#: The code of the functions that the framework calls.
_protected: set[CodeType] = set()
#: How long to wait, in seconds, until an interrupt that was put off is tried again, if nobody else does before.
_DELAY = 0.02
#: Whether an interrupt has been put off. Who is about to return to the framework then reads `trigger[None]`, and deletes
#: it: reading is all it takes, and Python looks for signals after calls, but not after that.
put_off = False
trigger: dict[None, None] = collections.defaultdict(_thread.interrupt_main)
#: Whether our handler has been put in place, which only the main thread can do.
installed = False


def protect(function: Callable[..., Any]) -> None:
    """Count a function among those that take no exception of a signal."""
    _protected.add(function.__code__)


def is_protected(code: CodeType) -> bool:
    """Whether this is the code of a function that the framework calls."""
    return code in _protected


def interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function that an interrupt may break off."""
    return function(*arguments)


def install() -> None:
    """Put our handler around the one there is. Does nothing outside the main thread, or where it is there already."""
    global installed
    if threading.current_thread() is not threading.main_thread():
        return
    installed = True
    before = signal.getsignal(signal.SIGINT)
    if callable(before) and getattr(before, "func", None) is not _handle:
        signal.signal(signal.SIGINT, functools.partial(_handle, before))


def again() -> None:
    """Interrupt the main thread as soon as it is in no function of ours."""
    global put_off
    put_off = True
    _thread.start_new_thread(_interrupt, ())


def _interrupt() -> None:
    global put_off
    time.sleep(_DELAY)
    if put_off:
        put_off = False
        # A real signal also ends what the main thread may be waiting in.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _handle(before: Callable[..., Any], number: int, frame: FrameType | None) -> Any:
    at = frame
    while at is not None:
        if at.f_code in _protected:
            return again()
        if at.f_code is interruptible.__code__:
            break
        at = at.f_back
    return before(number, frame)
