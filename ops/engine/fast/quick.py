"""Functions of f32 for the machine with errors below 2**-43, in about half of the time that `functions.py` takes.

That error can decide how one of 10**5 numbers is rounded. A block with such a number is computed again, by
`functions.py`. So is one with a number for which a formula here does not hold: all say by their results which are.

Divisions begin with one of f32, which a processor makes many times as fast, and one step by Newton. The polynomials are
those of Chebyshev, from `mpmath.chebyfit` with 200 bits; at the end of each stands the bound on its error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .instructions import choose, inner, load_32, numba, store_32, wide_vectors

_u32, _i64, _u64, _f32, _f64 = np.uint32, np.int64, np.uint64, np.float32, np.float64
contracted: Any = numba.njit(
    nogil=True, error_model="numpy", fastmath={"contract"}, no_cpython_wrapper=True, no_cfunc_wrapper=True
)

LOG2_E, _LN_2 = 1.4426950408889634, 0.6931471805599453
#: Added and taken away again, it rounds to a whole number, which then stands in the last bits.
ROUNDS, _ROUNDS_CODE = 6755399441055744.0, 0x4338000000000000
#: Half of the root of two: where the significands that `log` reduces to begin.
_ROOT_HALF = 0x3FE6A09E667F3BCD
#: The largest magnitude for which `_expm1` is asked: e to its power is a number of f32, and its tangent is 1 in f64.
_TANH_LARGE = 40.0
_BELOW, _ABOVE = 1.0 - 2.0**-42, 1.0 + 2.0**-42
_INFINITE = 0x7F800000


@inner
def number(source, j):
    """Element j of a block, as f64."""
    return _f64(_u32(load_32(source, _u64(j))).view(_f32))


@inner
def put(target, j, y, below, above):
    """Put in a rounded result; not 0 if the error could decide."""
    low, high = _f32(y * below), _f32(y * above)
    store_32(target, _u64(j), low.view(_u32))
    return _u32(low.view(_u32) ^ high.view(_u32))


@inner
def bounded(v):
    """v where e to its power neither vanishes nor overflows in f64."""
    v = choose(v < -200.0, -200.0, v)
    return choose(v > 200.0, 200.0, v)


@inner
def power_of_two(shifted):
    """2 to the power of a whole number that `ROUNDS` was added to."""
    return _u64((_f64(shifted).view(_u64) + _u64(1023)) << _u64(52)).view(_f64)


@inner
def exponent(v):
    """How many times 2 goes into a number, so that what is left lies between the roots of 1/2 and of 2."""
    return _i64(_i64(_f64(v).view(_i64)) - _i64(_ROOT_HALF)) >> _i64(52)


@inner
def scaled(v, k):
    """v / 2**k."""
    return _i64(_f64(v).view(_i64) - (k << _i64(52))).view(_f64)


@inner
def whole(k):
    """A whole number as f64."""
    return _i64(k + _i64(_ROUNDS_CODE)).view(_f64) - ROUNDS


@inner
def _is_not_positive(source, j):
    """Not 0 if a number is zero, negative, infinite or NaN."""
    code = _u32(load_32(source, _u64(j)))
    return choose(_u32(code - _u32(1)) >= _u32(_INFINITE - 1), _u32(1), _u32(0))


@contracted
def _reciprocal(v):
    """1 / v, of a number that f32 has in its range: the error is below 2**-45."""
    near = _f64(_f32(1.0) / _f32(v))
    return near + near * (1.0 - v * near)


@contracted
def _reduced(v):
    shifted = v * LOG2_E + ROUNDS
    return shifted, v - (shifted - ROUNDS) * _LN_2


@contracted
def _exp(v):
    shifted, r = _reduced(bounded(v))
    p = 2.763265575933203e-06
    p = p * r + 2.488447635159146e-05
    p = p * r + 0.0001984119061583585
    p = p * r + 0.0013888801714761622
    p = p * r + 0.008333333367332009
    p = p * r + 0.041666667040776456
    p = p * r + 0.16666666666615607
    p = p * r + 0.4999999999943814
    p = p * r + 1.0000000000000013
    p = p * r + 1.0000000000000135  # 2**-46
    # Added to the bits of a number, so much is a factor of a power of two.
    return _u64(_f64(p).view(_u64) + (_f64(shifted).view(_u64) << _u64(52))).view(_f64)


@contracted
def _expm1(v):
    """Of -0 it is +0."""
    shifted, r = _reduced(v)
    p = 2.761380686153829e-07
    p = p * r + 2.762511557828763e-06
    p = p * r + 2.4801536388690766e-05
    p = p * r + 0.00019841208732536384
    p = p * r + 0.0013888888905881542
    p = p * r + 0.008333333353729397
    p = p * r + 0.04166666666665136
    p = p * r + 0.1666666666664829
    p = p * r + 0.5  # 2**-46
    p = r + (r * r) * p
    scale = power_of_two(shifted)
    return (scale - 1.0) + scale * p


@contracted
def _log_of(m_less_1, k):
    """log(m) + k log(2), of m between the roots of 1/2 and of 2."""
    s = m_less_1 * _reciprocal(m_less_1 + 2.0)
    z = s * s
    p = 0.19362776836747533
    p = p * z + 0.22191394493175057
    p = p * z + 0.2857175463573276
    p = p * z + 0.39999998796848674
    p = p * z + 0.6666666666737545  # 2**-36, times z / 2
    return k * _LN_2 + s * (2.0 + z * p)


@inner
def _log(v):
    k = exponent(v)
    return _log_of(scaled(v, k) - 1.0, whole(k))


@inner
def _log1p(v):
    u = 1.0 + v
    k = exponent(u)
    return np.copysign(_log_of(choose(k == _i64(0), v, scaled(u, k) - 1.0), whole(k)), v)


@contracted
def _rsqrt(v):
    near = _f64(_f32(1.0) / np.sqrt(_f32(v)))
    return near + near * (0.5 - (0.5 * v * near) * near)


@inner
def _tanh(v):
    w = 2.0 * v
    w = choose(w < -_TANH_LARGE, -_TANH_LARGE, w)
    w = choose(w > _TANH_LARGE, _TANH_LARGE, w)
    e = _expm1(w)
    return np.copysign(e * _reciprocal(e + 2.0), v)


@inner
def _logistic(v):
    """By e to the power of what is negative, so that nothing overflows."""
    small = _exp(-np.abs(v))
    part = _reciprocal(1.0 + small)
    return choose(v < 0.0, small * part, part)


# -- the functions themselves: not 0 where a block is to be computed again ---------------------------------------------


@inner
def exp(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        doubtful |= put(target, j, choose(v != v, v, _exp(v)), _BELOW, _ABOVE)
    return doubtful


@inner
def rsqrt(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        doubtful |= put(target, j, _rsqrt(number(source, j)), _BELOW, _ABOVE) | _is_not_positive(source, j)
    return doubtful


@inner
def log(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        doubtful |= put(target, j, _log(number(source, j)), _BELOW, _ABOVE) | _is_not_positive(source, j)
    return doubtful


@inner
def log1p(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        special = choose((v > -1.0) & (v < np.inf), _u32(0), _u32(1))
        doubtful |= put(target, j, _log1p(v), _BELOW, _ABOVE) | special
    return doubtful


@inner
def expm1(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        y = np.copysign(_expm1(bounded(v)), v)
        doubtful |= put(target, j, choose(v != v, v, y), _BELOW, _ABOVE)
    return doubtful


@inner
def tanh(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        doubtful |= put(target, j, _tanh(v), _BELOW, _ABOVE) | choose(v != v, _u32(1), _u32(0))
    return doubtful


@inner
def logistic(source, target, n):
    wide_vectors()
    doubtful = _u32(0)
    for j in range(n):
        v = number(source, j)
        doubtful |= put(target, j, _logistic(v), _BELOW, _ABOVE) | choose(v != v, _u32(1), _u32(0))
    return doubtful
