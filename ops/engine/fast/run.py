"""Runs programs of the machine on arrays, by several threads.

Measured against numpy, both on one thread of a busy machine, on 10**6 elements, how many times as fast: a sum that is
rounded to f8E4M3FN 3.7, decoded f8E4M3FN times f32 rounded to that 3.4, ops on bf16 3.7, sums and maxima of rows of
what groups give 3.2 and 3.6, exponentials 1.7, compare and select 1.8, two ops on f32, which wait for memory, 1.1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import speed
from ..blocks import for_each
from ..compiled import machine
from . import opcodes as op
from .programs import program
from .recipes import Program, Recipe

#: What numpy does instead: gives the outputs for parts of the leaves.
Compute = Callable[..., Sequence[np.ndarray]]
#: Lays a leaf along the group's shape; None where it does so already.
View = Callable[[np.ndarray], np.ndarray] | None
#: What numpy does instead of folding: takes totals of rows and the rows.
FoldRows = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Runner:
    """A group and how its leaves lie: `sizes` are the group's, `spreads` those of each leaf, 1 where it is repeated."""

    def __init__(
        self, recipe: Recipe, compute: Compute, sizes: Sequence[int], spreads: Sequence[Sequence[int]]
    ) -> None:
        self._recipe, self._compute = recipe, compute
        self._rows, self._columns = math.prod(sizes[:-1]), sizes[-1]
        self._sizes, self._spreads = sizes, spreads
        self.size = math.prod(sizes)
        self._programs: dict[tuple[int | None, int], Program | None] = {}

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        """Where each row begins in each leaf."""
        starts = np.zeros((max(len(self._spreads), 1), self._rows), np.int64)
        for place, spread in zip(starts, self._spreads, strict=False):
            grid, step = np.zeros(self._sizes[:-1], np.int64), spread[-1]
            for d in reversed(range(len(spread) - 1)):
                if spread[d] > 1:
                    grid += (np.arange(spread[d]) * step).reshape([-1 if d == i else 1 for i in range(grid.ndim)])
                step *= spread[d]
            place[:] = grid.reshape(-1)
        return starts

    @functools.cached_property
    def _along(self) -> np.ndarray:
        return np.array([s[-1] > 1 for s in self._spreads] or [0], np.int64)

    def _program(self, fold: int | None, wide: int) -> Program | None:
        """The program for blocks of so many columns."""
        if (fold, wide) not in self._programs:
            self._programs[fold, wide] = self._made(fold, wide)
        return self._programs[fold, wide]

    def _made(self, fold: int | None, wide: int) -> Program | None:
        if self._columns < speed.tuning().fast_short:
            return None
        fixed = [set(s[:-1]) <= {1} and (s[-1] == 1 or wide == self._columns) for s in self._spreads]
        return program(self._recipe, fold, fixed)

    def run(
        self, values: Sequence[np.ndarray], views: Sequence[View], dtypes: Sequence[np.dtype]
    ) -> list[np.ndarray] | None:
        """The outputs, as matrices; None where this is left to numpy. The views lay the leaves along the shape."""
        rows, columns = self._rows, self._columns
        most = speed.tuning().fast_elements
        high, wide = (1, most) if columns > most else (max(most // columns, 1), columns)
        call = machine(self.size)
        made = self._program(None, wide) if call is not None else None
        tables = self._tables(made)
        if call is None or made is None or tables is None:
            return None
        leaves = _laid(values, views)
        results = [np.empty((rows, columns), dtype) for dtype in dtypes]
        blocks = -(-rows // high) * -(-columns // wide)
        self.run_blocks(call, made, tables, leaves, results, None, (high, wide), blocks, 1, None)
        return results

    def fold(
        self,
        kind: int,
        is_free: bool,
        values: Sequence[np.ndarray],
        views: Sequence[View],
        start: np.ndarray,
        instead: FoldRows,
    ) -> np.ndarray | None:
        """The totals of all rows, of f32, by one of the machine's folds; `is_free` says that the order is all one."""
        rows, columns = self._rows, self._columns
        is_split = is_free and rows == 1
        now = speed.tuning()
        wide = min(columns, now.fast_elements if is_split else now.fast_wide)
        call = machine(self.size)
        made = self._program(kind, wide) if call is not None else None
        tables = self._tables(made)
        if call is None or made is None or tables is None:
            return None
        high = 1 if rows == 1 else max(now.fast_high, now.fast_elements // wide // now.fast_high * now.fast_high)
        pieces, leaves = -(-columns // wide), _laid(values, views)
        totals = np.full(rows, start, np.float32)
        if not is_split:
            self.run_blocks(
                call, made, tables, leaves, [], totals, (high, wide), -(-rows // high) * pieces, pieces, instead
            )
            return totals
        parts: list[np.ndarray] = []
        self.run_blocks(call, made, tables, leaves, [], totals, (high, wide), pieces, 1, instead, parts)
        return instead(totals, np.array(parts, np.float32).reshape(1, -1))

    def _tables(self, made: Program | None) -> list[np.ndarray] | None:
        if made is None:
            return None
        tables = [entries(self.size) for entries in made.tables]
        if any(t is None for t in tables):
            return None
        return [np.ascontiguousarray(t) for t in tables]  # pyright: ignore[reportArgumentType]

    def run_blocks(
        self,
        call: Any,
        made: Program,
        tables: Sequence[np.ndarray],
        leaves: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        totals: np.ndarray | None,
        block: tuple[int, int],
        blocks: int,
        together: int,
        instead: FoldRows | None,
        apart: list[np.ndarray] | None = None,
    ) -> None:
        """Run all blocks, by threads; so many that follow each other are kept together."""
        # What has no other name here must live as long as its address is in use.
        leaves = [np.ascontiguousarray(leaf) for leaf in leaves]
        addresses = [_addresses(arrays) for arrays in (leaves, tables, results)]
        where = np.array([0, 0, self._rows, self._columns, *block, made.registers, made.once], np.int64)
        nothing = np.zeros(0, np.float32)
        now = speed.current()
        weight = self.size * (now.tuning.fast_exponential if (made.code[:, 0] == op.EXP).any() else 1)
        parts = now.tuning.fast_parts * now.workers if weight > now.tuning.fast_alone else 1
        step = max(-(-blocks // together // parts), 1) * together

        def work(begin: int) -> None:
            mine, end = where.copy(), min(begin + step, blocks)
            mine[:2] = begin, end
            into = nothing if totals is None else totals
            if apart is not None and totals is not None:
                into = totals.copy()
                apart.append(into)
            while True:
                mine[0] = call(
                    mine,
                    made.code,
                    made.constants,
                    addresses[0],
                    self._along,
                    self._starts,
                    addresses[1],
                    made.parameters,
                    addresses[2],
                    into,
                )
                if mine[0] == end:
                    return
                self._by_numpy(int(mine[0]), block, leaves, results, into, instead)
                mine[0] += 1

        for_each(range(0, blocks, step), work, weight)

    def _by_numpy(
        self,
        index: int,
        block: tuple[int, int],
        leaves: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        totals: np.ndarray,
        instead: FoldRows | None,
    ) -> None:
        """One block that the machine has not done."""
        (high, wide), pieces = block, -(-self._columns // block[1])
        row, column = index // pieces * high, index % pieces * wide
        rows, columns = slice(row, min(row + high, self._rows)), slice(column, min(column + wide, self._columns))
        shape = rows.stop - row, columns.stop - column
        parts = []
        for leaf, starts, along in zip(leaves, self._starts, self._along, strict=False):
            place = starts[rows, None] + (np.arange(column, columns.stop) if along else np.zeros(shape[1], np.int64))
            parts.append(leaf.reshape(-1)[place])
        results = [np.broadcast_to(r, shape) for r in self._compute(*parts)]
        for whole, part in zip(outputs, results, strict=False):
            whole[rows, columns] = part
        if instead is not None:
            totals[rows] = instead(totals[rows], results[0])


def _laid(values: Sequence[np.ndarray], views: Sequence[View]) -> list[np.ndarray]:
    return [v if lay is None else lay(v) for v, lay in zip(values, views, strict=True)]


def _addresses(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([a.ctypes.data for a in arrays] or [0], np.uint64)
