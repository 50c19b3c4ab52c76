"""Groups of elementwise ops when they run: by a table of all cases, by a table for each row, or block by block.

A group computes some values of one shape from its leaves: tensors whose dimensions lie along some of the shape's. What
it does to single elements is in one function, `compute`, which takes arrays that broadcast together. The ways to run it
call that function on other arrays than the leaves themselves, so they give the same bits.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..ops.blocks import blocks, for_each
from ..ops.lookup import TINY, Pairs, Table
from ..ops.ranks import Ranks, ranks
from ..ops.reduce import Folding
from ..ops.types import ElementType, Kind, TensorType

Compute = Callable[..., tuple[np.ndarray, ...]]
Shape = tuple[int, ...]

#: The most bits of all leaves for which there are tables, and the most bytes that tables may take together.
MOST_BITS = 16
_MOST_BYTES = 1 << 26
#: What a call is taken to cost beside its elements, in elements, in the choice to build a table.
_CALL_COST = 32
#: Elements that are worked on at a time: a few arrays of so many fit a processor's nearer caches.
_BLOCK = 1 << 15
#: How many sums and the like are formed at a time.
_COLUMNS = 256
#: A table for each row pays if there are so many times more elements than entries.
_ROWS_PAY = 3


@dataclasses.dataclass(frozen=True)
class Leaf:
    """The type of a leaf, and for each of its dimensions which one of the group's it lies along, None if of size 1."""

    type: TensorType
    axes: tuple[int | None, ...]

    def spread(self, rank: int) -> list[int]:
        """Its shape among the group's dimensions, 1 where it has none."""
        sizes = [1] * rank
        for axis, n in zip(self.axes, self.type.shape, strict=True):
            if axis is not None:
                assert n is not None
                sizes[axis] = n
        return sizes

    def view(self, shape: Shape) -> Callable[[np.ndarray], np.ndarray] | None:
        """What lays a leaf along a shape; None where it does so already."""
        sizes = self.spread(len(shape))
        kept = [i for i, axis in enumerate(self.axes) if axis is not None]
        ordered = sorted(kept, key=lambda i: self.axes[i] or 0)
        if self.type.shape == shape and ordered == kept:
            return None
        if kept == ordered:
            return lambda x: x.reshape(sizes)
        order = [i for i, axis in enumerate(self.axes) if axis is None] + ordered
        return lambda x: x.transpose(order).reshape(sizes)


def laid(leaf: Leaf, shape: Shape) -> Callable[[np.ndarray], np.ndarray]:
    """The kernel that lays a leaf along a shape, repeated where it is smaller."""
    view, sizes = leaf.view(shape), leaf.spread(len(shape))
    if tuple(sizes) == shape:
        return view or (lambda x: x)
    kept = [axis for axis in leaf.axes if axis is not None]
    if kept == sorted(kept):
        return lambda x: np.broadcast_to(x.reshape(sizes), shape)
    assert view is not None
    return lambda x: np.broadcast_to(view(x), shape)


def width(element: ElementType) -> int | None:
    """The bits that tell the elements of a type apart in a table; None where they are too many."""
    if element.is_complex or element.bits > MOST_BITS:
        return None
    # Integers below eight bits may have any bits beside their own in the byte that stores them.
    return element.bits if element.is_float or element.kind is Kind.BOOL else max(element.bits, 8)


# -- tables ----------------------------------------------------------------------------------------------------------


class Tables:
    """The tables of a group, one for each value it gives; built as soon as that is cheaper than going without."""

    def __init__(self, compute: Compute, elements: Sequence[ElementType]) -> None:
        self._compute, self.elements = compute, elements
        self.widths = [w or MOST_BITS for w in map(width, elements)]
        if len(elements) == 1:
            self.widths = [max(self.widths[0], 8)]
        self.found: tuple[Table, ...] | None = None
        self._left = 1 << sum(self.widths)

    def build_if_cheaper(self, size: int) -> tuple[Table, ...] | None:
        self._left -= size + _CALL_COST
        if self._left > 0:
            return None
        shape = tuple(1 << bits for bits in self.widths)
        grid = []
        for i, (bits, element) in enumerate(zip(self.widths, self.elements, strict=True)):
            along = [-1 if i == j else 1 for j in range(len(shape))]
            # All of it, not what would broadcast: of two NaN the host gives another one where an operand is repeated.
            grid.append(np.broadcast_to(_all_of(element, bits).reshape(along), shape).reshape(-1))
        results = [np.broadcast_to(r, (math.prod(shape),)).copy() for r in self._compute(*grid)]
        self.found = tuple(map(Table, results))
        _kept.add(self, sum(r.nbytes for r in results))
        return self.found

    def forget(self) -> None:
        self.found, self._left = None, 1 << sum(self.widths)


