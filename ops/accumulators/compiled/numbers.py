"""Arithmetic on f64 for the compiled kernel: cutting bits off, exact sums, rounding to the form that is kept.

`forms.py` and `exact_sum.py` have the same for arrays. A row is rounded in place: with two arrays, which may overlap,
the compiler would generate scalar code.
"""

from __future__ import annotations

import numpy as np

from ...engine.fast.instructions import choose, inner

ABSENT = -4000  # as in `operands.py`
_u64, _i64, _i16, _f64 = np.uint64, np.int64, np.int16, np.float64
_INFINITY = np.inf
_LARGEST = float(np.finfo(np.float64).max)
_SIGN = _u64(1 << 63)
_FIELD, _CUT = _u64(0x7FF), _u64(52)


@inner
def word_of(x):
    return _f64(x).view(_u64)


@inner
def f64_of(word):
    return _u64(word).view(_f64)


@inner
def signed(magnitude, x):
    """A magnitude with the sign of x."""
    return f64_of(word_of(magnitude) | (word_of(x) & _SIGN))


@inner
def exponent(x):
    return _i64((word_of(x) >> _CUT) & _FIELD) - 1023


@inner
def power(e):
    return f64_of(_u64(_i64(e) + 1023) << _CUT)


@inner
def is_finite(x):
    return abs(x) <= _LARGEST


# -- what is cut off --


@inner
def cut_zero(x):
    return np.trunc(x)


@inner
def cut_floor(x):
    return np.floor(x)


@inner
def cut_sticky(x):
    whole = np.trunc(x)
    return whole + choose(whole != x, signed(0.5, x), 0.0)


@inner
def cut_nearest(x):
    return np.rint(x)


@inner
def cut(x, drop):
    if drop == 0:
        return np.trunc(x)
    if drop == 1:
        return np.floor(x)
    return cut_sticky(x) if drop == 2 else np.rint(x)


@inner
def unlimited(x, limit):  # noqa: ARG001 - as `limited`
    return x


@inner
def limited(x, limit):
    """x, or infinity with its sign where its magnitude reaches the limit."""
    return choose(abs(x) >= limit, signed(_INFINITY, x), x)


# -- sums without alignment --


@inner
def error(x, y, total):
    """The error of `total`, the rounded sum of finite numbers: x + y - total, exactly."""
    part = total - x
    return (x - (total - part)) + (y - part)


@inner
def to_odd(total, error):
    """The exact sum `total + error` rounded to odd, where `total` is rounded to nearest."""
    wrong = (error != 0.0) & is_finite(total)
    away = wrong & ((error < 0.0) == (total > 0.0))
    bits = word_of(total) - choose(away, _u64(1), _u64(0))
    return f64_of(bits | choose(wrong, _u64(1), _u64(0)))


@inner
def exact_sum(terms, expansion):
    """The exact sum of finite numbers, rounded to odd.

    The sum is kept as an expansion in the sense of Shewchuk (Adaptive precision floating-point arithmetic, 1997):
    numbers whose bits do not overlap, the smallest first. Each term is added to all of them in turn. At the end they
    are added up from the smallest on, with each sum rounded to odd.
    """
    count = 0
    for n in range(terms.size):
        term = terms[n]
        for m in range(count):
            total = term + expansion[m]
            expansion[m] = error(term, expansion[m], total)
            term = total
        expansion[count] = term
        count += 1
    total = 0.0
    for m in range(count):
        plain = expansion[m] + total
        total = to_odd(plain, error(expansion[m], total, plain))
    return total


# -- rounding --


@inner
def _finish(x, whole, result, low, unit, largest, beyond, normal):
    """Complete a rounding: `whole * unit` for subnormal numbers, otherwise `result`; then overflow and flushing."""
    result = choose(abs(x) < low, whole * unit, result)
    result = choose(abs(result) > largest, signed(beyond, result), result)
    result = choose(is_finite(x), result, x)
    return choose(abs(result) < normal, signed(0.0, result), result)


def _rounder(rounding):
    """A function that rounds a row to a form, in place.

    `form` is a row of `served.forms`: the smallest normal number, the unit of subnormals, the largest number, the
    result of overflow, and the smallest number that is not flushed (0: none is).
    """
    zero, nearest, down = rounding == "toward_zero", rounding == "nearest_even", rounding == "down"

    @inner
    def round_row(row, cut, form):
        low, unit, largest, beyond, normal = form[0], form[1], form[2], form[3], form[4]
        factor, at, step = 1.0 / unit, _u64(cut), _u64(1) << _u64(cut)
        mask, half = ~(step - _u64(1)), (step >> _u64(1)) - _u64(1)
        for j in range(row.size):
            x = row[j]
            bits, tiny = word_of(x), x * factor
            if zero:
                whole = np.trunc(tiny)
            elif nearest:
                bits += half + ((bits >> at) & _u64(1))
                whole = np.rint(tiny)
            elif down:
                bits += choose(x < 0.0, step - _u64(1), _u64(0))
                whole = np.floor(tiny)
            else:
                bits += choose(x < 0.0, _u64(0), step - _u64(1))
                whole = np.ceil(tiny)
            row[j] = _finish(x, whole, f64_of(bits & mask), low, unit, largest, beyond, normal)

    return round_row


_round_zero, _round_nearest = _rounder("toward_zero"), _rounder("nearest_even")
_round_down, _round_up = _rounder("down"), _rounder("up")


@inner
def keep(row, cut, form, rounding):
    if rounding == 0:
        _round_zero(row, cut, form)
    elif rounding == 1:
        _round_nearest(row, cut, form)
    elif rounding == 2:
        _round_down(row, cut, form)
    else:
        _round_up(row, cut, form)


@inner
def plus(x, y, needs_odd):
    """Add y to x; rounded to odd if `needs_odd`, so that the sum can then be rounded in any direction."""
    if needs_odd:
        for j in range(x.size):
            t = x[j] + y[j]
            x[j] = to_odd(t, error(x[j], y[j], t))
    else:
        for j in range(x.size):
            x[j] += y[j]
