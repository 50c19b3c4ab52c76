"""Stochastic rounding of whole arrays: two codes and a fraction from a table, and the first 16 bits of a draw.

A draw says to round up where it is less than the fraction that would be cut off (`draws.py`). Where its first 16 bits
are those of the fraction, about once in 65,536 elements, the exact fraction and the rest of the draw decide.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Sequence

import numpy as np

from ..draws import REST_BITS, Draws
from ..minifloat.codec import cut_bits, decode, neighbours
from ..minifloat.formats import FORMATS, Format
from ..minifloat.number import Number
from ..policy import Policy
from .blocks import block, blocks, for_each
from .lookup import joined

_BF16, _F16, _F32, _F64 = (FORMATS[name] for name in ("bf16", "f16", "f32", "f64"))
_REST = (1 << REST_BITS) - 1
#: The bits of f32 that bf16 lacks, and those that f16 lacks.
_LOW, _LOW_OF_F16 = 0xFFFF, 0x1FFF
#: By how much the first 16 bits of a fraction that f16 cuts off f64 can be wrong if f64 is first cut to f32.
_FROM_F64 = 8


@dataclasses.dataclass(frozen=True)
class Choices:
    """What to choose from for each code, or pair of codes."""

    packed: np.ndarray  #: uint32: the lower code, eight bits above it the upper, then the first 16 bits of the fraction
    rests: np.ndarray | None  #: int64: the other bits of the fractions, None where they are all zero

    @staticmethod
    def of(x: Number, fmt: Format, policy: Policy) -> Choices:
        """The choices of rounding numbers to a format of up to eight bits."""
        low, high, fraction = (v.astype(np.int64) for v in neighbours(x, fmt, policy))
        rests = fraction & _REST
        return Choices(
            (low | high << 8 | fraction >> REST_BITS << 16).astype(np.uint32), rests if rests.any() else None
        )

    @property
    def nbytes(self) -> int:
        return self.packed.nbytes + (0 if self.rests is None else self.rests.nbytes)

    def at(self, index: np.ndarray, draws: Draws, first: int, bits: np.ndarray | None = None) -> np.ndarray:
        """The codes chosen for a row of indices, uint16, by the draws from `first` on. `bits` are those if known."""
        bits = draws.bits(first, len(index)) if bits is None else bits
        codes = self.packed.take(index, mode="wrap")
        fraction = codes >> 16
        up = fraction > bits
        if self.rests is not None:
            for i in np.flatnonzero(fraction == bits).tolist():
                rest = int(self.rests[index[i]])
                up[i] = rest != 0 and draws.rest(first + i) < rest
        codes >>= up.view(np.uint8) << 3
        return codes.astype(np.uint8)

    def joined(self, arrays: Sequence[np.ndarray], draws: Draws) -> np.ndarray:
        """The codes for the bytes of an array, or for pairs of bytes of two arrays that broadcast together."""
        shape = np.broadcast_shapes(*(v.shape for v in arrays))
        if not shape:
            return self.joined([v[None] for v in arrays], draws)[0, ...]
        parts, result = [np.broadcast_to(v, shape) for v in arrays], np.empty(shape, np.uint8)
        first = draws.take(result.size)

        def work(part: tuple[slice, ...]) -> None:
            index = joined([p[part] for p in parts], (8,) * len(parts))
            found = self.at(np.ascontiguousarray(index).reshape(-1), draws, first + _place(part, shape))
            result[part] = found.reshape(index.shape)

        for_each(list(blocks(shape, block(result.size))), work, result.size)
        return result

    @functools.cached_property
    def rows(self) -> list[list[int]]:
        """For each first byte of a pair those of the second."""
        return self.packed.reshape(256, 256).tolist()

    def along(self, starts: np.ndarray, rows: np.ndarray, draws: Draws, kept: np.ndarray | None = None) -> np.ndarray:
        """The last accumulators of runs along rows: as `TransitionTable.along`, with a draw for each element."""
        first, width = draws.take(rows.size), rows.shape[1]
        if width > _FEW:
            return self._together(starts, rows, draws, first, kept)
        bits, totals = draws.bits(first, rows.size).reshape(rows.shape), starts.copy()
        for column in range(width):
            totals[column] = self._one(int(starts[column]), rows, bits, column, draws, first, kept)
        return totals

    def _together(
        self, starts: np.ndarray, rows: np.ndarray, draws: Draws, first: int, kept: np.ndarray | None
    ) -> np.ndarray:
        """Many runs, step by step: an index is the byte of an accumulator and of an element."""
        steps, width = rows.shape
        index, codes, fraction = (np.empty(width, t) for t in (np.uint16, np.uint32, np.uint32))
        up, shift = np.empty(width, bool), np.empty(width, np.uint8)
        element, total = (index.view(np.uint8)[p::2] for p in _OCTETS)
        found = codes.view(np.uint8)[0 if _OCTETS[0] == 0 else 3 :: 4]
        total[...] = starts
        step = max(_TOGETHER // width, 1)
        for begin in range(0, steps, step):
            some = np.ascontiguousarray(rows[begin : begin + step])
            bits = draws.bits(first + begin * width, some.size).astype(np.uint32).reshape(some.shape)
            for i, (row, drawn) in enumerate(zip(some, bits, strict=True)):
                element[...] = row
                self.packed.take(index, None, codes, "wrap")
                np.right_shift(codes, 16, fraction)
                np.greater(fraction, drawn, up)
                if self.rests is not None and (fraction == drawn).any():
                    for j in np.flatnonzero(fraction == drawn).tolist():
                        rest = int(self.rests[index[j]])
                        up[j] = rest != 0 and draws.rest(first + (begin + i) * width + j) < rest
                np.left_shift(up.view(np.uint8), 3, shift)
                np.right_shift(codes, shift, codes)
                total[...] = found
                if kept is not None:
                    kept[begin + i] = found
        return total.copy()

    def _one(
        self,
        code: int,
        rows: np.ndarray,
        bits: np.ndarray,
        column: int,
        draws: Draws,
        first: int,
        kept: np.ndarray | None,
    ) -> int:
        """A single run, in Python."""
        table, width, path = self.rows, rows.shape[1], bytearray()
        for element, drawn in zip(rows[:, column].tobytes(), bits[:, column].tolist(), strict=True):
            entry = table[code][element]
            fraction = entry >> 16
            if drawn == fraction and self.rests is not None:
                rest = int(self.rests[code << 8 | element])
                is_up = rest != 0 and draws.rest(first + len(path) * width + column) < rest
            else:
                is_up = drawn < fraction
            code = entry >> 8 & 255 if is_up else entry & 255
            path.append(code)
        if kept is not None:
            kept[:, column] = np.frombuffer(path, np.uint8)
        return code


#: Where the low and the high byte of two stand in memory.
_OCTETS = (0, 1) if sys.byteorder == "little" else (1, 0)

#: Up to so many runs each goes by itself, 0.12 us a step; numpy takes 6 us for a step of all. And how many elements
#: have their draws made together, which then fit the second-level cache.
_FEW, _TOGETHER = 48, 1 << 16


def _place(part: tuple[slice, ...], shape: tuple[int, ...]) -> int:
    """The place of the first element of a part in row-major order."""
    return sum(s.start * math.prod(shape[d + 1 :]) for d, s in enumerate(part))


def round_array(x: np.ndarray, source: Format, target: Format, policy: Policy, draws: Draws) -> np.ndarray:
    """Numbers of f16, bf16, f32 or f64 as codes of a narrower format of up to 16 bits that has a zero."""
    margin = _FROM_F64 if source == _F64 and target == _F16 else 0
    some = np.atleast_1d(x)
    codes = _round(some, lambda at: decode(some.view(source.code_dtype)[at], source), margin, target, policy, draws)
    return codes.reshape(np.shape(x))


def round_computed(
    wide: np.ndarray,
    operands: Sequence[np.ndarray],
    direct: Callable[..., Number],
    fmt: Format,
    policy: Policy,
    draws: Draws,
) -> np.ndarray:
    """Codes of f16 or bf16 of results that the host has computed in f64, wrong in its last bits, and `direct` gives."""
    some = np.atleast_1d(wide)
    spread = [np.broadcast_to(x, some.shape) for x in operands]

    def exact(at: tuple[np.ndarray, ...]) -> Number:
        return direct(*(decode(x[at].view(fmt.code_dtype), fmt) for x in spread))

    return _round(some, exact, 1 + (_FROM_F64 if fmt == _F16 else 0), fmt, policy, draws).reshape(wide.shape)


def _round(
    x: np.ndarray,
    exact: Callable[[tuple[np.ndarray, ...]], Number],
    margin: int,
    fmt: Format,
    policy: Policy,
    draws: Draws,
) -> np.ndarray:
    """Numbers as codes; `exact` gives those at some indices where that has to be known."""
    flat, result = np.ascontiguousarray(x).reshape(-1), np.empty(x.size, fmt.code_dtype)
    first = draws.take(x.size)

    def work(part: tuple[slice, ...]) -> None:
        (here,) = part
        some, place = flat[here], first + here.start
        bits = draws.bits(place, len(some))
        codes, doubtful = _chosen(some, fmt, policy, bits, margin)
        if len(doubtful):
            numbers = exact(np.unravel_index(here.start + doubtful, x.shape))
            codes[doubtful] = _by_exact(numbers, fmt, policy, draws, place + doubtful, bits[doubtful])
        result[here] = codes

    for_each(list(blocks(flat.shape, block(x.size))), work, x.size)
    return result.reshape(x.shape)


@dataclasses.dataclass(frozen=True)
class Steps:
    """A function of two numbers of f16 or bf16, along runs: `host` computes it in f64, `direct` exactly."""

    host: Callable[..., np.ndarray]
    direct: Callable[..., Number]
    format: Format
    policy: Policy

    def along(self, starts: np.ndarray, rows: np.ndarray, draws: Draws, kept: np.ndarray | None = None) -> np.ndarray:
        """As `Choices.along`; codes in, codes out."""
        dtype, (steps, width), first = self.format.dtype, rows.shape, draws.take(rows.size)
        totals, step = starts.copy(), max(_TOGETHER // width, 1)
        for begin in range(0, steps, step):
            some = rows[begin : begin + step]
            place = first + begin * width
            bits = draws.bits(place, some.size).reshape(some.shape)
            numbers = some.view(dtype).astype(np.float64)
            here = None if kept is None else kept[begin : begin + step]
            if width > _FEW:
                for i, row in enumerate(numbers):
                    totals = self._step(totals, some[i], row, bits[i], draws, place + i * width)
                    if here is not None:
                        here[i] = totals
                continue
            for j in range(width):
                self._one(totals[j : j + 1], some[:, j], numbers[:, j], bits[:, j], draws, place + j, width, here, j)
        return totals

    def _step(
        self, totals: np.ndarray, codes: np.ndarray, row: np.ndarray, bits: np.ndarray, draws: Draws, place: int
    ) -> np.ndarray:
        fmt = self.format
        wide = self.host(totals.view(fmt.dtype).astype(np.float64), row)
        found, doubtful = _chosen(wide, fmt, self.policy, bits, 1 + (_FROM_F64 if fmt == _F16 else 0))
        if len(doubtful):
            exact = self.direct(decode(totals[doubtful], fmt), decode(codes[doubtful], fmt))
            found[doubtful] = _by_exact(exact, fmt, self.policy, draws, place + doubtful, bits[doubtful])
        return found

    def _one(
        self,
        total: np.ndarray,
        codes: np.ndarray,
        numbers: np.ndarray,
        bits: np.ndarray,
        draws: Draws,
        place: int,
        width: int,
        kept: np.ndarray | None,
        column: int,
    ) -> None:
        """A single run, in Python; `total` is its first accumulator, and then its last."""
        fmt, host = self.format, self.host
        value, values = float(total.view(fmt.dtype)[0]), total.view(fmt.dtype)
        largest = float(array_value(fmt, fmt.max_code))
        for i, (number, drawn) in enumerate(zip(numbers.tolist(), bits.tolist(), strict=True)):
            wide = float(host(value, number))
            size = abs(wide)
            is_sure = size < largest
            if is_sure:
                quantum = max(math.frexp(size)[1] - fmt.precision, fmt.min_exponent)
                scaled = math.ldexp(size, -quantum)
                low = int(scaled)
                fraction = int((scaled - low) * 65536)
                is_sure = (fraction - drawn + 1) & 0xFFFF > 2
                size = math.ldexp(low + (drawn < fraction), quantum)
            if is_sure:
                value = math.copysign(size, wide)
                if kept is not None:
                    values[0] = value
            else:
                values[0] = value
                total[:] = self._step(
                    total, codes[i : i + 1], numbers[i : i + 1], bits[i : i + 1], draws, place + i * width
                )
                value = float(values[0])
            if kept is not None:
                kept[i, column] = total[0]
        values[0] = value


def array_value(fmt: Format, code: int) -> np.generic:
    """The number of a code, as a scalar of the format's type."""
    return np.array([code], fmt.code_dtype).view(fmt.dtype)[0]


