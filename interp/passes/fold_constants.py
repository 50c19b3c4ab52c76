"""The pass that computes operations on constants once, when a program is planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.op import OpError, lookup
from ...ops.types import TensorType
from ..program import CONSTANT, Operation, Region, Value
from .rewriting import with_operations, with_regions

#: The most bytes of a folded result: a limit of memory.
MOST_BYTES = 1 << 20

Run = Callable[..., Any]


def fold_constants(region: Region, kernel_of: Callable[[Operation], Run | None]) -> Region:
    """Return a region in which constants stand in place of the operations on constants.

    `kernel_of` gives the kernel of an operation without regions; None where it is not declared for its types. It
    raises an error with the operation's place where the operation is not valid.
    """
    return _fold(region, kernel_of, {})


def _fold(region: Region, kernel_of: Callable[[Operation], Run | None], constants: dict[Value, Any]) -> Region:
    operations: list[Operation] = []
    for operation in region.operations:
        if operation.regions:
            regions = [_fold(r, kernel_of, constants) for r in operation.regions]
            operations.append(with_regions(operation, regions))
        elif operation.name == CONSTANT:
            constants[operation.results[0]] = operation.attributes.get("value")
            operations.append(operation)
        elif (values := _evaluate(operation, kernel_of, constants)) is not None:
            constants.update(zip(operation.results, values, strict=True))
            origin, place = operation.origin or operation, operation.location
            for result, value in zip(operation.results, values, strict=True):
                operations.append(Operation(CONSTANT, (), (result,), {"value": value}, (), place, origin))
        else:
            operations.append(operation)
    return with_operations(region, operations)


def _evaluate(
    operation: Operation, kernel_of: Callable[[Operation], Run | None], constants: dict[Value, Any]
) -> tuple[Any, ...] | None:
    """Return the results of an operation on constants; None where it is left to run."""
    record = lookup(operation.name)
    if record is None or record.has_effects or not operation.results:
        return None
    operands = [constants.get(v) for v in operation.operands]
    if not all(isinstance(v, np.ndarray) for v in operands):
        return None
    types = [v.type for v in operation.results]
    if not all(isinstance(t, TensorType) and t.is_static and t.nbytes <= MOST_BYTES for t in types):
        return None
    kernel = kernel_of(operation)
    if kernel is None:
        return None
    try:
        with np.errstate(all="ignore"):
            values = kernel(*operands)
    except (OpError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
        return None  # it fails where it runs, if it runs
    return tuple(map(np.asarray, (values,) if len(types) == 1 else values))
