"""Recurrences `x = factor * x + w` of unsigned integers that wrap, by running sums of products with powers.

An odd factor has an inverse modulo a power of two. So what each turn adds is divided by the power that the states have
reached there, summed up, and multiplied by that again: three operations on arrays instead of a turn after the other.
High powers of an even factor are zero, so that few turns matter. The state after the last turn alone is a sum of
products. Nothing is rounded, so the order does not matter.
"""

from __future__ import annotations

import numpy as np

from .compositions import OwnSteps, states


class Powers:
    """Composes turns with one factor; the powers of it are kept for up to as many turns as there have been."""

    def __init__(self, factor: int, word: np.dtype) -> None:
        self.factor, self._word, self._modulus = factor, word, 1 << 8 * word.itemsize
        self._up = self._down = self._last = np.ones(1, word)

    def after(self, start: int, added: np.ndarray) -> np.ndarray:
        """The start and the states after each turn, in an array of its own."""
        count = len(added)
        found = np.empty(count + 1, self._word)
        found[0] = start % self._modulus
        if self.factor == 0:
            found[1:] = added
        elif self.factor % 2 == 0:
            found[1:] = added
            factor, turns = self.factor, 1
            while factor and turns <= count:  # those further back are multiplied by a power of two that is too high
                found[turns:] += found[:-turns] * self._word.type(factor)
                factor, turns = factor**2 % self._modulus, 2 * turns
        elif self.factor == 1:
            np.add.accumulate(added, out=found[1:])
            if start:
                found[1:] += found[0]
        else:
            if len(self._up) <= count:
                self._up = _powers(self.factor, count + 1, self._word)
                self._down = _powers(pow(self.factor, -1, self._modulus), count + 1, self._word)
            np.add.accumulate(added * self._down[1 : count + 1], out=found[1:])
            if start:
                found[1:] += found[0]
            found *= self._up[: count + 1]
        return found

    def last(self, start: int, added: np.ndarray) -> int:
        """The state after the last turn."""
        count = len(added)
        if self.factor == 0:
            return int(added[-1])
        if len(self._last) < count:
            self._last = np.ascontiguousarray(_powers(self.factor, count, self._word)[::-1])
        start = start * pow(self.factor, count, self._modulus)
        return (start + int(np.einsum("i,i", added, self._last[len(self._last) - count :]))) % self._modulus


def _powers(factor: int, count: int, word: np.dtype) -> np.ndarray:
    """The powers of a number from the one of 0 on."""
    powers = np.full(count, factor, word)
    powers[0] = 1
    return np.multiply.accumulate(powers)


class OwnFactors:
    """Composes turns each of which has a factor of its own."""

    def __init__(self, factors: np.ndarray) -> None:
        self._factors = factors

    def after(self, start: int, added: np.ndarray) -> np.ndarray:
        """The start and the states after each turn, in an array of its own."""
        both = np.zeros((2, len(added) + 1), added.dtype)
        both[0, 1:], both[1, 1:] = self._factors, added
        both[1, 0] = start % (1 << 8 * added.itemsize)
        return states(OwnSteps(both[0]), both[1])

    def last(self, start: int, added: np.ndarray) -> int:
        """The state after the last turn."""
        factors = self._factors
        while len(added) > 1:
            if len(added) % 2:
                start = int(factors[0]) * start + int(added[0])
                factors, added = factors[1:], added[1:]
            added = added[0::2] * factors[1::2] + added[1::2]
            factors = factors[0::2] * factors[1::2]
        return (int(factors[0]) * start + int(added[0])) % (1 << 8 * added.itemsize)
