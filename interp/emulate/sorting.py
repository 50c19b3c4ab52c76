"""Sorts: by the ranks of codes as integers, whose order is the same on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.minifloat.formats import Format, Nan
from ...ops.op import OpError
from ...ops.ordering import total_keys
from ...ops.reductions.approx_top_k import reduction_dimension
from ...ops.tables import all_codes
from ...ops.types import ElementType
from ..passes.inline import inline
from ..passes.rewriting import captures
from ..program import CONSTANT, Operation, Region
from .lookup import elementwise
from .loops import branch
from .rewrite import Emulation
from .rounding import decode_f32
from .rules import align, carrier, emulates, is_emulated, types_of
from .tensor import F32, I32, UI8, UI32, UI64, Tensor, fill, insert, iota, type_of, where

#: A rank and a place are one integer of 32 bits along dimensions of fewer elements.
_MOST_SHORT = 1 << 23


def _order(e: Emulation, ranks: np.ndarray, x: Tensor, dimension: int) -> Tensor:
    """Return the places of codes in ascending order of their ranks; those of equal ranks stay in their order."""
    is_short = x.shape[dimension] <= _MOST_SHORT
    wide, shift = (UI32, 23) if is_short else (UI64, 48)
    joined = (e.look(ranks, UI8, x).to(wide) << shift) | iota(wide, x.shape, dimension)
    sort = {"dimension": dimension, "is_stable": "false"}
    op = insert("sort", [joined.value.type], [joined.value], sort, regions=1)
    fill(op.regions[0], [type_of(wide, ())] * 2, lambda a, b: [(Tensor.of(a) < Tensor.of(b)).value])
    return Tensor.of(op.results[0]) & ((1 << shift) - 1)


def take_along(x: Tensor, places: Tensor, dimension: int) -> Tensor:
    """Return the elements at places along a dimension, for each line its own."""
    line, rank, flat = x.shape[dimension], len(x.shape), places
    moved = [*(d for d in range(rank) if d != dimension), dimension]
    x, flat = x.transpose(moved), flat.transpose(moved).to(I32)
    lines = x.size // max(line, 1)
    first = iota(I32, (lines, flat.shape[-1]), 0) * line
    index = flat.reshape((lines, flat.shape[-1])) + first
    found = x.reshape((x.size,)).take(index).reshape(flat.shape)
    return found.transpose([moved.index(d) for d in range(rank)])


@emulates("sort")
def sort(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """All operands by the comparator."""
    dimension = int(operation.attributes.get("dimension", -1)) % len(operands[0].shape)
    return sort_by(e, operation.regions[0], operands, types_of(operation), dimension)


def sort_by(
    e: Emulation, region: Region, operands: Sequence[Tensor], elements: Sequence[ElementType], dimension: int
) -> list[Tensor]:
    """Sort by the ranks of an operand that alone decides, else by the comparator itself, on numbers."""
    region, shape = inline(e.program, region), operands[0].shape
    body = e.binder.body(region)
    if shape[dimension] < 2 or not operands[0].size:
        return list(operands)
    keys = sorted({i // 2 for i in body.reads or ()})
    if body.vectorised is None or len(keys) != 1 or not elements[keys[0]].is_minifloat:
        return _by_comparator(e, region, operands, dimension)
    if e.policy.rounding == "stochastic" and not body.selects and body.sole_op is None:
        raise OpError("expected a comparator that draws nothing under stochastic rounding")
    key, element = keys[0], elements[keys[0]]
    before = _comparisons(body.vectorised, elements, key)
    x, nan = operands[key], np.isnan(all_codes(element).astype(np.float32))
    if _is_weak_order(before):
        ranks = before.sum(0)
        places = _order(e, ranks, x, dimension)
        return [take_along(v, places, dimension) for v in operands]
    numbers = before[np.ix_(~nan, ~nan)]
    if key == 0 and _is_weak_order(numbers) and not before[nan].any() and not before[:, nan].any():
        ranks = np.full(len(nan), 255)
        ranks[~nan] = numbers.sum(0)
        places = _with_nan(e, before, ranks, x, element, nan, dimension)
        return [take_along(v, places, dimension) for v in operands]
    raise OpError("expected a comparator that is a strict weak order of the numbers, got another one")


def _by_comparator(e: Emulation, region: Region, operands: Sequence[Tensor], dimension: int) -> list[Tensor]:
    """Sort by the comparator itself, on codes. XLA's CPU crashes where a comparator looks up tables."""
    for operation in region.operations:
        is_known = operation.name in ("stablehlo.compare", "stablehlo.select", CONSTANT)
        if not is_known and any(is_emulated(v.type) for v in (*operation.operands, *operation.results)):
            raise OpError(f"expected a comparator that compares and selects minifloats, got {operation.name}")
    if captures(region):
        raise OpError("expected a comparator that captures nothing, got another one")
    sort = {"dimension": dimension, "is_stable": "true"}
    op = insert("sort", [x.value.type for x in operands], [x.value for x in operands], sort, regions=1)
    e.fill_with(op.regions[0], region)
    return [Tensor(r, x.element, x.shape) for r, x in zip(op.results, operands, strict=True)]


