"""Memory for the values of a turn that are too long for registers, and the runs in which elements are moved.

It is one piece of memory. What nothing needs any more makes room for others.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

#: The line of a cache: places are multiples of it.
LINE = 64


class Memory:
    """A piece of memory as it is handed out; `size` is what is needed of it in all."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # where and how much, in order

    def take(self, size: int) -> int:
        """Where so many bytes are that nothing else has."""
        size = -(-size // LINE) * LINE
        for i, (start, length) in enumerate(self._free):
            if length >= size:
                self._free[i : i + 1] = [(start + size, length - size)] if length > size else []
                return start
        start = self.size
        if self._free and sum(self._free[-1]) == start:
            start = self._free.pop()[0]
        self.size = start + size
        return start

    def give(self, start: int, size: int) -> None:
        """Hand back what `take` gave."""
        end = start + -(-size // LINE) * LINE
        i = bisect.bisect(self._free, (start, end))
        if i < len(self._free) and self._free[i][0] == end:
            end = sum(self._free.pop(i))
        if i and sum(self._free[i - 1]) == start:
            i -= 1
            start = self._free.pop(i)[0]
        self._free.insert(i, (start, end - start))


@dataclasses.dataclass(frozen=True)
class Runs:
    """Elements of one operand that a result has: runs of so many, and where each begins there and in the result."""

    operand: int
    length: int
    sources: tuple[int, ...]
    targets: tuple[int, ...]


def runs_of(places: Sequence[int], counts: Sequence[int]) -> list[Runs]:
    """The runs of a result whose elements are those at some places of operands, numbered one after the other."""
    wanted, found, start = np.asarray(places), [], 0
    for operand, count in enumerate(counts):
        targets = np.flatnonzero((wanted >= start) & (wanted < start + count))
        if len(targets):
            sources = wanted[targets] - start
            is_first = (np.diff(targets, prepend=-2) != 1) | (np.diff(sources, prepend=-2) != 1)
            is_first[0] = True
            length = math.gcd(*np.diff(np.flatnonzero(is_first), append=len(targets)).tolist())
            found.append(Runs(operand, length, *(tuple(v[::length].tolist()) for v in (sources, targets))))
        start += count
    return found


def steady(numbers: Sequence[int]) -> int | None:
    """The difference of each number from the one before; None where it is not always the same."""
    steps = {b - a for a, b in itertools.pairwise(numbers)}
    return 0 if not steps else steps.pop() if len(steps) == 1 else None


def turned_columns(places: Sequence[int]) -> int | None:
    """The columns of a matrix in row-major order that the places turn round; None where they do something else."""
    if len(places) < 2 or places[0] or places[1] < 2 or len(places) % places[1]:
        return None
    columns = places[1]
    turned = np.arange(len(places)).reshape(-1, columns).T.reshape(-1)
    return columns if np.array_equal(turned, places) else None
