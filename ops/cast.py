"""Casts between arrays of any two element types, rounded once."""

from __future__ import annotations

import functools

import numpy as np

from .draws import Draws
from .minifloat.codec import decode, round_number
from .minifloat.formats import Format
from .minifloat.number import WORK_BITS, Number, finite
from .policy import Policy
from .tables import all_codes, in_blocks, look_up
from .types import ELEMENT_TYPES, ElementType, Kind

_PLAIN = Policy()
_BF16, _F32, _F64 = (ELEMENT_TYPES[name] for name in ("bf16", "f32", "f64"))
#: The elements from which f16 is converted by lookups.
#: tuning: add of 10**6 f16 takes 3.2 ms so, 6.7 ms without.
_LARGE = 1 << 16


def codes_of(x: np.ndarray, fmt: Format) -> np.ndarray:
    """The codes of an array of `fmt.dtype`, as a view."""
    return x.view(fmt.code_dtype)


def array_of(codes: np.ndarray, fmt: Format) -> np.ndarray:
    """The array of `fmt.dtype` that has these codes, as a view."""
    return np.asarray(codes, fmt.code_dtype).view(fmt.dtype)


def cast(
    x: np.ndarray, source: ElementType, target: ElementType, policy: Policy, draws: Draws | None = None
) -> np.ndarray:
    """`x` converted as stablehlo.convert does, rounding once as `policy` says.

    Real to complex has imaginary part 0; complex to real takes the real part. Floats to integers truncate and stop at
    the ends of the range, NaN is 0 (the specification leaves these open; XLA does so). To `i1`: whether non-zero.
    `draws` are those of stochastic rounding.
    """
    if source == target:
        return x
    if target.is_complex:
        real = cast(np.real(x), source.part, target.part, policy, draws)
        imaginary = cast(np.imag(x), source.part, target.part, policy, draws) if source.is_complex else 0
        result = np.empty(x.shape, target.dtype)
        result.real, result.imag = real, imaginary
        return result
    if source.is_complex:
        return cast(np.real(x), source.part, target, policy, draws)
    if target.is_float:
        return (_from_float if source.is_float else _from_integer)(x, source, target, policy, draws)
    x = _widen(x, source)
    if target.kind is Kind.BOOL:
        return x != 0
    return _truncate(x, target) if x.dtype.kind == "f" else wrap(x, target)


def _from_float(
    x: np.ndarray, source: ElementType, target: ElementType, policy: Policy, draws: Draws | None
) -> np.ndarray:
    fmt = target.format
    if holds(fmt, source.format):
        policy = _PLAIN
    if policy.rounding != "stochastic":
        if source.is_minifloat or (source.bits == 16 and fmt.is_minifloat):
            return look_up(code_table(source, target, policy), [codes_of(x, source.format)])
        if not fmt.is_minifloat and policy.rounding == "nearest_even" and policy.overflow == "ieee":
            if target.bits > 32:
                return x.astype(fmt.dtype)
            # To 16 bits by way of f32, as ml_dtypes does.
            return from_f32(_odd_f32(x) if source.bits == 64 and target.bits == 16 else to_f32(x), fmt.dtype)
        if fmt.is_minifloat and (fmt.has_zero or source.bits == 32):
            # bfloat16 has 8 significant bits and f32's range: rounding to odd there loses nothing that a format of up
            # to 6 bits could see, in any rounding mode. Only f8E8M0FNU could distinguish f64's smaller numbers.
            table = code_table(_BF16, target, policy)
            wide = source.bits == 64  # a payload of NaN in the low half sets the odd bit
            odd = lambda some: _odd((_odd_f32(some) if wide else some).view(np.uint32), 16)  # noqa: E731
            return in_blocks(lambda some: table.take(odd(some), mode="wrap"), [x], fmt.dtype)
    return array_of(round_number(decode(codes_of(x, source.format), source.format), fmt, policy, draws), fmt)


def _from_integer(
    x: np.ndarray, source: ElementType, target: ElementType, policy: Policy, draws: Draws | None
) -> np.ndarray:
    """A cast from i1 or an integer to a float type."""
    x, is_plain = _widen(x, source), policy.rounding == "nearest_even" and policy.overflow == "ieee"
    if policy.rounding != "stochastic":
        if target.bits >= 32 and (is_plain or source.bits <= target.format.precision):
            return x.astype(target.dtype)
        if source.bits < 64 or (x.size and x.min() >= -(1 << 53) and x.max() <= 1 << 53):  # numbers of f64
            return _from_float(x.astype(np.float64), _F64, target, policy, None)
    return array_of(round_number(integer_number(x), target.format, policy, draws), target.format)


def code_table(source: ElementType, target: ElementType, policy: Policy) -> np.ndarray:
    """The cast of every code of a float type of at most 16 bits; index it by code."""
    return _code_table(source, target, policy.rounding, policy.overflow)


@functools.cache
def _code_table(source: ElementType, target: ElementType, rounding: str, overflow: str) -> np.ndarray:
    numbers = decode(codes_of(all_codes(source), source.format), source.format)
    table = array_of(round_number(numbers, target.format, Policy(rounding=rounding, overflow=overflow)), target.format)
    table.setflags(write=False)
    return table


