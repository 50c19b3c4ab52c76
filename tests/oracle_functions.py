"""Functions whose results are not rational, and powers, by mpmath.

Such a result is a Fraction that no format can tell from it: 200 of its bits and, in the last place, that there are
more.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath

from .oracle_numbers import INF, NAN, ONE, ZERO, Value, is_negative, signed

mp: Any = mpmath.mp  # which has no types
Real = Any  #: a number of mpmath

#: A number that is beyond every format, and its inverse, in the place of those too large or too small to write out.
FAR = Fraction(1 << 5000)
#: One minus this stands for a result that is less than one by less than any format can show.
HAIR = 1 / FAR


def irrational(compute: Callable[[], Real]) -> Fraction:
    """A stand-in for a number that is no fraction of a power of two: 200 bits, then a one."""
    for precision in (320, 1280, 5120, 20480):
        with mp.workprec(precision):
            result = compute()
        negative, mantissa, exponent, size = result._mpf_
        if not mantissa:
            raise ArithmeticError(f"{result} is exact")
        excess = precision - 200
        mantissa, exponent = mantissa << (precision - size), exponent - (precision - size)
        rest = mantissa & ((1 << excess) - 1)
        if 1 << 40 < rest < (1 << excess) - (1 << 40):  # the next bits are known, and not all alike
            results = Fraction(2 * (mantissa >> excess) + 1) * Fraction(2) ** (exponent + excess - 1)
            return -results if negative else results
    raise ArithmeticError("no precision tells this number from an exact one")


def real(x: Fraction) -> Real:
    """An exact dyadic fraction as a number of mpmath."""
    return mp.ldexp(mp.mpf(x.numerator), 1 - x.denominator.bit_length())


def _parts(x: Fraction) -> tuple[int, int]:
    """Of a positive dyadic fraction m * 2**e with m odd: m and e."""
    zeros = (x.numerator & -x.numerator).bit_length() - 1
    return x.numerator >> zeros, zeros + 1 - x.denominator.bit_length()


def _integer_root(n: int, degree: int) -> int:
    """The floor of the root of a positive integer."""
    if degree == 2:
        return math.isqrt(n)
    root = 1 << -(-n.bit_length() // degree)
    while True:  # Newton's steps come down to the floor
        following = ((degree - 1) * root + n // root ** (degree - 1)) // degree
        if following >= root:
            return root
        root = following


def _root(x: Fraction, degree: int) -> Fraction:
    """The root of a positive dyadic fraction, exact where it is one."""
    m, e = _parts(x)
    m, e = m << (e % degree), e - e % degree
    places = max(0, 250 - m.bit_length() // degree)
    scaled = m << (degree * places)
    root = _integer_root(scaled, degree)
    exact = root**degree == scaled
    return Fraction(root if exact else 2 * root + 1) * Fraction(2) ** (e // degree - places - (not exact))


def _sqrt(x: Fraction) -> Value:
    return _root(x, 2) if x > 0 else NAN


def _rsqrt(x: Fraction) -> Value:
    if x < 0:
        return NAN
    m, e = _parts(x)
    if m == 1 and e % 2 == 0:
        return Fraction(2) ** (-e // 2)
    return irrational(lambda: 1 / mp.sqrt(real(x)))


def _cbrt(x: Fraction) -> Value:
    return signed(_root(abs(x), 3), x < 0)


def _exponential(x: Fraction) -> Value:
    if abs(x) > 800:
        return FAR if x > 0 else HAIR
    return irrational(lambda: mp.exp(real(x)))


def _exponential_minus_one(x: Fraction) -> Value:
    if abs(x) > 800:
        return FAR if x > 0 else HAIR - 1
    return irrational(lambda: mp.expm1(real(x)))


def _log(x: Fraction) -> Value:
    if x <= 0:
        return NAN
    return ZERO if x == 1 else irrational(lambda: mp.log(real(x)))


def _log_plus_one(x: Fraction) -> Value:
    if x <= -1:
        return -INF if x == -1 else NAN
    return irrational(lambda: mp.log1p(real(x)))


def _logistic(x: Fraction) -> Value:
    if abs(x) > 800:
        return 1 - HAIR if x > 0 else HAIR
    return irrational(lambda: 1 / (1 + mp.exp(-real(x))))


def _tanh(x: Fraction) -> Value:
    return signed(1 - HAIR, x < 0) if abs(x) > 800 else irrational(lambda: mp.tanh(real(x)))


#: Of each function: its value at a finite number other than zero, at +0 (at -0 it is that of the other sign if the
#: function is odd, else the same), at +inf, and at -inf.
FUNCTIONS: dict[str, tuple[Callable[[Fraction], Value], Value, Value, Value]] = {
    "sqrt": (_sqrt, ZERO, INF, NAN),
    "rsqrt": (_rsqrt, INF, ZERO, NAN),
    "cbrt": (_cbrt, ZERO, INF, -INF),
    "exponential": (_exponential, ONE, INF, ZERO),
    "exponential_minus_one": (_exponential_minus_one, ZERO, INF, -ONE),
    "log": (_log, -INF, INF, NAN),
    "log_plus_one": (_log_plus_one, ZERO, INF, NAN),
    "logistic": (_logistic, Fraction(1, 2), ONE, ZERO),
    "tanh": (_tanh, ZERO, ONE, -ONE),
    "tan": (lambda x: irrational(lambda: mp.tan(real(x))), ZERO, NAN, NAN),
    "sine": (lambda x: irrational(lambda: mp.sin(real(x))), ZERO, NAN, NAN),
    "cosine": (lambda x: irrational(lambda: mp.cos(real(x))), ONE, NAN, NAN),
}
_SAME_AT_BOTH_ZEROS = ("exponential", "log", "logistic", "cosine")


def function(name: str) -> Callable[[Value], Value]:
    """A function of any value."""
    at_finite, at_zero, at_infinity, at_minus_infinity = FUNCTIONS[name]

    def of_value(x: Value) -> Value:
        if math.isnan(x):
            return x
        if math.isinf(x):
            return at_infinity if x > 0 else at_minus_infinity
        if x == 0:
            return signed(at_zero, is_negative(x) and name not in _SAME_AT_BOTH_ZEROS)
        return at_finite(Fraction(x))

    return of_value


def power(x: Value, y: Value) -> Value:
    """The power with the special values of C's annex F."""
    if y == 0 or x == 1:
        return ONE
    if math.isnan(x) or math.isnan(y):
        return NAN
    if math.isinf(y):
        if abs(x) == 1:
            return ONE
        return INF if (abs(x) > 1) == (y > 0) else ZERO
    y = Fraction(y)
    odd = y.denominator == 1 and y.numerator % 2 == 1
    if x == 0 or math.isinf(x):
        return signed(INF if math.isinf(x) == (y > 0) else ZERO, odd and is_negative(x))
    if x < 0 and y.denominator != 1:
        return NAN
    return signed(_power(abs(Fraction(x)), y), odd and x < 0)


