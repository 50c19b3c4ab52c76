"""Exact sums of wide range: integers of as many 48-bit words as it takes, one for each element of an array."""

from __future__ import annotations

import itertools

import numpy as np

from ..minifloat.codec import neighbours, round_number
from ..minifloat.formats import FORMATS
from ..minifloat.number import FINITE, WORK_BITS, Number
from ..policy import Policy
from .forms import MANTISSA, exponent, power

_WORD = 48  # an int64 then has room for 2**15 additions before its carries must be passed on
_MOST = 1 << 14
_MASK = np.int64((1 << _WORD) - 1)
#: Bits of integers that f64 holds.
_EXACT_BITS = 53

#: So many words are added up in f64, with the least unit of them within so many powers of two: nothing overflows.
_WORDS, _LOWEST = 16, 300


def exact_total(terms: np.ndarray, rounding: str | None) -> np.ndarray:
    """The exact sum over the first axis of numbers of at most 48 bits, rounded to f64: to odd, or as it says."""
    plain = terms.sum(0)  # right where it is not finite, and where no bit of it is beyond 53
    top = exponent(np.abs(terms).max(0))
    whole = terms * power(np.clip(_EXACT_BITS - 1 - len(terms).bit_length() - top, -900, 900))
    left = np.isfinite(plain) & (np.rint(whole) != whole).any(0)
    result = plain + 0.0
    if left.any():
        result[left] = _wide_sum(terms[:, left], rounding)
    return result


def _wide_sum(terms: np.ndarray, rounding: str | None) -> np.ndarray:
    """The same, of finite numbers [terms, sums] of any range: cut into integers of few bits, whose sums are exact."""
    magnitude, count = np.abs(terms), len(terms).bit_length()
    top, least = (int(exponent(v)) for v in (magnitude.max(), magnitude.min(initial=np.inf, where=magnitude > 0)))
    low, step = least - MANTISSA, _EXACT_BITS - 1 - count
    exact = ExactSums(terms.shape[1:], low, top - low + 2 + count)
    for first in reversed(range(low, top + 1, step)):
        part = np.trunc(terms * 2.0**-first)
        exact.add(part.sum(0), first)
        terms = terms - part * 2.0**first
    if rounding is None:
        return exact.to_f64() + 0.0
    return round_number(exact.to_number(), FORMATS["f64"], Policy(rounding=rounding)).view(np.float64) + 0.0


class ExactSums:
    """Sums in units of 2**low, each of less than 2**bits of them."""

    def __init__(self, shape: tuple[int, ...], low: int, bits: int) -> None:
        self._shape, self._low, self._additions = shape, low, 0
        # Word by word, the least first; all words but the last are non-negative.
        self._words = np.zeros((bits // _WORD + 1, int(np.prod(shape))), np.int64)

    def add(self, values: np.ndarray, exponent: int) -> None:
        """Adds integers of at most 53 bits, held in f64, times 2**exponent."""
        self._additions += 1
        if self._additions % _MOST == 0:
            _carry(self._words)
        word, bit = divmod(exponent - self._low, _WORD)
        value = values.reshape(-1).astype(np.int64)
        words = self._words[word : word + 3]
        if len(words) > 1:
            words[0] += (value << bit) & _MASK
            value >>= _WORD - bit
        if len(words) > 2:
            words[1] += value & _MASK
            value >>= _WORD
        words[-1] += value << bit if len(words) == 1 else value

    def to_f64(self) -> np.ndarray:
        """The sums rounded to odd in f64: to be rounded again to any type of up to 51 bits of precision."""
        if len(self._words) > _WORDS or not -_LOWEST < self._low < _LOWEST:
            low, _, fraction = neighbours(self.to_number(), FORMATS["f64"], Policy(rounding="toward_zero"))
            return (low | (fraction != 0)).view(np.float64)
        words, negative = self._magnitudes()
        total = words[-1].astype(np.float64)
        for word in words[-2::-1]:
            total *= 2.0**_WORD
            rounded = total + word
            error = word - (rounded - total)  # exact: `total` is zero or larger than `word`
            bits = rounded.view(np.int64)
            bits -= error < 0
            bits |= error != 0
            total = rounded
        np.negative(total, out=total, where=negative)
        return (total * 2.0**self._low).reshape(self._shape)

    def to_number(self) -> Number:
        """The sums as numbers of WORK_BITS bits, rounded to odd."""
        words, negative = self._magnitudes()
        occupied = words != 0
        top = len(words) - 1 - np.argmax(occupied[::-1], axis=0)
        occupied = np.logical_or.accumulate(occupied, axis=0)

        def below_top(array: np.ndarray, distance: int) -> np.ndarray:
            index = top - distance
            return np.where(index >= 0, np.take_along_axis(array, np.maximum(index, 0)[None], 0)[0], 0)

        first, second, third = (below_top(words, i) for i in range(3))
        # The three words are shifted so that the first bit comes to stand in bit 59; what falls off is sticky.
        shift = WORK_BITS - _WORD - np.frexp(first.astype(np.float64))[1].astype(np.int64)
        left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
        significand = (first << (_WORD + shift)) | (second << left >> right) | (third >> (_WORD - left))
        rest = (second & ((1 << right) - 1)) | (third & ((1 << (_WORD - left)) - 1)) | below_top(occupied, 3)
        significand |= rest != 0
        exponent = self._low + _WORD * (top - 1) - shift
        kind = np.full(top.shape, FINITE, np.uint8)
        return Number(*(array.reshape(self._shape) for array in (kind, negative, significand, exponent)))

    def _magnitudes(self) -> tuple[np.ndarray, np.ndarray]:
        """The words of the sums' magnitudes, each of 48 bits, and where sums are negative."""
        words = self._words.copy()
        _carry(words)
        negative = words[-1] < 0
        if negative.any():
            np.negative(words, out=words, where=negative)
            _carry(words)
        return words, negative


def _carry(words: np.ndarray) -> None:
    """Brings all words but the last, which has the sign, into 0 … 2**48 - 1."""
    for low, high in itertools.pairwise(words):
        high += low >> _WORD
        low &= _MASK