def _by_exact(x: Number, fmt: Format, policy: Policy, draws: Draws, places: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """The codes of a row of numbers, by the draws of their places, the first bits of which are given."""
    low, high, fraction = neighbours(x, fmt, policy)
    leading = fraction >> REST_BITS
    up = bits < leading
    for i in np.flatnonzero(bits == leading).tolist():
        rest = int(fraction[i]) & _REST
        up[i] = rest != 0 and draws.rest(int(places[i])) < rest
    return np.where(up, high, low)


def _chosen(x: np.ndarray, fmt: Format, policy: Policy, bits: np.ndarray, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes by the first bits of draws, and the indices of those that they do not decide.

    Args:
        x: A row of f16, bf16, f32 or f64.
        fmt: A format of up to 16 bits that has a zero.
        policy: Its overflow applies.
        bits: The first 16 bits of the draws, uint16.
        margin: By how many units of 2**-16 the fractions of `x` may be wrong. NaN and what has no code of its own are
            among the doubtful, whatever the margin.
    """
    if x.dtype == _F64.dtype:
        x = _cut_to_f32(x)
    u = x.astype(np.float32, copy=False).view(np.uint32)
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
        is_f16 = fmt == _F16
        magnitude = u & 0x7FFFFFFF
        if is_f16:
            fraction = (magnitude & _LOW_OF_F16) << 3
            codes = (magnitude - (112 << 23)) >> 13
            # Subnormal numbers, and what is near the largest number or beyond it.
            lost = (magnitude < 113 << 23) & (magnitude != 0)
            lost |= magnitude >= (142 << 23 | 0x7FE000)
            codes[magnitude == 0] = 0
        else:
            fraction, codes = magnitude & _LOW, magnitude >> 16
            lost = magnitude >= 0x7F7F0000
        codes += fraction > bits
        codes |= (u >> 16) & 0x8000
    distance = (fraction - bits).astype(np.uint16)
    distance += np.uint16(margin)
    lost |= distance <= 2 * margin
    return codes.astype(fmt.code_dtype), np.flatnonzero(lost)


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


def choices_of(direct: Callable[..., Number], arity: int, fmt: Format, policy: Policy) -> Choices:
    """The choices of a function of one or two numbers of a format of up to eight bits, for each code or pair."""
    codes = [v.reshape(-1) & ((1 << fmt.bits) - 1) for v in np.indices((256,) * arity)]
    return Choices.of(direct(*(decode(c, fmt) for c in codes)), fmt, policy)
