"""Series for the special functions, in fixed point to any number of bits, each with a proven error, in integers only.

Notation as in `fixedpoint.py`: an integer "fixed at p" stands for itself times 2**-p, a "unit" is 2**-p. Numbers called
exact are n * 2**e. References are to the NIST Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from . import fixedpoint as fixed

_CHUNK = 32  # Bernoulli numbers are made so many at a time


@functools.cache
def _bernoulli_numbers(count: int) -> list[Fraction]:
    """The Bernoulli numbers B(2), B(4) … B(2 count), from the tangent numbers (Brent and Harvey, 2011)."""
    tangent = [math.factorial(k) for k in range(count)]
    for k in range(1, count):
        for j in range(k, count):
            tangent[j] = (j - k) * tangent[j - 1] + (j - k + 2) * tangent[j]
    scale = ((k + 1, 4 ** (k + 1)) for k in range(count))
    return [
        Fraction((-1) ** k * 2 * n * t, power * (power - 1))
        for k, ((n, power), t) in enumerate(zip(scale, tangent, strict=True))
    ]


def bernoulli(k: int) -> Fraction:
    """B(2k), for k >= 1."""
    return _bernoulli_numbers(-(-k // _CHUNK) * _CHUNK)[k - 1]


def root_of_pi(p: int) -> int:
    """The square root of pi, fixed at p, within 2 units."""
    return math.isqrt(fixed.pi(p) << p)


def erf_ratio(square: int, p: int) -> int:
    """erf(x) / x for x * x = `square`, fixed at p and below 2**11, within 2 units.

    A `square` that is itself d units off adds at most d / 2 units.
    """
    # 2 / sqrt(pi) exp(-y) (1 + 2y/3 + (2y)**2/(3*5) + …), y = x * x, DLMF 7.6.2.
    terms = 4 * (square >> p) + 2 * p + 64  # the largest is below exp(y), and from the 2y-th on each is half the last
    guard = terms.bit_length() + 4
    w = p + guard
    y = square << guard
    total = term = 1 << w
    n = 1
    while term:
        n += 2
        term = (term * (2 * y) >> w) // n
        total += term
    v, k = fixed.exp(-y, w)
    # Each term loses a unit of 2**-w and a multiple of what the one before lost; relative to the sum, which is 1 or
    # more, that is less than 2 `terms` of 2**-w; the exponential and the root lose 8 and 2. The result is below 1.13.
    return total * v // (root_of_pi(w) << guard - 1 - k)


def inverse_erf(m: int, e: int, p: int) -> tuple[int, int]:
    """Two numbers, fixed at p, between which the inverse of the error function at m * 2**e in (0, 1) lies."""
    w = p - e + m.bit_length() + 32  # exp(y * y), by which errors grow, is below 2**(1-e) where y is large
    x, root, slack = fixed.scaled(m, e + w), root_of_pi(w), 1 << w - p

    def erf(y: int) -> int:
        return y * erf_ratio(y * y >> w, w) >> w  # for y < 8 within 32 units of 2**-w

    y = 0
    for _ in range(w):  # Newton's method: erf is concave, so that it comes up from 0, and in the end squares the error
        v, k = fixed.exp(y * y >> w, w)
        step = (x - erf(y)) * root * v >> 2 * w + 1 - k
        y += step
        if abs(step) < slack >> 4:
            break
    low, high = max(y - slack, 0), y + slack
    is_between = erf(low) + 64 <= x <= erf(high) - 64
    return (low >> w - p, (high >> w - p) + 1) if is_between else (0, 8 << p)


def _shifted(n: int, e: int, least: int) -> tuple[int, int, list[int], int]:
    """z = x + N >= least, for x = n * 2**e and the least such N >= 0, and x, x + 1, …, x + N - 1.

    As z, exponent of z, list, exponent of the list: all are integers times a power of two.
    """
    if e > 0 and n.bit_length() + e <= 64:
        n, e = n << e, 0
    if n > 0 and (e > 0 or n >> -e >= least):
        return n, e, [], 0
    one = 1 << -e
    count = -(-(least * one - n) // one)
    return n + count * one, e, [n + k * one for k in range(count)], e


def _least(w: int) -> int:
    """From here on Stirling's series, whose best error is exp(-2 pi z), is good to 2**-(2w)."""
    return w // 4 + 4


