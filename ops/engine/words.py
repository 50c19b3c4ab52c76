"""Exact products of codes by sums of 16-bit products, where the processor has them and LLVM is installed.

Each code is an integer times a power of two that is common to all, in one word or two (`native/words.py`). Nothing is
rounded before the end, so the results are the same as those of every other exact method. 512**3 products of such
integers take 1.3 ms on one core, and 4.6 in f64.

What tells whether a sum of words has at most 32 bits is the norms of the rows and of the columns, which are formed
as the operands are packed (Cauchy and Schwarz): it is at most the product of two of them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import sys
import threading
from collections.abc import Callable

import numpy as np

from . import speed
from .amortised import Amortised
from .blocks import LINE, empty, for_each, in_order
from .native.word_packs import COLUMNS, PAIRS, ROWS, packers
from .native.words import F64, I32, NEAREST, ODD, multiplier

#: What a processor must have, as LLVM calls it.
_FEATURES = ("avx512bw", "avx512vbmi", "avx512vnni")
#: The sums of how many products of words are formed; the norms of so many, sums in f32, are known to 2**-9.
LONGEST = 1 << 14
_SLACK = 1 + 2.0**-8
#: The largest sum, and the 64-bit words that hold the squares of four norms.
_MOST, _NORMS = 2.0**31 - 1, 2
_TYPES = {F64: np.float64, NEAREST: np.float32, ODD: np.float32, I32: np.int32}


@dataclasses.dataclass(frozen=True)
class Split:
    """How the codes of an operand are words: `table[plane, half, code]` are the bytes of the words.

    Plane 0 has the high words, in units of 2**shift, and plane 1 the low ones, of which there are none if it is 0.
    """

    table: np.ndarray
    shift: int

    @functools.cached_property
    def place(self) -> int:
        """The address of the table."""
        return _address(self.table)


def split(values: np.ndarray, shift: int) -> Split:
    """The words of the integers that codes stand for, int64 of shape (256,).

    Multiples of 2**shift are high words, others low ones. What does not fit a word gives zero.
    """
    is_high = values & ((1 << shift) - 1) == 0
    planes = np.where(is_high, values >> shift, 0), np.where(is_high, 0, values)
    words = np.stack([np.where(np.abs(p) < 1 << 15, p, 0) for p in planes]).astype("<i2")
    return Split(np.ascontiguousarray(words.view(np.uint8).reshape(2, 256, 2).swapaxes(1, 2)), shift)


class _Room:
    """The memory of one product of matrices: packed words, lists of pairs, the lengths of these, and norms."""

    def __init__(self, groups: int, panels: int, pairs: int, x_is_split: bool, y_is_split: bool) -> None:
        # Lengths stand behind the norms, and then the numbers of all pairs, which are a list too.
        places, end = [], 8 * (_NORMS + groups + panels) + LINE & -LINE
        left, right = 4 * groups * ROWS * pairs, 4 * panels * COLUMNS * pairs
        low, other_low = (
            (left, 4 * groups * pairs) if x_is_split else (0, 0),
            (right, 4 * panels * pairs) if y_is_split else (0, 0),
        )
        for size in (4 * pairs, left, *low, right, *other_low):
            places.append(end)
            end += size
        self._memory = np.empty(end + LINE, np.uint8)
        place = _address(self._memory)
        begin = place + -place % LINE
        self._header = self._memory[begin - place : begin - place + places[0]].view(np.int64)
        self._header[:] = 0
        self.every = begin + places[0]
        self._memory[self.every - place : self.every - place + 4 * pairs].view(np.int32)[:] = _numbers(pairs)
        #: The addresses of high words, low words, lists and their lengths of both sides, and of their norms.
        self.left = begin + places[1], begin + places[2], begin + places[3], begin + 8 * _NORMS
        self.right = begin + places[4], begin + places[5], begin + places[6], begin + 8 * (_NORMS + groups)
        self.norms = begin, begin + 8
        self._counts = groups, panels

    def reach(self) -> float:
        """What no sum of products of high words exceeds, and no sum of the others."""
        high, low, other_high, other_low = map(math.sqrt, self._header[:_NORMS].view(np.float32).tolist())
        return max(high * other_high, low * other_high + (high + low) * other_low) * _SLACK

    def listed(self) -> int:
        """The average number of pairs in a list on the left, and on the right, together."""
        groups, panels = self._counts
        lengths = self._header.tolist()[_NORMS : _NORMS + groups + panels]
        return sum(lengths[:groups]) // groups + sum(lengths[groups:]) // panels


@functools.lru_cache(16)
def _numbers(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


def _address(x: np.ndarray) -> int:
    return x.ctypes.data


class Words:
    """The compiled functions. Raises RuntimeError or ImportError where they cannot be made, or the processor lacks
    what they need."""

    def __init__(self) -> None:
        if not is_there():
            raise RuntimeError("the processor has no sums of 16-bit products")
        packers()
        values = np.arange(256) * 20 - 900
        values[7] = 3  # the one that has a low word below
        whole, halves = split(values, 0), split(values, 2)
        x = np.resize(np.arange(256, dtype=np.uint8), (20, 70))
        y = np.ascontiguousarray(x[::-1].T)
        expected = values[x] @ values[y]
        for how in (whole, halves):
            result = self.product(x[None], y[None], how, how, F64, 0)
            if not (isinstance(result, np.ndarray) and (result[0] == expected).all()):
                raise RuntimeError("the sums of 16-bit products are wrong")

    def product(
        self,
        x: np.ndarray,
        y: np.ndarray,
        x_split: Split,
        y_split: Split,
        kind: int,
        exponent: int,
        known: bool = False,
    ) -> np.ndarray | float | None:
        """The exact product of codes (batch, M, K) and (batch, K, N), times 2**exponent.

        Args:
            x: codes, one byte each.
            y: codes, one byte each.
            x_split: the words of the codes of x.
            y_split: those of y.
            kind: `F64`: all sums must have at most 53 bits. `NEAREST`: f32, rounded to nearest even. `ODD`: f32,
                rounded to odd. `I32`: 32-bit integers. f32 must be zero or normal numbers.
            exponent: the power of two.
            known: whether no sum has more than 31 bits, whatever the norms say.

        Returns:
            An array of shape (batch, M, N). A number where sums of words might need more than 32 bits: how many times
            too large they may be. None where so many numbers have low words that this does not pay.
        """
        (batch, rows, length), columns = x.shape, y.shape[-1]
        result = empty((batch, rows, columns), np.dtype(_TYPES[kind]))
        job = _Job(rows, length, columns, x_split, y_split, multiplier(kind), exponent, known)
        tuned, out, each = speed.tuning(), _address(result), rows * columns * result.itemsize
        terms = rows * columns * length // tuned.word_terms
        if batch == 1:
            room = job.packed(x[0], y[0])
            if not isinstance(room, _Room):
                return room
            parts = _parts(job.groups, job.panels, tuned.word_parts if terms > tuned.block else 1)
            for_each(parts, lambda bounds: job.multiply(room, bounds, out), terms)
            return result
        refused: list[float | None] = []

        def one(i: int) -> None:
            room = job.packed(x[i], y[i]) if not refused else None
            if isinstance(room, _Room):
                job.multiply(room, (0, job.groups, 0, job.panels), out + i * each)
            else:
                refused.append(room)

        for_each(range(batch), one, batch * terms)
        return refused[0] if refused else result


class _Job:
    """What the products of all matrices of a batch have in common."""

    def __init__(
        self,
        rows: int,
        length: int,
        columns: int,
        x_split: Split,
        y_split: Split,
        run: Callable[..., int],
        exponent: int,
        known: bool,
    ) -> None:
        self.groups, self.panels = -(-rows // ROWS), -(-columns // COLUMNS)
        self._shape, self._splits, self._run, self._known = (rows, length, columns), (x_split, y_split), run, known
        self._pairs, self._used = -(-length // (2 * PAIRS)) * PAIRS, -(-length // 2)
        self._is_split = x_split.shift > 0, y_split.shift > 0
        shifts = x_split.shift + y_split.shift, y_split.shift, x_split.shift, 0
        # The last unit tells that those before it end.
        self._units = np.array([*(math.ldexp(1.0, shift + exponent) for shift in shifts), 0.0])
        self._told = _address(self._units)

    def packed(self, x: np.ndarray, y: np.ndarray) -> _Room | float | None:
        """The words of two matrices; or else what `Words.product` gives instead of sums."""
        (x_split, y_split), is_split = self._splits, self._is_split
        room, x, y = _Room(self.groups, self.panels, self._pairs, *is_split), _lined(x), _lined(y)
        sides = (
            (packers()[0], x, x_split, room.left, self.groups),
            (packers()[1], y, y_split, room.right, self.panels),
        )
        for (pack, matrix, how, (high, low, lists, counts), parts), norm in zip(sides, room.norms, strict=True):
            where = _address(matrix), matrix.strides[0], *matrix.shape, how.place
            pack(*where, high, low, self._pairs, lists, counts, norm, how.shift > 0, 0, parts)
        over = room.reach() / _MOST
        if over > 1 and not self._known:
            return over
        return None if any(is_split) and room.listed() > speed.tuning().word_lists * self._used else room

    def multiply(self, room: _Room, bounds: tuple[int, int, int, int], out: int) -> None:
        """Write the sums of some groups and panels into the matrix that is at `out`."""
        rows, _, columns = self._shape
        (a, a_low, a_lists, a_counts), (b, b_low, b_lists, b_counts) = room.left, room.right
        words = a, a_low, b, b_low, room.every, a_lists, b_lists, a_counts, b_counts
        self._run(*words, self._pairs, self._used, rows, columns, *bounds, self._told, out)


def _parts(groups: int, panels: int, count: int) -> list[tuple[int, int, int, int]]:
    """Parts of a product: some panels of all groups, or where there is one, that of some groups."""
    if panels > 1:
        step = -(-panels // count)
        return [(0, groups, i, min(i + step, panels)) for i in range(0, panels, step)]
    step = -(-groups // count)
    return [(i, min(i + step, groups), 0, panels) for i in range(0, groups, step)]


def _lined(x: np.ndarray) -> np.ndarray:
    """A matrix whose rows lie together: `x`, or a copy of it."""
    return x if x.strides[1] == 1 or x.shape[1] == 1 else in_order(x)


def is_there() -> bool:
    """Whether the processor has what it takes. Raises ImportError without LLVM."""
    features = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    return sys.byteorder == "little" and all(features.get(name) for name in _FEATURES)


_lock = threading.Lock()


def _made() -> tuple[Words | None]:
    with _lock:
        try:
            return (Words(),)
        except (ImportError, RuntimeError):
            return (None,)


_words: Amortised[tuple[Words | None]] = Amortised(_made, lambda: speed.tuning().word_worth)


def words(terms: int) -> Words | None:
    """What multiplies codes as words, once it is worth making; for a product of so many terms."""
    if not speed.current().compiled or terms < speed.tuning().word_from:
        return None
    made = _words.value or _words.get(terms)
    return None if made is None else made[0]
