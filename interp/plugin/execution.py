"""Executes compiled programs.

A short program is computed in the thread of its caller. A program that may take long, or whose arguments are not there
yet, becomes a task for the thread of `work`; its results are Deferred until then.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.processes import parallel
from .. import policies
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
Handles = Sequence[Sequence[int]]

_clock = time.perf_counter_ns
_read_fields = reader(8)


@getter("LoadedExecutable_Execute")
def _execute(p: int) -> int | None:
    if shutdown.closing:
        shutdown.park()
    try:
        address, options, lists, num_devices, num_args, outputs, events, device = _read_fields(words, p + 16)
        executable = objects[address]
        read_list, read_handles = reader(num_devices), reader(num_args)
        handles = [read_handles(words, row) for row in read_list(words, lists)]
        if executable.client is None:
            raise PluginError(FAILED_PRECONDITION, "the executable has been deleted")
        if len(handles) != len(executable.devices) or (device and device != executable.devices[0].handle):
            raise PluginError(UNIMPLEMENTED, "a program cannot run on other devices than it was compiled for")
        _run(executable, handles, options, read_list(words, outputs), events >> 3)
    except BaseException as error:
        try:
            return failed(error)
        except RecursionError:
            return too_deep
    if shutdown.closing:
        shutdown.park()
    return None


def _run(executable: Executable, handles: Handles, options: int, outputs: Sequence[int], events: int) -> None:
    """Run a program, or start it, and write the handles of its results and of an event for each device.

    Args:
        executable: The program.
        handles: Of each device, the handles of the arguments.
        options: The address of the options.
        outputs: Of each device, the address of the list of results.
        events: The position of the list of events in `words`; 0 if no events are wanted.
    """
    if not interrupts.installed:
        interrupts.install()
    if executable.donated:
        _refuse_donated_twice(executable, handles, options)
    task, error = None, None
    try:
        budget.take(executable.result_bytes, executable.describe_results)
        if executable.largest > executable.result_bytes:
            budget.check(executable.largest, executable.describe_results)
        arguments, is_pending = _arguments(executable, handles)
        has_to_wait = executable.runs_here or shutdown.closing
        if is_pending and has_to_wait:
            arguments = _wait_for(executable, arguments)
        if has_to_wait or (executable.is_short and not is_pending):
            results = _compute(executable, arguments)
        else:
            task = _make_task(executable, arguments)
            results = task.outputs
    except RecursionError:
        raise
    except BaseException as caught:
        # A program that calls Python functions fails at once: its token would carry the error to whatever comes
        # after it. Of other programs the results fail, since the framework makes a ValueError of errors at once.
        if executable.runs_here:
            raise
        error = caught.error if isinstance(caught, FailedError) else failure(caught)
        results = [error] * len(executable.specs)
    new: list[int] = []
    try:
        for output in outputs:
            for at in range(output >> 3, (output >> 3) + executable.num_outputs):
                value = results[len(new)]
                buffer = Buffer(value, executable.specs[len(new)])
                words[at] = handle = pool.add(buffer)
                new.append(handle)
                if type(value) is Deferred:
                    value.deliver_to(buffer)
        if events:
            for at in range(events, events + len(outputs)):
                words[at] = ready if task is error else pool.add(task or error)
        if executable.donated:
            _donate(executable, handles, options)
        if task is not None:
            work.start(task)
    except BaseException:
        for handle in new:
            pool.discard(handle)
        raise


def _arguments(executable: Executable, handles: Handles) -> tuple[Rows, bool]:
    """Return the values of the arguments, and whether some of them are Deferred.

    Raises PluginError if a buffer has been deleted, and FailedError if the program of one has failed.
    """
    is_pending = False
    rows = []
    for row in handles:
        values = [objects[handle].array for handle in row]
        for i, array in enumerate(values):
            if type(array) is not np.ndarray:
                values[i] = _array_of(array)
                is_pending = is_pending or type(values[i]) is Deferred
        rows.append(values)
    if executable.tokens and not is_pending:
        _remove_tokens(executable, rows)
    return rows, is_pending


def _array_of(array: Any) -> Any:
    """Return the array of a buffer, or the Deferred of a program that has not ended."""
    if array is None:
        raise PluginError(FAILED_PRECONDITION, "an argument has been deleted or donated")
    if type(array) is Deferred and array.value is not None:
        array = array.value
    if type(array) is ErrorObject:
        raise FailedError(array)
    return array


def _remove_tokens(executable: Executable, rows: Rows) -> None:
    for row in rows:
        for i in executable.tokens:
            row[i] = None


def _wait_for(executable: Executable, arguments: Rows) -> Rows:
    """Wait for all arguments and return them. Raises FailedError if one of their programs has failed."""
    for row in arguments:
        for value in row:
            if type(value) is Deferred:
                value.task.wait()
    rows = [[_array_of(value) for value in row] for row in arguments]
    _remove_tokens(executable, rows)
    return rows


def _compute(executable: Executable, arguments: Rows) -> list[np.ndarray]:
    """Compute in this thread and return the results of all devices."""
    plan = executable.plan(policies.chosen(executable.policy))
    start = _clock()
    if executable.runs_here:
        results = work.run_here(functools.partial(interruptible, executable.compute, plan, arguments))
    else:
        results = interruptible(executable.compute, plan, arguments)
    executable.set_time(_clock() - start)
    return results


def _make_task(executable: Executable, arguments: Rows) -> work.Task:
    """Return a task that computes the results of all devices."""
    work.wait_for_slot()
    plan = executable.plan(policies.chosen(executable.policy))

    def compute(process: parallel.Process) -> list[np.ndarray]:
        values = _wait_for(executable, arguments)
        start = _clock()
        results = executable.compute(plan, values, process)
        executable.set_time(_clock() - start)
        budget.grow(executable.result_bytes)
        return results

    return work.Task(compute, len(executable.specs))


def _not_donated(options: int) -> set[int]:
    """Return the arguments that the caller excludes from donation in this call."""
    start, count = words[(options >> 3) + 7] >> 3, words[(options >> 3) + 8]
    return set(words[start : start + count].tolist()) if count else set()


def _refuse_donated_twice(executable: Executable, handles: Handles, options: int) -> None:
    """Raise PluginError if a buffer is donated and passed a second time, as another or as the same argument."""
    not_donated = _not_donated(options)
    for row in handles:
        if len(set(row)) == len(row):
            continue
        for i in executable.donated:
            if i not in not_donated and row.count(row[i]) > 1:
                other = next(j for j, handle in enumerate(row) if j != i and handle == row[i])
                raise PluginError(
                    INVALID_ARGUMENT,
                    f"expected a donated buffer to be passed once, got the same one as arguments {i} and {other} of "
                    f"{executable.name}",
                )


def _donate(executable: Executable, handles: Handles, options: int) -> None:
    not_donated = _not_donated(options)
    for i in executable.donated:
        if i not in not_donated:
            for row in handles:
                delete(row[i])