def _stirling(z: int, ze: int, w: int, order: int) -> int:
    """The rest of Stirling's series at z * 2**ze, fixed at w: of log Gamma (order 1), or of its derivative less (0).

    Its error is less than the first term left out, and a unit for each of the terms, of which there are fewer than w.
    """
    total, k, power = 0, 1, z ** (2 - order)
    while True:
        b, n = bernoulli(k), 2 * k - order
        divisor = b.denominator * 2 * k * (n if order else 1) * power
        term = fixed.scaled(abs(b.numerator), w - ze * n) // divisor
        if not term:
            return total
        total += term if b > 0 else -term
        k, power = k + 1, power * z * z


def log_gamma(n: int, e: int, p: int) -> int:
    """log |Gamma(x)| at x = n * 2**e, exact, and not 0, -1, -2, …; fixed at p, within 3 units."""
    w = p + 16 + p.bit_length()
    z, ze, before, be = _shifted(n, e, _least(w))
    # (z - 1/2) log z - z + log(2 pi) / 2 and Stirling's series, DLMF 5.11.1.
    top = max(z.bit_length() + ze, 1)
    log_z = fixed.log(z, ze, w + top)
    total = fixed.scaled(z * log_z, ze - top) - (log_z >> top + 1) + _stirling(z, ze, w, 1)
    total += (fixed.log(fixed.pi(w), 1 - w, w) >> 1) - fixed.scaled(z, ze + w)
    if before:
        total -= fixed.log(abs(math.prod(before)), be * len(before), w)
    # Some 8 units of 2**-w beside those of the series; and the cut.
    return total >> w - p


