"""Regions that combine elements: whether the order in which they do it shows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from ...ops.op import traits_of
from ...ops.types import TensorType
from .. import bodies
from ..program import Operation, Region, Value

if TYPE_CHECKING:
    from .evaluate import Evaluator


def combination(region: Region) -> Operation | None:
    """Return a region's only operation, if it is one on both arguments, in either order if that gives the same."""
    sole = bodies.sole_operation(region)
    if sole is None and len(region.operations) == 1 and len(region.arguments) == 2:
        (last,) = region.operations
        is_swapped = last.operands == region.arguments[::-1] and region.returns == last.results
        sole = last if is_swapped and _any_order(last) else None
    return sole


def _any_order(operation: Operation) -> bool:
    combining = traits_of(operation.name).combining
    return combining is not None and combining.any_order


def is_free_of_order(e: Evaluator, region: Region, nan: bool = False) -> bool:
    """Return whether a region gives the same in whatever order and grouping it combines elements, but for rounding;
    with `nan`, those that may be NaN.
    """
    if region.operations and bodies.is_selection(region):
        return e.remember((region, nan), lambda: _is_symmetric(e, region, nan))
    sole = combination(region)
    return sole is not None and _any_order(sole)


def _is_symmetric(e: Evaluator, region: Region, nan: bool) -> bool:
    """Return whether a selection is commutative and associative: its result depends on the order of numbers alone, so
    three of them, and three times three for pairs, are all cases. Of NaN the first may be chosen.
    """
    count = len(region.arguments) // 2
    elements = [v.type.element for v in region.arguments if isinstance(v.type, TensorType)]
    if count > 2 or len(elements) != 2 * count or any(e.is_complex for e in elements):
        return False
    numbers = (1, 2, 4, np.nan) if nan else (1, 2, 4)
    states = list(itertools.product(*([numbers if t.is_float else (0, 1, 2) for t in elements[:count]])))
    x, y, z = np.array(list(itertools.product(states, repeat=3))).transpose(1, 2, 0)
    whole = lift(region, x.shape[1:])

    def combine(*sides: np.ndarray) -> np.ndarray:
        rows = [row.astype(t.dtype) for row, t in zip(np.concatenate(sides), elements, strict=True)]
        given = [e.exactly(v.type, row) for v, row in zip(whole.arguments, rows, strict=True)]
        return np.array([np.asarray(r.value, np.float64) for r in e.region(whole, given)])

    def is_same(a: np.ndarray, b: np.ndarray) -> bool:
        return np.array_equal(a, b, equal_nan=True)

    with np.errstate(all="ignore"):
        associates = is_same(combine(combine(x, y), z), combine(x, combine(y, z)))
        return associates and (nan or is_same(combine(x, y), combine(y, x)))


def lift(region: Region, shape: tuple[int, ...]) -> Region:
    """Return a region on single numbers as one on arrays of a shape."""
    values: dict[Value, Value] = {}

    def again(v: Value) -> Value:
        if v not in values and isinstance(v.type, TensorType):
            values[v] = Value(TensorType(shape, v.type.element))
        return values.get(v, v)

    def lift(o: Operation) -> Operation:
        value, attributes = o.attributes.get("value"), o.attributes
        if isinstance(value, np.ndarray):
            attributes = {**attributes, "value": np.broadcast_to(value, shape)}
        operands, results = (tuple(map(again, v)) for v in (o.operands, o.results))
        return Operation(o.name, operands, results, attributes, (), o.location)

    operations = list(map(lift, region.operations))
    return Region(tuple(map(again, region.arguments)), operations, tuple(map(again, region.returns)))
