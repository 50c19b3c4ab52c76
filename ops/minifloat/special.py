"""Special functions of exact numbers: the error function, the gamma function and its kin, zeta, a Bessel function.

Each result is rounded to odd to WORK_BITS, as those of `elementary.py` are. There is no proof that these functions
never give a number of so few bits, so the search for the first bits ends at over 10,000 (see `elementary.ziv`). The
functions are made for formats of up to 16 bits; those of the gamma function take time in proportion to the size of
negative arguments.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from . import fixedpoint as fixed
from . import series
from .elementary import START, TINY, Triple, beside, clamped, is_linear, magnitude, near, ziv
from .functions import (
    BOTH_INVALID,
    INFINITY,
    INVALID,
    MINUS_INFINITY,
    MINUS_ONE,
    MINUS_ZERO,
    ONE,
    SAME_ZEROS,
    ZERO,
    Lifted,
    Result,
    Value,
    at_one,
    exceeds_one,
    flat,
    is_one,
)
from .number import FINITE, Number

_TWO: Value = (FINITE, False, 1, 1)
_LARGE_ERF = 3  # from 2**3 on, erfc is below 2**-92
_NO_ERFC = 5  # from 2**5 on, it is below every format
_BEYOND = 1 << 11  # exp of this is beyond every format


# -- of one number -----------------------------------------------------------------------------------------------------


def _erf(sign: bool, m: int, e: int) -> Triple:
    """The error function of x."""
    if magnitude(m, e) > _LARGE_ERF:
        return beside(sign, 1, 0, up=False)

    def enclose(p: int) -> tuple[int, int, int]:
        ratio = series.erf_ratio(fixed.scaled(m * m, 2 * e + p), p)
        return m * (ratio - 3), m * (ratio + 3), e - p

    return sign, *ziv(enclose)[1:]


def _erfc(sign: bool, m: int, e: int) -> Triple:
    """One less the error function of x."""
    top = magnitude(m, e)
    if top <= TINY:
        return beside(False, 1, 0, up=sign)
    if top > _NO_ERFC and not sign:
        return clamped(up=False)
    if top > _LARGE_ERF and sign:
        return beside(False, 1, 1, up=False)

    def enclose(p: int) -> tuple[int, int, int]:
        w = p + _NO_ERFC + 2  # so that x times 3 units of 2**-w is less than a unit of 2**-p
        erf = fixed.scaled(m * series.erf_ratio(fixed.scaled(m * m, 2 * e + w), w), e + p - w)
        v = (1 << p) + (erf if sign else -erf)
        return v - 2, v + 2, -p

    # erfc(x) is above exp(-x * x) / (4 + 4 x), and 1 / log(2) below 3/2.
    return ziv(enclose, START + (0 if sign else 3 * fixed.scaled(m * m, 2 * e) // 2 + 8))


def _erf_inv(sign: bool, m: int, e: int) -> Triple:
    """The inverse of the error function at x, |x| < 1."""
    return sign, *ziv(lambda p: (*series.inverse_erf(m, e, p), -p), START - min(magnitude(m, e), 0))[1:]


def _lgamma(sign: bool, m: int, e: int) -> Triple:
    """The logarithm of |Gamma(x)|, where that is not 1 and not infinite."""
    return ziv(near(lambda p: series.log_gamma(-m if sign else m, e, p), 3))


def _digamma(sign: bool, m: int, e: int) -> Triple:
    """The logarithmic derivative of Gamma at x, which is no pole."""
    return ziv(near(lambda p: series.digamma(-m if sign else m, e, p), 3))


def _bessel_i1e(sign: bool, m: int, e: int) -> Triple:
    """The modified Bessel function I1 of x over exp(|x|)."""
    if is_linear(m, e, 2):
        return beside(sign, m, e - 1, up=False)
    return sign, *ziv(lambda p: series.bessel_i1e(m, e, p))[1:]


def _fraction(m: int, e: int) -> Fraction:
    return Fraction(m << max(e, 0), 1 << max(-e, 0))


def _hurwitz(s: Fraction, q: Fraction, factorial_of: int | None = None) -> Triple:
    """Hurwitz's zeta(s, q), where it is defined; times (s-1)! if that is asked for."""
    if factorial_of is None and q > 0 and q + 1 <= s and q.numerator & (q.numerator - 1) == 0 and s.denominator == 1:
        # q**-s is a power of two; is the rest, which is less than (q+1)**-s (1 + (q+1) / (s-1)), next to nothing?
        ratio = (q + 1) / q
        if s * fixed.log(ratio.numerator, 1 - ratio.denominator.bit_length(), 64) >= 60 << 64:
            top = int(s) * (q.numerator.bit_length() - q.denominator.bit_length())
            return beside(False, 1, -top, up=True) if abs(top) < 2 * _BEYOND else clamped(up=top < 0)

    def enclose(p: int) -> tuple[int, int, int]:
        total, error, power = series.hurwitz_zeta(s, q, p)
        if factorial_of is not None:
            power += series.log_gamma(factorial_of + 1, 0, p)
        if abs(power) >> p >= _BEYOND:
            _, significand, exponent = clamped(up=power > 0)
            significand = significand if total > 0 else -significand
            return significand, significand, exponent
        v, k = fixed.exp(power, p)  # within 8 units, and 4 of `power` at most twice over
        corners = [n * (v + d) for n in (total - error, total + error) for d in (-20, 20)]
        return min(corners), max(corners), k - 2 * p

    return ziv(enclose)


