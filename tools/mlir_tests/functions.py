"""CHLO's functions as the second source has them: values in, exact values out, by mpmath at as many bits as needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests import oracle
from tests.oracle import Fraction, Value, mp
from tests.oracle_numbers import INF, NAN, ONE, ZERO, is_negative, negate, signed

HAIR = oracle.HAIR


def _real(x: Fraction) -> Any:
    return mp.mpf(x.numerator) / x.denominator


def _function(
    evaluate: Callable[[Any], Any],
    at_zero: Value,
    at_infinity: Value,
    at_minus_infinity: Value,
    exact: Callable[[Fraction], Value | None] = lambda _: None,
    is_odd: bool = False,
) -> Callable[[Value], Value]:
    """A function by its special values, its exact ones, and mpmath for the rest. An odd one is of |x|, and signed.

    mpmath may give more bits than it is asked for: the plus rounds them off.
    """

    def function(x: Value) -> Value:
        if math.isnan(x):
            return x
        if math.isinf(x):
            return at_infinity if x > 0 else at_minus_infinity
        if x == 0:
            return signed(at_zero, is_odd and is_negative(x))
        if is_odd and x < 0:
            found = function(-x)
            return found if found != found else negate(found)
        known = exact(Fraction(x))
        return oracle.irrational(lambda: +evaluate(_real(Fraction(x)))) if known is None else known

    return function


def _within_one(at_one: Value | None) -> Callable[[Fraction], Value | None]:
    """Of a function that is defined from -1 to 1."""
    return lambda x: NAN if abs(x) > 1 else at_one if abs(x) == 1 else None


def _pi_over(n: int) -> Value:
    return oracle.irrational(lambda: mp.pi / n)


def _is_pole(x: Fraction) -> bool:
    return x <= 0 and x.denominator == 1


def _lgamma(x: Any) -> Any:
    return mp.log(abs(mp.gamma(x))) if abs(x) < 200 else mp.loggamma(x)


def _exact_lgamma(x: Fraction) -> Value | None:
    return INF if _is_pole(x) else ZERO if x in (1, 2) else None


def _large(limit: int, result: Value) -> Callable[[Fraction], Value | None]:
    return lambda x: result if x > limit else None


def _bessel_i1e(x: Any) -> Any:
    with mp.workprec(mp.prec + 64):
        if x < 10000:
            found = mp.besseli(1, x) * mp.exp(-x)
        else:
            total, term, k = mp.mpf(1), mp.mpf(1), 1  # the asymptotic series, whose terms fall quickly here
            while abs(term) > mp.mpf(2) ** -mp.prec:
                term *= -(4 - mp.mpf(2 * k - 1) ** 2) / (k * 8 * x)
                total, k = total + term, k + 1
            found = total / mp.sqrt(2 * mp.pi * x)
    return +found  # rounded to the precision asked for


def _erfc(x: Value) -> Value:
    if oracle.is_finite(x) and abs(x) > 40:
        return HAIR if x > 0 else 2 - HAIR
    return _function(mp.erfc, ONE, ZERO, Fraction(2))(x)


def _acos(x: Value) -> Value:
    if oracle.is_finite(x) and abs(x) == 1:
        return ZERO if x > 0 else _pi_over(1)
    return _function(mp.acos, _pi_over(2), NAN, NAN, _within_one(None))(x)


UNARY: dict[str, Callable[[Value], Value]] = {
    "acos": _acos,
    "acosh": _function(mp.acosh, NAN, INF, NAN, lambda x: NAN if x < 1 else ZERO if x == 1 else None),
    "asin": _function(mp.asin, ZERO, NAN, NAN, _within_one(_pi_over(2)), is_odd=True),
    "asinh": _function(mp.asinh, ZERO, INF, -INF, is_odd=True),
    "atan": _function(mp.atan, ZERO, _pi_over(2), -_pi_over(2), is_odd=True),
    "atanh": _function(mp.atanh, ZERO, NAN, NAN, _within_one(INF), is_odd=True),
    "cosh": lambda x: _function(mp.cosh, ONE, INF, INF, _large(800, oracle.FAR))(abs(x)),
    "sinh": _function(mp.sinh, ZERO, INF, -INF, _large(800, oracle.FAR), is_odd=True),
    "erf": _function(mp.erf, ZERO, ONE, -ONE, _large(12, 1 - HAIR), is_odd=True),
    "erfc": _erfc,
    "erf_inv": _function(mp.erfinv, ZERO, NAN, NAN, _within_one(INF), is_odd=True),
    "lgamma": _function(_lgamma, INF, INF, INF, _exact_lgamma),
    "digamma": _function(mp.digamma, NAN, INF, NAN, lambda x: NAN if _is_pole(x) else None),
    "bessel_i1e": _function(_bessel_i1e, ZERO, ZERO, -0.0, is_odd=True),
    "square": lambda x: oracle.multiply(x, x),
    "tan": oracle.UNARY["tan"],
}


def zeta(s: Value, q: Value) -> Value:
    """Hurwitz's zeta: the sum of (q + k) ** -s over k >= 0. (+inf at s = 1, NaN below.)"""
    if math.isnan(s) or math.isnan(q) or s < 1:
        return NAN
    if s == 1:
        return INF
    if math.isinf(s) or math.isinf(q):
        return NAN if q <= 0 else ZERO if q > 1 else ONE if q == 1 else INF
    s, q = Fraction(s), Fraction(q)
    whole = s.denominator == 1
    if _is_pole(q):
        return INF if whole and s.numerator % 2 == 0 else NAN
    if q < 0 and not whole:
        return NAN

    def compute() -> Any:
        power, first = int(s) if whole else _real(s), max(0, math.ceil(-q))
        with mp.workprec(mp.prec + 64):
            below = sum((_real(q + k) ** -power for k in range(first)), mp.mpf(0))
            found = below + mp.zeta(power, _real(q + first))
        return +found  # rounded to the precision asked for

    return oracle.irrational(compute)


def polygamma(n: Value, x: Value) -> Value:
    """The n-th derivative of digamma."""
    if math.isnan(n) or math.isnan(x) or math.isinf(n) or n < 0 or Fraction(n).denominator != 1:
        return NAN
    if n == 0:
        return UNARY["digamma"](x)
    is_odd = Fraction(n).numerator % 2 == 1
    if math.isinf(x):
        return NAN if x < 0 else ZERO if is_odd else -0.0
    if _is_pole(Fraction(x)):
        return INF if is_odd else NAN
    return oracle.irrational(lambda: +mp.polygamma(int(n), _real(Fraction(x))))


BINARY: dict[str, Callable[[Value, Value], Value]] = {"zeta": zeta, "polygamma": polygamma}


def next_after(fmt: oracle.Format, a: int, b: int) -> int:
    """C's nextafter on codes."""
    x, y = oracle.decode(fmt, a), oracle.decode(fmt, b)
    if math.isnan(x) or math.isnan(y):
        return oracle.encode(fmt, NAN)
    if x == y:
        return b
    if x == 0:
        return 1 | (fmt.sign_bit if y < 0 else 0)
    following = a + (1 if (y > x) == (x > 0) else -1)
    return 0 if fmt.nan == "sign" and following == fmt.sign_bit else following
