"""States of affine recurrences over integers, all at once: `x = step(x) + w` for each of many `w`, from a start on.

A step is linear over a ring: bits with exclusive or, integers modulo a power of two, or modulo another number. Two
turns together are one of the same kind. So neighbours are combined in pairs, and pairs in pairs, and the states between
follow from these. Nothing is rounded, so the order does not matter.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

#: Which of the neighbours at a level are the later ones of their pairs.
_SECOND, _THIRD = slice(1, None, 2), slice(2, None, 2)


class Steps(Protocol):
    """The steps between neighbours; at level `k` each is that of `2**k` turns."""

    def after(self, level: int, later: slice, x: np.ndarray, added: np.ndarray, /) -> np.ndarray:
        """The steps of what is `later` from `x` on, with what they add."""
        ...


def states(steps: Steps, added: np.ndarray, level: int = 0) -> np.ndarray:
    """All states: the first of `added` is the start, and each other one is what its turn adds."""
    count = len(added)
    if count == 1:
        return added
    pairs = states(steps, steps.after(level, _SECOND, added[0 : count - 1 : 2], added[_SECOND]), level + 1)
    result = np.empty_like(added)
    result[0], result[_SECOND] = added[0], pairs
    if count > 2:
        result[_THIRD] = steps.after(level, _THIRD, pairs[: (count - 1) // 2], added[_THIRD])
    return result


class BitSteps:
    """One step of unsigned integers that is linear in their bits, given by what each bit alone becomes."""

    def __init__(self, columns: np.ndarray) -> None:
        self._columns, self._tables = [columns], [_byte_tables(columns)]

    def after(self, level: int, _: slice, x: np.ndarray, added: np.ndarray, /) -> np.ndarray:
        """See `Steps`."""
        while len(self._tables) <= level:
            self._columns.append(_looked_up(self._tables[-1], self._columns[-1]))
            self._tables.append(_byte_tables(self._columns[-1]))
        return _looked_up(self._tables[level], x) ^ added


def _byte_tables(columns: np.ndarray) -> list[np.ndarray]:
    """For each byte of a state what each of its 256 values becomes."""
    tables = []
    for first in range(0, len(columns), 8):
        table = np.zeros(256, columns.dtype)
        for bit, column in enumerate(columns[first : first + 8]):
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ column
        tables.append(table)
    return tables


def _looked_up(tables: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    result = tables[0].take(x & 255)
    for i, table in enumerate(tables[1:], 1):
        result ^= table.take((x >> (8 * i)) & 255)
    return result


class ProductSteps:
    """One step that multiplies unsigned integers, modulo two to the number of their bits, or modulo `modulus`."""

    def __init__(self, factor: int, modulus: int | None = None) -> None:
        self._factors, self._modulus = [factor], modulus

    def after(self, level: int, _: slice, x: np.ndarray, added: np.ndarray, /) -> np.ndarray:
        """See `Steps`."""
        limit = self._modulus or 1 << (8 * x.itemsize)
        while len(self._factors) <= level:
            self._factors.append(self._factors[-1] ** 2 % limit)
        result = x * x.dtype.type(self._factors[level])
        result += added
        if self._modulus is not None:
            result -= result // x.dtype.type(limit) * x.dtype.type(limit)
        return result


class OwnSteps:
    """For each turn a step of its own that multiplies unsigned integers; the first, of the start, does not matter."""

    def __init__(self, factors: np.ndarray) -> None:
        self._factors = [factors]

    def after(self, level: int, later: slice, x: np.ndarray, added: np.ndarray, /) -> np.ndarray:
        """See `Steps`."""
        while len(self._factors) <= level:
            before = self._factors[-1]
            self._factors.append(before[0 : len(before) - 1 : 2] * before[_SECOND])
        return self._factors[level][later] * x + added