def _zeta(_: bool, s: int, se: int, q_sign: bool, q: int, qe: int) -> Triple:
    """Hurwitz's zeta(s, q) at s > 1, where it is defined."""
    return _hurwitz(_fraction(s, se), _fraction(-q if q_sign else q, qe))


def _polygamma(_: bool, n: int, ne: int, sign: bool, m: int, e: int) -> Triple:
    """The n-th derivative of digamma at x, for an integer n >= 1, where it is no pole."""
    order = n << ne
    negative, significand, exponent = _hurwitz(Fraction(order + 1), _fraction(-m if sign else m, e), order)
    return negative != (order % 2 == 0), significand, exponent


# -- of arrays ---------------------------------------------------------------------------------------------------------


def _is_integer(x: Number) -> np.ndarray:
    """For odd significands."""
    return x.is_zero | ((x.kind == FINITE) & (x.exponent >= 0))


def _is_pole(x: Number) -> np.ndarray:
    """Whether a finite number is 0, -1, -2, …."""
    return _is_integer(x) & (x.sign | x.is_zero)


erf = Lifted(_erf, SAME_ZEROS, (ONE, MINUS_ONE))
erfc = Lifted(_erfc, (ONE, ONE), (ZERO, _TWO))
erf_inv = Lifted(_erf_inv, SAME_ZEROS, BOTH_INVALID, at_one(INFINITY, MINUS_INFINITY))
# At poles as C's lgamma (F.10.5.3), and as XLA's digamma.
lgamma = Lifted(
    _lgamma,
    (INFINITY, INFINITY),
    (INFINITY, INFINITY),
    ((lambda x: ~x.sign & (x.significand == 1) & (x.exponent >> 1 == 0), ZERO), (_is_pole, INFINITY)),
)
digamma = Lifted(_digamma, BOTH_INVALID, (INFINITY, INVALID), ((_is_pole, INVALID),))
bessel_i1e = Lifted(_bessel_i1e, SAME_ZEROS, SAME_ZEROS)


def _poles(result: Result, where: np.ndarray, is_even: np.ndarray) -> None:
    """At poles of even order +inf; at others, where the sides differ, NaN: so does XLA."""
    result.set_where(where & is_even, INFINITY)
    result.set_where(where & ~is_even, INVALID)


def zeta(s: Number, q: Number) -> Number:
    """Hurwitz's zeta, the sum of (q + k)**-s over k >= 0.

    +inf at s = 1, NaN below. At q = 0, -1, -2, …, +inf for even s, else NaN; at other negative q, NaN unless s is an
    integer. At infinite s or q the limit, NaN for q < 0.
    """
    shape, s, q = s.kind.shape, flat(s), flat(q)
    result = Result(s, q)
    is_number = ~s.is_nan & ~q.is_nan
    above_one, at_one = exceeds_one(s) & ~s.sign, is_one(s) & ~s.sign
    result.set_where(is_number & ~above_one, INVALID)
    result.set_where(is_number & at_one, INFINITY)
    rest = is_number & above_one
    limit = rest & (s.is_infinite | q.is_infinite)
    positive = limit & ~q.sign & ~q.is_zero
    result.set_where(limit, INVALID)
    result.set_where(positive, INFINITY)
    result.set_where(positive & exceeds_one(q), ZERO)
    result.set_where(positive & is_one(q), ONE)
    rest &= ~limit
    _poles(result, rest & _is_pole(q), s.exponent > 0)
    rest &= ~_is_pole(q)
    undefined = rest & q.sign & ~_is_integer(s)
    result.set_where(undefined, INVALID)
    result.compute(_zeta, rest & ~undefined, s, q)
    return result.number(shape)


def polygamma(n: Number, x: Number) -> Number:
    """The n-th derivative of digamma, (-1)**(n+1) n! zeta(n + 1, x); digamma for n = 0.

    NaN unless n is an integer of at least 0. At 0, -1, -2, …, +inf for odd n, else NaN. At x = +inf the limit 0, with
    the sign of the values before; at -inf NaN.
    """
    shape, n, x = n.kind.shape, flat(n), flat(x)
    result = Result(n, x)
    is_number = ~n.is_nan & ~x.is_nan
    rest = is_number & _is_integer(n) & ~n.sign & ~n.is_zero
    result.set_where(is_number & ~rest, INVALID)
    is_odd = n.exponent == 0
    limit = rest & x.is_infinite
    result.set_where(limit & is_odd, ZERO)
    result.set_where(limit & ~is_odd, MINUS_ZERO)
    result.set_where(limit & x.sign, INVALID)
    rest &= ~limit
    _poles(result, rest & _is_pole(x), is_odd)
    result.compute(_polygamma, rest & ~_is_pole(x), n, x)
    first, plain = digamma(x), is_number & n.is_zero
    chosen = (np.where(plain, getattr(first, f), getattr(result, f)) for f in Number.__slots__)
    return Number(*(field.reshape(shape) for field in chosen))
