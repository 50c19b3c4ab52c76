"""CHLO's functions for the oracle: values in, exact values out, by mpmath at as many bits as needed.

Special values are those of C's annex F, and of functions that C does not have, those of XLA.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction

from . import oracle
from .oracle_functions import FAR, HAIR, irrational, mp, real
from .oracle_numbers import INF, NAN, ONE, ZERO, Value


def of(function: Callable) -> Callable[[Fraction], Value]:
    """A function of mpmath whose values at what it is called with are irrational."""
    return lambda x: irrational(lambda: +function(real(x)))


def within_one(inside: Callable[[Fraction], Value], at_one: Value, at_minus_one: Value) -> Callable[[Fraction], Value]:
    return lambda x: inside(x) if abs(x) < 1 else NAN if abs(x) > 1 else at_one if x > 0 else at_minus_one


def pi_times(n: Fraction) -> Fraction:
    return irrational(lambda: mp.pi * n.numerator / n.denominator)


def grows(function: Callable, is_odd: bool) -> Callable[[Fraction], Value]:
    """sinh and cosh, beyond every format for large arguments."""
    return lambda x: (-FAR if is_odd and x < 0 else FAR) if abs(x) > 800 else of(function)(x)


def acosh(x: Fraction) -> Value:
    return of(mp.acosh)(x) if x > 1 else ZERO if x == 1 else NAN


def erf(x: Fraction) -> Value:
    return of(mp.erf)(x) if abs(x) < 12 else (1 - HAIR) * (1 if x > 0 else -1)


def erfc(x: Fraction) -> Value:
    return of(mp.erfc)(x) if abs(x) < 20 else HAIR if x > 0 else 2 - HAIR


def is_pole(x: Fraction) -> bool:
    return x <= 0 and x.denominator == 1


def lgamma(x: Fraction) -> Value:
    if is_pole(x):
        return INF
    return ZERO if x in (1, 2) else of(mp.loggamma if x > 0 else lambda v: mp.log(abs(mp.gamma(v))))(x)


def digamma(x: Fraction) -> Value:
    return NAN if is_pole(x) else of(mp.digamma)(x)


def bessel_i1e(x: Fraction) -> Value:
    """By the integral of exp(x cos t) cos(t) from 0 to pi, over pi; that is 0F1 in mpmath, or its expansion."""
    if abs(x) < 1 << 12:
        return of(lambda v: mp.besseli(1, v) * mp.exp(-abs(v)))(x)

    def expansion() -> mp.mpf:
        total = term = mp.one
        for k in range(1, 80):
            term *= ((2 * k - 1) ** 2 - 4) / (8 * k * abs(real(x)))
            total += term
        return total / mp.sqrt(2 * mp.pi * abs(real(x)))

    return oracle.signed(irrational(expansion), x < 0)


#: Of each function: its value at a finite number other than zero, at +0, -0, +inf and -inf.
_TABLE: dict[str, tuple[Callable[[Fraction], Value], Value, Value, Value, Value]] = {
    "asin": (within_one(of(mp.asin), pi_times(Fraction(1, 2)), pi_times(Fraction(-1, 2))), ZERO, -0.0, NAN, NAN),
    "acos": (within_one(of(mp.acos), ZERO, pi_times(ONE)), *[pi_times(Fraction(1, 2))] * 2, NAN, NAN),
    "atan": (of(mp.atan), ZERO, -0.0, pi_times(Fraction(1, 2)), pi_times(Fraction(-1, 2))),
    "sinh": (grows(mp.sinh, True), ZERO, -0.0, INF, -INF),
    "cosh": (grows(mp.cosh, False), ONE, ONE, INF, INF),
    "asinh": (of(mp.asinh), ZERO, -0.0, INF, -INF),
    "acosh": (acosh, NAN, NAN, INF, NAN),
    "atanh": (within_one(of(mp.atanh), INF, -INF), ZERO, -0.0, NAN, NAN),
    "tan": (of(mp.tan), ZERO, -0.0, NAN, NAN),
    "square": (lambda x: x * x, ZERO, ZERO, INF, INF),
    "erf": (erf, ZERO, -0.0, ONE, -ONE),
    "erfc": (erfc, ONE, ONE, ZERO, Fraction(2)),
    "erf_inv": (within_one(of(mp.erfinv), INF, -INF), ZERO, -0.0, NAN, NAN),
    "lgamma": (lgamma, INF, INF, INF, INF),
    "digamma": (digamma, NAN, NAN, INF, NAN),
    "bessel_i1e": (bessel_i1e, ZERO, -0.0, ZERO, -0.0),
}


def _unary(name: str, x: Value) -> Value:
    at_finite, *special = _TABLE[name]
    if isinstance(x, Fraction) and x:
        return at_finite(x)
    if math.isnan(x):
        return x
    return special[2 * (x != 0) + oracle.is_negative(x)]


UNARY: dict[str, Callable[[Value], Value]] = {name: functools.partial(_unary, name) for name in _TABLE}


def hurwitz(s: Fraction, q: Fraction) -> mp.mpf:
    """Sums, and the Euler-Maclaurin formula: mpmath's own loses its accuracy where q is large."""
    a, b, total = real(s), real(q), mp.mpf(0)
    while b < mp.prec // 4:
        total += (mp.sign(b) if s % 2 == 1 else 1) * mp.power(abs(b), -a)
        b += 1
    total += mp.power(b, 1 - a) / (a - 1) + mp.power(b, -a) / 2
    for k in range(1, mp.prec // 3):
        total += mp.bernoulli(2 * k) / mp.factorial(2 * k) * mp.rf(a, 2 * k - 1) * mp.power(b, 1 - a - 2 * k)
    return total


def sum_of_powers(s: Fraction, q: Fraction, times: int = 1, sign: int = 1) -> Value:
    """Hurwitz's zeta where it is defined, times the factorial of `times`."""
    if q < 0 and q.denominator == 2 and s % 2 == 1:
        q = 1 - q  # the terms at -1/2 and 1/2 cancel, those at -3/2 and 3/2, …
    nearest = min((q + k for k in range(max(0, -int(q)) + 2)), key=abs)
    with mp.workprec(400):
        size = (mp.loggamma(times + 1) - real(s) * mp.log(abs(real(nearest)))) / mp.log(2)
    if abs(size) > 2900:  # it cannot be the largest term alone that makes it so
        return sign * (-1 if nearest < 0 and s % 2 == 1 else 1) * (FAR if size > 0 else HAIR)
    if s > 300 and abs(nearest) == 1 and times == 1:
        return 1 + HAIR
    return irrational(lambda: sign * mp.factorial(times) * hurwitz(s, q))


def zeta(s: Value, q: Value) -> Value:
    if s != s or q != q or s < 1:
        return NAN
    if s == 1:
        return INF
    if abs(q) == INF or s == INF:
        return NAN if q <= 0 else ZERO if q > 1 else ONE if q == 1 else INF
    s, q = Fraction(s), Fraction(q)
    if is_pole(q):
        return INF if s % 2 == 0 else NAN
    return NAN if q < 0 and s.denominator != 1 else sum_of_powers(s, q)


def polygamma(n: Value, x: Value) -> Value:
    if n != n or x != x or n < 0 or n == INF or Fraction(n).denominator != 1:
        return NAN
    if n == 0:
        return UNARY["digamma"](x)
    order = int(n)
    if abs(x) == INF:
        return NAN if x < 0 else ZERO if order % 2 else -0.0
    if is_pole(Fraction(x)):
        return INF if order % 2 else NAN
    return sum_of_powers(Fraction(order + 1), Fraction(x), order, 1 if order % 2 else -1)


BINARY: dict[str, Callable[[Value, Value], Value]] = {"zeta": zeta, "polygamma": polygamma}


def next_after(fmt: oracle.Format, a: int, b: int) -> int:
    """C's nextafter on codes."""
    x, y = oracle.decode(fmt, a), oracle.decode(fmt, b)
    if math.isnan(x) or math.isnan(y):
        return oracle.encode(fmt, x if math.isnan(x) else y)
    if x == y:
        return b
    if x == 0:
        return 1 | (fmt.sign_bit if y < 0 else 0)
    following = a + (1 if (y > x) == (x > 0) else -1)
    return 0 if fmt.nan == "sign" and following == fmt.sign_bit else following
