"""Rules of sorts: how a comparator orders numbers, and which elements may be in a place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType
from ..bodies import sole_operation
from ..passes.rewriting import captures
from ..program import CONSTANT, Operation, Region
from .combining import lift
from .evaluate import Evaluator, rule
from .values import MOST, causes_of, holds_integers, is_fnuz, know_bits, may_be_subnormal, subnormal_hull, to_f64


@rule("sort", "chlo.top_k")
def sort(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Sorted elements: a place holds what the sorted ends enclose; beside keys, all whose keys may be in its place."""
    keys, is_stable = operands[0], not operation.regions or bool(operation.attributes.get("is_stable"))
    falls, rank = _order_of(e, operation)
    is_settled = bool(rank and (is_stable or len(operands) == 1)) or _is_settled(operation, operands)
    if is_settled and all(x.is_exact for x in (*operands, e.flushed(keys))):
        return [x if is_stable else x.as_interval() for x in e.nominal(operation, operands)]
    is_large = holds_integers(keys.element) and np.abs(keys.bounds()[0]).max(initial=0) > MOST
    if falls is None or is_large or any(x.element.is_complex for x in operands):
        return None
    moved = [*operands]
    if not operation.regions:  # the positions go with the largest
        shape = keys.value.shape
        places = np.broadcast_to(np.arange(shape[-1], dtype=np.int32), shape)
        moved.append(e.exactly(TensorType(shape, ELEMENT_TYPES["i32"]), places))
    axis = int(operation.attributes.get("dimension", -1)) % keys.value.ndim

    def first(x: np.ndarray) -> np.ndarray:
        return np.moveaxis(x, axis, 0)

    # Subnormal numbers may be compared as zeros, and stay what they are.
    low, high, nan = (first(v) for v in e.flushed(keys).bounds())
    hidden = np.maximum.reduce([first(causes_of(x)) for x in moved]).max(axis=0)
    if not rank:
        hidden = np.maximum(hidden, nan.any(axis=0) * np.int32(e.cause(operation)))
    low = np.where(np.isnan(low), rank, np.where(nan & (rank < 0), rank, low))
    high = np.where(np.isnan(high), rank, np.where(nan & (rank > 0), rank, high))
    ends = [np.flip(x, 0) if falls else x for x in (np.sort(low, axis=0), np.sort(high, axis=0))]
    own = e.nominal(operation, operands)
    count, is_known, results = own[0].value.shape[axis], (low == high).all(axis=0) & is_stable, []
    for i, x in enumerate(moved):
        least, most, maybe = (first(v) for v in x.bounds())
        bounds, nans = np.empty((2, count, *hidden.shape)), np.zeros((count, *hidden.shape), bool)
        for place in range(count):
            may = (low <= ends[1][place]) & (high >= ends[0][place])
            bounds[:, place] = (
                np.where(may & ~np.isnan(least), least, np.inf).min(axis=0),
                np.where(may & ~np.isnan(most), most, -np.inf).max(axis=0),
            )
            nans[place] = (may & maybe).any(axis=0)
        lows, highs = bounds
        if i == 0:
            some = may_be_subnormal(low, high, keys.element).any(axis=0, keepdims=True)
            is_flushed = some & e.allowed.flushes(keys.element)
            limits = subnormal_hull(ends[0], ends[1], keys.element, np.asarray(is_flushed))
            lows, highs = np.maximum(lows, limits[0][:count]), np.minimum(highs, limits[1][:count])
        if x.is_exact:
            value = first(to_f64(own[i].value, x.element))
            lows, highs = (np.where(is_known, value, v) for v in (lows, highs))
            nans = np.where(is_known, np.isnan(value), nans)
        lows, highs = (np.where(lows > highs, np.nan, v) for v in (lows, highs))
        given = [np.moveaxis(v, 0, axis) for v in (lows, highs, nans, np.broadcast_to(hidden, nans.shape))]
        since = given[3].astype(np.int32) if hidden.any() else None
        results.append(
            e.finish(operation, operands, *given[:3], rounds=False, value=own[i].value, index=i, since=since)
        )
    return results


