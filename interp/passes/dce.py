"""The pass that eliminates dead code.

An operation without effects is removed if no result of its region depends on it. It was verified before: a program with
a mistake in such an operation is still refused. Its shapes must be static, since otherwise a mismatch may only be
noticed at run time. Loops and branches are removed too, even loops that would not end, as in XLA's compiler.
"""

from __future__ import annotations

from ...ops.op import lookup
from ...ops.traits import RegionSemantics
from ...ops.types import TensorType
from ..program import CONSTANT, Operation, Region
from .rewriting import used_values, with_operations, with_regions


def eliminate_dead_code(region: Region) -> Region:
    """Return the region without its dead code; the same object where there is none."""
    needed, operations = set(region.returns), []
    for operation in reversed(region.operations):
        if needed.isdisjoint(operation.results) and _is_removable(operation):
            continue
        record = lookup(operation.name)
        if record is not None and record.traits.regions is not RegionSemantics.ELEMENTS:
            operation = with_regions(operation, [eliminate_dead_code(r) for r in operation.regions])
        operations.append(operation)
        needed.update(used_values(operation))
    return with_operations(region, operations[::-1])


def _is_removable(operation: Operation) -> bool:
    """Return whether an operation may be removed if its results are not used."""
    if operation.name == CONSTANT:
        return True
    record = lookup(operation.name)
    if record is None or record.traits.is_call or not operation.results:
        return False
    if not record.is_pure and record.traits.regions is RegionSemantics.ELEMENTS:
        return False
    values = (*operation.operands, *operation.results)
    if not all(isinstance(v.type, TensorType) and v.type.is_static for v in values):
        return False
    return all(_is_removable(inner) for region in operation.regions for inner in region.operations)
