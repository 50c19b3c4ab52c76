"""Casts between arrays of any two element types, by the shortest exact way."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .draws import Draws
from .engine import half
from .engine.amortised import Amortised, kept
from .engine.blocks import block, blocks, empty, for_each
from .engine.compiled import Kernels, kernels
from .engine.lookup import Table
from .engine.speed import tuning
from .engine.stochastic_arrays import round_array
from .minifloat.codec import decode, round_number
from .minifloat.formats import FORMATS, Format
from .minifloat.number import FINITE, WORK_BITS, Number
from .policy import Policy
from .types import ELEMENT_TYPES, ElementType, Kind

_EXACT = Policy()  # of a cast that loses nothing, whatever the policy
_F32, _F64 = FORMATS["f32"], FORMATS["f64"]
#: The bits of f64 that are cut off before a lookup: a fact of the format, as the other 19 index the table.
_CUT = 45
#: The bits of f64 that f32 has not, of its normal numbers; the least of these, and where those beyond them begin.
_BELOW_F32, _LEAST_NORMAL, _BEYOND_F32 = np.uint64((1 << 29) - 1), 2.0**-126, 2.0**128


def codes_of(x: np.ndarray, fmt: Format) -> np.ndarray:
    """The codes of an array of `fmt.dtype`, as a view."""
    return x.view(fmt.code_dtype)


def array_of(codes: np.ndarray, fmt: Format) -> np.ndarray:
    """The array of `fmt.dtype` that has these codes, as a view."""
    return np.asarray(codes, fmt.code_dtype).view(fmt.dtype)


def code_table(source: ElementType, target: ElementType, policy: Policy) -> np.ndarray:
    """The cast of every code of a float type of at most 16 bits; index it by code."""
    return _code_table(source, target, policy.rounding, policy.overflow)


@kept
def _code_table(source: ElementType, target: ElementType, rounding: str, overflow: str) -> np.ndarray:
    policy = Policy(rounding=rounding, overflow=overflow)
    codes = np.arange(1 << (8 * source.dtype.itemsize), dtype=source.format.code_dtype)
    codes &= (1 << source.bits) - 1
    table = _cast_number(decode(codes, source.format), target, policy, None)
    table.setflags(write=False)
    return table


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
    is_lookup = source.is_minifloat and target.is_float
    if is_lookup and (policy.rounding != "stochastic" or holds(target.format, source.format)):
        return _lookups(source, target, policy.rounding, policy.overflow).at(codes_of(x, source.format))
    if x.size > block(x.size) and draws is None and not (source.is_complex or target.is_complex):
        return by_blocks(x, target.dtype, lambda part: cast(part, source, target, policy))
    if target.is_complex:
        real = cast(np.real(x), source.part, target.part, policy, draws)
        imaginary = cast(np.imag(x), source.part, target.part, policy, draws) if source.is_complex else 0
        result = np.empty(x.shape, target.dtype)
        result.real, result.imag = real, imaginary
        return result
    if source.is_complex:
        return cast(np.real(x), source.part, target, policy, draws)
    if not target.is_float:
        return _to_discrete(_widen(x, source), target)
    if not source.is_float:
        return _from_integer(x, source, target, policy, draws)
    if holds(target.format, source.format):
        policy = _EXACT
    elif policy.rounding == "stochastic":
        if draws is not None and target.bits <= 16 and target.format.has_zero and not source.is_minifloat:
            return array_of(round_array(x, source.format, target.format, policy, draws), target.format)
        return _cast_number(decode(codes_of(x, source.format), source.format), target, policy, draws)
    return _round_float(x, source, target, policy)


@functools.cache
def _lookups(source: ElementType, target: ElementType, rounding: str, overflow: str) -> Table:
    """The casts of minifloats to floats: two neighbours at a time take half as long as one by one."""
    policy = Policy(rounding=rounding, overflow=overflow)
    return Table(code_table(source, target, _EXACT if holds(target.format, source.format) else policy))


def by_blocks(x: np.ndarray, dtype: np.dtype, work: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`work(x)`, of results of a type, so many elements at a time as fit the cache, by several threads."""
    if x.size <= block(x.size):
        return work(x)
    # Laid out in memory as the operand is, where that is the other way round.
    turned = x.T if x.flags.f_contiguous else x
    result = empty(turned.shape, dtype)

    def put(part: tuple[slice, ...]) -> None:
        result[part] = work(turned[part])

    for_each(list(blocks(turned.shape, block(x.size))), put, x.size)
    return result.T if turned is not x else result


