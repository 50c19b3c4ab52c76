"""Ctrl-C, which must not raise where the framework waits for an answer.

Python runs the handler of a signal between any two steps of its main thread: also in a function that the framework has
called, which cannot take an exception. So while one of these runs, KeyboardInterrupt is put off until it has returned;
only a long piece of work, a `breakable` one, is broken off at once.
"""

from __future__ import annotations

import _thread
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

#: The code of the functions that the framework calls, and of those that may be broken off.
_protected: set[CodeType] = set()
_breakable: set[CodeType] = set()
_F = TypeVar("_F", bound=Callable[..., Any])
#: How long to wait, in seconds, until an interrupt that was put off is tried again.
_DELAY = 0.002
#: Whether our handler has been put in place, which only the main thread can do.
installed = False
#: Called when Ctrl-C has raised KeyboardInterrupt in the user's program, once each time that it is pressed.
when_raised: list[Callable[[], None]] = []
_is_put_off = _is_new = False


def protect(function: Callable[..., Any]) -> None:
    """Count a function among those that take no exception of a signal."""
    _protected.add(function.__code__)


def is_protected(code: CodeType) -> bool:
    """Whether this is the code of a function that the framework calls."""
    return code in _protected


def breakable(function: _F) -> _F:
    """Count a function among those that an interrupt may break off."""
    _breakable.add(cast(Any, function).__code__)
    return function


@breakable
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
    global _is_put_off
    if not _is_put_off:
        _is_put_off = True
        _thread.start_new_thread(_interrupt, ())


def _interrupt() -> None:
    kill, thread, number = signal.pthread_kill, threading.main_thread().ident or 0, signal.SIGINT
    while not sys.is_finalizing():
        time.sleep(_DELAY)
        # A real signal also ends what the main thread may be waiting in. Threads do not take turns between the question
        # and the call, so that none is sent when the handler has raised: the user pressed once.
        if not _is_put_off:
            return
        kill(thread, number)


def _handle(before: Callable[..., Any], number: int, frame: FrameType | None) -> Any:
    global _is_put_off, _is_new
    _is_new = _is_new or not _is_put_off
    at = frame
    while at is not None:
        if at.f_code in _protected:
            return again()
        if at.f_code in _breakable:
            break
        at = at.f_back
    _is_put_off = False
    try:
        return before(number, frame)
    except KeyboardInterrupt:
        if _is_new:
            _is_new = False
            for function in when_raised:
                function()
        raise