def _order_of(e: Evaluator, operation: Operation) -> tuple[bool | None, float]:
    """Return whether a sort puts the largest of its first operands first, None for another order, and as which infinity
    it orders NaN, 0 for none.

    A comparator of comparisons and choices among its arguments, zero and NaN depends on the order of these alone, of
    which a few numbers are all cases.
    """
    if not operation.regions:
        return True, 0.0
    region = operation.regions[0]
    t, used = region.arguments[0].type, {v for o in region.operations for v in o.operands}
    constants = [np.asarray(o.attributes["value"]).astype(np.float64) for o in region.operations if o.name == CONSTANT]
    names = {o.name.removeprefix("stablehlo.") for o in region.operations if o.name != CONSTANT}
    is_plain = names <= {"compare", "select", "and", "or", "not"} and all(
        ((c == 0) | np.isnan(c)).all() for c in constants
    )
    if not isinstance(t, TensorType) or captures(region) or used.intersection(region.arguments[2:]) or not is_plain:
        return None, 0.0
    falls, rank = e.remember((region, "order"), lambda: _order_by(e, region, t.element))
    # The NaN of FNUZ has no sign to be ordered by.
    is_total = any(o.attributes.get("compare_type") == "TOTALORDER" for o in region.operations)
    return falls, 0.0 if is_total and is_fnuz(t.element) else rank


def _order_by(e: Evaluator, region: Region, element: ElementType) -> tuple[bool | None, float]:
    """Return how a comparator that looks at its first two arguments orders a few numbers, as `_order_of` does."""
    whole = {Kind.FLOAT: [-2.0, -1.0, 0.0, 1.0, 2.0, np.nan, -np.nan], Kind.SIGNED: [-2.0, -1.0, 0.0, 1.0]}
    numbers = np.array(whole.get(element.kind, [0.0, 1.0]))
    sides, count = np.meshgrid(numbers, numbers, indexing="ij"), int(np.isfinite(numbers).sum())
    lifted = lift(region, sides[0].shape)
    types = [v.type for v in lifted.arguments if isinstance(v.type, TensorType)]
    given = [e.exactly(t, np.zeros(sides[0].shape, t.element.dtype)) for t in types]  # lifted to this shape
    given[:2] = [dataclasses.replace(x, value=v.astype(element.dtype)) for x, v in zip(given, sides, strict=False)]
    (found,) = e.region(lifted, given)
    for falls in (False, True):
        for rank in (np.inf, -np.inf):
            x, y = (np.where(np.isnan(v), rank, v) for v in sides)
            expected = x > y if falls else x < y
            if np.array_equal(found.value, expected):
                return falls, rank
        if np.array_equal(found.value[:count, :count], expected[:count, :count]):
            return falls, 0.0
    return None, 0.0


def _is_settled(operation: Operation, operands: Sequence[Any]) -> bool:
    """Return whether a comparator orders these elements, and no two that are equal to it may change places."""
    if not operation.regions:
        return False
    region = operation.regions[0]
    if len(operands) > 1 and not operation.attributes.get("is_stable"):
        return False
    places = {v: i // 2 for i, v in enumerate(region.arguments)}
    for inner in region.operations:
        if inner.name == "stablehlo.compare":
            compared = [operands[places[v]] for v in inner.operands if v in places]
            is_total = inner.attributes.get("compare_type") == "TOTALORDER" and all(map(know_bits, operands))
            if any(
                x.element.is_float and (not is_total or is_fnuz(x.element)) and x.bounds()[2].any() for x in compared
            ):
                return False
    sole = sole_operation(region)
    return sole is None or str(sole.attributes.get("comparison_direction")) in ("LT", "GT")
