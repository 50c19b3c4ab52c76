"""The hyperbolic functions, and the inverses of these and of the circular ones: of one number, and of arrays.

As in `elementary.py`, each scalar function gives the exact value, rounded to odd to WORK_BITS. By the theorem of
Lindemann and Weierstrass none of them is algebraic at an algebraic number, except where that is handled beforehand.
"""

from __future__ import annotations

import math

from . import elementary
from . import fixedpoint as fixed
from .elementary import START, TINY, Triple, beside, clamped, fixed_exp, is_linear, magnitude, near, ziv
from .functions import (
    BOTH_INVALID,
    HALF_PI,
    INFINITY,
    INVALID,
    MINUS_INFINITY,
    ONE,
    PI,
    SAME_INFINITIES,
    SAME_ZEROS,
    ZERO,
    Lifted,
    Value,
    at_one,
    exceeds_one,
    is_one,
)

# -- of one number: finite, not zero, in the domain, and not where the result is exact -------------------------------

_MINUS_HALF_PI: Value = (HALF_PI[0], True, *HALF_PI[2:])


def _asin(sign: bool, m: int, e: int) -> Triple:
    """The arc sine of x, |x| < 1."""
    if is_linear(m, e, 3):
        return beside(sign, m, e, up=True)

    def enclose(p: int) -> tuple[int, int, int]:
        # Twice the angle whose tangent is m / (2**-e + sqrt(4**-e - m*m)). The root is one unit of 2**-w off, the
        # denominator is at least 2**-e, so the tangent is off by less than 1/16 unit.
        w = p + 4
        root = math.isqrt(((1 << -2 * e) - m * m) << 2 * w)
        v = 2 * fixed.atan(m << w, (1 << w - e) + root, 0, p)
        return v - 5, v + 5, -p

    return sign, *ziv(enclose, START - min(magnitude(m, e), 0))[1:]


def _acos(sign: bool, m: int, e: int) -> Triple:
    """The arc cosine of x, |x| < 1."""

    def enclose(p: int) -> tuple[int, int, int]:
        # Twice the angle whose tangent is sqrt((1 - |x|) / (1 + |x|)), which is less than 1/16 unit off.
        w, one = p + 4, 1 << -e
        root = math.isqrt(((one - m) << 2 * w) // (one + m))
        v = 2 * fixed.atan(root, 1, -w, p)
        v = fixed.pi(p) - v if sign else v
        return v - 7, v + 7, -p

    return ziv(enclose)


def _sinh(sign: bool, m: int, e: int) -> Triple:
    """The hyperbolic sine of x."""
    top = magnitude(m, e)
    if is_linear(m, e, 3):
        return beside(sign, m, e, up=True)
    if top >= fixed.EXP_LIMIT:
        return sign, *clamped(up=True)[1:]

    return sign, *ziv(lambda p: _half_sum(m, e, -1, p), START - min(top, 0))[1:]


def _cosh(_: bool, m: int, e: int) -> Triple:
    """The hyperbolic cosine of x."""
    top = magnitude(m, e)
    if 2 * top <= TINY:
        return beside(False, 1, 0, up=True)
    if top >= fixed.EXP_LIMIT:
        return clamped(up=True)

    return ziv(lambda p: _half_sum(m, e, 1, p))


def _half_sum(m: int, e: int, direction: int, p: int) -> tuple[int, int, int]:
    """(exp(x) + direction exp(-x)) / 2 for x = m * 2**e, between low and high, times 2**exponent."""
    # exp(x) (1 + direction exp(-2x)) / 2: the factors are 11 and 7 units off, and at most 2.
    v, k = fixed_exp(False, m, e, p)
    t, below = fixed_exp(True, m, e + 1, p)
    v = v * ((1 << p) + direction * (t >> -below)) >> p
    return v - 64, v + 64, k - p - 1


def _log_of_sum(m: int, e: int, sign_of_one: int, p: int) -> int:
    """The logarithm of x + sqrt(x*x ± 1), which is at least 1, fixed at p, within 5 units."""
    # x and what is under the root are cut, each by less than a unit, and so is the root: 3 units.
    root = math.isqrt(fixed.scaled(m * m, 2 * (e + p)) + (sign_of_one << 2 * p))
    return fixed.log(fixed.scaled(m, e + p) + root, -p, p)


def _asinh(sign: bool, m: int, e: int) -> Triple:
    """The inverse of the hyperbolic sine at x."""
    if is_linear(m, e, 3):
        return beside(sign, m, e, up=False)
    return sign, *ziv(near(lambda p: _log_of_sum(m, e, 1, p), 5), START - min(magnitude(m, e), 0))[1:]


def _acosh(_: bool, m: int, e: int) -> Triple:
    """The inverse of the hyperbolic cosine at x > 1."""
    return ziv(near(lambda p: _log_of_sum(m, e, -1, p), 5))  # p is so large that nothing but the root is cut


def _atanh(sign: bool, m: int, e: int) -> Triple:
    """The inverse of the hyperbolic tangent at x, |x| < 1."""
    if is_linear(m, e, 3):
        return beside(sign, m, e, up=True)

    def enclose(p: int) -> tuple[int, int, int]:
        one = 1 << -e
        v = fixed.log(one + m, e, p) - fixed.log(one - m, e, p)
        return v - 4, v + 4, -p - 1

    return sign, *ziv(enclose, START - min(magnitude(m, e), 0))[1:]


# -- of arrays ---------------------------------------------------------------------------------------------------------


asin = Lifted(_asin, SAME_ZEROS, BOTH_INVALID, at_one(HALF_PI, _MINUS_HALF_PI))
acos = Lifted(_acos, (HALF_PI, HALF_PI), BOTH_INVALID, at_one(ZERO, PI))
atan = Lifted(lambda sign, m, e: elementary.atan2(sign, m, e, False, 1, 0), SAME_ZEROS, (HALF_PI, _MINUS_HALF_PI))
sinh = Lifted(_sinh, SAME_ZEROS, SAME_INFINITIES)
cosh = Lifted(_cosh, (ONE, ONE), (INFINITY, INFINITY))
asinh = Lifted(_asinh, SAME_ZEROS, SAME_INFINITIES)
acosh = Lifted(
    _acosh,
    BOTH_INVALID,
    (INFINITY, INVALID),
    ((lambda x: is_one(x) & ~x.sign, ZERO), (lambda x: x.sign | ~exceeds_one(x), INVALID)),
)
atanh = Lifted(_atanh, SAME_ZEROS, BOTH_INVALID, at_one(INFINITY, MINUS_INFINITY))
