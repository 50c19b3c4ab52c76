"""Stochastic rounding of arrays: by the first 16 bits of draws, and the rest exactly."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..draws import REST_BITS, Draws
from ..minifloat.codec import cut_bits, decode, neighbours
from ..minifloat.formats import FORMATS, Format
from ..minifloat.number import Number
from ..policy import Policy
from .blocks import block, blocks, for_each
from .speed import tuning
from .stochastic import OCTETS, Choices

_BF16, _F16, _F32, _F64 = (FORMATS[name] for name in ("bf16", "f16", "f32", "f64"))
_REST = (1 << REST_BITS) - 1
#: The bits of f32 that bf16 lacks, and those that f16 lacks.
_LOW, _LOW_OF_F16 = 0xFFFF, 0x1FFF
#: f32, without its sign, from which bf16 has no larger number to round to.
_LARGE = 0x7F7F0000
#: By how much the first 16 bits of a fraction that a format cuts off f64 can be wrong if f64 is first rounded to f32.
_FROM_F64 = {_F16.name: 8, _BF16.name: 1}


def round_array(x: np.ndarray, source: Format, target: Format, policy: Policy, draws: Draws) -> np.ndarray:
    """Numbers of f16, bf16, f32 or f64 as codes of a narrower format of up to 16 bits that has a zero."""
    margin = margin_of(target) if source == _F64 else 0
    flat = np.ascontiguousarray(x).reshape(-1)

    def chosen(part: slice, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return choose(flat[part], target, policy, bits, margin)

    codes = _round(
        flat.size,
        chosen,
        lambda at: decode(flat.view(source.code_dtype)[at], source),
        target,
        policy,
        draws,
    )
    return codes.reshape(np.shape(x))


def margin_of(fmt: Format) -> int:
    """By how much `choose` can be wrong for want of the last bits of f64."""
    return _FROM_F64.get(fmt.name, 0)


def round_computed(
    host: Callable[..., np.ndarray],
    is_basic: bool,
    operands: Sequence[np.ndarray],
    direct: Callable[..., Number],
    fmt: Format,
    policy: Policy,
    draws: Draws,
) -> np.ndarray:
    """Codes of f16 or bf16 of a function: the host's is wrong in its last bits, and `direct` is not.

    Args:
        host: computes in the type of its operands.
        is_basic: whether it rounds correctly. Then f32 holds all that the first bits of a draw are compared with, if
            the format is bf16.
        operands: arrays of the format that broadcast together.
        direct: the exact function.
        fmt: the format of operands and result.
        policy: its overflow applies.
        draws: those of the rounding.
    """
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    rows = [
        np.ascontiguousarray(np.broadcast_to(x, shape)).reshape(-1) if x.size > 1 else x.reshape(-1) for x in operands
    ]
    dtype, margin = (np.float32, 1) if is_basic and fmt == _BF16 else (np.float64, 1 + margin_of(fmt))
    count = math.prod(shape)

    def chosen(part: slice, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            numbers = np.asarray(host(*((x[part] if x.size == count else x).astype(dtype) for x in rows)))
        return choose(numbers, fmt, policy, bits, margin)

    def exact(at: np.ndarray) -> Number:
        return direct(*(decode(np.broadcast_to(x, count)[at].view(fmt.code_dtype), fmt) for x in rows))

    return _round(count, chosen, exact, fmt, policy, draws).reshape(shape)


def round_tabled(
    table: np.ndarray, x: np.ndarray, direct: Callable[..., Number], fmt: Format, policy: Policy, draws: Draws
) -> np.ndarray:
    """Codes of f16 or bf16 of a function of one operand, by the table that `leading_choices` gives."""
    flat = np.ascontiguousarray(x).view(fmt.code_dtype).reshape(-1)

    def chosen(part: slice, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        codes, doubtful = _by_low_half(table.take(flat[part], mode="wrap"), bits, 0)
        return codes, np.flatnonzero(doubtful)

    return _round(flat.size, chosen, lambda at: direct(decode(flat[at], fmt)), fmt, policy, draws).reshape(x.shape)


def leading_choices(
    host: Callable[..., np.ndarray], direct: Callable[..., Number], fmt: Format, policy: Policy
) -> np.ndarray:
    """For each code of f16 or bf16 the lower of the two codes to choose from, and below it 16 bits of the fraction.

    The host's f64 gives them where its error, taken for 16 units in the last place, cannot change them.
    """
    codes = np.arange(1 << 16).astype(np.uint16)
    with np.errstate(all="ignore"):
        wide = np.asarray(host(codes.view(fmt.dtype).astype(np.float64)))
        size = np.abs(wide)
        is_sure = size < float(array_value(fmt, fmt.max_code))
        size = np.where(is_sure, size, 0.0)
        quantum = np.maximum(np.frexp(size)[1] - fmt.precision, fmt.min_exponent)
        scaled = np.ldexp(size, -quantum)
        low = np.floor(scaled)
        units = (scaled - low) * (1 << 16)
        leading = np.floor(units)
        slack = scaled * 2.0 ** (16 - 48)
        is_sure &= (units - leading > slack) & (units - leading < 1 - slack)
    code = ((quantum - fmt.min_exponent) << fmt.mantissa_bits) + low.astype(np.int64) + (np.signbit(wide) << 15)
    entries = (code << 16 | leading.astype(np.int64)).astype(np.uint32)
    rest = np.flatnonzero(~is_sure)
    below, _, fraction = neighbours(direct(decode(codes[rest], fmt)), fmt, policy)
    entries[rest] = (below.astype(np.int64) << 16 | fraction.astype(np.int64) >> REST_BITS).astype(np.uint32)
    return entries


def _round(
    count: int,
    chosen: Callable[[slice, np.ndarray], tuple[np.ndarray, np.ndarray]],
    exact: Callable[[np.ndarray], Number],
    fmt: Format,
    policy: Policy,
    draws: Draws,
) -> np.ndarray:
    """So many numbers as codes.

    Args:
        count: how many.
        chosen: gives the codes of a part by the first bits of its draws, and the indices of those they do not decide.
        exact: gives the numbers at some indices of the whole.
        fmt: the format of the codes.
        policy: its overflow applies.
        draws: those of the rounding.
    """
    result, first = np.empty(count, fmt.code_dtype), draws.take(count)
    later: list[tuple[np.ndarray, np.ndarray]] = []
    step = tuning().stochastic_block

    def work(part: tuple[slice, ...]) -> None:
        for begin in range(part[0].start, part[0].stop, step):
            here = slice(begin, min(begin + step, part[0].stop))
            bits = draws.bits(first + begin, here.stop - begin)
            result[here], doubtful = chosen(here, bits)
            if len(doubtful):
                later.append((begin + doubtful, bits[doubtful]))

    for_each(list(blocks((count,), block(count))), work, count)
    if later:  # at once, as most of the cost is in the calls
        at, bits = (np.concatenate(v) for v in zip(*later, strict=True))
        result[at] = by_exact(exact(at), fmt, policy, draws, first + at, bits)
    return result


def array_value(fmt: Format, code: int) -> np.generic:
    """The number of a code, as a scalar of the format's type."""
    return np.array([code], fmt.code_dtype).view(fmt.dtype)[0]


