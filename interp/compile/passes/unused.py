"""The pass that removes dead code.

An operation without side effects is removed if no result of the region depends on it. It was verified before, so a
program with a mistake in such an operation is still refused. Its shapes must be static: otherwise a mismatch may only
be noticed at run time. Loops and branches are removed too, even loops that would not end, as in XLA's compiler. JAX
leaves much dead code in derivatives: where only the gradient is returned, the last layer of the forward pass is still
computed, and the gradient of `betainc` comes with the loop for its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ops.op import lookup
from ....ops.traits import RegionSemantics
from ....ops.types import TensorType
from ...program import CONSTANT, Operation, Region, Value


def without_unused(region: Region, constants: Mapping[Value, Any]) -> Region:
    """The region without its dead code; the same object where there is none."""
    needed, operations = set(region.returns), []
    for operation in reversed(region.operations):
        is_known = any(r in constants for r in operation.results)
        if is_known or not needed.isdisjoint(operation.results) or not _may_go(operation):
            operations.append(operation)
            needed.update(operation.operands, *map(_used, operation.regions))
    if len(operations) == len(region.operations):
        return region
    return Region(region.arguments, operations[::-1], region.returns)


def _may_go(operation: Operation) -> bool:
    """Whether an operation may be removed if its results are not used."""
    if operation.name == CONSTANT:
        return False
    record = lookup(operation.name)
    if record is None or record.traits.is_call or not operation.results:
        return False
    if not record.is_pure and record.traits.regions is RegionSemantics.ELEMENTS:
        return False
    values = (*operation.operands, *operation.results)
    if not all(isinstance(v.type, TensorType) and v.type.is_static for v in values):
        return False
    return all(inner.name == CONSTANT or _may_go(inner) for region in operation.regions for inner in region.operations)


def _used(region: Region) -> set[Value]:
    """All values that a region uses, its own among them."""
    used = set(region.returns)
    for operation in region.operations:
        used.update(operation.operands, *map(_used, operation.regions))
    return used