def holds(wide: Format, narrow: Format) -> bool:
    """True if every number, infinity and NaN of `narrow` has its like in `wide`."""
    return wide.precision >= narrow.precision and wide.exponent_bits >= narrow.exponent_bits and not wide.is_minifloat


def to_f32(x: np.ndarray) -> np.ndarray:
    """The nearest f32 of floats; of f16 by a lookup, as numpy converts one element at a time."""
    if x.dtype == np.float16 and x.size >= _LARGE:
        return look_up(_f16_numbers(), [x.view(np.uint16)])
    with np.errstate(all="ignore"):
        return x.astype(np.float32, copy=False)


def from_f32(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The nearest floats of a type for those of f32, ties to even; in f16 by a lookup too."""
    if dtype == np.float16 and x.size >= _LARGE:
        return in_blocks(lambda some: _f16_codes().take(_odd(some.view(np.uint32), 11), mode="wrap"), [x], dtype)
    with np.errstate(all="ignore"):
        return x.astype(dtype, copy=False)


@functools.cache
def _f16_numbers() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


@functools.cache
def _f16_codes() -> np.ndarray:
    """The f16 for the 21 bits of f32 that decide, the last of which is set where any bit behind it was."""
    numbers, infinity, size = _f16_numbers()[:0x7C01].copy(), 0x7C00, 1 << 20
    numbers[infinity] = 1 << 16  # where the number above the largest would be
    ties = ((numbers[:-1] + numbers[1:]) / 2).view(np.uint32) >> 11
    starts = ties + (np.arange(infinity) % 2 == 0)  # a tie is rounded to the even code
    nan = np.arange(0xFF001, size)
    positive = np.empty(size, np.uint16)
    positive[: nan[0]] = np.repeat(np.arange(infinity + 1), np.diff(starts, prepend=0, append=nan[0]))
    positive[nan[0] :] = infinity | np.maximum(nan >> 2 & 0x3FF, 1)
    return np.concatenate((positive, positive | 0x8000)).view(np.float16)


def _odd(u: np.ndarray, count: int) -> np.ndarray:
    """Codes without the last bits, of which any that is set sets the last one that stays."""
    rest = (1 << count) - 1
    odd = np.asarray(u & rest)
    odd += rest  # carries where there is anything to cut off
    odd |= u
    odd >>= count
    return odd


def _odd_f32(x: np.ndarray) -> np.ndarray:
    """f64 rounded to odd to f32; what overflows becomes the largest number, what underflows the smallest."""
    with np.errstate(all="ignore"):
        nearest = np.asarray(x.astype(np.float32))
        back, bits = nearest.astype(np.float64), nearest.view(np.int32)
        is_cut = back != x
        is_cut &= x == x
        # Step back towards zero where rounding went away from zero (infinity steps back to the largest number) …
        np.subtract(bits, np.abs(back, out=back) > np.abs(x), out=bits)
        # … and set the last bit where anything was cut off.
        np.bitwise_or(bits, is_cut, out=bits)
        return nearest


def _widen(x: np.ndarray, source: ElementType) -> np.ndarray:
    """The same values in a type numpy computes in: integers and bool as they are, floats as f32 or f64."""
    if source.is_float:
        return cast(x, source, _F32, _PLAIN) if source.bits < 32 else x
    return x.astype(source.working_dtype, copy=False)


def wrap(x: np.ndarray, target: ElementType) -> np.ndarray:
    """Integers (numpy's own types) reduced modulo 2**bits into an integer type."""
    if target.bits >= 8:
        return x.astype(target.dtype)
    spare = 8 - target.bits
    return ((np.asarray(x).astype(np.uint8) << spare).view(target.working_dtype) >> spare).astype(target.dtype)


def _truncate(x: np.ndarray, target: ElementType) -> np.ndarray:
    """f32 or f64 as integers: toward zero, NaN as 0, and the nearest integer of the type for those beyond it."""
    x, number = np.asarray(x), x.dtype.type
    low, high = target.range
    end = number(high + 1)
    most = number(high) if int(number(high)) == high else np.nextafter(end, number(0))
    near = np.asarray(x.clip(number(low), most))  # a host's conversion of what its type does not hold is undefined
    if np.isnan(near).any():
        near = np.where(np.isnan(near), 0, near)
    integers = near.astype(f"{'i' if low else 'u'}{max(target.bits, 8) // 8}")
    if most != high:
        integers[x >= end] = high
    return integers.astype(target.dtype, copy=False)


def integer_number(x: np.ndarray) -> Number:
    """Integers (numpy's own types) as numbers; those beyond WORK_BITS bits rounded to odd there."""
    x = np.asarray(x)
    negative = x < 0
    magnitude = (np.abs(x.astype(np.int64)) if x.dtype.kind == "i" else x).astype(np.uint64)
    cut = np.uint64(64 - WORK_BITS)
    large = magnitude >> np.uint64(WORK_BITS) != 0
    short = magnitude >> cut
    short |= (short << cut) != magnitude
    significand = np.where(large, short, magnitude).astype(np.int64)
    return finite(negative, significand, np.where(large, cut, 0).astype(np.int64))