def by_exact(x: Number, fmt: Format, policy: Policy, draws: Draws, places: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """The codes of a row of numbers, by the draws of their places, the first bits of which are given."""
    low, high, fraction = neighbours(x, fmt, policy)
    leading = fraction >> REST_BITS
    up = bits < leading
    for i in np.flatnonzero(bits == leading).tolist():
        rest = int(fraction[i]) & _REST
        up[i] = rest != 0 and draws.rest(int(places[i])) < rest
    return np.where(up, high, low)


def choose(x: np.ndarray, fmt: Format, policy: Policy, bits: np.ndarray, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes by the first bits of draws, and the indices of those that they do not decide.

    Args:
        x: A row of f16, bf16, f32 or f64.
        fmt: A format of up to 16 bits that has a zero.
        policy: Its overflow applies.
        bits: The first 16 bits of the draws, uint16.
        margin: By how many units of 2**-16 the fractions of `x` may be wrong, or become so where f64 is rounded to f32
            (`margin_of`). NaN and what has no code of its own are among the doubtful, whatever the margin.
    """
    if x.dtype == _F64.dtype:
        if fmt.is_minifloat:
            x = _cut_to_f32(x)
        else:
            with np.errstate(all="ignore"):
                x = x.astype(np.float32)
    u = x.astype(np.float32, copy=False).view(np.uint32)
    if fmt == _BF16:
        codes, doubtful = _by_low_half(u, bits, margin)
        if u.view(np.int32).max(initial=0) >= _LARGE or u.max(initial=0) >= _LARGE | 1 << 31:
            doubtful |= u & 0x7FFFFFFF >= _LARGE
        return codes, np.flatnonzero(doubtful)
    if fmt.is_minifloat:
        table, shifts = _of_bf16(fmt, _plain(policy))
        index = (u >> 16).astype(np.uint16)
        codes = table.packed.take(index, mode="wrap")
        fraction = u & _LOW
        fraction >>= shifts.take(index, mode="wrap")
        fraction += codes >> 16
        up = fraction > bits
        codes >>= up.view(np.uint8) << 3
        lost = u & 0x7FFFFFFF > 0x7F800000
    else:
        magnitude = u & 0x7FFFFFFF
        fraction = (magnitude & _LOW_OF_F16) << 3
        codes = (magnitude - (112 << 23)) >> 13
        # Subnormal numbers, and what is near the largest number or beyond it.
        lost = (magnitude < 113 << 23) & (magnitude != 0)
        lost |= magnitude >= (142 << 23 | 0x7FE000)
        codes[magnitude == 0] = 0
        codes += fraction > bits
        codes |= (u >> 16) & 0x8000
    distance = (fraction - bits).astype(np.uint16)
    distance += np.uint16(margin)
    lost |= distance <= 2 * margin
    return codes.astype(fmt.code_dtype), np.flatnonzero(lost)


def _by_low_half(u: np.ndarray, bits: np.ndarray, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """The codes in the high halves of words, and one more where the low half is above the bits of a draw.

    Also says where the two differ by no more than a margin, round the ends too.
    """
    sums = np.bitwise_not(bits).astype(np.uint32)  # carries where there is more to cut off than the bits say
    sums += u
    low = sums.view(np.uint16)[OCTETS[0] :: 2] + np.uint16(margin + 1)
    sums >>= 16
    return sums.astype(np.uint16), low <= 2 * margin


@functools.cache
def _of_bf16(fmt: Format, policy: Policy) -> tuple[Choices, np.ndarray]:
    """The choices for each code of bf16, and by how much to shift what f32 has below that to add it to a fraction."""
    x = decode(np.arange(1 << 16), _BF16)
    return Choices.of(x, fmt, policy), np.minimum(cut_bits(x, fmt), 16).astype(np.uint8)


def _plain(policy: Policy) -> Policy:
    """The policy without its seed, of which tables are independent."""
    return dataclasses.replace(policy, seed=0)


def _cut_to_f32(x: np.ndarray) -> np.ndarray:
    """f64 rounded toward zero to f32."""
    with np.errstate(all="ignore"):
        nearest = x.astype(np.float32)
        away = np.abs(nearest.astype(np.float64)) > np.abs(x)
    return (nearest.view(np.int32) - away).astype(np.int32).view(np.float32)
