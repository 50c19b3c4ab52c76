"""Recognizes bodies of reductions that select one of their arguments, and those that have independent parts."""

from __future__ import annotations

from ...ops.op import lookup
from ...ops.types import Kind, TensorType
from ..program import Region, Value
from .uses import needed


def is_selection(region: Region) -> bool:
    """Whether each result of a region of elementwise ops is one of its arguments, chosen by how these compare.

    Every op gives one of its operands (`OpTraits.selects_operand`), or a boolean: of booleans, or of two operands of
    one type, which it compares. So what is chosen depends on the order of the arguments alone.
    """
    chosen = set(region.arguments)
    for operation in region.operations:
        (result,) = operation.results
        record = lookup(operation.name)
        if not operation.operands or not chosen.issuperset(operation.operands) or record is None:
            return False
        types = {v.type for v in operation.operands}
        is_decision = _is_boolean(result) and (
            len(operation.operands) == 2 or all(map(_is_boolean, operation.operands))
        )
        if not record.traits.selects_operand and not (is_decision and len(types) == 1):
            return False
        chosen.add(result)
    return chosen.issuperset(region.returns)  # rather than a constant from outside


def parts(region: Region) -> list[Region]:
    """A region for each result of one that takes accumulators and as many elements, where these do not mix."""
    count = len(region.returns)
    if count < 2 or len(region.arguments) != 2 * count:
        return []
    regions = []
    for i, result in enumerate(region.returns):
        own = region.arguments[i], region.arguments[count + i]
        alone = Region(own, region.operations, (result,))
        wanted = needed(alone)
        if any(v in wanted for v in region.arguments if v not in own):
            return []
        operations = [o for o in region.operations if not wanted.isdisjoint(o.results)]
        regions.append(Region(own, operations, (result,)))
    return regions


def _is_boolean(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.element.kind is Kind.BOOL