def _all_of(element: ElementType, bits: int) -> np.ndarray:
    """The element of every code of so many bits."""
    codes = np.arange(1 << bits).astype(f"u{element.dtype.itemsize}")
    if element.kind is Kind.BOOL:
        return codes != 0
    if element.is_float:
        codes &= (1 << element.bits) - 1
    return codes.view(element.dtype)


class _Kept:
    """All tables there are, so that equal groups share them, and the oldest go when they become too many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: collections.OrderedDict[Hashable, Tables] = collections.OrderedDict()
        self._built: collections.OrderedDict[Tables, int] = collections.OrderedDict()

    def tables(self, key: Hashable, compute: Compute, elements: Sequence[ElementType]) -> Tables:
        with self._lock:
            found = self._shared.get(key)
            if found is None:
                found = self._shared[key] = Tables(compute, elements)
                while len(self._shared) > 1024:
                    self._shared.popitem(last=False)
            self._shared.move_to_end(key)
            return found

    def add(self, tables: Tables, nbytes: int) -> None:
        with self._lock:
            self._built[tables] = nbytes
            while sum(self._built.values()) > _MOST_BYTES and len(self._built) > 1:
                self._built.popitem(last=False)[0].forget()


_kept = _Kept()


def shared_tables(key: Hashable, compute: Compute, elements: Sequence[ElementType]) -> Tables:
    """The tables of all groups that have this key: they do the same to leaves of these elements."""
    return _kept.tables(key, compute, elements)


def by_table(tables: Tables, leaves: Sequence[Leaf], shape: Shape, wide: Callable[..., Any]) -> Any:
    """The kernel of a group whose leaves have few bits; `wide` is its kernel without a table."""
    views, size = [leaf.view(shape) for leaf in leaves], math.prod(shape)
    codes = [np.dtype(f"u{leaf.type.element.dtype.itemsize}") for leaf in leaves]
    view, code = views[0], codes[0]

    def of_one(x: np.ndarray) -> Any:
        found = tables.found or tables.build_if_cheaper(size)
        if found is None:
            return wide(x)
        x = (x if view is None else view(x)).view(code)
        return _filled([table.at(x) for table in found], shape)

    def of_many(*values: np.ndarray) -> Any:
        found = tables.found or tables.build_if_cheaper(size)
        if found is None:
            return wide(*values)
        parts = [(v if lay is None else lay(v)).view(code) for v, lay, code in zip(values, views, codes, strict=True)]
        return _filled([table.at_joined(parts, tables.widths) for table in found], shape)

    if len(leaves) == 1:
        return of_one
    if len(leaves) > 2 or size > TINY or tables.widths[1] != 8 or not all(_fits(leaf, len(shape)) for leaf in leaves):
        return of_many
    pairs = Pairs(shape, *(leaf.type.element.dtype for leaf in leaves))

    def of_pair(x: np.ndarray, y: np.ndarray) -> Any:
        found = tables.found
        if found is None:
            return of_many(x, y)
        if len(found) == 1:
            return pairs.look_up(found[0].entries, x, y)
        return tuple([pairs.look_up(table.entries, x, y) for table in found])

    return of_pair


def _fits(leaf: Leaf, rank: int) -> bool:
    """Whether numpy itself lays a leaf along the group's shape: it lies along the last dimensions, in order."""
    kept = tuple(axis for axis in leaf.axes if axis is not None)
    return kept == tuple(range(rank - len(kept), rank)) and leaf.axes[len(leaf.axes) - len(kept) :] == kept


def by_laid_table(tables: Tables, compute: Compute) -> Any:
    """The kernel of a part of a group, on arrays that broadcast together."""
    codes = [np.dtype(f"u{e.dtype.itemsize}") for e in tables.elements]

    def kernel(*parts: np.ndarray) -> np.ndarray:
        found = tables.found or tables.build_if_cheaper(max(p.size for p in parts))
        if found is None:
            return compute(*parts)[0]
        if len(parts) == 1:
            return found[0].at(parts[0].view(codes[0]))
        return found[0].at_joined([p.view(code) for p, code in zip(parts, codes, strict=True)], tables.widths)

    return kernel


def _filled(found: Sequence[np.ndarray], shape: Shape) -> Any:
    """The results of a kernel: what hangs on few leaves may have few elements, that are to be repeated."""
    if len(found) == 1:
        return found[0] if found[0].shape == shape else np.broadcast_to(found[0], shape)
    return tuple([r if r.shape == shape else np.broadcast_to(r, shape) for r in found])


# -- blocks ----------------------------------------------------------------------------------------------------------


