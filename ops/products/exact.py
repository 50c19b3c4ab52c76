"""Products of matrices whose sums are exact and rounded once: equal bits in any order, on every machine.

The numbers of an operand are multiples of one power of two, and so are sums of products. BLAS is exact in any order in
a type that holds the largest sum in such units: f32 up to 24 bits, f64 up to 53. The formats of the operands say so, or
else their own numbers. Where no type does, each operand is cut into slices of neighbouring bits, narrow enough that the
product of two slices is exact (Ozaki et al., 2012), and those products are added in integers of as many words as it
takes. The number of slices depends on the spread of the operands' exponents: two or three for ordinary f32.

`reproducible` takes two slices of f32 at most, the leading bits of each row and column, and three products of them. It
rounds a few times, always in the same way.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import blas
from ..accumulators.exact_sum import ExactSums
from ..cast import array_of, cast, codes_of
from ..minifloat.codec import decode, round_number
from ..minifloat.formats import Format
from ..policy import Policy
from ..types import ELEMENT_TYPES, ElementType

if TYPE_CHECKING:
    from .contraction import Contraction

_PLAIN = Policy()
_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]
#: The words of exact sums that are held at a time.
_MOST_WORDS = 1 << 21


class Range(NamedTuple):
    """The finite numbers of an operand are multiples of 2**low, less than 2**bits times that in magnitude."""

    low: int
    bits: int

    @property
    def high(self) -> int:
        return self.low + self.bits


def exact_matmul(c: Contraction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product of (batch, M, K) and (batch, K, N) floats or complex numbers, each part of an element rounded once.

    NaN where a product is NaN or both infinities occur. A zero sum is +0, as a sum that starts from +0 is; rounding
    down it is -0 unless every product is +0 (IEEE 754 section 6.3). Of operands that are not both minifloats, results
    of 32 bits and more are rounded to nearest even.
    """
    if not (c.lhs.is_minifloat and c.rhs.is_minifloat):
        if c.lhs.is_complex or c.rhs.is_complex:
            return _complex(c, x, y)
        if c.result.is_complex:
            return cast(exact_matmul(c.into(c.result.part), x, y), c.result.part, c.result, _PLAIN)
        if c.result.bits >= 32:
            c = dataclasses.replace(c, policy=dataclasses.replace(c.policy, rounding="nearest_even"))
        if c.policy.accumulate == "reproducible" and max(c.lhs.bits, c.rhs.bits) <= 32:
            return c.round(_reproducible(cast(x, c.lhs, _F32, _PLAIN), cast(y, c.rhs, _F32, _PLAIN)), _F64)
    return exact_product(c, x, y)


