"""Executes compiled programs: in the thread of the caller, or in the thread that computes."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.processes import parallel
from .. import policies
from . import budget, quick, work
from .buffers import CODES, Buffer, add, delete, kind_of
from .deferred import Deferred
from .devices import Device
from .executable import Executable
from .pjrt import abi, interrupts, shutdown
from .pjrt.errors import (
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    UNIMPLEMENTED,
    ErrorObject,
    FailedError,
    PluginError,
)
from .pjrt.runtime import failed, failure, getter, objects, pool, reader, ready, too_deep, words

#: The values of each device.
Rows = list[list[Any]]

_TOKEN = np.zeros(0, bool)
_clock = time.perf_counter


_fields = reader(8)


@getter("LoadedExecutable_Execute")
def _execute(p: int) -> int | None:
    if shutdown.closing:
        shutdown.park()
    try:
        of, options, lists, num_devices, num_args, outputs, complete, chosen = _fields(words, p + 16)
        executable: Executable = objects[of]
        run = executable.quick
        if run is None or chosen or not run(lists, outputs, complete):
            rows = reader(num_devices)(words, lists)
            handles = [reader(num_args)(words, row) for row in rows]
            devices = executable.devices if not chosen else [objects[chosen]]
            _run(executable, options >> 3, handles, devices, outputs >> 3, complete >> 3)
    except BaseException as caught:
        try:
            return failed(caught)
        except RecursionError:
            return too_deep
    if shutdown.closing:
        shutdown.park()
    return None


def _run(
    executable: Executable,
    options: int,
    handles: Sequence[Sequence[int]],
    devices: Sequence[Device],
    outputs: int,
    complete: int,
) -> None:
    """Run or start a program on buffers, and return the buffers of its results."""
    if not interrupts.installed:
        interrupts.install()
    if executable.donated:
        _refuse_donated_twice(executable, _not_donated(options), handles)
    made: list[int] = []
    task: work.Task | None = None
    error: ErrorObject | None = None
    try:
        try:
            arguments, is_pending = _arguments(executable, handles)
            budget.take(executable.result_bytes, executable.describe_results)
            if executable.largest > executable.result_bytes:
                budget.check(executable.largest, executable.describe_results)
            if (executable.is_quick and not is_pending) or executable.stays or not work.can_start():
                if is_pending:
                    arguments = _awaited(executable, arguments)
                _promise(executable, _now(executable, arguments), devices, made)
            else:
                work.wait_for_slot()
                task = _later(executable, arguments)
                _promise(executable, task.outputs, devices, made)
        except RecursionError:
            raise
        except BaseException as failure_:
            # A program that calls Python functions fails at once: its token would carry the error to whatever comes
            # after it. Of what else fails the results do, since the framework makes a ValueError of what fails at once.
            if not executable.num_outputs or executable.stays:
                raise
            error = failure_.error if isinstance(failure_, FailedError) else failure(failure_)
            _discard(made)
            _promise(executable, [error] * executable.num_outputs * len(handles), devices, made)
        if executable.donated:
            _donate(executable, options, handles)
        count, number = executable.num_outputs, 0
        for i in range(len(handles)):
            row = words[outputs + i] >> 3
            for handle in made[number : number + count]:
                words[row] = handle
                row += 1
            number += count
            if complete:
                words[complete + i] = ready if task is error else pool.add(task or error)
        if task is not None:
            work.start(task)
    except BaseException:
        _discard(made)
        raise


def _now(executable: Executable, arguments: Rows) -> list[np.ndarray]:
    """Compute in this thread and return the results of all devices."""
    plan = executable.plan(policies.chosen(executable.policy))
    start = _clock()
    if executable.stays:
        rows = work.run_here(functools.partial(executable.compute, plan, arguments))
    else:
        rows = executable.compute(plan, arguments)
    is_short = _clock() - start <= executable.long_seconds
    executable.is_quick = executable.is_quick and is_short
    results = _checked(executable, rows)
    if executable.is_small and is_short and interrupts.installed and plan.policy is executable.policy:
        executable.quick = quick.runner(executable, plan)
    return results


def _arguments(executable: Executable, handles: Sequence[Sequence[int]]) -> tuple[Rows, bool]:
    """Return the values of the arguments, and whether some of them are Deferred."""
    if executable.client is None:
        raise PluginError(FAILED_PRECONDITION, "the executable has been deleted")
    if len(handles) != len(executable.devices):
        raise PluginError(
            UNIMPLEMENTED,
            f"a program for {len(executable.devices)} devices was started on {len(handles)} of them",
        )
    is_pending = False
    rows = []
    for row in handles:
        values: list[Any] = [objects[handle].array for handle in row]
        for array in values:
            if type(array) is not np.ndarray:
                values = [_special(v) if type(v) is not np.ndarray else v for v in values]
                is_pending = is_pending or Deferred in map(type, values)
                break
        rows.append(values)
    if executable.tokens and not is_pending:
        _drop_tokens(executable, rows)
    return rows, is_pending


def _special(array: Any) -> Any:
    """Return the array, or the Deferred of a running program. Raises if the buffer is deleted or its program failed."""
    if array is None:
        raise PluginError(FAILED_PRECONDITION, "an argument has been deleted or donated")
    if type(array) is Deferred and array.value is not None:
        array = array.value
    if type(array) is ErrorObject:
        raise FailedError(array)
    return array


def _drop_tokens(executable: Executable, rows: Rows) -> None:
    for values in rows:
        for i in executable.tokens:
            values[i] = None


def _awaited(executable: Executable, arguments: Rows) -> Rows:
    """Wait for all arguments and return them. Raises FailedError if one of their programs failed."""
    for values in arguments:
        for value in values:
            if type(value) is Deferred:
                value.task.wait()
    rows = [[_special(value) for value in values] for values in arguments]
    _drop_tokens(executable, rows)
    return rows


def _later(executable: Executable, arguments: Rows) -> work.Task:
    """Return a task that computes the results, device after device."""
    plan = executable.plan(policies.chosen(executable.policy))

    def compute(process: parallel.Process) -> list[np.ndarray]:
        values = _awaited(executable, arguments)
        start = _clock()
        rows = executable.compute(plan, values, process)
        executable.took(_clock() - start)
        budget.grow(executable.result_bytes)
        return _checked(executable, rows)

    return work.Task(compute, executable.num_outputs * len(executable.devices))


def _checked(executable: Executable, rows: Sequence[Sequence[Any]]) -> list[np.ndarray]:
    """Return the results of all devices. Raises PluginError if one has another type than the program declares."""
    results = [_TOKEN if value is None else value for row in rows for value in row]
    for i, result in enumerate(results):
        code, shape = executable.results[i % executable.num_outputs]
        if result.shape != shape or (code != abi.TOKEN and CODES[result.dtype] != code):
            raise PluginError(INTERNAL, f"result {i} has type {result.dtype}{list(result.shape)}")
    return results


def _promise(executable: Executable, arrays: Sequence[Any], devices: Sequence[Device], made: list[int]) -> None:
    """Create the buffers of results: arrays, Deferred or errors."""
    for device in devices:
        for (code, shape), place in zip(executable.results, executable.places, strict=True):
            array = arrays[len(made)]
            buffer = Buffer(array, kind_of(device.memories[place.memory], code, shape, place.order))
            made.append(add(buffer))
            if type(array) is Deferred:
                array.deliver_to(buffer)


def _discard(made: list[int]) -> None:
    while made:
        pool.discard(made.pop())


def _not_donated(options: int) -> set[int]:
    """Return the arguments that the caller excludes from donation in this call."""
    start, count = words[options + 7] >> 3, words[options + 8]
    return set(words[start : start + count].tolist()) if count else set()


def _refuse_donated_twice(executable: Executable, not_donated: set[int], handles: Sequence[Sequence[int]]) -> None:
    """Raises PluginError where a buffer is donated and passed a second time, as another or as the same argument."""
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


def _donate(executable: Executable, options: int, handles: Sequence[Sequence[int]]) -> None:
    not_donated = _not_donated(options)
    for i in executable.donated:
        if i not in not_donated:
            for row in handles:
                delete(row[i])