@emulates("compare")
def compare(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Compare integers in the order of the numbers; as f32 with NaN where NaN is unordered."""
    element, attributes = types_of(operation)[0], {k: str(v) for k, v in operation.attributes.items()}
    if not element.is_minifloat:
        return elementwise(e, operation, operands)
    is_total = attributes.get("compare_type") == "TOTALORDER"
    x, y = (_to_number(v, element.format, is_total) for v in align(operands))
    return [x.compare(y, attributes["comparison_direction"])]


def _to_number(x: Tensor, fmt: Format, is_total: bool) -> Tensor:
    """Return an integer in the order of numbers for each code, in the total order, or else as f32 with NaN."""
    if not is_total:
        return decode_f32(x, fmt) if fmt.has_zero else where(x > fmt.max_code, float("nan"), x.to(F32))
    wide = x.to(I32)
    key = where(wide >= fmt.sign_bit, ~wide + fmt.sign_bit, wide) if fmt.is_signed else wide
    return where(wide.equals(fmt.sign_bit), fmt.sign_bit, key) if fmt.nan is Nan.NEGATIVE_ZERO else key


def _comparisons(compare: Any, elements: Sequence[ElementType], key: int) -> np.ndarray:
    """Return whether each code of the operand that decides comes before each."""
    codes = all_codes(elements[key])
    others = [np.zeros(1, t.dtype) for t in elements for _ in range(2)]
    others[2 * key], others[2 * key + 1] = np.repeat(codes, len(codes)), np.tile(codes, len(codes))
    return np.broadcast_to(compare(*others)[0], len(codes) ** 2).reshape(len(codes), len(codes))


def _is_weak_order(before: np.ndarray) -> bool:
    ranks = before.sum(0)
    return np.array_equal(before, ranks[:, None] < ranks)


def _with_nan(
    e: Emulation, before: np.ndarray, ranks: np.ndarray, x: Tensor, element: ElementType, nan: np.ndarray, d: int
) -> Tensor:
    """Return the places where NaN compares with nothing: it comes last, or as the total order has it if that fits.

    These are the hypotheses of `ops.movement.sort`, in its order.
    """
    last = _order(e, ranks, x, d)

    def where_nan() -> list[Tensor]:
        total = total_keys(all_codes(element), element)
        places = _order(e, total, x, d)
        numbers = np.where(nan, 0, all_codes(element).astype(np.float32))
        values = np.where(nan, 255, np.unique(numbers, return_inverse=True)[1].reshape(-1))
        by_value = _order(e, values, x, d)
        fits, fits_first = (_is_sorted(e, before, x, p, d) for p in (places, by_value))
        return [where((fits & ~fits_first).broadcast(last.shape), places, last)]

    (result,) = branch(e.look(nan, UI8, x).differs(0).any(range(len(x.shape))), [last], where_nan, lambda: [last])
    return result


def _is_sorted(e: Emulation, before: np.ndarray, x: Tensor, places: Tensor, d: int) -> Tensor:
    """Return whether no element comes before its left neighbour, and equal ones keep their order; a scalar."""
    ordered, n = take_along(x, places, d), x.shape[d]
    left, right = (v.to(UI32) for v in (ordered.slice(d, 0, n - 1), ordered.slice(d, 1, n)))
    table, count = before.reshape(-1), len(before)
    swapped = places.slice(d, 0, n - 1) > places.slice(d, 1, n)
    wrong = e.look(table, UI8, right * count + left).differs(0)
    return ~(wrong | (swapped & e.look(table, UI8, left * count + right).equals(0))).any(range(len(x.shape)))


@emulates("chlo.top_k")
def top_k(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The first of a sort by the total order, downwards."""
    (x,), (element,) = operands, types_of(operation)
    count, last = int(operation.attributes["k"]), len(x.shape) - 1
    keys = total_keys(all_codes(element), element).astype(int)
    if operation.attributes.get("largest", True):
        keys = 255 - keys
    places = (_order(e, keys, x, last) if x.size else iota(UI32, x.shape, last)).slice(last, 0, count)
    index = carrier(operation.results[1].type.element)  # type: ignore[union-attr]
    return [take_along(x, places, last), places.to(index)]


@emulates("minihlo.approx_top_k")
def approx_top_k(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The first of a sort by the comparator, which is a function."""
    call, count = e.call(operation), len(operation.results)
    dimension = reduction_dimension(call)
    (region,) = (e.program.functions[name].body for name in operation.attributes["called_computations"])
    assert region is not None
    found = sort_by(e, region, operands[:count], types_of(operation)[:count], dimension)
    return [x.slice(dimension, 0, call.shape()[dimension]) for x in found]
