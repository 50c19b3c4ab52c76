"""Maxima and minima as integer work: numbers by their ranks, which are bytes, or by their codes.

256 numbers have at most 256 different values. Numbered in order, they are compared as bytes, 64 at a time. Mostly that
order is the one in which codes stand as a sign and a magnitude: then no rank is looked up. The largest number is the
largest signed byte, unless all are negative: then it is the smallest unsigned one; and whether there is a NaN is told
by one more such maximum or minimum.

Measured with numpy alone, the largest of each of 1000 rows of 1000: by ranks 0.7 ms, by codes 0.2; a softmax of such
rows by ranks 1.3 times as fast as with maxima of f32.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from .compare import total_keys
from .lookup import Table
from .minifloat.codec import decode
from .types import ElementType


@dataclasses.dataclass(frozen=True)
class _Signed:
    """The order of codes as a sign and a magnitude: whether larger numbers win, and where NaN begin."""

    rises: bool
    positive_nan: int  #: the first among the positive codes; 128 where there is none
    negative_nan: int  #: the first among the negative codes, 256 where there is none, or 128 for that code alone

    def bounds(self, codes: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The largest signed and the largest unsigned byte, as far as they are of use, and whether there is a NaN."""
        signed, zero = codes.view(np.int8), np.zeros((), np.int8)
        high = np.maximum.reduce(signed, axis=axis) if self.rises or self.positive_nan < 128 else zero
        top = np.maximum.reduce(codes, axis=axis) if not self.rises or 128 < self.negative_nan < 256 else zero
        lone = self.negative_nan == 128
        is_negative = np.minimum.reduce(signed, axis=axis) == -128 if lone else top >= self.negative_nan
        return high, top, is_negative | (high >= self.positive_nan)

    def extreme(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The code that wins along the first axis, and whether there is a NaN, which it says nothing of."""
        high, top, nan = self.bounds(codes, 0)
        result = (high if self.rises else top).view(np.uint8)
        of_other_sign = result >= 128 if self.rises else result < 128
        if of_other_sign.any():
            result[of_other_sign] = np.minimum.reduce(codes, axis=0)[of_other_sign]
        return result, nan

    def keys(self, codes: np.ndarray) -> np.ndarray:
        """A byte for each code; the larger one wins."""
        result = codes.view(np.int8) >> 7
        result |= -128
        result ^= codes.view(np.int8)
        return (result if self.rises else np.invert(result, out=result)).view(np.uint8)


@dataclasses.dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of up to 256 numbers, in the order in which one wins over another; NaN wins over all."""

    of_code: Table  #: the rank of the number that each code stands for, as a byte
    values: np.ndarray  #: the number of each rank
    nan: int  #: the first rank that is NaN; as many as there are ranks where there is none

    def extreme(self, codes: np.ndarray) -> np.ndarray:
        """The rank that wins along the first axis; of several NaN the first, as where one is compared to the next."""
        if self._order is None:
            return self._by_rank(codes)
        winners, nan = self._order.extreme(codes)
        doubtful = np.flatnonzero(nan)
        if 2 * len(doubtful) > codes.shape[1]:
            return self._by_rank(codes)
        result = self.of_code.at(winners)
        if len(doubtful):
            result[doubtful] = self._by_rank(codes.take(doubtful, axis=1))
        return result

    def keys(self, codes: np.ndarray) -> np.ndarray | None:
        """A byte for each code, the larger of which wins, if that is quicker than ranks: without NaN, in most cases."""
        if self._order is None or (codes.size and self._order.bounds(codes, None)[2]):
            return None
        return self._order.keys(codes)

    @functools.cached_property
    def of_key(self) -> np.ndarray:
        """The number of each key."""
        assert self._order is not None
        codes, result = np.arange(256, dtype=np.uint8), np.empty(256, self.values.dtype)
        result[self._order.keys(codes)] = self.values[self.of_code.entries]
        return result

    def _by_rank(self, codes: np.ndarray) -> np.ndarray:
        ranks = self.of_code.at(codes)
        result = np.maximum.reduce(ranks, axis=0)
        if len(self.values) - self.nan > 1:
            at = np.flatnonzero(result >= self.nan)
            if len(at):
                columns = ranks.take(at, axis=1)
                result[at] = columns[np.argmax(columns >= self.nan, axis=0), np.arange(len(at))]
        return result

    @functools.cached_property
    def _order(self) -> _Signed | None:
        """The order that codes have by themselves, if it is that of the ranks."""
        ranks, every = self.of_code.entries.astype(int), np.arange(256)
        nan = ranks >= self.nan
        positive, negative = 128 - nan[:128].sum(), 128 if nan[128] else 256 - nan[128:].sum()
        told = (every == 128 if negative == 128 else every >= negative) | ((every >= positive) & (every < 128))
        upwards = np.concatenate([every[:127:-1], every[:128]])
        steps = np.diff(ranks[upwards[~nan[upwards]]])
        rises = (steps >= 0).all()
        if not (rises or (steps <= 0).all()) or not np.array_equal(told, nan):
            return None
        return _Signed(bool(rises), int(positive), int(negative))


def ranks(numbers: np.ndarray, element: ElementType, largest: bool) -> Ranks:
    """The ranks of the number of each of 256 codes: higher ones win where the largest is asked for, else lower ones."""
    keys = total_keys(numbers, element).astype(np.int64)  # of unlike codes unlike ones, with -0 below +0
    keys = keys if largest else ~keys
    is_nan = np.zeros(keys.shape, bool)
    if element.is_float:
        is_nan = decode(numbers.view(element.format.code_dtype), element.format).is_nan
        keys = np.where(is_nan, (keys & 0xFFFFFFFF) | (1 << 40), keys)
    _, first, rank = np.unique(keys, return_index=True, return_inverse=True)
    return Ranks(Table(rank.astype(np.uint8)), numbers[first], len(first) - len(np.unique(keys[is_nan])))


@functools.cache
def minifloat_ranks(element: ElementType, largest: bool) -> Ranks:
    """The ranks of a minifloat's own codes."""
    codes = (np.arange(256) & ((1 << element.bits) - 1)).astype(np.uint8)
    return ranks(codes.view(element.dtype), element, largest)
