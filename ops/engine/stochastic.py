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
from ..minifloat.codec import decode, neighbours
from ..minifloat.formats import Format
from ..minifloat.number import Number
from ..policy import Policy
from .blocks import block, blocks, for_each
from .lookup import joined

_REST = (1 << REST_BITS) - 1


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
        if width > FEW:
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
        element, total = (index.view(np.uint8)[p::2] for p in OCTETS)
        found = codes.view(np.uint8)[0 if OCTETS[0] == 0 else 3 :: 4]
        total[...] = starts
        step = max(TOGETHER // width, 1)
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
OCTETS = (0, 1) if sys.byteorder == "little" else (1, 0)

#: Up to so many runs each goes by itself, 0.12 us a step; numpy takes 6 us for a step of all. And how many elements
#: have their draws made together, which then fit the second-level cache.
FEW, TOGETHER = 48, 1 << 16


def _place(part: tuple[slice, ...], shape: tuple[int, ...]) -> int:
    """The place of the first element of a part in row-major order."""
    return sum(s.start * math.prod(shape[d + 1 :]) for d, s in enumerate(part))


def choices_of(direct: Callable[..., Number], arity: int, fmt: Format, policy: Policy) -> Choices:
    """The choices of a function of one or two numbers of a format of up to eight bits, for each code or pair."""
    codes = [v.reshape(-1) & ((1 << fmt.bits) - 1) for v in np.indices((256,) * arity)]
    return Choices.of(direct(*(decode(c, fmt) for c in codes)), fmt, policy)
