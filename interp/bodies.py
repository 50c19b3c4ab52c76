"""What operations may know of their regions: the only op, the vectorized region, selections and independent parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ops.op import lookup
from ..ops.types import Kind, TensorType
from .passes.rewriting import captures, needed_values
from .program import CONSTANT, Operation, Region, Value

#: Gives the kernel of an elementwise operation.
KernelOf = Callable[[Operation], Callable[..., Any]]


def sole_operation(region: Region) -> Operation | None:
    """Return a region's only op, if it takes the first two arguments in order and the region returns its results."""
    if len(region.operations) != 1 or len(region.arguments) < 2:
        return None
    (operation,) = region.operations
    is_whole = operation.operands == region.arguments[:2] and region.returns == operation.results
    return operation if is_whole and not operation.regions else None


def vectorize(
    region: Region, constants: Mapping[Value, np.ndarray], kernel_of: KernelOf, reinterprets: bool = False
) -> Callable[..., tuple[Any, ...]] | None:
    """Return a region on single numbers as a function of arrays that broadcast together.

    None where an argument or a value is not a scalar, an op is not elementwise, or the region captures more than the
    `constants`. With `reinterprets`, ops that read bits as another type are admitted. Raises OpError where an op is not
    valid.
    """
    values = [*region.arguments, *(r for o in region.operations for r in o.results)]
    known = captures(region)
    if not all(isinstance(v.type, TensorType) and v.type.shape == () for v in (*values, *known)):
        return None
    if not all(v in constants for v in known):
        return None
    names = {v: i for i, v in enumerate((*region.arguments, *known))}
    numbers, steps = [constants[v] for v in known], []
    for operation in region.operations:
        if operation.name == CONSTANT:
            number = operation.attributes.get("value")
            if not isinstance(number, np.ndarray):
                return None
            numbers.append(number)
            names[operation.results[0]] = len(names)
    for operation in region.operations:
        if operation.name == CONSTANT:
            continue
        record = lookup(operation.name)
        is_known = record is not None and (record.is_elementwise or (reinterprets and record.traits.keeps_bits))
        if record is None or not is_known or not record.takes(v.type for v in operation.operands):
            return None
        if len(operation.results) != 1:
            return None
        steps.append((kernel_of(_lift(operation)), tuple([names[v] for v in operation.operands])))
        names[operation.results[0]] = len(names)
    returned = [names[v] for v in region.returns]

    def run(*arrays: Any) -> tuple[Any, ...]:
        frame = [*arrays, *numbers]
        for kernel, operands in steps:
            frame.append(kernel(*[frame[i] for i in operands]))
        return tuple([frame[i] for i in returned])

    return run


def _lift(operation: Operation) -> Operation:
    """Return an operation on single numbers as one on rows of them."""
    operands, results = (
        tuple([Value(TensorType((None,), v.type.element)) for v in values if isinstance(v.type, TensorType)])
        for values in (operation.operands, operation.results)
    )
    return Operation(operation.name, operands, results, operation.attributes, (), operation.location)


def count_dependent(region: Region) -> int:
    """Return how many operations of a region depend on its arguments."""
    dependent, count = set(region.arguments), 0
    for operation in region.operations:
        if not dependent.isdisjoint(operation.operands):
            dependent.update(operation.results)
            count += 1
    return count


def is_selection(region: Region) -> bool:
    """Return whether each result of a region of elementwise ops is one of its arguments, chosen by comparisons.

    Every op gives one of its operands (`OpTraits.selects_operand`), or a boolean: of booleans, or of two operands of
    one type, which it compares. The choice then depends on the order of the arguments alone.
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


def independent_parts(region: Region) -> list[Region]:
    """Return a region for each result of one that takes accumulators and as many elements, where these do not mix."""
    count = len(region.returns)
    if count < 2 or len(region.arguments) != 2 * count:
        return []
    regions = []
    for i, result in enumerate(region.returns):
        own = region.arguments[i], region.arguments[count + i]
        needed = needed_values(Region(own, region.operations, (result,)))
        if any(v in needed for v in region.arguments if v not in own):
            return []
        regions.append(Region(own, [o for o in region.operations if not needed.isdisjoint(o.results)], (result,)))
    return regions


def _is_boolean(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.element.kind is Kind.BOOL
