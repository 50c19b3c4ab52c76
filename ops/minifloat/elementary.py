"""The elementary functions of one number: exact where WORK_BITS bits hold the result, else rounded to odd there.

The method is Ziv's (ACM TOMS 17, 1991): enclose the exact value ever more narrowly until its first WORK_BITS bits are
certain. That ends because a value those bits hold exactly is found by algebra beforehand, and by the theorem of
Lindemann and Weierstrass there are few. Each function takes and returns (sign, significand, exponent). Its arguments
are finite, not zero, in the domain, and have odd significands below 2**62. Exponents that f64 can hold take tens of
microseconds, rarely hundreds; larger ones are handled correctly but slowly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import fixedpoint as fixed
from .number import WORK_BITS

#: A finite number: sign, significand, exponent.
Triple = tuple[bool, int, int]

START = 96  # bits of the first attempt; it fails about once in 2**30 times
_DOUBLINGS = 7  # over 10,000 bits; only the functions of `special.py` may take them all
TINY = -(WORK_BITS + 4)  # a result this many binary places from a simple one is "just beside" it
LARGE = 6  # from 2**6 on, exp(-x) is below 2**TINY
_CLAMP = 1 << 20  # the exponent of what is beyond every format; the results computed stay well below it


def _round_to_odd(n: int, inexact: bool, exponent: int) -> tuple[int, int]:
    """Cut n * 2**exponent to WORK_BITS; `inexact` says that the true value is a little more, and then n has as many."""
    cut = n.bit_length() - WORK_BITS
    if cut > 0:
        kept = n >> cut
        inexact |= kept << cut != n
        n, exponent = kept, exponent + cut
    return n | inexact, exponent


def beside(sign: bool, significand: int, exponent: int, up: bool) -> Triple:
    """What is just above or just below a number in magnitude: less than 2**TINY of its last place away."""
    return sign, *_round_to_odd((significand << -TINY) + (0 if up else -1), True, exponent + TINY)


def clamped(up: bool) -> Triple:
    """A positive number beyond the largest, or below the smallest, of every format."""
    return False, (1 << (WORK_BITS - 1)) | 1, _CLAMP if up else -_CLAMP


def common_bits(low: int, high: int, exponent: int) -> Triple | None:
    """The inexact value between low and high, times 2**exponent, rounded to odd; None where they leave it open."""
    negative = high < 0
    if negative:
        low, high = -high, -low
    cut = high.bit_length() - WORK_BITS
    if low <= 0 or cut < 0 or low >> cut != high >> cut:
        return None
    return negative, (high >> cut) | 1, exponent + cut


def ziv(enclose: Callable[[int], tuple[int, int, int]], bits: int = START) -> Triple:
    """Ziv's loop. enclose(bits) is (low, high, exponent).

    A value that _DOUBLINGS doublings do not distinguish from a number of WORK_BITS bits is taken to be that number.
    """
    for _ in range(_DOUBLINGS):
        if (result := common_bits(*enclose(bits))) is not None:
            return result
        bits *= 2
    low, high, exponent = enclose(bits)
    size = max(abs(low), abs(high))
    cut = max(size.bit_length() - WORK_BITS, 0)
    return low + high < 0, size >> cut, exponent + cut


def near(value: Callable[[int], int], error: int) -> Callable[[int], tuple[int, int, int]]:
    """What encloses a value that is computed in fixed point, within so many units."""

    def enclose(p: int) -> tuple[int, int, int]:
        v = value(p)
        return v - error, v + error, -p

    return enclose


def magnitude(significand: int, exponent: int) -> int:
    """The number is below 2**top and at least 2**(top-1)."""
    return significand.bit_length() + exponent


def is_linear(significand: int, exponent: int, order: int) -> bool:
    """Whether x**order is less than 2**TINY of the last place of x: then f(x) = x + O(x**order) is just beside x."""
    return order * significand.bit_length() + (order - 1) * exponent <= TINY


def fixed_exp(sign: bool, m: int, e: int, p: int) -> tuple[int, int]:
    """(v, k) such that the exponential is v * 2**(k-p), with v within 11 units."""
    x = fixed.scaled(m, e + p)
    return fixed.exp(-x if sign else x, p)


def exp(sign: bool, m: int, e: int) -> Triple:
    """e to the power of x."""
    top = magnitude(m, e)
    if top <= TINY:
        return beside(False, 1, 0, up=not sign)
    if top > fixed.EXP_LIMIT:
        return clamped(up=not sign)

    def enclose(p: int) -> tuple[int, int, int]:
        v, k = fixed_exp(sign, m, e, p)
        return v - 16, v + 16, k - p

    return ziv(enclose)


def expm1(sign: bool, m: int, e: int) -> Triple:
    """e to the power of x, less one."""
    top = magnitude(m, e)
    if is_linear(m, e, 2):
        return beside(sign, m, e, up=not sign)
    if sign and top > LARGE:
        return beside(True, 1, 0, up=False)
    if top > fixed.EXP_LIMIT:
        return clamped(up=True)

    def enclose(p: int) -> tuple[int, int, int]:
        v, k = fixed_exp(sign, m, e, p)
        scale = max(k, 0)
        v = (v >> (scale - k)) - (1 << p >> scale)  # at most 11 + 1 units off
        return v - 16, v + 16, scale - p

    return ziv(enclose, START - min(top, 0))


def log(_: bool, m: int, e: int) -> Triple:
    """The natural logarithm of x > 0; at 1 a zero."""
    if m == 1 and e == 0:
        return False, 0, 0
    return ziv(near(lambda p: fixed.log(m, e, p), 2))


def log1p(sign: bool, m: int, e: int) -> Triple:
    """The natural logarithm of 1 + x, for x > -1."""
    if is_linear(m, e, 2):
        return beside(sign, m, e, up=sign)
    one_plus_x = (1 << max(-e, 0)) + ((-m if sign else m) << max(e, 0))
    return ziv(near(lambda p: fixed.log(one_plus_x, min(e, 0), p), 2), START - min(magnitude(m, e), 0))


def logistic(sign: bool, m: int, e: int) -> Triple:
    """1 / (1 + e**-x)."""
    top = magnitude(m, e)
    if top <= TINY:
        return beside(False, 1, -1, up=not sign)
    if not sign and top > LARGE:
        return beside(False, 1, 0, up=False)
    if top > fixed.EXP_LIMIT:
        return clamped(up=False)

    def enclose(p: int) -> tuple[int, int, int]:
        # t = exp(-|x|) is v * 2**(k-p), with v 11 units off, and k < 0; the denominator is 1 + t in (1, 2).
        v, k = fixed_exp(True, m, e, p)
        denominator = (1 << p) + (v >> -k)
        if sign:  # t / (1 + t), keeping the exponent of t apart: at most 11 + 2 * 7 + 1 units off
            q, exponent = (v << p) // denominator, k - p
        else:  # 1 / (1 + t)
            q, exponent = (1 << 2 * p) // denominator, -p
        return q - 32, q + 32, exponent

    return ziv(enclose)


def tanh(sign: bool, m: int, e: int) -> Triple:
    """The hyperbolic tangent."""
    top = magnitude(m, e)
    if is_linear(m, e, 3):
        return beside(sign, m, e, up=False)
    if top > LARGE:
        return beside(sign, 1, 0, up=False)

    def enclose(p: int) -> tuple[int, int, int]:
        v, k = fixed_exp(True, m, e + 1, p)
        t = v >> -k  # exp(-2|x|), at most 7 units off; (1 - t) / (1 + t) changes at most twice as fast
        q = (((1 << p) - t) << p) // ((1 << p) + t)
        return q - 16, q + 16, -p

    return sign, *ziv(enclose, START - min(top, 0))[1:]


def sin(sign: bool, m: int, e: int) -> Triple:
    """The sine of x radians."""
    if is_linear(m, e, 3):
        return beside(sign, m, e, up=False)
    sine = near(lambda p: fixed.sin_cos(m, e, p)[0], 2)
    negative, significand, exponent = ziv(sine, START - min(magnitude(m, e), 0))
    return negative != sign, significand, exponent


def cos(_: bool, m: int, e: int) -> Triple:
    """The cosine of x radians."""
    if 2 * magnitude(m, e) <= TINY:
        return beside(False, 1, 0, up=False)
    return ziv(near(lambda p: fixed.sin_cos(m, e, p)[1], 2))


def tan(sign: bool, m: int, e: int) -> Triple:
    """The tangent of x radians."""
    if is_linear(m, e, 3):
        return beside(sign, m, e, up=True)

    def enclose(p: int) -> tuple[int, int, int]:
        s, c = fixed.sin_cos(m, e, p)
        if c < 0:
            s, c = -s, -c
        if c <= 2:  # too near the pole to say anything
            return -1, 1, 0
        corners = [(s + i << p) // (c + j) for i in (-2, 2) for j in (-2, 2)]
        return min(corners), max(corners) + 1, -p

    negative, significand, exponent = ziv(enclose, START - min(magnitude(m, e), 0))
    return negative != sign, significand, exponent


def sqrt(_: bool, m: int, e: int) -> Triple:
    """The square root of x > 0."""
    shift = 2 * (WORK_BITS + 1) + (e & 1)
    root = math.isqrt(m << shift)
    return False, *_round_to_odd(root, root * root != m << shift, (e - shift) // 2)


def rsqrt(_: bool, m: int, e: int) -> Triple:
    """One over the square root of x > 0."""
    m, e = m << (e & 1), e - (e & 1)
    shift = WORK_BITS + 1 + m.bit_length()
    root = math.isqrt((1 << 2 * shift) // m)  # to cut before the root changes nothing: its floor is the same
    return False, *_round_to_odd(root, root * root * m != 1 << 2 * shift, -e // 2 - shift)


def cbrt(sign: bool, m: int, e: int) -> Triple:
    """The cube root."""
    shift = 3 * (WORK_BITS + 1) + e % 3
    n = m << shift
    root = 1 << -(-n.bit_length() // 3)
    while (better := (2 * root + n // (root * root)) // 3) < root:  # Newton's method, from above
        root = better
    return sign, *_round_to_odd(root, root**3 != n, (e - shift) // 3)


def _exact_power(m: int, e: int, negative: bool, n: int, f: int) -> Triple | None:
    """(m * 2**e) ** (±n * 2**f) where it is a number of at most WORK_BITS bits, for odd m and n."""
    for _ in range(-f):  # a fraction n / 2**k: exact only if the base is a perfect 2**k-th power
        root = math.isqrt(m)
        if e & 1 or root * root != m:
            return None
        m, e = root, e // 2
    if m == 1:
        exponent = (e * n) << max(f, 0)
        exponent = -exponent if negative else exponent
        return (False, 1, exponent) if abs(exponent) < 1 << fixed.EXP_LIMIT else clamped(up=exponent > 0)
    if negative or ((m.bit_length() - 1) * n) << max(f, 0) >= WORK_BITS:
        return None
    power = n << max(f, 0)
    significand = m**power
    return (False, significand, e * power) if significand.bit_length() <= WORK_BITS else None


def power(_: bool, m: int, e: int, y_sign: bool, n: int, f: int) -> Triple:
    """The power of a base m * 2**e > 0 to y = ±n * 2**f."""
    if m == 1 and e == 0:
        return False, 1, 0
    y_top = magnitude(n, f)
    x_top = magnitude(m, e)
    up = (x_top > 0) != y_sign
    # |log x| is more than 2**-63, as m is below 2**62.
    if y_top > fixed.EXP_LIMIT + 1 + 63:
        return clamped(up)
    # |log x| is less than |x_top| + 1.
    if y_top + (abs(x_top) + 1).bit_length() <= TINY:
        return beside(False, 1, 0, up)
    if (exact := _exact_power(m, e, y_sign, n, f)) is not None:
        return exact

    def enclose(p: int) -> tuple[int, int, int]:
        wide = p + 32 * (max(y_top, 0) // 32 + 1)  # in steps, for the cache of `log`
        x = fixed.scaled(n * fixed.log(m, e, wide), f + p - wide)  # at most 2 units off
        x = -x if y_sign else x
        if abs(x) >> p >= 1 << fixed.EXP_LIMIT:
            _, significand, exponent = clamped(up)
            return significand, significand, exponent
        v, k = fixed.exp(x, p)
        return v - 16, v + 16, k - p

    return ziv(enclose)


def atan2(y_sign: bool, y_m: int, y_e: int, x_sign: bool, x_m: int, x_e: int) -> Triple:
    """The angle of the point (x, y), in (-pi, pi)."""
    gap = magnitude(y_m, y_e) - magnitude(x_m, x_e)
    is_near_zero = gap <= 0 and not x_sign
    if is_near_zero and y_m % x_m == 0 and is_linear(y_m // x_m, y_e - x_e, 3):
        return beside(y_sign, y_m // x_m, y_e - x_e, up=False)

    def enclose(p: int) -> tuple[int, int, int]:
        if gap <= 0:  # the ratio is below 2
            angle = fixed.atan(y_m, x_m, y_e - x_e, p)
            angle = fixed.pi(p) - angle if x_sign else angle
        else:
            angle = fixed.atan(x_m, y_m, x_e - y_e, p)
            angle = fixed.pi(p - 1) + (angle if x_sign else -angle)
        return angle - 4, angle + 4, -p

    return y_sign, *ziv(enclose, START - gap if is_near_zero else START)[1:]
