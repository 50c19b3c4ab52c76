"""Operations copied with other values, as passes need that put them in another place."""

from __future__ import annotations

from ....ops.registry import lookup
from ...program import CONSTANT, PRINT, Operation, Region, Value

#: The values of what is copied, in terms of the place it is copied to. Others stay as they are.
Values = dict[Value, Value]


def size_of(region: Region) -> int | None:
    """How many ops a region has, with those in its regions; None where one has effects."""
    count = 0
    for operation in region.operations:
        record = lookup(operation.name)
        if operation.name == PRINT or (record is not None and record.has_effects and not record.facts.is_call):
            return None
        count += 1
        for inner in operation.regions:
            size = size_of(inner)
            if size is None:
                return None
            count += size
    return count


def copied(value: Value, values: Values) -> Value:
    """The value that stands for one; a new one if there is none yet."""
    if value not in values:
        values[value] = Value(value.type)
    return values[value]


def copy_of(operation: Operation, regions: tuple[Region, ...], values: Values) -> Operation:
    """An operation that takes and gives other values, with the regions given."""
    operands = tuple(values.get(v, v) for v in operation.operands)
    results = tuple(copied(v, values) for v in operation.results)
    return Operation(operation.name, operands, results, operation.attributes, regions, operation.location)


def deep_copy_of(operation: Operation, values: Values) -> Operation:
    """The same with copies of its regions; a constant as it is, since it is the same everywhere."""
    if operation.name == CONSTANT:
        return operation
    return copy_of(operation, tuple(_region(r, values) for r in operation.regions), values)


def _region(region: Region, values: Values) -> Region:
    arguments = tuple(copied(v, values) for v in region.arguments)
    operations = [deep_copy_of(o, values) for o in region.operations]
    return Region(arguments, operations, tuple(values.get(v, v) for v in region.returns))
