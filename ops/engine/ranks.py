"""Maxima and minima as integer work: numbers by their ranks, which are bytes, or by their codes.

256 numbers have at most 256 different values. Numbered in order, they are compared as bytes, 64 at a time. Mostly that
order is the one in which codes stand as a sign and a magnitude: then no rank is looked up. The largest number is the
largest signed byte, unless all are negative: then it is the smallest unsigned one; and whether there is a NaN is seen
by one more such maximum or minimum.

Measured with numpy alone, the largest of each of 1000 rows of 1000: by ranks 0.7 ms, by codes 0.2; a softmax of such
rows by ranks 1.3 times as fast as with maxima of f32.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from ..minifloat.codec import decode
from ..ordering import total_keys
from ..types import ElementType
from .lookup import Table, all_of
from .speed import tuning


@dataclasses.dataclass(frozen=True)
class _Signed:
    """The order of codes as a sign and a magnitude: whether larger numbers win, and which codes are NaN."""

    rises: bool
    positive_nan: int  #: the first positive code that is NaN; 128 where there is none
    negative_nan: int  #: the first negative code that is NaN; 256 where there is none
    is_lone: bool  #: whether the only negative NaN is code 128, and no code from `negative_nan` on

    def bounds(self, codes: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The largest signed and the largest unsigned byte, zero where not asked for; and whether there is a NaN."""
        signed, zero = codes.view(np.int8), np.zeros((), np.int8)
        high = np.maximum.reduce(signed, axis=axis) if self.rises or self.positive_nan < 128 else zero
        top = np.maximum.reduce(codes, axis=axis) if not self.rises or self.negative_nan < 256 else zero
        nan = (high >= self.positive_nan) | (top >= self.negative_nan)
        return high, top, nan | (np.minimum.reduce(signed, axis=axis) == -128) if self.is_lone else nan

    def extreme(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The code that wins along the first axis, right where there is no NaN; and whether there is one."""
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
        few = tuning().rank_steps if codes.strides[0] == 1 else tuning().rank_slices
        if self._order is None or len(codes) < few:
            return self._by_rank(codes)
        winners, nan = self._order.extreme(codes)
        doubtful = np.flatnonzero(nan)
        if 2 * len(doubtful) > codes.shape[1]:
            return self._by_rank(codes)
        result = self.of_code.at(winners)
        if len(doubtful):
            result[doubtful] = self._by_rank(codes.take(doubtful, axis=1))
        return result

    def comparable(self, *arrays: np.ndarray) -> tuple[list[np.ndarray], bool]:
        """For arrays of codes bytes of which the larger wins, and whether these are ranks: where there is a NaN, say.

        They are keys otherwise, which take no lookup.
        """
        order = self._order
        if order is None or any(x.size and order.bounds(x, None)[2] for x in arrays):
            return [self.of_code.at(x) for x in arrays], True
        return [order.keys(x) for x in arrays], False

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
        is_lone = bool(nan[128]) and not nan[129:].any()
        positive, negative = 128 - int(nan[:128].sum()), 256 if is_lone else 256 - int(nan[128:].sum())
        by_bounds = (every >= negative) | ((every >= positive) & (every < 128)) | ((every == 128) & is_lone)
        upwards = np.concatenate([every[:127:-1], every[:128]])
        steps = np.diff(ranks[upwards[~nan[upwards]]])
        rises = bool((steps >= 0).all())
        if not (rises or (steps <= 0).all()) or not np.array_equal(by_bounds, nan):
            return None
        return _Signed(rises, positive, negative, is_lone)


def ranks(numbers: np.ndarray, element: ElementType, largest: bool) -> Ranks:
    """The ranks of the number of each of 256 codes: higher ones win where the largest is asked for, else lower ones."""
    # Of unlike codes unlike ones, with -0 below +0; numbered, as a key may have all bits that a number has.
    place = np.unique(total_keys(numbers, element), return_inverse=True)[1]
    place = place if largest else -place
    is_nan = np.zeros(place.shape, bool)
    if element.is_float:
        is_nan = decode(numbers.view(element.format.code_dtype), element.format).is_nan
        place = np.where(is_nan, 256 + np.abs(place), place)
    _, first, rank = np.unique(place, return_index=True, return_inverse=True)
    return Ranks(Table(rank.astype(np.uint8)), numbers[first], len(first) - len(np.unique(place[is_nan])))


@functools.cache
def minifloat_ranks(element: ElementType, largest: bool) -> Ranks:
    """The ranks of a minifloat's own codes."""
    return ranks(all_of(element, 8), element, largest)
