"""The random bits of stochastic rounding: a function of the seed, the number of the rounding in the run, and the place.

Philox 4x64 (Salmon et al., 2011) computes 256 bits from a key and a counter. The key comes from the seed, the counter
is (1 + block, number, kind, 0). So draws do not depend on the order in which elements are rounded, nor on the
thread that does it.

A draw is a number of 62 bits. A magnitude between two neighbours of a format is rounded up where the draw is less than
the fraction that would be cut off. Its first 16 bits decide nearly always, so these are what is drawn for each element:
16 of a block. The other 46 are drawn for one element in 65,536, from the counters of another kind.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import numpy as np

#: The bits of a fraction, those drawn for each element, and those drawn where these do not decide.
FRACTION_BITS, FIRST_BITS = 62, 16
REST_BITS = FRACTION_BITS - FIRST_BITS

_FIRST, _REST = 1, 2  # kinds; 0 is that of numpy's own generator, which random operations draw from
_WORDS = 4  # of 64 bits in a block
_EACH = _WORDS * 64 // FIRST_BITS  # draws in a block


class Draws:
    """The draws of one rounding. `bits` and `rest` may be called by several threads.

    Args:
        key: two words of 64 bits, from the seed.
        next_number: gives how many roundings came before it in the run, and counts it. It is called when the first
            draw is taken: an operation whose results need no rounding is none.
    """

    def __init__(self, key: np.ndarray, next_number: Callable[[], int]) -> None:
        self._key, self._next_number, self._taken = key, next_number, 0

    @functools.cached_property
    def _number(self) -> int:
        return self._next_number()

    def bits(self, first: int, count: int) -> np.ndarray:
        """The first 16 bits of the draws of the places from `first` on, as uint16."""
        block, skip = divmod(first, _EACH)
        words = _philox(self._key, block, self._number, _FIRST).random_raw(_WORDS * -(-(skip + count) // _EACH))
        if sys.byteorder == "big":
            words = words.byteswap()
        return words.view(np.uint16)[skip : skip + count]

    def rest(self, place: int) -> int:
        """The last 46 bits of the draw of a place."""
        block, word = divmod(place, _WORDS)
        words = _philox(self._key, block, self._number, _REST).random_raw(_WORDS)
        return int(words[word]) >> (64 - REST_BITS)

    def take(self, count: int) -> int:
        """The first of so many places that follow those taken before: results that come in parts take them in turn."""
        first = self._taken
        self._taken += count
        return first

    def round_up(self, fraction: np.ndarray) -> np.ndarray:
        """Which elements to round up, of those whose fractions, in units of 2**-62, take the next places."""
        first = self.take(fraction.size)
        bits = self.bits(first, fraction.size).reshape(fraction.shape)
        leading = fraction >> REST_BITS
        up = np.asarray(bits < leading)
        doubtful = np.flatnonzero(bits == leading)
        flat, fractions = up.reshape(-1), fraction.reshape(-1)
        for i in doubtful.tolist():
            rest = int(fractions[i]) & ((1 << REST_BITS) - 1)
            flat[i] = rest != 0 and self.rest(first + i) < rest
        return flat.reshape(fraction.shape)


def _philox(key: np.ndarray, block: int, number: int, kind: int) -> np.random.Philox:
    """A generator that is about to give a block."""
    return np.random.Philox(counter=np.array([block, number, kind, 0], np.uint64), key=key)
