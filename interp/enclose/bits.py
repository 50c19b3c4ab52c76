"""Rules of operations on bits: of floats as integers and back, masks, shifts.

Numbers of one sign are ordered as their bits are, so the bits of an interval lie between those of its ends. An
operation that grows or falls between them is known at both ends, such as a mask of the fraction of numbers with one
exponent; of others each bit is known or not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.cast import array_of, cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ElementType, Kind, TensorType
from ..program import Operation
from .evaluate import Evaluator, rule
from .values import F64, Enclosure, causes_of, is_fnuz, know_bits, merge_since, to_f64

_PLAIN = Policy()
#: The most bits of elements that are looked at; so are in i64, and differences of them.
_MOST_BITS = 32


def _width(element: ElementType) -> int:
    return 1 if element.kind is Kind.BOOL else element.bits


def _codes(x: np.ndarray, element: ElementType) -> np.ndarray:
    """Return the bits of elements."""
    if element.is_float:
        return codes_of(x, element.format).astype(np.int64)
    return x.astype(np.int64) & ((1 << _width(element)) - 1)


def _numbers(codes: np.ndarray, element: ElementType) -> np.ndarray:
    """Return the numbers in f64 that have bits."""
    if element.is_float:
        return to_f64(array_of(codes.astype(element.format.code_dtype), element.format), element)
    negative = (codes >> (_width(element) - 1)) * (element.kind is Kind.SIGNED)
    return (codes - (negative << _width(element))).astype(np.float64)


def _range(x: Enclosure) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the least and the greatest bits of elements, and where these are known: of one sign, and of no new NaN."""
    low, high, nan = x.results()
    own, is_own = _codes(x.value, x.element), np.isnan(low) & (know_bits(x) or is_fnuz(x.element))
    if x.element.is_float:
        known = ~nan & ((low > 0) | (high < 0))
        ends = [np.asarray(cast(np.where(known, v, 1.0), F64, x.element, _PLAIN)) for v in (low, high)]
    else:
        known, ends = (low >= 0) | (high < 0), [low, high]
    is_own = is_own | ((x.low is None) & ~nan)
    first, last = (np.where(is_own, own, _codes(v, x.element)) for v in ends)
    return np.minimum(first, last), np.maximum(first, last), (known | is_own) & ~x.undecided


def _finish(
    e: Evaluator, operation: Operation, operands: Sequence[Enclosure], low: np.ndarray, high: np.ndarray,
    known: np.ndarray,
) -> list[Enclosure]:  # fmt: skip
    """Return elements with bits in a range; they are undecided where it is not known, or holds both signs."""
    (result,) = operation.results
    assert isinstance(result.type, TensorType)
    element = result.type.element
    if element.is_float or element.kind is Kind.SIGNED:
        known = known & ((low ^ high) >> (_width(element) - 1) == 0)
    first, last = (_numbers(np.where(known, v, 0), element) for v in (low, high))
    some, more = np.isnan(first), np.isnan(last)  # NaN comes before -0 in formats of FNUZ, in others after infinity
    first, last = np.where(some & ~more, 0.0, first), np.where(more & ~some, np.copysign(np.inf, first), last)
    since = np.where(known, np.int32(0), e.since(operation, ~known, merge_since(operands, first.shape)))
    ends = np.minimum(first, last), np.maximum(first, last)
    return [e.finish(operation, operands, *ends, some | more, rounds=False, since=since if since.any() else None)]


@rule("bitcast_convert")
def bits(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The bits of numbers of one sign, and of NaN that has come from outside."""
    (x,), (found,) = operands, e.nominal(operation, operands)
    if x.element.part.bits == found.element.part.bits <= _MOST_BITS and not x.element.is_complex:
        return _finish(e, operation, operands, *_range(x))
    low, high, nan = x.bounds()
    known = np.where(nan, know_bits(x) & np.isnan(low), (low == high) & ((low != 0) | (x.low is None)))
    since = np.where(x.undecided, causes_of(x), np.where(known, 0, e.cause(operation)))
    if since.ndim > found.value.ndim:
        since = since.max(axis=-1)
    elif since.ndim < found.value.ndim:
        since = since[..., None]
    since = np.broadcast_to(since, found.value.shape).astype(np.int32)
    return [dataclasses.replace(found, since=since if since.any() else None)]


_LOGIC: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.bitwise_xor,
}  # fmt: skip


@rule(*_LOGIC)
def logic(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Logic of booleans and of bits."""
    element, name = operands[0].element, operation.name.rpartition(".")[2]
    if _width(element) > _MOST_BITS:
        return None
    function, full, (a, b, known) = _LOGIC[name], (1 << _width(element)) - 1, _range(operands[0])
    c, d, also = (np.int64(full), np.int64(full), np.True_) if name == "not" else _range(operands[1])
    a, b, c, d = np.where(known, a, 0), np.where(known, b, full), np.where(also, c, 0), np.where(also, d, full)
    known = known & also
    u, v = _below(a ^ b), _below(c ^ d)  # the bits that are not known
    if function is np.bitwise_xor:
        low, high = (a ^ c) & ~(u | v), (a ^ c) | u | v
    else:
        low, high = function(a & ~u, c & ~v), function(b | u, d | v)
    # With a mask, between the ends of the other operand.
    a, b, mask = np.where(v == 0, a, c), np.where(v == 0, b, d), np.where(v == 0, c, a)
    some, rest = mask & (u | v), ~mask & (u | v)
    grows = {"and": rest & (rest + 1) == 0, "or": some & (some + 1) == 0}.get(name, some == 0)
    falls = (function is np.bitwise_xor) & (rest == 0)
    ends, is_mask = (function(a, mask), function(b, mask)), (u == 0) | (v == 0)
    low = np.where(is_mask & grows, ends[0], np.where(is_mask & falls, ends[1], low))
    high = np.where(is_mask & grows, ends[1], np.where(is_mask & falls, ends[0], high))
    return _finish(e, operation, operands, low, high, known | (low == high))


def _below(x: np.ndarray) -> np.ndarray:
    """Return all bits up to the highest of numbers."""
    return (np.int64(1) << np.frexp(x.astype(np.float64))[1].astype(np.int64)) - 1


@rule("shift_left", "shift_right_logical", "shift_right_arithmetic", "count_leading_zeros")
def shift(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Shifts of integers of one sign that lose no bit on the left, and the number of zeros there."""
    element, name = operands[0].element, operation.name.rpartition(".")[2]
    width = _width(element)
    if width > _MOST_BITS:
        return None
    low, high, known = _range(operands[0])
    if name == "count_leading_zeros":
        least, most = (width - np.frexp(v * 1.0)[1].astype(np.int64) for v in (high, low))
        return _finish(e, operation, operands, least, most, known)
    least, most, also = _range(operands[1])
    known = known & also & (most < width)
    least, most = (np.where(known, v, 0) for v in (least, most))
    is_signed = name == "shift_right_arithmetic" or (name == "shift_left" and element.kind is Kind.SIGNED)
    signs = [(v >> (width - 1)) * is_signed for v in (low, high)]
    low, high = (v - (sign << width) for v, sign in zip((low, high), signs, strict=True))
    to = np.left_shift if name == "shift_left" else np.right_shift
    corners = [to(v, s) for v in (low, high) for s in (least, most)]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    limit = np.int64(1) << (width - is_signed)
    known = known & (signs[0] == signs[1]) & (low >= -limit) & (high < limit)
    full = (1 << width) - 1
    return _finish(e, operation, operands, low & full, high & full, known)
