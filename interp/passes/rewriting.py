"""Tools of the passes: rebuilt regions, copies with other values, and what regions use.

A pass returns the same object where it has changed nothing. Programs stay as they are: operations and regions are
rebuilt, never changed.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence

from ...ops.op import lookup
from ..program import PRINT, Operation, Region, Value, all_operations

#: The values of a copy in terms of the place it is copied to. Other values stay as they are.
Values = dict[Value, Value]


def with_regions(operation: Operation, regions: Iterable[Region]) -> Operation:
    """Return the operation with these regions; the same object if they are its own."""
    regions = tuple(regions)
    if is_same(regions, operation.regions):
        return operation
    return dataclasses.replace(operation, regions=regions, origin=operation.origin or operation)


def with_operations(region: Region, operations: list[Operation]) -> Region:
    """Return the region with these operations; the same object if they are its own."""
    return region if is_same(operations, region.operations) else Region(region.arguments, operations, region.returns)


def is_same(x: Sequence[object], y: Sequence[object]) -> bool:
    """Return whether two sequences hold the same objects."""
    return len(x) == len(y) and all(map(operator.is_, x, y))


def size_of(region: Region) -> int | None:
    """Return how many operations a region has, with those in its regions; None where one has effects."""
    count = 0
    for operation in all_operations(region):
        record = lookup(operation.name)
        if operation.name == PRINT or (record is not None and record.has_effects and not record.traits.is_call):
            return None
        count += 1
    return count


def copy_value(value: Value, values: Values) -> Value:
    """Return the value that stands for one in a copy; a new one if there is none yet."""
    if value not in values:
        values[value] = Value(value.type)
    return values[value]


def copy_operation(operation: Operation, regions: tuple[Region, ...], values: Values) -> Operation:
    """Return an operation on other values, with the regions given."""
    operands = tuple(values.get(v, v) for v in operation.operands)
    results = tuple(copy_value(v, values) for v in operation.results)
    origin = operation.origin or operation
    return Operation(operation.name, operands, results, operation.attributes, regions, operation.location, origin)


def substitute(region: Region, values: Mapping[Value, Value]) -> Region:
    """Return a region in which some of the captured values are replaced by others."""
    operations = [substitute_operands(o, values) for o in region.operations]
    returns = tuple([values.get(v, v) for v in region.returns])
    if is_same((*operations, *returns), (*region.operations, *region.returns)):
        return region
    return Region(region.arguments, operations, returns)


def substitute_operands(operation: Operation, values: Mapping[Value, Value]) -> Operation:
    """Return an operation in which some operands, and values that its regions capture, are replaced by others."""
    operands = tuple([values.get(v, v) for v in operation.operands])
    regions = tuple([substitute(r, values) for r in operation.regions])
    if is_same((*operands, *regions), (*operation.operands, *operation.regions)):
        return operation
    return dataclasses.replace(operation, operands=operands, regions=regions, origin=operation.origin or operation)


def captures(region: Region) -> tuple[Value, ...]:
    """Return the values that a region uses and does not define, in the order of use."""
    defined: set[Value] = set(region.arguments)
    used: dict[Value, None] = {}
    for operation in region.operations:
        used.update(dict.fromkeys(operation.operands))
        for inner in operation.regions:
            used.update(dict.fromkeys(captures(inner)))
        defined.update(operation.results)
    used.update(dict.fromkeys(region.returns))
    return tuple([v for v in used if v not in defined])


def used_values(operation: Operation) -> tuple[Value, ...]:
    """Return the operands of an operation and the values that its regions capture."""
    if not operation.regions:
        return operation.operands
    return tuple(dict.fromkeys([*operation.operands, *(v for r in operation.regions for v in captures(r))]))


def needed_values(region: Region) -> set[Value]:
    """Return the values that the results of a region depend on, its results among them."""
    values = set(region.returns)
    for operation in reversed(region.operations):
        if operation.regions or not values.isdisjoint(operation.results):
            values.update(used_values(operation))
    return values