@functools.lru_cache(maxsize=1 << 17)
def _power(x: Fraction, y: Fraction) -> Fraction:
    if x == 1:
        return ONE
    m, e = _parts(x)
    n, roots = y.numerator, y.denominator.bit_length() - 1
    while roots and e % 2 == 0 and math.isqrt(m) ** 2 == m:  # y = n / 2**roots, and x may be a square so many times
        roots, m, e = roots - 1, math.isqrt(m), e // 2
    if not roots and abs(e * n) < 5000 and abs(n) * m.bit_length() < 5000:
        return Fraction(m) ** n * Fraction(2) ** (e * n)
    # Not a fraction, or one of so many digits that no format holds it or a tie.
    with mp.workprec(64):
        logarithm = real(y) * mp.log(real(x), 2)
    if abs(logarithm) > 4000:
        return FAR if logarithm > 0 else HAIR
    return irrational(lambda: mp.exp(real(y) * _real_log(x, mp.prec)))


@functools.lru_cache(maxsize=1 << 17)
def _real_log(x: Fraction, precision: int) -> Real:
    with mp.workprec(precision + 64):
        return mp.log(real(x))


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), with the special values of C's annex F."""
    if math.isnan(x) or math.isnan(y):
        return NAN
    if y == 0:
        return signed(_eighths(4) if is_negative(x) else ZERO, is_negative(y))
    if math.isinf(y):
        return signed(_eighths((3 if x < 0 else 1) if math.isinf(x) else 2), y < 0)
    if x == 0:
        return signed(_eighths(2), y < 0)
    if math.isinf(x):
        return signed(_eighths(4) if x < 0 else ZERO, y < 0)
    return signed(_angle(abs(Fraction(y)) / abs(Fraction(x)), x < 0), y < 0)


@functools.cache
def _eighths(count: int) -> Fraction:
    """A multiple of pi / 4."""
    return irrational(lambda: count * mp.pi / 4)


@functools.lru_cache(maxsize=1 << 17)
def _angle(ratio: Fraction, obtuse: bool) -> Fraction:
    if not obtuse and ratio < Fraction(1, 1 << 400):
        return ratio * (1 - Fraction(1, 1 << 300))  # atan(r) = r - r**3 / 3 + ...

    def compute() -> Real:
        angle = mp.atan(mp.mpf(ratio.numerator) / ratio.denominator)
        return mp.pi - angle if obtuse else angle

    return irrational(compute)
