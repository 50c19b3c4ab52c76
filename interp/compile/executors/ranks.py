"""Maxima and minima of values that depend on one leaf of 8 bits, found by comparing ranks of its codes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from ....ops.engine.lookup import Table, all_of
from ....ops.engine.ranks import Ranks, ranks
from ....ops.reductions.reduce import Folding
from ....ops.types import ElementType
from ..leaf import Compute, Shape


class RankedReduction:
    """The largest or smallest of values that depend on one leaf of 8 bits: its rank, and what the rank stands for."""

    def __init__(self, compute: Compute, leaf: ElementType, folding: Folding, start: np.ndarray) -> None:
        self._compute, self._element, self._folding, self._start = compute, leaf, folding, start

    @functools.cached_property
    def _ranks(self) -> Ranks:
        numbers = np.broadcast_to(self._compute(all_of(self._element, 8))[0], 256)
        return ranks(np.ascontiguousarray(numbers), self._folding.element, bool(self._folding.largest))

    @functools.cached_property
    def _values(self) -> Table:
        numbers = self._ranks.values
        results = np.broadcast_to(self._folding.combine(self._start.reshape(1), numbers), numbers.shape)
        return Table(np.concatenate([results, np.repeat(results[-1:], 256 - len(results))]))

    @functools.cached_property
    def words(self) -> np.ndarray:
        """For each code an f32 that wins as the rank does, and whose bits end with it: from 1 on, or NaN."""
        of_code = self._ranks.of_code.entries.astype(np.uint32)
        return (of_code | np.where(of_code < self._ranks.nan, 0x3F800000, 0x7FC00000).astype(np.uint32)).view(
            np.float32
        )

    @property
    def entries(self) -> np.ndarray:
        """The value of each rank."""
        return self._values.entries

    def rank(self, shape: Shape, dimensions: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
        """The kernel that gives the rank that wins along dimensions of a leaf of some shape."""
        kept = [d for d in range(len(shape)) if d not in dimensions]
        order = (*dimensions, *kept)
        rows = math.prod(shape[d] for d in dimensions), math.prod(shape[d] for d in kept)
        left = tuple(shape[d] for d in kept)

        def kernel(x: np.ndarray) -> np.ndarray:
            codes = x.view(np.uint8).transpose(order).reshape(rows)
            return self._ranks.extreme(codes).reshape(left)

        return kernel

    def value(self, rank: np.ndarray) -> np.ndarray:
        """The values of ranks."""
        return self._values.at(rank)