def _round_float(x: np.ndarray, source: ElementType, target: ElementType, policy: Policy) -> np.ndarray:
    """A cast from f16, bf16, f32 or f64 to a float type."""
    fmt = target.format
    if holds(fmt, source.format):
        return half.widen(x) if source.bits == 16 and fmt is _F32 else x.astype(fmt.dtype)
    host = policy.rounding == "nearest_even" and policy.overflow == "ieee"
    if target == ELEMENT_TYPES["f32"]:
        # f64 is all that f32 does not hold
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return x.astype(np.float32) if host else _cast_number(decode(codes_of(x, _F64), _F64), target, policy, None)
    if source.bits == 16 and fmt.is_minifloat:
        return code_table(source, target, policy).take(codes_of(x, source.format))
    if fmt.precision <= 6 and (fmt.has_zero or source.bits < 64):
        # bfloat16 has 8 significant bits and f32's range: rounding to odd there loses nothing that a format of up
        # to 6 bits could see, in any rounding mode. Only f8E8M0FNU could distinguish f64's smaller numbers.
        if source.bits == 64 and (wide := _of_f64(target, policy.rounding, policy.overflow).at(x)) is not None:
            return wide
        return through_bf16(x, code_table(ELEMENT_TYPES["bf16"], target, policy))
    if host and not fmt.is_minifloat:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # threads have settings of their own
            return half.narrow(_odd_f32(x) if source.bits == 64 else x.astype(np.float32, copy=False), fmt.dtype)
    return _cast_number(decode(codes_of(x, source.format), source.format), target, policy, None)