def _complex(c: Contraction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product of complex numbers: two of real ones, of twice as many terms."""
    part = _F64 if any(t.part.bits == 64 for t in (c.lhs, c.rhs)) else _F32
    compute = ELEMENT_TYPES[f"complex<{part}>"]
    (a, b), (e, f) = (
        (np.real(v), np.imag(v)) for v in (cast(x, c.lhs, compute, _PLAIN), cast(y, c.rhs, compute, _PLAIN))
    )
    result = c.result if c.result.is_float or c.result.is_complex else _F64
    parts = dataclasses.replace(c, lhs=part, rhs=part, result=result.part)
    real = exact_matmul(parts, np.concatenate((a, -b), -1), np.concatenate((e, f), -2))
    if not result.is_complex:
        return cast(real, result, c.result, c.policy)
    product = np.empty(real.shape, result.dtype)
    product.real = real
    product.imag = exact_matmul(parts, np.concatenate((a, b), -1), np.concatenate((f, e), -2))
    return product


def exact_product(
    c: Contraction, x: np.ndarray, y: np.ndarray, ranges: tuple[Range, Range] | None = None
) -> np.ndarray:
    """The product of floats, each element rounded once as the policy says; `ranges` are the operands', if known."""
    compute = exact_type_of_formats(c.lhs, c.rhs, x.shape[-1]) if ranges is None else None
    if compute is None:
        ranges = ranges or (range_of(x, c.lhs), range_of(y, c.rhs))
        compute = _exact_type(*ranges, x.shape[-1])
    wide = compute or _F64
    x, y = (v if v.dtype == wide.dtype else cast(v, t, wide, _PLAIN) for v, t in ((x, c.lhs), (y, c.rhs)))
    sums = blas.matmul(x, y) if compute or not ranges else _sliced_sums(c, x, y, *ranges)
    if c.policy.rounding == "down":
        _set_negative_zeros(sums, x, y)
    if not np.isfinite(sums).all():
        sums[np.isnan(sums)] = np.nan  # whatever its sign was
        if c.policy.overflow != "ieee":
            sums = sums.astype(np.float64)  # infinities may saturate where they are rounded to f32
    return c.round(sums, _F32 if sums.dtype == np.float32 else _F64)


def _exact_type(x: Range, y: Range, length: int) -> ElementType | None:
    """The host's type that holds the operands and all sums of so many of their products; None if neither does."""
    bits, low = x.bits + y.bits + max(length - 1, 0).bit_length(), x.low + y.low
    for element, precision, bias in ((_F32, 24, 127), (_F64, 53, 1023)):
        if bits <= precision and min(x.low, y.low, low) > -bias and max(x.high, y.high, low + bits) <= bias:
            return element
    return None


@functools.lru_cache(1 << 10)
def exact_type_of_formats(lhs: ElementType, rhs: ElementType, length: int) -> ElementType | None:
    """The same for all numbers of two formats."""
    x, y = (range_between(t.format, int(t.format.has_zero), t.format.max_code) for t in (lhs, rhs))
    return _exact_type(x, y, length)


def range_of(x: np.ndarray, t: ElementType) -> Range:
    """The range of the numbers that there are, of a float or integer type."""
    if not t.is_float:
        return Range(0, t.bits)
    fmt, code = t.format, t.format.code_dtype.type
    codes = codes_of(x, fmt)
    magnitude = codes & code(fmt.sign_bit - 1) if fmt.is_signed else codes
    top = int(magnitude.max(initial=0))
    if top > fmt.max_code:  # infinity or NaN
        top = int(magnitude.max(initial=0, where=magnitude <= fmt.max_code))
    # Subtracting one makes zero the largest code, so that the minimum is that of the others.
    skipped = code(fmt.has_zero)
    bottom = int((magnitude - skipped).min(initial=np.iinfo(code).max)) + int(skipped)
    return Range(0, 0) if bottom > fmt.max_code else range_between(fmt, bottom, top)


@functools.lru_cache(1 << 12)
def range_between(fmt: Format, bottom: int, top: int) -> Range:
    """The range of the numbers between two codes."""
    ends = decode(np.array([bottom, top], fmt.code_dtype), fmt)
    low, high = ends.exponent.tolist()
    return Range(low, int(ends.significand[1]).bit_length() + high - low)


def _sliced_sums(c: Contraction, x: np.ndarray, y: np.ndarray, x_range: Range, y_range: Range) -> np.ndarray:
    """The sums of the products of all slices, a part of the rows at a time."""
    (batch, rows, length), columns = x.shape, y.shape[-1]
    x_parts, y_parts = slice_counts(x_range.bits, y_range.bits, room(length))
    xs, ys = _slices(x, x_range, x_parts), _slices(y, y_range, y_parts)
    low, bits = x_range.low + y_range.low, x_range.bits + y_range.bits + length.bit_length() + 2
    draws = c.random.draws(c.policy) if c.result == _F64 else None
    result = np.empty((batch, rows, columns))
    for part in blas.parts(batch, rows, columns * (bits // 48 + 1), _MOST_WORDS):
        exact = ExactSums(result[part].shape, low, bits)
        for x_slice, x_exponent in xs:
            for y_slice, y_exponent in ys:
                exact.add(blas.matmul(x_slice[part], y_slice[part[0]]), x_exponent + y_exponent)
        if c.result == _F64:
            result[part] = array_of(round_number(exact.to_number(), _F64.format, c.policy, draws), _F64.format)
        else:
            result[part] = exact.to_f64()
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        special = blas.matmul(_signs(x), _signs(y))
        np.copyto(result, special, where=~np.isfinite(special))
    return result


def room(length: int) -> int:
    """The bits that two slices may have together, so that sums of their products have 53 at most."""
    return 53 - max(length - 1, 0).bit_length()


@functools.cache
def slice_counts(x_bits: int, y_bits: int, most: int) -> tuple[int, int]:
    """The numbers of slices, with the fewest products, so that no two have more than `most` bits together."""
    choices = []
    for x_parts in range(1, max(x_bits, 1) + 1):
        left = most - -(-x_bits // x_parts)
        if left > 0:
            y_parts = max(-(-y_bits // left), 1)
            choices.append((x_parts * y_parts, x_parts, y_parts))
    return min(choices)[1:]


def _slices(x: np.ndarray, span: Range, parts: int) -> list[tuple[np.ndarray, int]]:
    """Integers of at most so many bits each, with the power of two that they are multiplied by; only what is not zero.

    Of each number the high bits first, cut off: so all slices have its sign.
    """
    x, step, slices = np.where(np.isfinite(x), x, 0.0), max(-(-span.bits // parts), 1), []
    for first in range((parts - 1) * step, -1, -step):
        part = np.trunc(_times_power(x, -(span.low + first)))
        if part.any():
            slices.append((part, span.low + first))
            x = x - _times_power(part, span.low + first)
    return slices


def _times_power(x: np.ndarray, exponent: int) -> np.ndarray:
    return x * 2.0**exponent if abs(exponent) < 1000 else np.ldexp(x, exponent)


def _signs(x: np.ndarray) -> np.ndarray:
    """Numbers as their signs, infinities and NaN as they are: a sum of products of these is finite where that of the
    numbers is."""
    return np.where(np.isfinite(x), np.sign(x), x)


def _set_negative_zeros(sums: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Give zero sums the sign they have when rounding down."""
    zero = sums == 0
    if zero.any():
        # Products that are +0: all of equal signs, less those of two numbers that are not zero.
        marks = []
        for v, axis in ((x, -1), (y, -2)):
            negative, is_zero = np.signbit(v), v == 0
            each = (negative, ~negative, negative & ~is_zero, ~negative & ~is_zero)
            marks.append(np.concatenate(each, axis).astype(np.float64))
        marks[0][..., marks[0].shape[-1] // 2 :] *= -1
        sums[zero & (blas.matmul(*marks) < x.shape[-1])] = -0.0


def _reproducible(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product of f32 in f64, nearly exact: the error is below 2**-40 of the length times the largest magnitudes of
    the row and the column. Equal bits everywhere, at the cost of three products in f64."""
    bits = room(x.shape[-1]) // 2
    (x_high, x_rest, x_scale), (y_high, y_rest, y_scale) = _two_slices(x, -1, bits), _two_slices(y, -2, bits)
    sums = blas.matmul(x_rest, y_high)
    sums += blas.matmul(x_high, y_rest)
    sums *= 2.0**-bits
    sums += blas.matmul(x_high, y_high)
    sums = np.ldexp(sums, x_scale + y_scale)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        special = blas.matmul(_signs(x), _signs(y))
        np.copyto(sums, special, where=~np.isfinite(special))
        sums[np.isnan(sums)] = np.nan
    return sums


def _two_slices(x: np.ndarray, axis: int, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The leading bits of numbers of each row or column, scaled to one at most; those that follow; the exponents."""
    x = np.where(np.isfinite(x), x, 0).astype(np.float64)
    scale = np.frexp(np.abs(x).max(axis, keepdims=True, initial=0))[1]
    unit = np.ldexp(x, bits - scale)
    high = np.rint(unit)
    rest = np.rint(np.ldexp(unit - high, bits))
    return np.ldexp(high, -bits), np.ldexp(rest, -bits), scale
