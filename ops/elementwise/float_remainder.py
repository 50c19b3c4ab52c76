"""Remainders of arrays of floats by their quotients, where these tell them exactly.

C's `fmod`, which numpy calls for each element, takes 8 to 20 ns. Divisions of arrays take 2 and less.
"""

from __future__ import annotations

import math

import numpy as np

from ..engine.speed import tuning

#: Quotients of f32 below this, as f64, are not rounded to the next integer, and times the divisor they are exact: two
#: numbers of 24 bits have a quotient that is an integer, or at least 2**-24 away from one.
_MOST = 2.0**29


def float_remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The remainders with the sign of `x`; None where they have to be found otherwise."""
    if y.shape != x.shape and not (y.size == 1 and y.ndim <= x.ndim):
        return None
    if not any(y.strides):  # one number
        y = y[(slice(1),) * y.ndim].reshape(1)
        number = float(y[0])
        if abs(number) >= 1 and math.frexp(number)[0] in (-0.5, 0.5):
            return _by_power(x, y)
    return _by_quotient(x, y) if x.dtype == np.float32 else None


def _by_power(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """By a power of two that is not below 1: steps are exact, or round a quotient below 1. None where there is NaN."""
    rest = np.asarray(x / y)
    np.trunc(rest, out=rest)
    rest *= y
    np.subtract(x, rest, out=rest)
    return _signed(rest, x)


def _by_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """Of f32, in f64. None where a quotient is too large, or there is NaN."""
    result, flat = np.empty(x.shape, x.dtype), x.reshape(-1)
    into, divisors, step = result.reshape(-1), y.reshape(-1), tuning().function_block
    room = np.empty((3, min(x.size, step)))
    for i in range(0, x.size, step):
        part = flat[i : i + step]
        rest, divisor, quotient = room[:, : len(part)]
        np.copyto(rest, part)
        np.copyto(divisor, divisors if len(divisors) == 1 else divisors[i : i + step])
        np.divide(rest, divisor, out=quotient)
        np.trunc(quotient, out=quotient)
        if not (quotient.max() < _MOST and quotient.min() > -_MOST):
            return None
        quotient *= divisor
        rest -= quotient
        np.copyto(into[i : i + step], rest, casting="same_kind")
    return _signed(result, x)


def _signed(rest: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """Zeros get the sign of `x`; other remainders have it. None where there is NaN."""
    if np.count_nonzero(rest != rest):
        return None
    bits = rest.view(f"u{rest.itemsize}")
    bits |= x.view(bits.dtype) & bits.dtype.type(1 << (8 * rest.itemsize - 1))
    return rest