def through_bf16(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """f16, f32 or f64 rounded to odd to bfloat16, and from there by a table of minifloats for all its codes."""
    compiled = kernels(x.size)
    if compiled is not None:
        return _round_compiled(compiled, x, table)
    codes = _odd_bf16_of_f64(x) if x.dtype == np.float64 else _odd_bf16(x.astype(np.float32, copy=False))
    # The codes are all in the table; this of numpy's ways to make sure of it is the quickest.
    return table.take(codes, mode="wrap")


class _OfF64:
    """f64 rounded to odd to 8 significant bits, and from there by a table: 19 bits determine the result in a minifloat.

    Numpy takes 3.0 ns for it and 5.6 by way of f32, so the table is made once that has paid.
    """

    def __init__(self, target: ElementType, rounding: str, overflow: str) -> None:
        self._target, self._policy = target, Policy(rounding=rounding, overflow=overflow)
        self._table = Amortised(self._entries, lambda: tuning().cast_worth, nbytes=lambda table: table.nbytes)

    def _entries(self) -> np.ndarray:
        numbers = (np.arange(1 << 64 - _CUT, dtype=np.uint64) << _CUT).view(np.float64)
        return through_bf16(numbers, code_table(ELEMENT_TYPES["bf16"], self._target, self._policy))

    def at(self, x: np.ndarray) -> np.ndarray | None:
        """The codes; None where there is no table, or something quicker."""
        table = self._table.get(x.size)
        if table is None or kernels(x.size) is not None:
            return None
        bits = x.view(np.uint64)
        odd = np.asarray(bits & ((1 << _CUT) - 1))
        odd += (1 << _CUT) - 1  # carries into the last bit that is kept where there is anything to cut off
        odd |= bits
        odd >>= _CUT
        return table.take(odd.view(np.int64), mode="wrap")


_of_f64 = functools.cache(_OfF64)


def _round_compiled(compiled: Kernels, x: np.ndarray, table: np.ndarray) -> np.ndarray:
    result = empty(x.shape, table.dtype)
    codes, entries = result.reshape(-1).view(np.uint8), table.view(np.uint8)
    x = np.ascontiguousarray(x).reshape(-1)
    if x.dtype == np.float64:
        compiled.round_wide(x, entries, codes)
    else:
        compiled.round(x.astype(np.float32, copy=False).view(np.uint32), entries, codes)
    return result


def holds(wide: Format, narrow: Format) -> bool:
    """True if every number, infinity and NaN of `narrow` has its like in `wide`."""
    return wide.precision >= narrow.precision and wide.exponent_bits >= narrow.exponent_bits and not wide.is_minifloat


def _odd_bf16(x: np.ndarray) -> np.ndarray:
    """f32 rounded to odd to bfloat16, as codes. Exact for NaN too: a payload in the low half sets the odd bit."""
    u = x.view(np.uint32)
    odd = np.asarray(u & 0xFFFF)
    odd += 0xFFFF  # carries into bit 16 where there is anything to cut off
    odd |= u
    odd >>= 16
    return odd


def _odd_bf16_of_f64(x: np.ndarray) -> np.ndarray:
    """f64 rounded to odd to bfloat16, as codes."""
    x = np.asarray(x)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        nearest = np.asarray(x.astype(np.float32))
    codes = np.asarray(_odd_bf16(nearest))
    # Rounding to nearest first does harm only where it ends on a number of bfloat16.
    doubtful = np.greater(nearest != x, nearest.view(np.uint32) & 0xFFFF != 0)
    if doubtful.any():
        codes[doubtful] = _odd_bf16(_odd_f32(x[doubtful]))
    return codes


def _odd_f32(x: np.ndarray) -> np.ndarray:
    """f64 rounded to odd to f32; what overflows becomes the largest number, what underflows the smallest."""
    x = np.asarray(x)
    bits = x.view(np.uint64)
    odd = np.asarray(bits & _BELOW_F32)
    odd += _BELOW_F32  # carries into the last bit that is kept where there is anything to cut off
    odd |= bits
    odd &= ~_BELOW_F32
    size = np.abs(x)
    is_outside = np.asarray(size < _LEAST_NORMAL) & (size != 0)
    is_outside |= (size >= _BEYOND_F32) & (size != np.inf)
    odd[is_outside] = 0
    with np.errstate(invalid="ignore"):  # of NaN that signal
        result = np.asarray(odd.view(np.float64).astype(np.float32))
    if is_outside.any():
        result[is_outside] = _odd_f32_stepped(x[is_outside])
    return result


def _odd_f32_stepped(x: np.ndarray) -> np.ndarray:
    """The same of any numbers: the nearest one, and a step back towards zero from there where that is needed."""
    with np.errstate(all="ignore"):
        nearest = x.astype(np.float32)
        back = nearest.astype(np.float64)
        bits = nearest.view(np.int32)
        # Step back towards zero where rounding went away from zero (infinity steps back to the largest number) …
        away = np.abs(back) > np.abs(x)
        bits = bits - away
        # … and set the last bit where anything was cut off.
        return (bits | ((back != x) & (x == x))).astype(np.int32).view(np.float32)


def _odd_f64(x: np.ndarray) -> np.ndarray:
    """64-bit integers as f64, rounded to odd to at least 43 significant bits where they have more than 53."""
    if x.max(initial=0) <= 1 << 53 and x.min(initial=0) >= -(1 << 53):
        return x.astype(np.float64)
    below, bit = x.dtype.type((1 << 11) - 1), x.dtype.type(1 << 11)
    odd = (x & ~below) | (x & below != 0) * bit
    is_long = x > 1 << 53 if x.dtype.kind == "u" else (x > 1 << 53) | (x < -(1 << 53))
    return np.where(is_long, odd, x).astype(np.float64)


def _cast_number(x: Number, target: ElementType, policy: Policy, draws: Draws | None) -> np.ndarray:
    return array_of(round_number(x, target.format, policy, draws), target.format)


def _widen(x: np.ndarray, source: ElementType) -> np.ndarray:
    """The same values in a type numpy computes in: integers and bool as they are, floats as f32 or f64."""
    if source.is_float and source.bits < 32:
        return half.widen(x) if source.bits == 16 else x.astype(np.float32)
    return x.astype(f"{'i' if source.kind is Kind.SIGNED else 'u'}1") if source.bits < 8 and source.bits > 1 else x


def _to_discrete(x: np.ndarray, target: ElementType) -> np.ndarray:
    """A cast of numpy's own types to i1 or an integer."""
    if target.kind is Kind.BOOL:
        return x != 0
    if x.dtype.kind == "f":
        return _truncate(x, target)
    return wrap(x, target)


def wrap(x: np.ndarray, target: ElementType) -> np.ndarray:
    """Integers (numpy's own types) reduced modulo 2**bits into an integer type."""
    if target.bits >= 8:
        return x.astype(target.dtype)
    spare = 8 - target.bits
    wide = np.int8 if target.kind is Kind.SIGNED else np.uint8
    return ((np.asarray(x).astype(np.uint8) << spare).view(wide) >> spare).astype(target.dtype)


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


def _from_integer(
    x: np.ndarray, source: ElementType, target: ElementType, policy: Policy, draws: Draws | None
) -> np.ndarray:
    """A cast from i1 or an integer to a float type."""
    x = _widen(x, source)
    if source.bits < 64 and target.bits == 64:
        return x.astype(np.float64)
    if source.bits < 64 and draws is not None and target.bits <= 16 and target.format.has_zero:
        wide = x.astype(np.float64)
        return array_of(round_array(wide, _F64, target.format, policy, draws), target.format)
    if policy.rounding == "stochastic" or target.bits == 64:
        return _cast_number(integer_number(x), target, policy, draws)
    if source.bits == 64:
        return _round_float(_odd_f64(x), ELEMENT_TYPES["f64"], target, policy)
    if source.bits <= 16 or (x.max(initial=0) <= 1 << 24 and x.min(initial=0) >= -(1 << 24)):
        return _round_float(x.astype(np.float32), ELEMENT_TYPES["f32"], target, policy)
    return _round_float(x.astype(np.float64), ELEMENT_TYPES["f64"], target, policy)


def integer_number(x: np.ndarray) -> Number:
    """Integers (numpy's own types) as numbers; those beyond WORK_BITS bits rounded to odd there."""
    negative = x < 0
    # |x| of the most negative integer fits the unsigned type
    magnitude = (
        np.where(negative, -x.astype(np.int64), x.astype(np.int64)).astype(np.uint64) if x.dtype.kind != "u" else x
    )
    magnitude = magnitude.astype(np.uint64)
    cut = np.uint64(64 - WORK_BITS)
    large = magnitude >> np.uint64(WORK_BITS) != 0
    kept = magnitude >> cut
    kept |= (kept << cut) != magnitude
    return Number(
        np.full(x.shape, FINITE, np.uint8),
        negative,
        np.where(large, kept, magnitude).astype(np.int64),
        np.where(large, np.int64(cut), np.int64(0)),
    )
