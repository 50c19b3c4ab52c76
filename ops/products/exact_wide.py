"""Matrix products of floats of any width with one rounding, the same bits on every machine and number of threads.

Each operand is a sum of slices, integers of few bits times a power of two, so that no sum of products of two slices has
more than 53 bits: f64 products of slices are exact in any order (Ozaki et al., 2012). The products of all slices are
added in integers and rounded once. How many slices it takes depends on how far the operands' exponents lie apart: two
or three for data of ordinary spread, one for small integers.

`reproducible` takes two slices at most, the leading bits of each row and column, and three products of them. It rounds
a few times, always in the same way.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..accumulators.exact_sum import ExactSums
from ..cast import array_of, cast
from ..engine.gemm import product
from ..minifloat.codec import round_number
from ..policy import Policy
from ..random_stream import RandomStream
from ..types import ELEMENT_TYPES, ElementType
from .exact_matmul import Marks, fewest_parts, set_negative_zeros, set_special, tiled

_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]
_F64_BITS = 53


def wide_matmul(
    lhs: np.ndarray,
    rhs: np.ndarray,
    result_type: ElementType,
    policy: Policy,
    random: RandomStream,
) -> np.ndarray:
    """The product of (batch, M, K) and (batch, K, N) f32, f64 or complex numbers in a float or complex type."""
    if not np.iscomplexobj(lhs):
        is_short = policy.accumulate == "reproducible" and lhs.dtype == np.float32
        return (_reproducible if is_short else _exact)(lhs, rhs, result_type, policy, random)
    (a, b), (c, d) = ((np.real(x), np.imag(x)) for x in (lhs, rhs))
    real = wide_matmul(np.concatenate((a, -b), -1), np.concatenate((c, d), -2), result_type.part, policy, random)
    if not result_type.is_complex:
        return real
    result = np.empty(real.shape, result_type.dtype)
    result.real = real
    result.imag = wide_matmul(np.concatenate((a, b), -1), np.concatenate((d, c), -2), result_type.part, policy, random)
    return result


def _exact(
    lhs: np.ndarray, rhs: np.ndarray, result_type: ElementType, policy: Policy, random: RandomStream
) -> np.ndarray:
    """The product of f32 or f64 in a float type, each element rounded once.

    NaN where a product is NaN or both infinities occur. A zero sum is +0; rounding down to 16 bits or fewer it is -0
    unless every product is +0 (IEEE 754 section 6.3). Results of f32 and f64 are rounded to nearest even.
    """
    if result_type.bits >= 32:
        policy = dataclasses.replace(policy, rounding="nearest_even")
    (x_low, x_bits), (y_low, y_bits) = _range(lhs), _range(rhs)
    bits = x_bits + y_bits + lhs.shape[-1].bit_length()
    special = _has_special(lhs) or _has_special(rhs)

    def of_tile(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        marks = (_marks(x), _marks(y)) if special or policy.rounding == "down" else None
        x, y = (_finite(v) if special else v.astype(np.float64, copy=False) for v in (x, y))
        room = _room(x.shape[-1])
        if x_bits + y_bits <= room and abs(x_low + y_low) < 900:
            sums = product(_scaled(x, x_low), _scaled(y, y_low))
            sums *= 2.0 ** (x_low + y_low)
        else:
            exact = _sliced(x, y, (x_low, x_bits), (y_low, y_bits), room)
            if result_type == _F64:
                sums = array_of(round_number(exact.to_number(), _F64.format, policy), _F64.format)
            else:
                sums = exact.to_f64()
        if marks is not None:
            if special:
                set_special(sums, *marks, has_infinity=True)
            if policy.rounding == "down":
                set_negative_zeros(sums, *marks, x.shape[-1])
        return cast(sums, _F64, result_type, policy, random.draws(policy))

    return tiled(lhs, rhs, result_type.dtype, 4 + bits // 16, of_tile)


def _reproducible(
    lhs: np.ndarray, rhs: np.ndarray, result_type: ElementType, policy: Policy, random: RandomStream
) -> np.ndarray:
    """The same product of f32, nearly exact: the error before the last rounding is below 2**-40 of the length times
    the largest magnitudes of the row and the column. Equal bits everywhere, at the cost of three products in f64."""
    if result_type.bits >= 32:
        policy = dataclasses.replace(policy, rounding="nearest_even")
    special = _has_special(lhs) or _has_special(rhs)

    def of_tile(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        marks = (_marks(x), _marks(y)) if special else None
        x, y = (_finite(v) if special else v.astype(np.float64, copy=False) for v in (x, y))
        bits = _room(x.shape[-1]) // 2
        (x_high, x_rest, x_scale), (y_high, y_rest, y_scale) = _two(x, -1, bits), _two(y, -2, bits)
        sums = product(x_rest, y_high)
        sums += product(x_high, y_rest)
        sums *= 2.0**-bits
        sums += product(x_high, y_high)
        sums = np.ldexp(sums, x_scale + y_scale)
        if marks is not None:
            set_special(sums, *marks, has_infinity=True)
        return cast(sums, _F64, result_type, policy, random.draws(policy))

    return tiled(lhs, rhs, result_type.dtype, 6, of_tile)


def _room(length: int) -> int:
    """How many bits two slices may have together. Sums of their products then have 53 at most."""
    return _F64_BITS - max(length - 1, 0).bit_length()


def _has_special(x: np.ndarray) -> bool:
    return not np.isfinite(x).all()


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x, 0).astype(np.float64)


def _range(x: np.ndarray) -> tuple[int, int]:
    """The exponent of the last bit that is set in the finite numbers, and how many bits the largest has from there."""
    if not x.size:
        return 0, 0
    bits = np.abs(x)
    finite = bits[np.isfinite(bits) & (bits != 0)]
    if not finite.size:
        return 0, 0
    precision = np.finfo(x.dtype).nmant + 1
    top = int(np.frexp(finite.max())[1])
    # The last bit of each number; only those of small exponents can be the lowest.
    least = int(np.frexp(finite.min())[1])
    near = finite[finite < np.ldexp(finite.dtype.type(1), least + precision)] if least + precision < top else finite
    fraction, exponent = np.frexp(near.astype(np.float64))
    whole = np.ldexp(fraction, precision).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    low = int((exponent - precision + trailing).min())
    return low, top - low


def _scaled(x: np.ndarray, low: int) -> np.ndarray:
    return np.ldexp(x, -low)


def _sliced(x: np.ndarray, y: np.ndarray, x_range: tuple[int, int], y_range: tuple[int, int], room: int) -> ExactSums:
    """The sums of the products of all slices."""
    x_parts, y_parts = fewest_parts(max(x_range[1], 1), max(y_range[1], 1), room)
    low = x_range[0] + y_range[0]
    bits = x_range[1] + y_range[1] + x.shape[-1].bit_length() + 2
    exact = ExactSums((*x.shape[:-1], y.shape[-1]), low, bits)
    ys = _slices(y, *y_range, y_parts)
    for x_values, x_exponent in _slices(x, *x_range, x_parts):
        for y_values, y_exponent in ys:
            exact.add_integers(product(x_values, y_values), x_exponent + y_exponent)
    return exact


def _slices(x: np.ndarray, low: int, bits: int, parts: int) -> list[tuple[np.ndarray, int]]:
    """Integers of at most so many bits each, with the power of two that they are multiplied by; only what is not zero.

    Of each number the high bits first, cut off: so all slices have its sign.
    """
    step, found = -(-bits // parts), []
    for first in range((parts - 1) * step, -1, -step):
        part = np.trunc(np.ldexp(x, -(low + first)))
        if part.any():
            found.append((part, low + first))
            x = x - np.ldexp(part, low + first)
    return found


def _two(x: np.ndarray, axis: int, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The leading bits of numbers of each row or column, scaled to one at most; those that follow; the exponents."""
    scale = np.frexp(np.abs(x).max(axis, keepdims=True, initial=0))[1]
    unit = np.ldexp(x, bits - scale)
    high = np.rint(unit)
    rest = np.rint(np.ldexp(unit - high, bits))
    return np.ldexp(high, -bits), np.ldexp(rest, -bits), scale


def _marks(x: np.ndarray) -> Marks:
    """What products with infinities, NaN and zeros depend on."""
    sign = np.where(np.signbit(x), -1.0, 1.0)
    return {
        "nan": np.isnan(x),
        "sign": np.where((x == 0) | np.isnan(x), 0.0, sign),
        "infinity": np.where(np.isinf(x), sign, 0.0),
        "zero": (x == 0).astype(np.float64),
        "negative": np.signbit(x).astype(np.float64),
    }
