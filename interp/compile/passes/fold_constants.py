"""The pass that computes operations on constants once, when a program is planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.op import OpError, lookup
from ....ops.policy import Policy
from ....ops.traits import Kernel
from ....ops.types import TensorType
from ...program import Operation, Region, Value
from .rewriting import with_operations, with_regions


def fold_constants(
    region: Region,
    policy: Policy,
    kernel_of: Callable[[Operation], Kernel | None],
    known: dict[Value, Any] | None = None,
) -> tuple[Region, dict[Value, Any]]:
    """A region in which operations on constants are constants themselves, and the values of all constants.

    `known` are the constants of a region that was folded before.

    `kernel_of` gives the kernel of an op that has no regions, None where it is not declared for the op's types. It
    raises an error with the op's place where the op is not valid.
    """
    constants: dict[Value, Any] = dict(known or {})
    return _folded(region, policy, kernel_of, constants), constants


def _folded(
    region: Region, policy: Policy, kernel_of: Callable[[Operation], Kernel | None], constants: dict[Value, Any]
) -> Region:
    operations: list[Operation] = []
    for operation in region.operations:
        if operation.regions:
            operation = with_regions(operation, [_folded(r, policy, kernel_of, constants) for r in operation.regions])
        elif operation.results and operation.results[0] in constants:
            pass  # it was folded before
        elif _is_foldable(operation, policy, constants):
            values = _values(operation, kernel_of(operation), constants)
            if values is not None:
                constants.update(zip(operation.results, values, strict=True))
                if operation.name != "stablehlo.constant":
                    operations += [_constant(r, v, operation) for r, v in zip(operation.results, values, strict=True)]
                    continue
        operations.append(operation)
    return with_operations(region, operations)


def _is_foldable(operation: Operation, policy: Policy, constants: dict[Value, Any]) -> bool:
    if not operation.results:
        return False
    if operation.name == "stablehlo.constant":
        return True  # it costs nothing, whatever its size
    if policy.rounding == "stochastic" or not all(v in constants for v in operation.operands):
        return False
    size = 0
    for result in operation.results:
        if not isinstance(result.type, TensorType) or not result.type.is_static:
            return False
        size += result.type.nbytes
    record = lookup(operation.name)
    return size <= tuning().fold_bytes and record is not None and not record.has_effects


def _values(operation: Operation, kernel: Kernel | None, constants: dict[Value, Any]) -> tuple[Any, ...] | None:
    if kernel is None:
        return None
    try:
        with np.errstate(all="ignore"):
            values = kernel(*(constants[v] for v in operation.operands))
    except (OpError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
        return None  # it fails where it runs, if it runs
    return (values,) if len(operation.results) == 1 else values


def _constant(result: Value, value: Any, operation: Operation) -> Operation:
    origin = operation.origin or operation
    return Operation("stablehlo.constant", (), (result,), {"value": value}, (), operation.location, origin)
