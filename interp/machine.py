"""Runs plans: values in, values out, and every error names the place of the op that failed."""

from __future__ import annotations

import collections
import functools
import itertools
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.engine import speed
from ..ops.engine.owned import detached
from ..ops.grid import parallel
from ..ops.grid.exchange import DeadlockError
from ..ops.grid.parallel import here
from ..ops.op import CheckError, OpError
from ..ops.programs.interpreter import with_streams
from .compile.planner import Plan
from .errors import CheckFailure, Error, ExecutionError, LimitError, ResourceError
from .program import Operation
from .steps import StepsError
from .system import depth, host_floats


def run(plan: Plan, values: Sequence[Any], process: parallel.Process | None = None) -> list[Any]:
    """Run a plan.

    Args:
        plan: The plan.
        values: A value for each argument, of its type: an array, a tuple, or None for a token.
        process: The process that runs it; by default a new one. Stopping the grid of the process ends the run.

    Returns:
        A value for each result.

    Raises:
        CheckFailure: A check of the program does not hold.
        ResourceError: The memory does not suffice.
        ExecutionError: An op fails in another way. Each of these has the place of the op.
    """
    return _run(plan, lambda: detached(plan.entry(*values)), process)


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
        results = iter(detached(tuple([r for rs in gathered for r in rs])))
        return [list(itertools.islice(results, len(rs))) for rs in gathered]

    return _run(plan, action, process)


def _run(plan: Plan, action: Callable[[], Any], process: parallel.Process | None = None) -> Any:
    """What `action` gives, with the errors of ops made ours. It starts as a process by itself."""
    if not host_floats.are_default():  # the caller, or a library of theirs, has it otherwise
        with host_floats.default():
            return _run(plan, action, process)
    plan.random.restart(plan.policy.seed)
    if plan.steps is not None:
        plan.steps.restart()
    before, here.process = here.process, process
    token = speed.enter(plan.speed) if plan.speed is not speed.current() else None
    try:
        with np.errstate(all="ignore"):
            if plan.nests:
                with depth.deep_calls():
                    return action()
            return action()
    except Exception as error:
        ours = as_ours(error, plan)
        if ours is error:
            raise
        raise ours from error
    finally:
        here.process = before
        if token is not None:
            speed.leave(token)


def as_ours(error: Exception, plan: Plan) -> Exception:
    """The exception to raise in the place of one that an op of a plan raised, with the place of the op."""
    if isinstance(error, Error):
        return error
    if isinstance(error, CheckError):
        return CheckFailure(_message_with_place(error, plan))
    if isinstance(error, StepsError):
        return LimitError(_message_with_place(error, plan))
    if isinstance(error, MemoryError):
        return ResourceError(f"{_message_with_place(error, plan)} (out of memory)")
    if isinstance(error, RecursionError):
        return ExecutionError(_too_deep(error, plan))
    if isinstance(error, (OpError, ArithmeticError, LookupError, TypeError, ValueError, AssertionError)):
        return ExecutionError(_message_with_place(error, plan))
    return error


def _too_deep(error: RecursionError, plan: Plan) -> str:
    """Which function is entered most often when calls nest too deeply, and where its next call stands."""
    counts: collections.Counter[str] = collections.Counter()
    at: dict[str, Operation] = {}
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        operation = plan.sources[file].operations[line - 1] if file in plan.sources else None
        if operation is not None:
            counts[file] += 1
            at[file] = operation
    if not counts:
        return "the program nests too deeply"
    file, count = counts.most_common(1)[0]
    place = f"{at[file].location}: {at[file].name}"
    if count > 1:
        name = plan.sources[file].label
        return f"{place}: {name} calls itself too deeply, {count} times so far (a recursion without an end?)"
    return f"{place}: {sum(counts.values())} calls are nested here (expected fewer)"


def failed_operation(error: BaseException, plan: Plan) -> Operation | None:
    """The innermost op whose kernel raised `error`."""
    innermost = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename in plan.sources:
            operations = plan.sources[frame.f_code.co_filename].operations
            innermost = operations[line - 1] or innermost
    return innermost


def _message_with_place(error: BaseException, plan: Plan) -> str:
    operation = failed_operation(error, plan)
    text = " ".join(_message(error, plan).split()) or type(error).__name__
    text += "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{operation.location}: {operation.name}: {text}" if operation else text


def _message(error: BaseException, plan: Plan) -> str:
    if not isinstance(error, DeadlockError):
        return str(error)

    def place(part: BaseException) -> str:
        operation = failed_operation(part, plan)
        return f" at {operation.location}" if operation else ""

    return error.message(place)
