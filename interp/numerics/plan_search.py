"""Searches for the cheapest formats of operands that together keep a bound."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.blas import one_thread
from .plan_rewrite import Rounding, bits_of


@dataclasses.dataclass(frozen=True)
class Operand:
    """An operand of a product: its size, the bits of an element, and its possible formats."""

    size: int
    bits: float
    options: list[Rounding]


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The result of the search: for each operand 0 if unchanged or 1 + the index of an option, and the measured error.

    alone: the error with one operand in one option, by both.
    """

    levels: list[int]
    error: float
    evaluations: int
    alone: dict[tuple[int, int], float]


class _Search:
    def __init__(
        self, operands: Sequence[Operand], evaluate: Callable[[Sequence[Rounding | None]], float], bound: float
    ) -> None:
        self.operands, self._evaluate, self.bound = operands, evaluate, bound
        self.evaluations = 0
        self.alone: dict[tuple[int, int], float] = {}
        self._wholes: dict[tuple[int, ...], float] = {}

    def whole(self, levels: Sequence[int]) -> float:
        """The error with all operands at their levels."""
        key = tuple(levels)
        if key not in self._wholes:
            taken = [o.options[n - 1] if n else None for o, n in zip(self.operands, levels, strict=True)]
            self._wholes[key] = self._evaluate(taken)
            self.evaluations += 1
        return self._wholes[key]

    def by_itself(self, i: int, level: int) -> float:
        """The error with one operand at a level and all others unchanged."""
        if level == 0:
            return 0.0
        if (i, level) not in self.alone:
            levels = [0] * len(self.operands)
            levels[i] = level
            self.alone[i, level] = self.whole(levels)
        return self.alone[i, level]

    def cost(self, i: int, level: int) -> float:
        """The bits of an element at a level."""
        operand = self.operands[i]
        return bits_of(operand.options[level - 1].format) if level else operand.bits

    def ladder(self, i: int) -> list[int]:
        """The useful levels, the cheapest first: each has a smaller error than all cheaper ones."""
        levels = sorted(range(len(self.operands[i].options) + 1), key=lambda n: (self.cost(i, n), self.by_itself(i, n)))
        kept: list[int] = []
        for level in levels:
            if not kept or self.by_itself(i, level) < self.by_itself(i, kept[-1]):
                kept.append(level)
        return kept

    def run(self) -> list[int]:
        """The levels: the cheapest that keep the bound alone, then better ones until the whole keeps it."""
        ladders = [self.ladder(i) for i in range(len(self.operands))]
        at = [
            next((n for n, level in enumerate(ladder) if self.by_itself(i, level) <= self.bound), len(ladder) - 1)
            for i, ladder in enumerate(ladders)
        ]

        def levels() -> list[int]:
            return [ladder[n] for ladder, n in zip(ladders, at, strict=True)]

        while self.whole(levels()) > self.bound:
            better = [i for i, n in enumerate(at) if n + 1 < len(ladders[i])]
            if not better:
                break
            at[max(better, key=lambda i: self._worth(i, ladders[i][at[i]], ladders[i][at[i] + 1]))] += 1
        # Early improvements may have become unnecessary.
        for i in sorted(range(len(at)), key=lambda i: -self.operands[i].size):
            for n in range(at[i]):
                before, at[i] = at[i], n
                if self.whole(levels()) <= self.bound:
                    break
                at[i] = before
        return levels()

    def _worth(self, i: int, level: int, next_level: int) -> float:
        """The reduction of the squared error for each bit of a better level: errors of operands add like noise."""
        gain = self.by_itself(i, level) ** 2 - self.by_itself(i, next_level) ** 2
        return gain / max(self.operands[i].size * (self.cost(i, next_level) - self.cost(i, level)), 1e-9)


def search(
    operands: Sequence[Operand], evaluate: Callable[[Sequence[Rounding | None]], float], bound: float
) -> SearchResult:
    """The cheapest formats that keep the bound; with all operands unchanged the error is 0."""
    made = _Search(operands, evaluate, bound)
    levels = made.run()
    return SearchResult(levels, made.whole(levels), made.evaluations, made.alone)


def relative_norm(good: Sequence[Any], other: Sequence[Any]) -> float:
    """The norm of the difference divided by that of the good result, the largest over float arrays; NaN is infinite.

    If the good result is not finite the other one has to be equal.
    """
    worst = 0.0
    for a, b in zip(good, other, strict=True):
        if np.asarray(a).dtype.kind in "biu":
            continue
        x, y = (np.asarray(v).astype(np.complex128 if np.iscomplexobj(v) else np.float64).ravel() for v in (a, b))
        known = np.isfinite(x)
        if not np.array_equal(x[~known], y[~known], equal_nan=True):
            return math.inf
        with np.errstate(all="ignore"), one_thread():
            size, off = float(np.linalg.norm(x[known])), float(np.linalg.norm(x[known] - y[known]))
        if off:
            worst = max(worst, off / size if size and not math.isnan(off) else math.inf)
    return worst
