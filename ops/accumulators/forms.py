"""Rounding of f64 arrays to the forms in which accumulators keep sums, bit by bit."""

from __future__ import annotations

import numpy as np

from ..minifloat.formats import Format

_MANTISSA, _BIAS, _FIELD = 52, 1023, 0x7FF


def exponent(x: np.ndarray) -> np.ndarray:
    """floor(log2(|x|)) of normal f64 numbers; -1023 for zero, 1024 for infinities and NaN."""
    return (x.view(np.int64) >> _MANTISSA & _FIELD) - _BIAS


def power(e: np.ndarray) -> np.ndarray:
    """2**e as f64, for integers of -1022 to 1023."""
    return ((e.astype(np.int64) + _BIAS) << _MANTISSA).view(np.float64)


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


def rounded(x: np.ndarray, form: Format, rounding: str, overflow: str = "infinity") -> np.ndarray:
    """f64 numbers rounded to a form of at most 52 fraction bits, as f64. A result that rounds to zero keeps its sign.

    Infinities and NaN stay. `overflow` is what a finite number beyond the largest becomes, however it is rounded.
    """
    if form.mantissa_bits >= _MANTISSA:
        return x
    cut = _MANTISSA - form.mantissa_bits
    least = 1 - form.bias  # the exponent of the smallest normal number
    magnitude = np.abs(x)
    # Sums in forms of f64's range are never so small.
    tiny = magnitude < 2.0**least if form.exponent_bits < 11 else np.zeros(x.shape, bool)
    bits = x.view(np.int64)
    unit = np.int64(1) << cut
    if rounding == "nearest_even":
        result = bits + ((unit >> 1) - 1) + (bits >> cut & 1)
    elif rounding == "toward_zero":
        result = bits
    else:  # away from zero where the direction is the number's own
        result = bits + np.where((x < 0) == (rounding == "down"), unit - 1, 0) * np.isfinite(x)
    result = (result & -unit).view(np.float64)
    if tiny.any():
        scaled = x[tiny] * 2.0 ** (form.mantissa_bits - least)
        result[tiny] = _WHOLE[rounding](scaled) * 2.0 ** (least - form.mantissa_bits)
    largest = (2.0 - 2.0**-form.mantissa_bits) * 2.0**form.bias
    over = (np.abs(result) > largest) & np.isfinite(x)
    if over.any():
        beyond = {"infinity": np.inf, "largest": largest, "nan": np.nan}[overflow]
        result[over] = np.copysign(beyond, result[over])
    return result


_WHOLE = {"nearest_even": np.rint, "toward_zero": np.trunc, "down": np.floor, "up": np.ceil}
