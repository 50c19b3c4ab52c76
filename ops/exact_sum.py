"""Exact sums of wide range: integers of as many 32-bit words as it takes, one for each element of an array.

The words of a sum are the first axis of an int64 array, the least first. A word has room for 2**31 additions before its
carries must be passed on.
"""

from __future__ import annotations

import itertools

import numpy as np

from .minifloat.number import FINITE, WORK_BITS, Number

WORD = 32
_MASK = np.int64((1 << WORD) - 1)


def add_shifted(words: np.ndarray, value: np.ndarray, shift: int) -> None:
    """words += value << shift, leaving carries in the words; |value| is at most 2**53."""
    word, bit = divmod(shift, WORD)
    words[word] += (value & ((1 << (WORD - bit)) - 1)) << bit
    value >>= WORD - bit
    words[word + 1] += value & _MASK
    value >>= WORD
    words[word + 2] += value


def _carry(words: np.ndarray) -> None:
    """Brings all words but the last, which has the sign, into 0 … 2**32 - 1."""
    for low, high in itertools.pairwise(words):
        high += low >> WORD
        low &= _MASK


def total(words: np.ndarray, low: int) -> Number:
    """Sums in units of 2**low as numbers of WORK_BITS bits, rounded to odd. Changes `words`."""
    _carry(words)
    negative = words[-1] < 0
    if negative.any():
        np.negative(words, out=words, where=negative)
        _carry(words)
    occupied = words != 0
    top = len(words) - 1 - np.argmax(occupied[::-1], axis=0)
    occupied = np.logical_or.accumulate(occupied, axis=0)

    def below_top(array: np.ndarray, distance: int) -> np.ndarray:
        index = top - distance
        return np.where(index >= 0, np.take_along_axis(array, np.maximum(index, 0)[None], 0)[0], 0)

    first, second, third = (below_top(words, i) for i in range(3))
    # Shift the three so that the first bit comes to stand in bit 59 and the third word's last bits fall off.
    shift = WORK_BITS - WORD - np.frexp(first.astype(np.float64))[1].astype(np.int64)  # -4 to 28
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    significand = (first << (WORD + shift)) | (second << left >> right) | (third >> (WORD - left))
    rest = (second & ((1 << right) - 1)) | (third & ((np.int64(1) << (WORD - left)) - 1)) | below_top(occupied, 3)
    significand |= rest != 0
    kind = np.full(top.shape, FINITE, np.uint8)
    return Number(kind, negative, significand, low + WORD * (top - 1) - shift)
