"""Events, which the framework waits for.

An event represents a running Task, the ErrorObject of a failed one, or, as `ready`, completed work.
"""

from __future__ import annotations

import ctypes
from typing import Any

from . import work
from .pjrt import shutdown
from .pjrt.errors import ErrorObject
from .pjrt.runtime import failed, getter, objects, pool, ready, too_deep, words


def of(task: work.Task) -> int:
    """Return the handle of an event for the end of a task."""
    return (ready if task.error is None else pool.add(task.error)) if task.is_done else pool.add(task)


def _error(event: int) -> int | None:
    """Return the handle of the error of an event that is ready, or None."""
    if event == ready:
        return None
    target = objects[event]
    error = target if type(target) is ErrorObject else target.error
    return None if error is None else pool.add(error)


@getter("Event_IsReady")
def _is_ready(p: int) -> None:
    at = p >> 3
    event = words[at + 2]
    words[at + 3] = event == ready or type(objects[event]) is ErrorObject or objects[event].is_done


@getter("Event_Error")
def _event_error(p: int) -> int | None:
    try:
        return _error(words[(p >> 3) + 2])
    except RecursionError:
        return too_deep


@getter("Event_Await")
def _await(p: int) -> int | None:
    try:
        event = words[(p >> 3) + 2]
        if event != ready and type(objects[event]) is work.Task:
            objects[event].wait()
        if shutdown.closing:
            shutdown.park()
        return _error(event)
    except BaseException as error:
        try:
            return failed(error)
        except RecursionError:
            return too_deep


_OnReady = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
#: The framework's functions by their addresses, of which there are few.
_called: dict[int, Any] = {}


@getter("Event_OnReady")
def _on_ready(p: int) -> int | None:
    try:
        at = p >> 3
        event, address, argument = words[at + 2], words[at + 3], words[at + 4]
        function = _called.get(address)
        if function is None:
            function = _called[address] = _OnReady(address)
        if event == ready:
            function(None, argument)
            return None
        target = objects[event]
        if type(target) is work.Task:
            target.call_when_done(lambda: function(None if target.error is None else pool.add(target.error), argument))
        else:
            function(pool.add(target), argument)
    except RecursionError:
        return too_deep
    return None