def digamma(n: int, e: int, p: int) -> int:
    """The logarithmic derivative of Gamma at x = n * 2**e, exact, and not 0, -1, -2, …; fixed at p, within 3 units."""
    w = p + 16 + p.bit_length()
    z, ze, before, be = _shifted(n, e, _least(w))
    total = fixed.log(z, ze, w) - fixed.scaled(1, w - 1 - ze) // z - _stirling(z, ze, w, 0)  # DLMF 5.11.2
    return total - sum((1 << w - be) // x for x in before) >> w - p


def bessel_i1e(n: int, e: int, p: int) -> tuple[int, int, int]:
    """The modified Bessel function I1 of x = n * 2**e > 0, exact, over exp(x): between low and high, times 2**exponent.

    They are about 2**-p apart, relative to the result.
    """
    whole = fixed.scaled(n, e)
    w = p + 2 * p.bit_length() + 16
    if whole >= w:
        return _i1e_far(n, e, w, p)
    # x/2 exp(-x) (1 + y/(1*2) + y**2/(1*2 * 2*3) + …), y = x * x / 4, DLMF 10.25.2.
    w += whole.bit_length() + 8
    y = fixed.scaled(n * n, 2 * e - 2 + w)
    total = term = 1 << w
    k = 0
    while term:
        k += 1
        term = (term * y >> w) // (k * (k + 1))
        total += term
    v, scale = fixed.exp(-fixed.scaled(n, e + w), w)
    # There are fewer than 2x + w terms, each cut by a unit of 2**-w and with a multiple of what the one before lost;
    # the exponential loses 10 units, and y a half. Relative to the result that is far less than 2**-p.
    result = n * (total * v >> w)
    return result - (result >> p), result + (result >> p), e - 1 + scale - w


def _i1e_far(n: int, e: int, w: int, p: int) -> tuple[int, int, int]:
    """The same where x is at least w."""
    # (2 pi x)**-1/2 (1 - 3/(8x) - 15/(128x**2) - …), DLMF 10.40.1.
    total = 1 << w
    term, k = total, 0
    while term < -1 or k == 0:  # all but the first are negative
        k += 1
        term = fixed.scaled(term * ((2 * k - 1) ** 2 - 4), -e) // (8 * k * n)
        total += term
    exponent = e - w
    root = math.isqrt(2 * fixed.pi(w) * n << 2 * w + (exponent & 1))  # times 2**(exponent // 2 - w)
    # By 10.34.2 the error is that of the function K1, at -x and x: less than 3 (k + 3) times the first term left out,
    # which is below 4 units of 2**-w (10.40.11), and exp(-2x). With what each of k < w terms loses, that is less than
    # 2**-p of the result.
    result = (total << 3 * w) // root
    return result - (result >> p), result + (result >> p), -3 * w - exponent // 2


def hurwitz_zeta(s: Fraction, q: Fraction, p: int) -> tuple[int, int, int]:
    """The sum of (q + k)**-s over k >= 0, for s > 1, as (n, error, power): it is n * 2**-p * exp(power * 2**-p).

    n is within `error`, power within a unit. q is not 0, -1, -2, …; where it is negative s is an integer.
    """
    is_odd = s.denominator == 1 and s.numerator % 2 == 1
    if q < 0 and q.denominator == 2 and is_odd:
        q = 1 - q  # what lies before that, on both sides of zero, cancels
    extra = math.ceil(s).bit_length() + 2

    def exponent(x: Fraction) -> int:
        """The logarithm of |x|**-s."""
        logarithm = fixed.log(abs(x.numerator), 1 - x.denominator.bit_length(), p + extra)
        return -(s.numerator * logarithm) // s.denominator >> extra

    negative = max(0, math.ceil(-q))
    reference = max(exponent(q + k) for k in range(max(0, negative - 1), negative + 1))  # of the largest term

    def power(x: Fraction) -> int:
        """|x|**-s in units of the largest term, fixed at p, within 11 units."""
        x_exponent = exponent(x) - reference
        if x_exponent < -(p + 4) << p:
            return 0
        v, k = fixed.exp(x_exponent, p)
        return v >> -k if k < 0 else v

    total = sum(power(q + k) for k in range(negative)) * (-1 if is_odd else 1)
    z, terms, far = q + negative, negative, p // 8 + 4 + s  # the best error is then below 2**-p
    term = power(z)
    while z < far and (term or s <= z + 1):
        total, z, terms = total + term, z + 1, terms + 1
        term = power(z)
    if z < far:  # the rest is less than term (1 + z / (s - 1))
        return total, 11 * terms + 32, reference
    # The rest by Euler and Maclaurin, DLMF 2.10.1: `term` times z / (s-1) + 1/2 + s B(2) / (2! z) + s (s+1) (s+2) B(4)
    # / (4! z**3) + …. All derivatives keep their signs, so the error is less than the first term left out.
    rest = math.floor(z / (s - 1) * (1 << p)) + (1 << p - 1)
    rising, k, factorial = math.floor(s / z * (1 << p)), 1, 2
    while True:
        b = bernoulli(k)
        correction = rising * abs(b.numerator) // (b.denominator * factorial)
        if not correction:
            break
        rest += correction if b > 0 else -correction
        ratio = (s + 2 * k - 1) * (s + 2 * k) / (z * z)
        rising = rising * ratio.numerator // ratio.denominator
        factorial *= (2 * k + 1) * (2 * k + 2)
        k += 1
    # Each correction loses a few units of 2**-p; `term` loses 11 units, which count as often as `rest` says.
    return total + (term * rest >> p), 11 * terms + 8 * k + 12 * ((rest >> p) + 2), reference
