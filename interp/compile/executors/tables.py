"""Lookup tables of functions whose leaves have 16 bits in all: shared between equal groups, bounded in memory."""

from __future__ import annotations

import collections
import math
import threading
from collections.abc import Callable, Sequence

import numpy as np

from ....ops.engine.amortised import Amortised
from ....ops.engine.lookup import Table, all_of
from ....ops.engine.speed import tuning
from ....ops.policy import Policy
from ....ops.types import ElementType
from ..group import Function
from ..leaf import MOST_BITS, Compute, width


class Tables:
    """The tables of a function, one for each output; built as soon as that is cheaper than going without."""

    def __init__(self, compute: Compute, elements: Sequence[ElementType]) -> None:
        self.compute, self.elements = compute, elements
        self.widths = [w or MOST_BITS for w in map(width, elements)]
        if len(elements) == 1:
            self.widths = [max(self.widths[0], 8)]
        self.built: Amortised[tuple[Table, ...]] = Amortised(
            self._build, 1 << sum(self.widths), lambda: tuning().group_call_cost, _nbytes
        )

    def _build(self) -> tuple[Table, ...]:
        shape = tuple(1 << bits for bits in self.widths)
        grid = []
        for i, (bits, element) in enumerate(zip(self.widths, self.elements, strict=True)):
            along = [-1 if i == j else 1 for j in range(len(shape))]
            # All of it, not what would broadcast: of two NaN the host gives another one where an operand is repeated.
            grid.append(np.broadcast_to(all_of(element, bits).reshape(along), shape).reshape(-1))
        results = [np.broadcast_to(r, (math.prod(shape),)).copy() for r in self.compute(*grid)]
        return tuple(map(Table, results))

    def entries(self, size: int) -> np.ndarray | None:
        """The first table's entries, if there is one or it is built for so many elements."""
        made = self.built.value or self.built.get(size)
        return None if made is None else made[0].entries


def _nbytes(tables: Sequence[Table]) -> int:
    return sum(table.entries.nbytes for table in tables)


class Shared:
    """The tables of functions, each under one policy, so that equal groups share them; those used last are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: collections.OrderedDict[tuple[Policy, Function], Tables] = collections.OrderedDict()

    def at(self, policy: Policy, function: Function, compute: Compute) -> Tables:
        """The tables of a function under a policy: those of every group that computes it."""
        key = policy, function
        with self._lock:
            tables = self._tables.get(key)
            if tables is None:
                tables = self._tables[key] = Tables(compute, function.leaves)
                while len(self._tables) > tuning().tables_of_groups:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(key)
            return tables


_shared = Shared()


def shared_tables(policy: Policy, function: Function, compute: Compute) -> Tables:
    """The tables of all groups of one function; `compute` is the function in Python."""
    return _shared.at(policy, function, compute)


def by_laid_table(tables: Tables) -> Callable[..., np.ndarray]:
    """The kernel of a function of one output, on arrays that broadcast together."""
    codes, built = [np.dtype(f"u{e.dtype.itemsize}") for e in tables.elements], tables.built

    def kernel(*parts: np.ndarray) -> np.ndarray:
        made = built.value or built.get(max(p.size for p in parts))
        if made is None:
            return tables.compute(*parts)[0]
        if len(parts) == 1:
            return made[0].at(parts[0].view(codes[0]))
        return made[0].at_joined([p.view(code) for p, code in zip(parts, codes, strict=True)], tables.widths)

    return kernel