def by_blocks(compute: Compute, leaves: Sequence[Leaf], shape: Shape, results: Sequence[TensorType]) -> Any:
    """The kernel that computes as many elements at a time as fit the cache."""
    is_single, size = len(results) == 1, math.prod(shape)
    if size <= 2 * _BLOCK:
        views = [leaf.view(shape) for leaf in leaves]

        def whole(*values: np.ndarray) -> Any:
            return _filled(
                compute(*[v if lay is None else lay(v) for v, lay in zip(values, views, strict=True)]), shape
            )

        return whole
    merged = _merged(leaves, shape)
    spreads = [_in_merged(leaf.spread(len(shape)), merged) for leaf in leaves]
    sizes = tuple(math.prod(shape[d] for d in dims) for dims in merged)
    views = [leaf.view(shape) for leaf in leaves]
    parts = [(part, _parts(part, spreads)) for part in blocks(sizes, _BLOCK)]
    dtypes = [t.element.dtype for t in results]

    def kernel(*values: np.ndarray) -> Any:
        laid = [
            (v if lay is None else lay(v)).reshape(spread)
            for v, lay, spread in zip(values, views, spreads, strict=True)
        ]
        found = [np.empty(sizes, dtype) for dtype in dtypes]

        def work(part: tuple[tuple[slice, ...], list[tuple[slice, ...]]]) -> None:
            here, there = part
            pieces = compute(*[v[p] for v, p in zip(laid, there, strict=True)])
            for whole, piece in zip(found, pieces, strict=True):
                whole[here] = piece

        for_each(parts, work, size)
        found = [r.reshape(shape) for r in found]
        return found[0] if is_single else tuple(found)

    return kernel


def _merged(leaves: Sequence[Leaf], shape: Shape) -> list[list[int]]:
    """The dimensions of a shape, those together that lie side by side in every leaf that has any of them."""
    spreads = [leaf.spread(len(shape)) for leaf in leaves]
    runs: list[list[int]] = []
    before: list[bool] | None = None
    for d, n in enumerate(shape):
        pattern = [s[d] == n for s in spreads] if n != 1 else before
        if runs and (before is None or pattern == before):
            runs[-1].append(d)
        else:
            runs.append([d])
        before = pattern
    return runs


def _in_merged(spread: list[int], merged: list[list[int]]) -> list[int]:
    return [math.prod(spread[d] for d in dims) for dims in merged]


# -- a table for each row --------------------------------------------------------------------------------------------


def leading_rows(leaves: Sequence[Leaf], shape: Shape) -> tuple[int, int] | None:
    """The leaf of 8 bits that alone varies along a row, and how many dimensions tell the row, if such tables pay."""
    spreads = [tuple(leaf.spread(len(shape))) for leaf in leaves]
    full = [i for i, s in enumerate(spreads) if s == shape]
    if len(full) != 1 or (width(leaves[full[0]].type.element) or 99) > 8:
        return None
    others = [s for i, s in enumerate(spreads) if i != full[0]]
    leading = max((d + 1 for s in others for d, n in enumerate(s) if n != 1), default=0)
    return (full[0], leading) if math.prod(shape[leading:]) >= 256 * _ROWS_PAY else None


