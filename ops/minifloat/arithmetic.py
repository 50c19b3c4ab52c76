"""Exact arithmetic on unpacked numbers, in integers: no host floating point and no rounding to a format.

Operands have significands of at most 31 bits (any format up to f32 after decoding). Results are exact, or rounded to
odd where they cannot be (see `number.py`). The rules for infinities, NaN and signed zeros are IEEE 754-2019's
(sections 6 and 7); an invalid operation gives a positive NaN, and a NaN operand hands on its sign.
"""

from __future__ import annotations

import functools

import numpy as np

from .codec import bit_length, rounds_up
from .number import CANCELLED, FINITE, INFINITE, NAN, WORK_BITS, Number, finite


def negate(x: Number) -> Number:
    """-x, of zeros, infinities and NaN too."""
    return x.replace(sign=~x.sign)


def absolute(x: Number) -> Number:
    """|x|, with the sign of NaN cleared too."""
    return x.replace(sign=np.zeros_like(x.sign))


def sign(x: Number) -> Number:
    """-1, 1, or the operand itself where it is a zero or NaN."""
    one = (x.kind == INFINITE) | ((x.kind == FINITE) & (x.significand != 0))
    return Number(np.where(one, FINITE, x.kind), x.sign, np.where(one, 1, x.significand), np.where(one, 0, x.exponent))


def add(x: Number, y: Number) -> Number:
    """x + y."""
    x_normal, y_normal = _normalised(x), _normalised(y)
    swap = x_normal.exponent < y_normal.exponent
    big, small = _select(swap, y_normal, x_normal), _select(swap, x_normal, y_normal)
    shift = np.minimum(big.exponent - small.exponent, 62)
    kept = small.significand >> shift
    kept = kept | (kept << shift != small.significand)
    total = np.where(big.sign, -big.significand, big.significand) + np.where(small.sign, -kept, kept)
    cancelled = (total == 0) & (x.sign != y.sign)
    negative = np.where(total == 0, x.sign & y.sign, total < 0)
    result = finite(negative, np.abs(total), np.where(cancelled, CANCELLED, big.exponent))
    infinite = x.is_infinite | y.is_infinite
    result = _infinite_where(result, infinite, np.where(x.is_infinite, x.sign, y.sign))
    return _nan_where(result, x.is_infinite & y.is_infinite & (x.sign != y.sign), x, y)


def subtract(x: Number, y: Number) -> Number:
    """x - y."""
    # The sign of a NaN operand is handed on, not flipped.
    return add(x, y.replace(sign=y.sign ^ (y.kind != NAN)))


def multiply(x: Number, y: Number) -> Number:
    """x * y."""
    result = finite(x.sign ^ y.sign, x.significand * y.significand, x.exponent + y.exponent)
    result = _infinite_where(result, x.is_infinite | y.is_infinite, result.sign)
    return _nan_where(result, (x.is_infinite & y.is_zero) | (x.is_zero & y.is_infinite), x, y)


def divide(x: Number, y: Number) -> Number:
    """x / y; a finite number over zero is infinite."""
    x, y = _normalised(x), compact(y)
    divisor = np.where(y.significand == 0, 1, y.significand)
    quotient = x.significand // divisor
    quotient |= quotient * divisor != x.significand
    quotient = np.where(y.is_infinite, 0, quotient)
    result = finite(x.sign ^ y.sign, quotient, x.exponent - y.exponent)
    result = _infinite_where(result, x.is_infinite | y.is_zero, result.sign)
    return _nan_where(result, (x.is_infinite & y.is_infinite) | (x.is_zero & y.is_zero), x, y)


