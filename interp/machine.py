"""Runs plans: values in, values out, and every failure told with the place of the op that failed."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.registry import CheckError, OpError
from .errors import CheckFailure, Error, ExecutionError, ResourceError
from .planner import Plan
from .program import Operation


def run(plan: Plan, values: Sequence[Any]) -> list[Any]:
    """The results of a plan on values that fit its argument types.

    Raises CheckFailure where a check of the program does not hold, ResourceError where memory does not suffice, and
    ExecutionError for any other failure of an op.
    """
    plan.random.restart(plan.policy.seed)
    try:
        with np.errstate(all="ignore"):
            return [_owned(r, values) for r in plan.entry(*values)]
    except Error:
        raise
    except CheckError as error:
        raise CheckFailure(_told(error, plan)) from error
    except MemoryError as error:
        raise ResourceError(f"{_told(error, plan)} (out of memory)") from error
    except RecursionError as error:
        raise ExecutionError("the program calls itself, or nests, too deeply") from error
    except (OpError, ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
        raise ExecutionError(_told(error, plan)) from error


def failed_operation(error: BaseException, plan: Plan) -> Operation | None:
    """The innermost op whose kernel raised `error`."""
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename in plan.sources:
            operations = plan.sources[frame.f_code.co_filename][1]
            found = operations[line - 1] or found
    return found


def _told(error: BaseException, plan: Plan) -> str:
    operation = failed_operation(error, plan)
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{operation.location}: {operation.name}: {text}" if operation else text


def _owned(result: Any, inputs: Sequence[Any]) -> Any:
    """An array of the caller's own: not a constant of the plan, not one of the inputs, not a view of either."""
    if isinstance(result, tuple):
        return tuple(_owned(r, inputs) for r in result)
    if result is None:
        return None
    array = np.asarray(result)
    if array.base is not None or not array.flags.writeable or any(array is v for v in inputs):
        return array.copy(order="C")
    return array
