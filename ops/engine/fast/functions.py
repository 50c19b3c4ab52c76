"""Functions of f32 for the machine: computed in f64 with a known bound on the error, and rounded.

Each takes the addresses of a block of words and of its results, and how many there are. It gives a number that is not 0
if any result lies so near to halfway between two f32 that the error could decide, or is not a number of the function;
then numpy's way does the block. Each function is compiled by itself once a program has it, and kept on disk.

Numbers are multiplied and added in one step where the processor can: the bounds hold either way.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import compiled_cache
from . import opcodes as op
from . import quick
from .instructions import choose, inner, numba, wide_vectors
from .quick import LOG2_E, ROUNDS, bounded, contracted, exponent, number, power_of_two, put, scaled, whole

_u32, _i64, _u64, _f32, _f64 = np.uint32, np.int64, np.uint64, np.float32, np.float64
_LN_2_HIGH, _LN_2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_INFINITY = np.inf
#: What numpy gives for what has no logarithm.
with np.errstate(invalid="ignore"):
    _NO_LOGARITHM = float(np.log(np.full(1, -1.0))[0])
#: pi / 2 in parts of 33, 33 and 53 bits, so that products of the first two with whole numbers of 20 bits are exact.
_TWO_OVER_PI = 0.6366197723675814
_PI_2_HIGH, _PI_2_MIDDLE, _PI_2_LOW = 1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21
_LARGEST_ANGLE = 1048576.0


@contracted
def _reduced(v):
    """The whole number next to v / log(2), added to `ROUNDS`, and what is left of v: at most log(2) / 2."""
    shifted = v * LOG2_E + ROUNDS
    turns = shifted - ROUNDS
    return shifted, (v - turns * _LN_2_HIGH) - turns * _LN_2_LOW


@contracted
def _exp(v):
    """The Taylor series up to the power of 12: the error is below 2**-51."""
    shifted, r = _reduced(bounded(v))
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * power_of_two(shifted)


@contracted
def _expm1(v):
    """As `_exp` without the first term, up to the power of 13: the error is below 2**-50.

    (2**k - 1) + 2**k (e**r - 1) loses little: where k is not 0, it is no less than a quarter of 1, and a fifth of 2**k.
    """
    shifted, r = _reduced(bounded(v))
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = r + (r * r) * p
    scale = power_of_two(shifted)
    return choose(v == 0.0, v, (scale - 1.0) + scale * p)


@contracted
def _log_of(m_less_1, k):
    """log(m) + k log(2), of m between the roots of 1/2 and of 2: by 2 artanh(s) up to the power of 19.

    s is at most 0.1716, so that the error is below 2**-51.
    """
    s = m_less_1 / (m_less_1 + 2.0)
    z = s * s
    p = 2.0 / 19.0
    p = p * z + 2.0 / 17.0
    p = p * z + 2.0 / 15.0
    p = p * z + 2.0 / 13.0
    p = p * z + 2.0 / 11.0
    p = p * z + 2.0 / 9.0
    p = p * z + 2.0 / 7.0
    p = p * z + 2.0 / 5.0
    p = p * z + 2.0 / 3.0
    low = k * _LN_2_LOW + (s * z) * p
    return k * _LN_2_HIGH + (2.0 * s + low)


@inner
def _log(v):
    k = exponent(v)
    y = _log_of(scaled(v, k) - 1.0, whole(k))
    y = choose(v == 0.0, -_INFINITY, y)
    return choose(v == _INFINITY, v, y)


@inner
def _log1p(v):
    """By v itself where 1 + v needs no scaling, so that nothing of it is lost."""
    u = 1.0 + v
    k = exponent(u)
    y = _log_of(choose(k == _i64(0), v, scaled(u, k) - 1.0), whole(k))
    y = choose(v == 0.0, v, y)
    y = choose(v == -1.0, -_INFINITY, y)
    return choose(v == _INFINITY, v, y)


@contracted
def _turned(v):
    """Which quarter of a turn v is in, and what is left of it: at most pi / 4."""
    shifted = v * _TWO_OVER_PI + ROUNDS
    turns = shifted - ROUNDS
    return _f64(shifted).view(_u64), ((v - turns * _PI_2_HIGH) - turns * _PI_2_MIDDLE) - turns * _PI_2_LOW


@contracted
def _wave(quarter, r):
    """The sine of r and so many quarters, by Taylor series up to the powers of 15 and 16: the error is below 2**-51."""
    z = r * r
    s = -1.0 / 1307674368000.0
    s = s * z + 1.0 / 6227020800.0
    s = s * z - 1.0 / 39916800.0
    s = s * z + 1.0 / 362880.0
    s = s * z - 1.0 / 5040.0
    s = s * z + 1.0 / 120.0
    s = s * z - 1.0 / 6.0
    s = r + (r * z) * s
    c = 1.0 / 20922789888000.0
    c = c * z - 1.0 / 87178291200.0
    c = c * z + 1.0 / 479001600.0
    c = c * z - 1.0 / 3628800.0
    c = c * z + 1.0 / 40320.0
    c = c * z - 1.0 / 720.0
    c = c * z + 1.0 / 24.0
    c = c * z - 0.5
    c = c * z + 1.0
    y = choose((quarter & _u64(1)) == _u64(0), s, c)
    return choose((quarter & _u64(2)) == _u64(0), y, -y)


@inner
def _rsqrt(v):
    return 1.0 / np.sqrt(v)


@inner
def _tanh(v):
    """(e**2v - 1) / (e**2v + 1); the error of the numerator counts twice at most."""
    e = _expm1(2.0 * v)
    return choose(v == 0.0, v, e / (e + 2.0))


@inner
def _logistic(v):
    return 1.0 / (1.0 + _exp(-v))


@inner
def _sine(v):
    quarter, r = _turned(v)
    return choose(v == 0.0, v, _wave(quarter, r))


@inner
def _cosine(v):
    quarter, r = _turned(v)
    return _wave(quarter + _u64(1), r)


# -- the functions themselves ------------------------------------------------------------------------------------------


def exp(source, target, n):
    wide_vectors()
    if not quick.exp(source, target, n):
        return _u32(0)
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        y = choose(v != v, v, _exp(v))
        doubtful |= put(target, j, y, 1.0 - 2.0**-49, 1.0 + 2.0**-49)
    return doubtful


def rsqrt(source, target, n):
    wide_vectors()
    if not quick.rsqrt(source, target, n):
        return _u32(0)
    doubtful = _u32(0)
    for j in range(n):
        doubtful |= put(target, j, _rsqrt(number(source, j)), 1.0 - 2.0**-48, 1.0 + 2.0**-48)
    return doubtful


def log(source, target, n):
    wide_vectors()
    if not quick.log(source, target, n):
        return _u32(0)
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        y = choose(v < 0.0, _NO_LOGARITHM, choose(v != v, v, _log(v)))
        doubtful |= put(target, j, y, 1.0 - 2.0**-49, 1.0 + 2.0**-49)
    return doubtful


def log1p(source, target, n):
    wide_vectors()
    if not quick.log1p(source, target, n):
        return _u32(0)
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        y = choose(v < -1.0, _NO_LOGARITHM, choose(v != v, v, _log1p(v)))
        doubtful |= put(target, j, y, 1.0 - 2.0**-49, 1.0 + 2.0**-49)
    return doubtful


def expm1(source, target, n):
    wide_vectors()
    if not quick.expm1(source, target, n):
        return _u32(0)
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        y = choose(v != v, v, _expm1(v))
        doubtful |= put(target, j, y, 1.0 - 2.0**-49, 1.0 + 2.0**-49)
    return doubtful


def tanh(source, target, n):
    """Which NaN numpy gives is left to it."""
    wide_vectors()
    if not quick.tanh(source, target, n):
        return _u32(0)
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        doubtful |= put(target, j, _tanh(v), 1.0 - 2.0**-48, 1.0 + 2.0**-48) | choose(v != v, _u32(1), _u32(0))
    return doubtful


def logistic(source, target, n):
    """Any NaN is negative."""
    wide_vectors()
    if not quick.logistic(source, target, n):
        return _u32(0)
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        y = choose(v != v, -np.abs(v), _logistic(v))
        doubtful |= put(target, j, y, 1.0 - 2.0**-48, 1.0 + 2.0**-48)
    return doubtful


def sin(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        y = choose(v != v, v, _sine(v))
        far = choose(np.abs(v) > _LARGEST_ANGLE, _u32(1), _u32(0))
        doubtful |= put(target, j, y, 1.0 - 2.0**-49, 1.0 + 2.0**-49) | far
    return doubtful


def cos(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        y = choose(v != v, v, _cosine(v))
        far = choose(np.abs(v) > _LARGEST_ANGLE, _u32(1), _u32(0))
        doubtful |= put(target, j, y, 1.0 - 2.0**-49, 1.0 + 2.0**-49) | far
    return doubtful


_FUNCTIONS = {
    op.EXP: exp,
    op.RSQRT: rsqrt,
    op.LOG: log,
    op.LOG1P: log1p,
    op.EXPM1: expm1,
    op.TANH: tanh,
    op.LOGISTIC: logistic,
    op.SIN: sin,
    op.COS: cos,
}


@functools.cache
def compiled(kind: int, digest: str) -> Any:
    """The function of an opcode as C calls it; its `address` is what the machine takes.

    Raises what numba raises where it cannot be compiled.
    """
    t, function = numba.types, _FUNCTIONS[kind]
    signature = t.uint32(t.uint64, t.uint64, t.int64)
    name = f"{function.__name__}-{digest}"
    return compiled_cache.compiled(numba, function, signature, name, as_c=True, error_model="numpy")
