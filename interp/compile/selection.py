"""Bodies of reductions by their structure: those that choose among their arguments, and those in independent parts."""

from __future__ import annotations

from ...ops.registry import lookup
from ...ops.types import Kind, TensorType
from ..program import Region, Value
from .uses import needed


def is_selection(region: Region) -> bool:
    """Whether each result of a region of elementwise ops is one of its arguments, chosen by comparisons.

    Every op gives a boolean, which decides, or one of its operands (`Facts.gives_operand`).
    """
    chosen = set(region.arguments)
    for operation in region.operations:
        (result,) = operation.results
        record = lookup(operation.name)
        if record is not None and record.facts.gives_operand:
            values = [v for v in operation.operands if v.type == result.type]
            if chosen.issuperset(values):
                chosen.add(result)
        elif not _is_boolean(result) and operation.operands:
            return False
    return bool(region.returns) and chosen.issuperset(region.returns)


def parts(region: Region) -> list[Region]:
    """A region for each result of one that takes accumulators and as many elements, where these do not mix."""
    count = len(region.returns)
    if count < 2 or len(region.arguments) != 2 * count:
        return []
    found = []
    for i, result in enumerate(region.returns):
        own = region.arguments[i], region.arguments[count + i]
        alone = Region(own, region.operations, (result,))
        wanted = needed(alone)
        if any(v in wanted for v in region.arguments if v not in own):
            return []
        operations = [o for o in region.operations if not wanted.isdisjoint(o.results)]
        found.append(Region(own, operations, (result,)))
    return found


def _is_boolean(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.element.kind is Kind.BOOL