def remainder(x: Number, y: Number) -> Number:
    """x - y * trunc(x / y): exact, with the sign of x (C's fmod)."""
    x, y = compact(x), compact(y)
    low = np.minimum(x.exponent, y.exponent)
    # Both at the lower exponent, as integers of Python, which have any number of bits.
    shifted = (v.significand.astype(object) << (v.exponent - low).astype(object) for v in (x, y))
    dividend, divisor = (np.asarray(v, object) for v in shifted)  # without dimensions they have become plain integers
    rest = np.asarray(dividend % np.where(y.significand == 0, 1, divisor), object)
    keep = (dividend < divisor) | y.is_infinite
    significand = np.where(keep, x.significand, rest).astype(np.int64)
    result = finite(x.sign, significand, np.where(keep, x.exponent, low))
    return _nan_where(result, x.is_infinite | y.is_zero, x, y)


def maximum(x: Number, y: Number) -> Number:
    """IEEE 754 maximum: NaN if either is NaN; +0 is above -0."""
    return _nan_where(_select(less(x, y) | (x.is_zero & y.is_zero & x.sign), y, x), False, x, y)


def minimum(x: Number, y: Number) -> Number:
    """IEEE 754 minimum: NaN if either is NaN; -0 is below +0."""
    return _nan_where(_select(less(y, x) | (x.is_zero & y.is_zero & y.sign), y, x), False, x, y)


def less(x: Number, y: Number) -> np.ndarray:
    """x < y as booleans; false where either is NaN."""
    difference = subtract(x, y)
    return difference.sign & ~difference.is_zero & ~difference.is_nan


def equal(x: Number, y: Number) -> np.ndarray:
    """x == y as booleans: zeros of either sign are equal, NaN equals nothing."""
    return subtract(x, y).is_zero | (x.is_infinite & y.is_infinite & (x.sign == y.sign))


def _to_integer(rounding: str, x: Number) -> Number:
    cut = np.clip(-x.exponent, 1, 62)
    kept = x.significand >> cut
    rest = x.significand - (kept << cut)
    whole = kept + rounds_up(rounding, kept, rest, np.int64(1) << (cut - 1), x.sign)
    fractional = (x.exponent < 0) & (x.kind == FINITE)
    return x.replace(
        significand=np.where(fractional, whole, x.significand), exponent=np.where(fractional, 0, x.exponent)
    )


floor, ceil, round_nearest_even, round_nearest_afz = (
    functools.partial(_to_integer, rounding) for rounding in ("down", "up", "nearest_even", "nearest_away")
)


def _normalised(x: Number) -> Number:
    """The same numbers with significands of WORK_BITS bits; zeros get an exponent below any other."""
    shift = WORK_BITS - bit_length(x.significand)
    zero = x.significand == 0
    return x.replace(
        significand=x.significand << np.where(zero, 0, shift),
        exponent=np.where(zero, -(1 << 30), x.exponent - shift),
    )


def compact(x: Number) -> Number:
    """The same numbers with odd significands (zeros stay)."""
    shift = np.bitwise_count((x.significand & -x.significand) - (x.significand != 0)).astype(np.int64)
    return x.replace(significand=x.significand >> shift, exponent=x.exponent + shift)


def _select(condition: np.ndarray, x: Number, y: Number) -> Number:
    return Number(*(np.where(condition, getattr(x, f), getattr(y, f)) for f in Number.__slots__))


def _infinite_where(x: Number, condition: np.ndarray, negative: np.ndarray) -> Number:
    return x.replace(kind=np.where(condition, np.uint8(INFINITE), x.kind), sign=np.where(condition, negative, x.sign))


def _nan_where(result: Number, invalid: np.ndarray | bool, x: Number, y: Number) -> Number:
    """NaN where the operation is invalid or an operand is NaN; the first NaN operand's sign, else positive."""
    from_operand = np.where(x.is_nan, x.sign, y.is_nan & y.sign)
    is_nan = invalid | x.is_nan | y.is_nan
    return result.replace(
        kind=np.where(is_nan, np.uint8(NAN), result.kind), sign=np.where(is_nan, from_operand, result.sign)
    )
