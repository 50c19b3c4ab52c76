"""Rounding of f64 arrays to the forms in which accumulators keep sums, bit by bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..minifloat.formats import Format

#: The fraction bits of f64.
MANTISSA = 52
_BIAS, _FIELD = 1023, 0x7FF


class Form(NamedTuple):
    """The form of sums: a format, or several that differ in their fraction bits, an array that broadcasts with sums."""

    mantissa_bits: Any
    bias: int
    exponent_bits: int

    @classmethod
    def of(cls, fmt: Format) -> Form:
        return cls(fmt.mantissa_bits, fmt.bias, fmt.exponent_bits)

    @property
    def is_f64(self) -> bool:
        """Whether no bit of f64 is cut off."""
        return isinstance(self.mantissa_bits, int) and self.mantissa_bits >= MANTISSA


def exponent(x: np.ndarray) -> np.ndarray:
    """floor(log2(|x|)) of normal f64 numbers; -1023 for zero, 1024 for infinities and NaN."""
    return (x.view(np.int64) >> MANTISSA & _FIELD) - _BIAS


def power(e: np.ndarray) -> np.ndarray:
    """2**e as f64, for integers of -1022 to 1023."""
    return ((e.astype(np.int64) + _BIAS) << MANTISSA).view(np.float64)


def two_to(n: Any) -> Any:
    """2**n, of an integer or of an array of integers."""
    return 2.0**n if isinstance(n, int) else np.ldexp(1.0, n)


def add_to_odd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y rounded to odd in f64: to be rounded again to at most 51 bits of precision, in any way."""
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)  # exact (Knuth's two-sum)
    inexact = (error != 0) & np.isfinite(total)
    if not inexact.any():
        return total
    total = np.array(total)
    bits = total.view(np.int64)
    # Where the sum was rounded away from zero, the number below it in magnitude is the one that was cut off to.
    bits -= inexact & ((error < 0) == (total > 0))
    bits |= inexact
    return total


def round_to_form(x: np.ndarray, form: Form, rounding: str, overflow: str = "infinity") -> np.ndarray:
    """f64 numbers rounded to a form of at most 52 fraction bits, as f64. A result that rounds to zero keeps its sign.

    Infinities and NaN stay. `overflow` is what a finite number beyond the largest becomes, however it is rounded.
    """
    if form.is_f64:
        return x
    least = 1 - form.bias  # the exponent of the smallest normal number
    unit = np.int64(1) << np.int64(MANTISSA - form.mantissa_bits)
    magnitude = np.abs(x)
    bits = x.view(np.int64)
    if rounding == "nearest_even":
        result = bits + ((unit >> 1) - 1) + ((bits & unit) != 0)
    elif rounding == "toward_zero":
        result = bits
    else:  # away from zero where the direction is the number's own
        result = bits + np.where((x < 0) == (rounding == "down"), unit - 1, 0)
    result = (result & -unit).view(np.float64)
    # Sums in forms of f64's range are never so small.
    if form.exponent_bits < 11 and (tiny := magnitude < 2.0**least).any():
        scale = two_to(form.mantissa_bits - least)
        if np.ndim(scale):
            scale = np.broadcast_to(scale, x.shape)[tiny]
        result[tiny] = _WHOLE[rounding](x[tiny] * scale) / scale
    largest = (2.0 - two_to(-form.mantissa_bits)) * 2.0**form.bias
    if not (np.abs(result) <= largest).all() or not (magnitude <= largest).all():
        special = ~np.isfinite(x)
        result[special] = x[special]  # the bits of a NaN can have become those of a zero
        over = (np.abs(result) > largest) & ~special
        beyond = {"infinity": np.inf, "largest": np.broadcast_to(largest, x.shape)[over], "nan": np.nan}[overflow]
        result[over] = np.copysign(beyond, result[over])
    return result


_WHOLE = {"nearest_even": np.rint, "toward_zero": np.trunc, "down": np.floor, "up": np.ceil}
