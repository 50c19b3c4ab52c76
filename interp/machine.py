"""Runs a plan: as a process by itself, or on every process of a grid."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.processes import parallel
from ..ops.processes.interpreter import with_streams
from ..ops.processes.parallel import here
from . import code
from .failures import as_ours
from .planner import Plan
from .system import depth, host_floats, memory


def run(plan: Plan, values: Sequence[Any], process: parallel.Process | None = None) -> list[Any]:
    """Run a plan.

    Args:
        plan: The plan.
        values: A value for each argument, of its type: an array, a tuple, or None for a token.
        process: The process that runs it; by default a new one. Stopping its grid ends the run.

    Returns:
        A value for each result.

    Raises:
        CheckFailure: A check of the program does not hold.
        ResourceError: The memory does not suffice.
        ExecutionError: An op fails in another way. Each of these has the place of the op.
    """
    for value in values:
        if isinstance(value, np.ndarray):
            memory.count(value)
    with np.errstate(all="ignore"):
        return run_without_warnings(plan, values, process)


def run_without_warnings(plan: Plan, values: Sequence[Any], process: parallel.Process | None = None) -> list[Any]:
    """Run a plan where numpy does not warn, as `run` does: `np.errstate` takes longer than a small program."""
    results = _run(plan, lambda: code.detach(list(plan.entry(*values))), process)
    for value in results:
        if isinstance(value, np.ndarray):
            memory.count(value)
    return results


def run_grid(
    plan: Plan,
    replicas: int,
    partitions: int,
    inputs: Sequence[Sequence[Any]],
    process: parallel.Process | None = None,
) -> list[list[Any]]:
    """The results of each process of a grid, all of which run `plan` at the same time, each on values of its own.

    Both lists are in the order (0, 0), (0, 1), … of (replica, partition). Raises what `run` does; the message names the
    process. `process` is the one that waits for them; stopping its grid stops them.
    """
    tasks = [functools.partial(plan.entry, *values) for values in inputs]

    def action() -> list[list[Any]]:
        gathered = parallel.Grid(replicas, partitions).run(with_streams(tasks, plan.random))
        results = [list(values) for values in gathered]
        del gathered  # so that each result has one reference
        return [code.detach(values) for values in results]

    with np.errstate(all="ignore"):
        return _run(plan, action, process)


def _run(plan: Plan, action: Callable[[], Any], process: parallel.Process | None = None) -> Any:
    """What `action` gives, with the errors of ops made ours. It starts as a process by itself."""
    if not host_floats.are_default():  # the caller, or a library of theirs, has it otherwise
        with host_floats.default():
            return _run(plan, action, process)
    plan.random.restart(plan.policy.seed)
    if plan.steps is not None:
        plan.steps.restart()
    before = here.process
    if before is not process:
        here.process = process
    try:
        if plan.nests:
            with depth.deep_calls():
                return action()
        return action()
    except Exception as error:
        ours = as_ours(error)
        if ours is error:
            raise
        raise ours from error
    finally:
        if before is not process:
            here.process = before
