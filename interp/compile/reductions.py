"""Reductions as data, for passes and executors; see `ops/reductions/reduce.py` for what is computed."""

from __future__ import annotations

from ...ops.op import Body, Call
from ...ops.policy import Policy
from ...ops.reductions.reduce import Folding, folding
from ...ops.types import TensorType
from ..program import Operation, Region
from .group import Reduction
from .leaf import Shape


def sole_operation(region: Region) -> Operation | None:
    """A region's only op, if that takes the first two arguments in order and the region returns its results."""
    if len(region.operations) != 1 or len(region.arguments) < 2:
        return None
    (operation,) = region.operations
    is_whole = operation.operands == region.arguments[:2] and region.returns == operation.results
    return operation if is_whole and not operation.regions else None


def reduction_of(operation: Operation) -> Reduction | None:
    """The reduction that a valid `reduce` of one tensor by one op is; None of others."""
    sole = sole_operation(operation.regions[0])
    if sole is None or len(operation.operands) != 2:
        return None
    types = [v.type for v in (*operation.operands, *operation.results)]
    (element, *others) = [t.element for t in types if isinstance(t, TensorType) and t.is_static]
    if len(others) != 2 or any(e != element for e in others):
        return None
    dimensions = tuple(sorted(map(int, operation.attributes["dimensions"])))
    return Reduction(sole.name, dimensions, element)


def folding_of(reduction: Reduction, shape: Shape, policy: Policy) -> Folding | None:
    """How a tensor of some shape is reduced; None where the op is not one that can be fused with others."""
    element = reduction.element
    scalar = TensorType((), element)
    kept = tuple([n for d, n in enumerate(shape) if d not in reduction.dimensions])
    call = Call(
        "stablehlo.reduce",
        (TensorType(shape, element), scalar),
        (TensorType(kept, element),),
        {"dimensions": reduction.dimensions},
        (Body((scalar, scalar), (scalar,), reduction.name),),
        policy,
    )
    return folding(call)
