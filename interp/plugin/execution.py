"""Executes compiled programs.

A short program is computed in the thread of its caller. A program that may take long, or whose arguments are not there
yet, becomes a task for the thread of `work`; its results are Deferred until then.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ...ops.processes import parallel
from . import budget, work
from .buffers import Buffer, delete
from .executable import Executable
from .pjrt import interrupts, shutdown
from .pjrt.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, UNIMPLEMENTED, ErrorObject, FailedError, PluginError
from .pjrt.interruptible import interruptible
from .pjrt.runtime import failed, failure, getter, objects, pool, reader, ready, too_deep, words
from .work import Deferred

#: Values of each device.
Rows = list[list[Any]]

_read_fields = reader(8)


@getter("LoadedExecutable_Execute")
def _execute(p: int) -> int | None:
    if shutdown.closing:
        shutdown.park()
    try:
        address, options, lists, num_devices, num_args, outputs, events, device = _read_fields(words, p + 16)
        executable, read_list = objects[address], reader(num_devices)
        if executable.client is None or num_devices != len(executable.devices) or device:
            _refuse(executable, num_devices, device)
        rows, read_row = read_list(words, lists), reader(num_args)
        donated = _donated(executable, [read_row(words, row) for row in rows], options) if executable.donated else ()
        if not interrupts.installed:
            interrupts.install()
        event, results = _run(executable, rows, read_row)
        new: list[int] = []
        try:
            for output in read_list(words, outputs):
                for at in range(output >> 3, (output >> 3) + executable.num_outputs):
                    value = results[len(new)]
                    buffer = Buffer(value, executable.specs[len(new)])
                    words[at] = handle = pool.add(buffer)
                    new.append(handle)
                    if type(value) is Deferred:
                        value.deliver_to(buffer)
            if events:
                for at in range(events >> 3, (events >> 3) + num_devices):
                    words[at] = pool.add(event) if event else ready
            for handle in donated:
                delete(handle)
            if type(event) is work.Task:
                work.start(event)
        except BaseException:
            for handle in new:
                pool.discard(handle)
            raise
    except BaseException as error:
        try:
            return failed(error)
        except RecursionError:
            return too_deep
    if shutdown.closing:
        shutdown.park()
    return None


def _run(executable: Executable, rows: Sequence[int], read_row: Any) -> tuple[Any, Sequence[Any]]:
    """Run a program, or prepare a task that runs it.

    Args:
        executable: The program.
        rows: Of each device, the address of the list of the arguments' handles.
        read_row: Reads such a list.

    Returns:
        The task, the error if the program has failed, or None if it has run. The results of all devices: arrays, the
        Deferred of the task, or the error.
    """
    try:
        budget.take(executable.result_bytes, executable)
        if executable.largest > executable.result_bytes:
            budget.check(executable.largest, executable)
        arguments, is_ready = [], True
        for row in rows:
            values = [objects[handle].array for handle in read_row(words, row)]
            for value in values:
                if type(value) is not ndarray:
                    is_ready = False
            arguments.append(values)
        if not is_ready:
            is_ready = _resolve(arguments)
        if executable.runs_here or shutdown.closing:
            _wait_for(executable, arguments)
            return None, work.run_here(functools.partial(_compute, executable, arguments))
        if is_ready and executable.is_short:
            return None, interruptible(executable.compute, executable.current_plan(), arguments)
        task = _make_task(executable, arguments)
        return task, task.outputs
    except RecursionError:
        raise
    except BaseException as caught:
        # A program that calls Python functions fails at once: its token would carry the error to whatever comes
        # after it. Of other programs the results fail, since the framework makes a ValueError of errors at once.
        if executable.runs_here:
            raise
        error = caught.error if isinstance(caught, FailedError) else failure(caught)
        return error, [error] * len(executable.specs)


def _refuse(executable: Executable, num_devices: int, device: int) -> None:
    """Raise PluginError if an executable cannot run, or not on these devices."""
    if executable.client is None:
        raise PluginError(FAILED_PRECONDITION, "the executable has been deleted")
    if num_devices != len(executable.devices) or device != executable.devices[0].handle:
        raise PluginError(UNIMPLEMENTED, "a program cannot run on other devices than it was compiled for")


def _compute(executable: Executable, arguments: Rows, process: parallel.Process) -> list[np.ndarray]:
    return interruptible(executable.compute, executable.current_plan(), arguments, process)


def _make_task(executable: Executable, arguments: Rows) -> work.Task:
    """Return a task that computes the results of all devices."""
    work.wait_for_slot()
    plan = executable.current_plan()

    def compute(process: parallel.Process) -> list[np.ndarray]:
        _wait_for(executable, arguments)
        results = executable.compute(plan, arguments, process)
        budget.grow(executable.result_bytes)
        return results

    return work.Task(compute, len(executable.specs))


def _resolve(arguments: Rows) -> bool:
    """Replace the Deferred of programs that have ended by their values. Return whether no other Deferred is left.

    Raises PluginError if a buffer has been deleted, and FailedError if the program of one has failed.
    """
    is_ready = True
    for values in arguments:
        for i, value in enumerate(values):
            values[i] = _array_of(value)
            is_ready = is_ready and type(values[i]) is not Deferred
    return is_ready


def _array_of(array: Any) -> Any:
    """Return the array of a buffer, or the Deferred of a program that has not ended."""
    if array is None:
        raise PluginError(FAILED_PRECONDITION, "an argument has been deleted or donated")
    if type(array) is Deferred and array.value is not None:
        array = array.value
    if type(array) is ErrorObject:
        raise FailedError(array)
    return array


def _wait_for(executable: Executable, arguments: Rows) -> None:
    """Wait until all arguments are arrays; the program takes None for tokens. Raises what `_resolve` does."""
    for values in arguments:
        for value in values:
            if type(value) is Deferred:
                value.task.wait()
    _resolve(arguments)
    for values in arguments:
        for i in executable.tokens:
            values[i] = None


def _donated(executable: Executable, handles: Sequence[Sequence[int]], options: int) -> list[int]:
    """Return the handles of the buffers that a call donates: all that may be, but for those that `options` excludes.

    Raises PluginError if a buffer is donated and passed a second time, as another or as the same argument.
    """
    start, count = words[(options >> 3) + 7] >> 3, words[(options >> 3) + 8]
    excluded = set(words[start : start + count].tolist()) if count else set()
    donated = [i for i in executable.donated if i not in excluded]
    for row in handles:
        for i in donated:
            if row.count(row[i]) > 1:
                other = next(j for j, handle in enumerate(row) if j != i and handle == row[i])
                raise PluginError(
                    INVALID_ARGUMENT,
                    f"expected a donated buffer to be passed once, got the same one as arguments {i} and {other} of "
                    f"{executable.name}",
                )
    return [row[i] for row in handles for i in donated]
