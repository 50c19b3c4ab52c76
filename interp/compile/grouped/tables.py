"""Tables of groups: one for all cases where the leaves have 16 bits in all, or those for operands that seldom change.

They are kept with the plan, shared between equal groups, and bounded in memory all together.
"""

from __future__ import annotations

import collections
import math
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ....ops.engine.amortised import Amortised
from ....ops.engine.lookup import TINY, Table, all_of, of_pairs
from ....ops.types import ElementType
from .leaf import MOST_BITS, Compute, Leaf, Shape, filled, width

#: Tables of so many groups are kept.
_MOST_GROUPS = 1024
#: What a call is taken to cost beside its elements, in elements, in the choice to build a table.
_CALL_COST = 32


class Tables:
    """The tables of a group, one for each value it gives; built as soon as that is cheaper than going without."""

    def __init__(self, compute: Compute, elements: Sequence[ElementType]) -> None:
        self._compute, self.elements = compute, elements
        self.widths = [w or MOST_BITS for w in map(width, elements)]
        if len(elements) == 1:
            self.widths = [max(self.widths[0], 8)]
        self.built: Amortised[tuple[Table, ...]] = Amortised(self._build, 1 << sum(self.widths), _CALL_COST, _nbytes)

    def _build(self) -> tuple[Table, ...]:
        shape = tuple(1 << bits for bits in self.widths)
        grid = []
        for i, (bits, element) in enumerate(zip(self.widths, self.elements, strict=True)):
            along = [-1 if i == j else 1 for j in range(len(shape))]
            # All of it, not what would broadcast: of two NaN the host gives another one where an operand is repeated.
            grid.append(np.broadcast_to(all_of(element, bits).reshape(along), shape).reshape(-1))
        results = [np.broadcast_to(r, (math.prod(shape),)).copy() for r in self._compute(*grid)]
        return tuple(map(Table, results))

    def entries(self, size: int) -> np.ndarray | None:
        """The first table's entries, if there is one or it is built for so many elements."""
        found = self.built.value or self.built.get(size)
        return None if found is None else found[0].entries


def _nbytes(tables: Sequence[Table]) -> int:
    return sum(table.entries.nbytes for table in tables)


class Shared:
    """The tables of groups by what tells these apart, so that equal groups share them; those used last are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: collections.OrderedDict[Hashable, Tables] = collections.OrderedDict()

    def at(self, key: Hashable, compute: Compute, elements: Sequence[ElementType]) -> Tables:
        with self._lock:
            found = self._tables.get(key)
            if found is None:
                found = self._tables[key] = Tables(compute, elements)
                while len(self._tables) > _MOST_GROUPS:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(key)
            return found


_shared = Shared()


def shared_tables(key: Hashable, compute: Compute, elements: Sequence[ElementType]) -> Tables:
    """The tables of all groups that have this key: they do the same to leaves of these elements."""
    return _shared.at(key, compute, elements)


def by_table(tables: Tables, leaves: Sequence[Leaf], shape: Shape, wide: Callable[..., Any], is_single: bool) -> Any:
    """The kernel of a group whose leaves have few bits; `wide` is its kernel without a table.

    `is_single` says that the group gives one value.
    """
    views, size, built = [leaf.view(shape) for leaf in leaves], math.prod(shape), tables.built
    codes = [np.dtype(f"u{leaf.type.element.dtype.itemsize}") for leaf in leaves]
    view, code = views[0], codes[0]

    def of_one(x: np.ndarray) -> Any:
        found = built.value or built.get(size)
        if found is None:
            return wide(x)
        x = (x if view is None else view(x)).view(code)
        return filled([table.at(x) for table in found], shape)

    def of_many(*values: np.ndarray) -> Any:
        found = built.value or built.get(size)
        if found is None:
            return wide(*values)
        parts = [(v if lay is None else lay(v)).view(code) for v, lay, code in zip(values, views, codes, strict=True)]
        return filled([table.at_joined(parts, tables.widths) for table in found], shape)

    if len(leaves) == 1:
        return of_one
    is_small = size <= TINY and len(leaves) == 2 and tables.widths[1] == 8
    if not is_small or not is_single or not all(_fits(leaf, len(shape)) for leaf in leaves):
        return of_many
    operands: list[Any] = [(leaf.type.shape, leaf.type.element.dtype) for leaf in leaves]
    return of_pairs(shape, operands, lambda: None if built.value is None else built.value[0].entries, of_many)


def _fits(leaf: Leaf, rank: int) -> bool:
    """Whether numpy itself lays a leaf along the group's shape: it lies along the last dimensions, in order."""
    kept = tuple(axis for axis in leaf.axes if axis is not None)
    return kept == tuple(range(rank - len(kept), rank)) and leaf.axes[len(leaf.axes) - len(kept) :] == kept


def by_laid_table(tables: Tables, compute: Compute) -> Any:
    """The kernel of a part of a group, on arrays that broadcast together."""
    codes, built = [np.dtype(f"u{e.dtype.itemsize}") for e in tables.elements], tables.built

    def kernel(*parts: np.ndarray) -> np.ndarray:
        found = built.value or built.get(max(p.size for p in parts))
        if found is None:
            return compute(*parts)[0]
        if len(parts) == 1:
            return found[0].at(parts[0].view(codes[0]))
        return found[0].at_joined([p.view(code) for p, code in zip(parts, codes, strict=True)], tables.widths)

    return kernel
