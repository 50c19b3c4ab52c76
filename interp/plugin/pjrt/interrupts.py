"""Ctrl-C, which must not raise KeyboardInterrupt where the framework waits for an answer.

Python runs the handler of a signal between any two instructions of its main thread. That includes the first instruction
of a function that the framework has called, which cannot take an exception. So no flag that such a function sets would
be in time. The handler looks at the stack instead: at the modules whose functions are running, from the innermost.

- A module that defines a function of the PJRT table delays KeyboardInterrupt until that function has returned.
- The module `interruptible` allows it: it starts the pieces of work that may be long.
- Other modules decide nothing.
"""

from __future__ import annotations

import _thread
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

#: The names of the modules that delay KeyboardInterrupt, and of those that allow it.
_delaying: set[str] = set()
_allowing: set[str] = set()
#: The seconds to wait before an interrupt that was delayed is tried again.
_DELAY = 0.002
#: Whether the handler is installed, which only the main thread can do.
installed = False
#: Functions to call when Ctrl-C has raised KeyboardInterrupt in the user's program, once each time that it is pressed.
when_raised: list[Callable[[], None]] = []
_is_delayed = _is_new = False


def delay_in(module: str) -> None:
    """Delay KeyboardInterrupt while a function of this module runs."""
    _delaying.add(module)


def allow_in(module: str) -> None:
    """Allow KeyboardInterrupt in what a function of this module calls."""
    _allowing.add(module)


def delays(frame: FrameType) -> bool:
    """Whether the function of this frame is in a module that delays KeyboardInterrupt."""
    return frame.f_globals.get("__name__") in _delaying


def install() -> None:
    """Install the handler around the current one. Does nothing outside the main thread, or if it is installed."""
    global installed
    if threading.current_thread() is not threading.main_thread():
        return
    installed = True
    before = signal.getsignal(signal.SIGINT)
    if callable(before) and getattr(before, "func", None) is not _handle:
        signal.signal(signal.SIGINT, functools.partial(_handle, before))


def again() -> None:
    """Interrupt the main thread as soon as no function that the framework has called runs in it."""
    global _is_delayed
    if not _is_delayed:
        _is_delayed = True
        _thread.start_new_thread(_interrupt, ())


def _interrupt() -> None:
    kill, thread, number = signal.pthread_kill, threading.main_thread().ident or 0, signal.SIGINT
    while not sys.is_finalizing():
        time.sleep(_DELAY)
        # A real signal also ends what the main thread may be waiting in. Threads do not take turns between the question
        # and the call, so that none is sent when the handler has raised: the user pressed once.
        if not _is_delayed:
            return
        kill(thread, number)


def _handle(before: Callable[..., Any], number: int, frame: FrameType | None) -> Any:
    global _is_delayed, _is_new
    _is_new = _is_new or not _is_delayed
    at = frame
    while at is not None:
        module = at.f_globals.get("__name__")
        if module in _delaying:
            return again()
        if module in _allowing:
            break
        at = at.f_back
    _is_delayed = False
    try:
        return before(number, frame)
    except KeyboardInterrupt:
        if _is_new:
            _is_new = False
            for function in when_raised:
                function()
        raise
