"""Elementary functions in fixed point to any number of bits, each with a proven error, in integers only.

An argument or a result called "fixed at p" is an integer that stands for itself times 2**-p; a "unit" is 2**-p.
Every function computes with some guard bits more than it promises, and the comment at its end adds up what they lose.
"""

from __future__ import annotations

import functools
import math

#: `exp` takes arguments below 2**EXP_LIMIT in magnitude.
EXP_LIMIT = 17

_BLOCK = 256  # the constants are kept at multiples of so many bits


def scaled(n: int, shift: int) -> int:
    """floor(n * 2**shift)."""
    return n << shift if shift >= 0 else n >> -shift


def _odd_series(t: int, w: int, direction: int) -> int:
    """t + direction t**3/3 + t**5/5 + direction t**7/7 ..., fixed at w, within w units, for 0 <= t <= 1/3.

    This is artanh for direction 1 and arctan for direction -1.
    """
    square = t * t >> w
    total, power, n, flip = 0, t, 1, 1
    while power:
        total += flip * (power // n)
        power = power * square >> w
        n += 2
        flip *= direction
    # A power is at most 1.5 units too small (each step cuts below 1 + t units and keeps a ninth of what was lost),
    # a term 2.5, and the w/3.17 terms with the tail together less than w.
    return total


@functools.cache
def _ln2(blocks: int) -> int:
    w = blocks * _BLOCK + 32
    return 2 * _odd_series((1 << w) // 3, w, 1) >> 32  # ln 2 = 2 artanh(1/3)


@functools.cache
def _pi(blocks: int) -> int:
    w = blocks * _BLOCK + 32
    fifth = _odd_series((1 << w) // 5, w, -1)
    return 4 * (4 * fifth - _odd_series((1 << w) // 239, w, -1)) >> 32  # Machin's formula


def ln2(p: int) -> int:
    """The natural logarithm of two, fixed at p, within 2 units."""
    blocks = p // _BLOCK + 1
    return _ln2(blocks) >> (blocks * _BLOCK - p)


def pi(p: int) -> int:
    """Pi, fixed at p, within 2 units."""
    blocks = p // _BLOCK + 1
    return _pi(blocks) >> (blocks * _BLOCK - p)


def exp(x: int, p: int) -> tuple[int, int]:
    """The exponential of x, fixed at p, as (v, k): it is v * 2**(k-p), where v is within 8 units and 1 <= v < 2.

    An x that is itself d units off adds at most 2.1 d units.
    """
    guard = EXP_LIMIT + 1
    k, r = divmod(x << guard, ln2(p + guard))
    # exp(r) = exp(r / 2**halvings)**(2**halvings). To divide r is to read the same integer as fixed at w.
    halvings = math.isqrt(p)
    w = p + guard + halvings
    total = term = 1 << w
    n = 0
    while term:
        n += 1
        term = (term * r >> w) // n
        total += term
    for _ in range(halvings):
        total = total * total >> w
    # k < 2**17.6 multiples of ln 2, each 2 units of 2**-(p+guard) off: r is off by 1.6 units, exp(r) by 3.3. The
    # series loses 3 units of 2**-w a term, doubled by each squaring, which is far below 1 unit; the cut loses 1.
    return total >> (w - p), k


@functools.lru_cache(maxsize=4096)
def log(m: int, e: int, p: int) -> int:
    """The natural logarithm of m * 2**e, fixed at p, within 2 units, for a positive integer m."""
    bits = m.bit_length()
    if m * m < 1 << (2 * bits - 1):
        bits -= 1
    one, e = 1 << bits, e + bits  # m / one lies in [sqrt(1/2), sqrt(2)], so that nothing cancels below
    w = p + p.bit_length() + 8
    mantissa = 2 * _odd_series((abs(m - one) << w) // (m + one), w, 1)  # log(c) = 2 artanh((c - 1) / (c + 1))
    extra = e.bit_length()
    exponent = e * ln2(w + extra) >> extra
    # 2 w + 6 units of 2**-w, which is less than 8 p of them, and the cut.
    return (exponent + (mantissa if m > one else -mantissa)) >> (w - p)


@functools.lru_cache(maxsize=4096)
def atan(numerator: int, denominator: int, shift: int, p: int) -> int:
    """The arc tangent of numerator * 2**shift / denominator, which is in [0, 2], fixed at p, within 2 units."""
    w = p + p.bit_length() + 10
    one = 1 << w
    t = scaled(numerator, w + shift) // denominator
    for _ in range(3):  # atan(t) = 2 atan(t / (1 + sqrt(1 + t*t))); t ends below 0.14
        t = (t << w) // (one + math.isqrt(one * one + t * t))
    # t is off by at most 4 units of 2**-w (each iteration halves what was lost and cuts below 2); the eightfold of
    # that and of the series is less than 8 (w + 5), below 32 p of them; and the cut.
    return _odd_series(t, w, -1) >> (w - p - 3)


def sin_cos(m: int, e: int, p: int) -> tuple[int, int]:
    """The sine and the cosine of m * 2**e >= 0, fixed at p, each within 2 units."""
    w = p + p.bit_length() + 8
    extra = max(0, m.bit_length() + e) + 3
    quadrant, r = divmod(scaled(m, e + w + extra), pi(w + extra - 1))
    # Less than 2**(extra-3) multiples of pi/2, each 2 units of 2**-(w+extra) off. Where that takes the wrong
    # quadrant, r is beside its end, and sine and cosine are continuous there.
    r >>= extra
    parts, term, n = [0, 0], 1 << w, 0
    while term:
        parts[n & 1] += -term if n & 2 else term
        n += 1
        term = (term * r >> w) // n
    # r is off by 2 units of 2**-w, a term by 3.1: less than 7 p of them in all; and the cut.
    cosine, sine = (part >> (w - p) for part in parts)
    match quadrant & 3:
        case 0:
            return sine, cosine
        case 1:
            return cosine, -sine
        case 2:
            return -sine, -cosine
        case _:
            return -cosine, sine