def by_rows(
    compute: Compute, leaves: Sequence[Leaf], shape: Shape, results: Sequence[TensorType], at: int, leading: int
) -> Any:
    """The kernel that makes a table of all codes of leaf `at` for each row, where the other leaves stay the same."""
    views, is_single, size = [leaf.view(shape) for leaf in leaves], len(results) == 1, math.prod(shape)
    every = _all_of(leaves[at].type.element, 8)
    rows, columns = math.prod(shape[:leading]), math.prod(shape[leading:])
    others = [[*leaf.spread(len(shape))[:leading], 1] for leaf in leaves]
    dtypes = [t.element.dtype for t in results]
    # So few rows at a time that the number of a row fits the upper byte of an index.
    step = min(max(2 * _BLOCK // columns, 1), 256)
    place = (np.arange(step, dtype=np.uint16) << 8)[:, None]

    def kernel(*values: np.ndarray) -> Any:
        laid = [v if lay is None else lay(v) for v, lay in zip(values, views, strict=True)]
        codes = laid[at].view(np.uint8).reshape(rows, columns)
        fixed = [
            every if i == at else np.broadcast_to(v.reshape(n), (*shape[:leading], 1)).reshape(rows, 1)
            for i, (v, n) in enumerate(zip(laid, others, strict=True))
        ]
        if rows == 1:
            tables = [Table(np.broadcast_to(r, (1, 256)).reshape(-1).copy()) for r in compute(*fixed)]
            found = [table.at(codes) for table in tables]
        else:
            found = [np.empty((rows, columns), dtype) for dtype in dtypes]
            bits = [r.view(f"u{r.itemsize}") for r in found]

            def work(first: int) -> None:
                here = slice(first, min(first + step, rows))
                index = place[: here.stop - first] | codes[here]
                entries = compute(*[v if i == at else v[here] for i, v in enumerate(fixed)])
                for result, table in zip(bits, entries, strict=True):
                    table = np.broadcast_to(table, (here.stop - first, 256)).reshape(-1).view(result.dtype)
                    table.take(index, None, result[here], "wrap")

            for_each(range(0, rows, step), work, size)
        found = [r.reshape(shape) for r in found]
        return found[0] if is_single else tuple(found)

    return kernel


# -- reductions ------------------------------------------------------------------------------------------------------


def by_folds(compute: Compute, leaves: Sequence[Leaf], shape: Shape, folding: Folding) -> Any:
    """The kernel that reduces the only value of a group, of which it never holds more than a block.

    It takes the leaves and the initial value.
    """
    folded = folding.dimensions
    kept = [d for d in range(len(shape)) if d not in folded]
    # The dimensions to fold come first, so that a step is a slice.
    place = {d: i for i, d in enumerate((*folded, *kept))}
    leaves = [Leaf(x.type, tuple(None if a is None else place[a] for a in x.axes)) for x in leaves]
    outer, inner = tuple(shape[d] for d in folded), tuple(shape[d] for d in kept)
    views = [leaf.view((*outer, *inner)) for leaf in leaves]
    spreads = [leaf.spread(len(shape)) for leaf in leaves]
    columns = list(blocks(inner, _COLUMNS))
    fold, dtype = folding.fold, folding.element.dtype
    # For each column the parts of the leaves that make the slices to fold, block after block.
    plans = [[_parts(step + column, spreads) for step in blocks(outer, _steps(column))] for column in columns]
    steps = [[tuple(p.stop - p.start for p in step) for step in blocks(outer, _steps(c))] for c in columns]

    def kernel(*values: np.ndarray) -> np.ndarray:
        laid = [v if lay is None else lay(v) for v, lay in zip(values[:-1], views, strict=True)]
        found = np.empty(inner, dtype)

        def work(index: int) -> None:
            column = columns[index]
            sizes = tuple([c.stop - c.start for c in column])
            width = math.prod(sizes)
            totals = (np.broadcast_to(values[-1], width),)
            for parts, step in zip(plans[index], steps[index], strict=True):
                rows = compute(*[np.ascontiguousarray(v[p]) for v, p in zip(laid, parts, strict=True)])[0]
                if rows.shape != step + sizes:
                    rows = np.broadcast_to(rows, step + sizes)
                totals = fold(_no_step, totals, [rows.reshape(-1, width)])
            found[column] = totals[0].reshape(sizes)

        for_each(range(len(columns)), work, math.prod(shape))
        return found

    return kernel


def _steps(column: tuple[slice, ...]) -> int:
    return max(2 * _BLOCK // math.prod(c.stop - c.start for c in column), 1)


def _parts(part: tuple[slice, ...], spreads: Sequence[list[int]]) -> list[tuple[slice, ...]]:
    """A part of a shape in leaves that have size 1 where they are repeated."""
    everything = slice(None)
    return [tuple([everything if n == 1 else p for n, p in zip(s, part, strict=True)]) for s in spreads]


def _no_step(*_: Any) -> Any:
    raise AssertionError("a fold of a single op asks for no step")


class RankedReduction:
    """The largest or smallest of values that hang on one leaf of 8 bits: as its rank, and what the rank stands for."""

    def __init__(self, compute: Compute, leaf: TensorType, folding: Folding, init: np.ndarray) -> None:
        self._compute, self._element, self._folding, self._init = compute, leaf.element, folding, init
        shape: Shape = leaf.shape  # type: ignore[assignment]
        folded = folding.dimensions
        kept = [d for d in range(len(shape)) if d not in folded]
        self._order = (*folded, *kept)
        self._rows = math.prod(shape[d] for d in folded), math.prod(shape[d] for d in kept)
        self._kept = tuple(shape[d] for d in kept)

    @functools.cached_property
    def _ranks(self) -> Ranks:
        numbers = np.broadcast_to(self._compute(_all_of(self._element, 8))[0], 256)
        return ranks(np.ascontiguousarray(numbers), self._folding.element, bool(self._folding.largest))

    @functools.cached_property
    def _values(self) -> Table:
        numbers = self._ranks.values
        results = np.broadcast_to(self._folding.combine(self._init.reshape(1), numbers), numbers.shape)
        return Table(np.concatenate([results, np.repeat(results[-1:], 256 - len(results))]))

    def rank(self, x: np.ndarray) -> np.ndarray:
        codes = x.view(np.uint8).transpose(self._order).reshape(self._rows)
        return self._ranks.extreme(codes).reshape(self._kept)

    def value(self, rank: np.ndarray) -> np.ndarray:
        return self._values.at(rank)
