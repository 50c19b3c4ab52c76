"""Runs programs of the machine on arrays, by several threads.

Measured against numpy, both on one thread of a busy machine, on 10**6 elements, how many times as fast: a sum that is
rounded to f8E4M3FN 3.7, decoded f8E4M3FN times f32 rounded to that 3.4, ops on bf16 3.7, sums and maxima of rows of
what groups give 3.2 and 3.6, exponentials 1.7, compare and select 1.8, two ops on f32, which wait for memory, 1.1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import speed
from ..blocks import empty, for_each, in_order
from ..compiled import machine
from ..native import row_sums
from . import opcodes as op
from .joined.runner import Joined
from .programs import program
from .recipes import Program, Recipe
from .registers import GAP, room

#: What numpy does instead: gives the outputs for parts of the leaves.
Compute = Callable[..., Sequence[np.ndarray]]
#: Lays a leaf along the group's shape; None where it does so already.
View = Callable[[np.ndarray], np.ndarray] | None
#: What numpy does instead of folding: takes totals of rows and the rows.
FoldRows = Callable[[np.ndarray, np.ndarray], np.ndarray]

#: Bytes of the widest elements.
_WIDEST = 8
_NO_TOTALS = np.zeros(0, np.float32)
#: What is given where a program has no tables: the machine looks at the first in any case.
NO_TABLES = (np.zeros(1, np.uint32),)
#: What rows can be added up of as they are, by the op that loads it.
_SUMMED = {op.LOAD_32: "f32", op.LOAD_16: "bf16", op.LOAD_F16: "f16"}
_OF_NO_TABLES = np.array([*map(id, NO_TABLES)], np.int64)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that a call needs beside the arrays. It depends on shapes only, and is made once for them.

    block: rows and columns of a block.
    parts: the blocks of each thread, as the machine takes them; one thread has them all.
    weight: how many elements of plain ops take as long.
    """

    program: Program
    call: Callable[..., int]
    block: tuple[int, int]
    parts: Sequence[np.ndarray]
    weight: int
    joined: Joined | None = None  #: what may take the place of `call`
    sums: str | None = None  #: the type of a leaf's elements, where nothing is done but adding up its rows

    @functools.cached_property
    def room(self) -> int:
        """How many elements the registers have together."""
        where = self.parts[0]
        return int(where[6] * (where[4] * where[7] + GAP))


