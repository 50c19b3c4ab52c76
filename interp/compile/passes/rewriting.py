"""What passes rebuild: an operation or a region stays the same object where a pass has changed nothing in it.

A caller that gets the same object back knows that there is nothing new to bind. What is put in another place is copied,
with other values.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence

from ....ops.op import lookup
from ...program import CONSTANT, PRINT, Operation, Region, Value

#: The values of what is copied, in terms of the place it is copied to. Others stay as they are.
Values = dict[Value, Value]


def with_regions(operation: Operation, regions: Iterable[Region]) -> Operation:
    """The operation with these regions; the same object if they are its own."""
    regions = tuple(regions)
    if is_same(regions, operation.regions):
        return operation
    return dataclasses.replace(operation, regions=regions, origin=operation.origin or operation)


def with_operations(region: Region, operations: list[Operation]) -> Region:
    """The region with these operations; the same object if they are its own."""
    return region if is_same(operations, region.operations) else Region(region.arguments, operations, region.returns)


def is_same(x: Sequence[object], y: Sequence[object]) -> bool:
    """Whether two sequences have the same objects."""
    return len(x) == len(y) and all(map(operator.is_, x, y))


def size_of(region: Region) -> int | None:
    """How many ops a region has, with those in its regions; None where one has effects."""
    count = 0
    for operation in region.operations:
        record = lookup(operation.name)
        if operation.name == PRINT or (record is not None and record.has_effects and not record.traits.is_call):
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
