"""What passes rebuild: an operation or a region stays the same object where a pass has changed nothing in it.

A caller that gets the same object back knows that there is nothing new to bind.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence

from ...program import Operation, Region


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