class Runner:
    """A group and how its leaves lie: `sizes` are the group's, `spreads` those of each leaf, 1 where it is repeated.

    views: what lays each leaf along the shape; None where its elements lie in that order.
    down: so many rows that follow each other are folded into one row of totals; 0 where each row is into a number.
    """

    def __init__(
        self,
        recipe: Recipe,
        compute: Compute,
        sizes: Sequence[int],
        spreads: Sequence[Sequence[int]],
        views: Sequence[View],
        down: int = 0,
    ) -> None:
        self._recipe, self._compute = recipe, compute
        self._rows, self._columns = math.prod(sizes[:-1]), sizes[-1]
        self._sizes, self._spreads, self._views, self._down = sizes, spreads, views, down
        self._are_in_order = all(view is None for view in views)
        self.size = math.prod(sizes)
        #: Makes arrays of the group's shape: large ones begin at a line of the cache.
        self._empty = empty if self.size >= speed.tuning().aligned_bytes // _WIDEST else np.empty
        self._plan: Plan | None = None
        self._is_known = True

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

    def run(self, values: Sequence[np.ndarray], shape: Sequence[int], dtypes: Sequence[np.dtype]) -> Any:
        """The outputs, of some shape; None where this is left to numpy."""
        plan = self._plan or self._planned(None, False)
        if plan is None:
            return None
        tables = self._tables(plan.program) if plan.program.tables else NO_TABLES
        if tables is None:
            return None
        make = self._empty
        results = [make(shape, dtype) for dtype in dtypes]
        self.run_blocks(plan, plan.program, tables, self._laid(values), results, None, None)
        return results

    def fold(
        self, kind: int, is_free: bool, values: Sequence[np.ndarray], start: np.ndarray, instead: FoldRows
    ) -> np.ndarray | None:
        """The totals of rows or columns, of f32, by one of the machine's folds; `is_free`: the order is all one."""
        is_split = is_free and self._rows == 1 and not self._down
        plan = self._plan or self._planned(kind, is_split)
        if plan is None:
            return None
        tables = self._tables(plan.program) if plan.program.tables else NO_TABLES
        if tables is None:
            return None
        totals = np.empty(self._rows // self._down * self._columns if self._down else self._rows, np.float32)
        totals[...] = start
        add = row_sums.adding(self.size, plan.sums) if plan.sums is not None else None
        if add is not None:
            self._add_rows(add, plan, self._laid(values)[0], totals)
            return totals
        if not is_split:
            self.run_blocks(plan, plan.program, tables, self._laid(values), [], totals, instead)
            return totals
        parts: list[np.ndarray] = []
        self.run_blocks(plan, plan.program, tables, self._laid(values), [], totals, instead, parts)
        return instead(totals, np.array(parts, np.float32).reshape(1, -1)) if len(parts) > 1 else parts[0]

    def _planned(self, fold: int | None, is_split: bool) -> Plan | None:
        """The plan, once the machine is there; None until then, and where it does not know all of the group."""
        call = machine(self.size) if self._is_known else None
        if call is None:
            return None
        tuning, rows, columns = speed.tuning(), self._rows, self._columns
        most = tuning.fast_calls if fold is None and self._recipe.has_functions else tuning.fast_elements
        if fold is None or self._down:
            high, wide = (1, most) if columns > most else (max(most // columns, 1), columns)
        else:
            wide = min(columns, most if is_split else tuning.fast_wide)
            high = max(tuning.fast_high, most // wide // tuning.fast_high * tuning.fast_high)
        high = min(high, rows)
        # What is the same in all blocks is loaded once, into registers of its own: of a single block nothing is.
        is_one = rows <= high and columns <= wide
        fixed = [not is_one and set(s[:-1]) <= {1} and (s[-1] == 1 or wide == columns) for s in self._spreads]
        made = program(self._recipe, fold, fixed) if columns >= tuning.fast_short else None
        self._is_known = made is not None
        if made is None:
            return None
        pieces = -(-columns // wide)
        together = 1 if fold is None or is_split else pieces
        if self._down:
            high, together = _folded_together(self._down, high, pieces, -(-rows // high))
        wheres, weight = parts_of(made, self.size, rows, columns, (high, wide), together, self._down)
        own = Joined(made, self._along, self._starts) if fold is None and columns >= tuning.joined_columns else None
        sums = self._plain_sums(made) if fold == op.FOLD_ADD and not (self._down or is_split) else None
        self._plan = Plan(made, call, (high, wide), wheres, weight, own, sums)
        return self._plan

    def _plain_sums(self, made: Program) -> str | None:
        """The type of the only leaf where a program folds nothing but its rows, which follow each other."""
        kinds = made.code[:, 0].tolist()
        if len(kinds) != 2 or kinds[0] not in _SUMMED or not self._along[0]:
            return None
        if not np.array_equal(self._starts[0], np.arange(self._rows) * self._columns):
            return None
        return _SUMMED[kinds[0]]

    def _add_rows(self, add: row_sums.Add, plan: Plan, leaf: np.ndarray, totals: np.ndarray) -> None:
        matrix, (high, wide) = leaf.reshape(self._rows, self._columns), plan.block
        across = -(-self._columns // wide)

        def work(where: np.ndarray) -> None:
            rows = slice(int(where[0]) // across * high, int(where[1]) // across * high)
            add(totals[rows], matrix[rows])

        if len(plan.parts) == 1:
            work(plan.parts[0])
        else:
            for_each(plan.parts, work, plan.weight)

    def _tables(self, made: Program) -> list[np.ndarray] | None:
        """The entries of the program's tables; None as long as one of them is not worth making."""
        tables = [entries(self.size) for entries in made.tables]
        if any(t is None for t in tables):
            return None
        return [np.ascontiguousarray(t) for t in tables]  # pyright: ignore[reportArgumentType]

    def _laid(self, values: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        if self._are_in_order and all(type(v) is np.ndarray and v.flags.c_contiguous for v in values):
            return values
        laid = zip(values, self._views, strict=True)
        return [_together(v if lay is None else lay(v)) for v, lay in laid]

    def run_blocks(
        self,
        plan: Plan,
        made: Program,
        tables: Sequence[np.ndarray],
        leaves: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        totals: np.ndarray | None,
        instead: FoldRows | None,
        apart: list[np.ndarray] | None = None,
    ) -> None:
        """Run all blocks, by threads if that pays; `apart` gets the totals of each thread's, if they are wanted so.

        The machine is given the arrays' objects: what it reads and writes must have a name here as long as it runs.
        """
        joined = plan.joined if plan.joined is not None and plan.joined.is_ready(self.size) else None
        if joined is not None:
            call = joined.on(leaves, results)
        else:
            call = self._by_machine(plan, made, tables, leaves, results)

        def work(where: np.ndarray) -> None:
            into = _NO_TOTALS if totals is None else totals
            if apart is not None:
                into = into.copy()
                apart.append(into)
            mine, end = where, where[1]
            while True:
                stopped = call(mine, into)
                if stopped == end:
                    return
                self.by_numpy(stopped, plan.block, leaves, results, into, instead)
                mine = where.copy()
                mine[0] = stopped + 1

        if len(plan.parts) == 1:
            work(plan.parts[0])
        else:
            for_each(plan.parts, work, plan.weight)

    def _by_machine(
        self,
        plan: Plan,
        made: Program,
        tables: Sequence[np.ndarray],
        leaves: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
    ) -> Callable[[np.ndarray, np.ndarray], int]:
        """Runs blocks, of these arrays, into totals."""
        of_leaves = np.array([*map(id, leaves)], np.int64)
        of_tables = _OF_NO_TABLES if tables is NO_TABLES else np.array([*map(id, tables)], np.int64)
        of_results = np.array([*map(id, results)], np.int64)
        before = made.code, made.segments, made.constants, of_leaves, self._along, self._starts, of_tables
        return lambda where, into: plan.call(where, *before, made.parameters, of_results, into, room(plan.room))

    def by_numpy(
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
            whole.reshape(self._rows, self._columns)[rows, columns] = part
        if instead is None:
            return
        if not self._down:
            totals[rows] = instead(totals[rows], results[0])
            return
        for i, elements in enumerate(results[0], row):
            mine = totals.reshape(-1, self._columns)[i // self._down, columns]
            mine[...] = instead(mine, elements[:, None])


def parts_of(
    made: Program,
    size: int,
    rows: int,
    columns: int,
    block: tuple[int, int],
    together: int = 1,
    down: int = 0,
    inner: int = 0,
) -> tuple[Sequence[np.ndarray], int]:
    """The blocks of each thread, as the machine takes them, and how many elements of plain ops take as long.

    One thread has to take so many blocks `together`. `inner` are the columns of a piece of a block, if it has several.
    The weight is 0 where one thread does all.
    """
    now, (high, wide) = speed.current(), block
    blocks = -(-rows // high) * -(-columns // wide)
    weight = size * (now.tuning.fast_exponential if np.isin(made.code[:, 0], list(op.FUNCTIONS)).any() else 1)
    parts = now.tuning.fast_parts * now.workers if weight > now.tuning.fast_alone else 1
    step = max(-(-blocks // together // parts), 1) * together
    common = (rows, columns, high, wide, made.registers, inner or wide, down, now.tuning.planes_from)
    wheres = [np.array([i, min(i + step, blocks), *common], np.int64) for i in range(0, blocks, step)]
    return wheres, weight if parts > 1 else 0


def _together(x: np.ndarray) -> np.ndarray:
    # A single number can be a scalar of numpy, whose object has no such place for its elements as an array's has.
    return np.ascontiguousarray(x) if x.flags.c_contiguous else in_order(x)


def _folded_together(down: int, high: int, pieces: int, blocks: int) -> tuple[int, int]:
    """Rows of a block, and how many blocks one thread has to take, where so many rows are folded into one."""
    fitting = next(n for n in range(min(high, down), 0, -1) if down % n == 0)
    return (fitting, down // fitting * pieces) if 4 * fitting >= high else (high, blocks * pieces)
