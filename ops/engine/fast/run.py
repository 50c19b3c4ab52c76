"""Runs programs of the machine on arrays, by several threads.

Measured against numpy, both on one thread of a busy machine, on 10**6 elements, how many times as fast: a sum that is
rounded to f8E4M3FN 3.7, decoded f8E4M3FN times f32 rounded to that 3.4, ops on bf16 3.7, sums and maxima of rows of
what groups give 3.2 and 3.6, exponentials 1.7, compare and select 1.8, two ops on f32, which wait for memory, 1.1.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from .. import speed
from ..blocks import empty, for_each, in_order
from ..compiled import machine
from ..native import ordered_sums, row_sums
from . import opcodes as op
from .joined.runner import Joined
from .layouts import Layout, Layouts
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
    spare: list[Objects] = dataclasses.field(default_factory=list)  #: those that no call is using

    @functools.cached_property
    def end(self) -> int:
        """The block after the last."""
        return int(self.parts[-1][1])

    @functools.cached_property
    def room(self) -> int:
        """How many elements the registers have together."""
        where = self.parts[0]
        return int(where[6] * (where[4] * where[7] + GAP))


class Objects:
    """The addresses of the objects of leaves and outputs, as compiled code takes them, of one call at a time."""

    def __init__(self, leaves: int, outputs: int) -> None:
        both = np.zeros(leaves + outputs, np.int64)
        self.leaves, self.outputs = both[:leaves], both[leaves:]
        begin = both.__array_interface__["data"][0]
        #: Where they are.
        self.places = begin, begin + leaves * both.itemsize
        self._both = memoryview(both)  # pyright: ignore[reportArgumentType]

    def put(self, leaves: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        both, i = self._both, 0
        for x in leaves:
            both[i] = id(x)
            i += 1
        for x in outputs:
            both[i] = id(x)
            i += 1


class Runner:
    """A group and how its leaves lie: `sizes` are the group's, `spreads` those of each leaf, 1 where it is repeated.

    views: what lays each leaf along the shape; None where its elements lie in that order.
    down: so many rows that follow each other are folded into one row of totals; 0 where each row is into a number.
    layouts: the layouts of leaves that do not lie in order; without them those are copied.
    """

    def __init__(
        self,
        recipe: Recipe,
        compute: Compute,
        sizes: Sequence[int],
        spreads: Sequence[Sequence[int]],
        views: Sequence[View],
        down: int = 0,
        layouts: Layouts | None = None,
    ) -> None:
        self._recipe, self._compute = recipe, compute
        self._views, self._down, self._layouts = views, down, layouts
        self._are_in_order = all(view is None for view in views)
        self.size = math.prod(sizes)
        #: Makes arrays of the group's shape: large ones begin at a line of the cache.
        self._empty = empty if self.size >= speed.tuning().aligned_bytes // _WIDEST else np.empty
        steps = tuple([tuple([math.prod(s[d + 1 :]) if n > 1 else 0 for d, n in enumerate(s)]) for s in spreads])
        self._lie(Layout(tuple(sizes), steps, (False,) * len(steps)))
        self._by_layout: dict[Layout, Self] = {}

    def _lie(self, layout: Layout) -> None:
        """Take leaves that lie so."""
        self._layout = layout
        self._rows, self._columns = math.prod(layout.sizes[:-1]), layout.sizes[-1]
        self._along = np.array([int(s[-1] > 0) for s in layout.steps] or [0], np.int64)
        self._plan: Plan | None = None
        self._is_known = True

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        """Where each row begins in each leaf."""
        return self._layout.starts()

    def _placed(self, values: Sequence[np.ndarray]) -> tuple[Self, Sequence[np.ndarray]]:
        """What runs leaves that lie as these do, and the leaves that it takes."""
        if self._are_in_order:
            for v in values:
                if type(v) is not np.ndarray or not v.flags.c_contiguous:
                    break
            else:
                return self, values
        if self._layouts is None:
            return self, self._laid(values)
        layout, laid = self._layouts.of(values)
        other = self._by_layout.get(layout)
        if other is None:
            other = self._by_layout[layout] = copy.copy(self)
            other.__dict__.pop("_starts", None)
            other._lie(layout)
        return other, laid

    def run(self, values: Sequence[np.ndarray], shape: Sequence[int], dtypes: Sequence[np.dtype]) -> Any:
        """The outputs, of some shape; None where this is left to numpy."""
        runner, laid = self._placed(values)
        return runner._run(laid, shape, dtypes)

    def _run(self, laid: Sequence[np.ndarray], shape: Sequence[int], dtypes: Sequence[np.dtype]) -> Any:
        plan = self._plan or self._planned(None, False)
        if plan is None:
            return None
        tables = self._tables(plan.program) if plan.program.tables else NO_TABLES
        if tables is None:
            return None
        make = self._empty
        results = [make(shape, dtype) for dtype in dtypes]
        self.run_blocks(plan, plan.program, tables, laid, results, None, None)
        return results

    def fold(
        self, kind: int, is_free: bool, values: Sequence[np.ndarray], start: np.ndarray, instead: FoldRows
    ) -> np.ndarray | None:
        """The totals of rows or columns, of f32, by one of the machine's folds; `is_free`: the order is all one."""
        runner, laid = self._placed(values)
        return runner._fold(kind, is_free, laid, start, instead)

    def _fold(
        self, kind: int, is_free: bool, laid: Sequence[np.ndarray], start: np.ndarray, instead: FoldRows
    ) -> np.ndarray | None:
        is_split = is_free and self._rows == 1 and not self._down
        plan = self._plan or self._planned(kind, is_split)
        if plan is None:
            return None
        tables = self._tables(plan.program) if plan.program.tables else NO_TABLES
        if tables is None:
            return None
        totals = np.empty(self._rows // self._down * self._columns if self._down else self._rows, np.float32)
        totals[...] = start
        if plan.sums is not None and self._add_rows(plan, plan.sums, laid[0], totals):
            return totals
        if not is_split:
            self.run_blocks(plan, plan.program, tables, laid, [], totals, instead)
            return totals
        parts: list[np.ndarray] = []
        self.run_blocks(plan, plan.program, tables, laid, [], totals, instead, parts)
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
            wide = min(columns, most if is_split or rows < tuning.fast_high else tuning.fast_wide)
            high = max(tuning.fast_high, most // wide // tuning.fast_high * tuning.fast_high)
        high = min(high, rows)
        # What is the same in all blocks is loaded once, into registers of its own: of a single block nothing is.
        is_one = rows <= high and columns <= wide
        fixed = [not (is_one or any(s[:-1])) and (not s[-1] or wide == columns) for s in self._layout.steps]
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

    def _add_rows(self, plan: Plan, element: str, leaf: np.ndarray, totals: np.ndarray) -> bool:
        """Add the rows of a leaf of such elements to totals, if there is code that does only that."""
        matrix, (high, wide) = leaf.reshape(self._rows, self._columns), plan.block
        if self._rows < speed.tuning().fast_high:
            return self._add_few(element, matrix, totals)
        add = row_sums.adding(self.size, element)
        if add is None:
            return False
        across = -(-self._columns // wide)

        def work(where: np.ndarray) -> None:
            rows = slice(int(where[0]) // across * high, int(where[1]) // across * high)
            add(totals[rows], matrix[rows])

        if len(plan.parts) == 1:
            work(plan.parts[0])
        else:
            for_each(plan.parts, work, plan.weight)
        return True

    def _add_few(self, element: str, matrix: np.ndarray, totals: np.ndarray) -> bool:
        add = ordered_sums.adding(self._columns, element, "f32")
        sums = [add(t, row) for t, row in zip(totals, matrix, strict=True)] if add is not None else [None]
        if None in sums:
            return False
        totals[...] = sums
        return True

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
        try:
            objects = plan.spare.pop()
        except IndexError:
            objects = Objects(len(leaves), len(results))
        objects.put(leaves, results)
        call: Callable[[np.ndarray, np.ndarray], int]
        if plan.joined is not None and plan.joined.is_ready(self.size):
            call = plan.joined.on(objects.places)
        else:
            call = self._by_machine(plan, made, tables, objects)

        def go_on(where: np.ndarray, into: np.ndarray, stopped: int) -> None:
            while stopped != where[1]:
                self.by_numpy(stopped, plan.block, leaves, results, into, instead)
                mine = where.copy()
                mine[0] = stopped + 1
                stopped = call(mine, into)

        if len(plan.parts) == 1:
            into = _NO_TOTALS if totals is None else totals
            if apart is not None:
                apart.append(into)
            stopped = call(plan.parts[0], into)
            if stopped != plan.end:
                go_on(plan.parts[0], into, stopped)
        else:

            def work(where: np.ndarray) -> None:
                into = _NO_TOTALS if totals is None else totals
                if apart is not None:
                    into = into.copy()
                    apart.append(into)
                go_on(where, into, call(where, into))

            for_each(plan.parts, work, plan.weight)
        plan.spare.append(objects)

    def _by_machine(
        self, plan: Plan, made: Program, tables: Sequence[np.ndarray], objects: Objects
    ) -> Callable[[np.ndarray, np.ndarray], int]:
        """Runs blocks, of these arrays, into totals."""
        of_tables = _OF_NO_TABLES if tables is NO_TABLES else np.array([*map(id, tables)], np.int64)
        along, starts = self._along, self._starts

        def call(where: np.ndarray, into: np.ndarray) -> int:
            return plan.call(
                where,
                made.code,
                made.segments,
                made.constants,
                objects.leaves,
                along,
                starts,
                of_tables,
                made.parameters,
                objects.outputs,
                into,
                room(plan.room),
            )

        return call

    def _elements(
        self, leaves: Sequence[np.ndarray], rows: slice, columns: slice, is_single: bool
    ) -> Sequence[np.ndarray]:
        """The elements of leaves in some rows and columns; with `is_single` a row of repeated elements has one."""
        parts, many = [], columns.stop - columns.start
        if self._layouts is not None and self._layout.is_own:
            leaves = [x.reshape(self._rows, self._columns) for x in self._layouts.grids(self._layout, leaves)]
            for leaf, along in zip(leaves, self._along, strict=False):
                parts.append(leaf[rows, columns] if along or not is_single else leaf[rows, :1])
            return parts
        for leaf, starts, along in zip(leaves, self._starts, self._along, strict=False):
            across = np.arange(columns.start, columns.stop) if along else np.zeros(1 if is_single else many, np.int64)
            parts.append(leaf.reshape(-1)[starts[rows, None] + across])
        return parts

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
        parts = self._elements(leaves, rows, columns, False)
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
    adds = rows % now.tuning.fast_high and columns >= now.tuning.ordered_from
    add = (
        ordered_sums.address("f32", "f32") if adds and np.isin(made.code[:, 0], (op.FOLD_ADD, op.SUM_ROW)).any() else 0
    )
    common = (rows, columns, high, wide, made.registers, inner or wide, down, now.tuning.planes_from, add)
    wheres = [np.array([i, min(i + step, blocks), *common], np.int64) for i in range(0, blocks, step)]
    return wheres, weight if parts > 1 else 0


def _together(x: np.ndarray) -> np.ndarray:
    # A single number can be a scalar of numpy, whose object has no such place for its elements as an array's has.
    return np.ascontiguousarray(x) if x.flags.c_contiguous else in_order(x)


def _folded_together(down: int, high: int, pieces: int, blocks: int) -> tuple[int, int]:
    """Rows of a block, and how many blocks one thread has to take, where so many rows are folded into one."""
    fitting = next(n for n in range(min(high, down), 0, -1) if down % n == 0)
    return (fitting, down // fitting * pieces) if 4 * fitting >= high else (high, blocks * pieces)
