"""Reductions of what a group gives, of which no more than a block is ever held."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.engine.blocks import Pace, apart, block, blocks, for_each
from ....ops.engine.speed import tuning
from ....ops.reductions.reduce import Folding
from ....ops.traits import Run
from ..leaf import Compute, Leaf, Shape, cut
from .job import Job
from .tables import by_laid_table

#: Sums that numpy forms in the order of their steps, of so many columns or more.
_WIDE = 16

#: Where the elements of a part are in each leaf, and their shape.
_Part = tuple[Sequence[Any], Shape]


def by_folds(job: Job, _: Run | None) -> Run:
    """The kernel that reduces the only value of a group, of which it never holds more than a block.

    It takes the leaves and the initial value.
    """
    return _by_folds(job.compute, job.group.leaves, job.group.shape, job.folding)


def by_table_folds(job: Job, _: Run | None) -> Run:
    """The same of a group that is a lookup table."""
    return _by_folds(looked_up(job), job.group.leaves, job.group.shape, job.folding)


def looked_up(job: Job) -> Compute:
    """The function of a group of one output by its table, on arrays that broadcast together."""
    look_up = by_laid_table(job.tables)
    return lambda *parts: (look_up(*parts),)


def _by_folds(compute: Compute, leaves: Sequence[Leaf], shape: Shape, folding: Folding) -> Run:
    folded = folding.dimensions
    kept = [d for d in range(len(shape)) if d not in folded]
    # The dimensions to fold come first, so that a step is a slice; unless steps have no order and lie together, or
    # slices are short and leaves are repeated in both directions, which numpy does slice by slice.
    is_last = folding.largest is not None and [*kept, *folded] == list(range(len(shape)))
    is_last = is_last or _is_crosswise(leaves, shape, kept, folded)
    order = [*kept, *folded] if is_last else [*folded, *kept]
    place = {d: i for i, d in enumerate(order)}
    leaves = [Leaf(x.type, tuple(None if a is None else place[a] for a in x.axes)) for x in leaves]
    outer, inner = tuple(shape[d] for d in folded), tuple(shape[d] for d in kept)
    views, size = [leaf.view(tuple(shape[d] for d in order)) for leaf in leaves], math.prod(shape)
    spreads = [leaf.spread(len(shape)) for leaf in leaves]
    # Short columns are folded many at a time, so that no part of the work is small.
    columns = list(blocks(inner, max(tuning().fold_columns, tuning().fold_part // max(math.prod(outer), 1))))
    fold, dtype = folding.fold, folding.element.dtype
    combining = folding.traits.combining
    in_order = combining is not None and combining.on_floats and dtype in (np.float32, np.float64)
    ufunc = combining.ufunc if combining is not None and in_order else None
    # For each column the parts of the leaves that make the slices to fold, block after block.
    parts = [
        [column + step if is_last else step + column for step in blocks(outer, _steps(column, size))]
        for column in columns
    ]
    plans: list[list[_Part]] = [
        [(cut(part, spreads), tuple(p.stop - p.start for p in part)) for part in some] for some in parts
    ]
    pace = Pace()
    widths = [math.prod(c.stop - c.start for c in column) for column in columns]

    def kernel(*values: np.ndarray) -> np.ndarray:
        laid = [v if lay is None else lay(v) for v, lay in zip(values[:-1], views, strict=True)]
        result = np.empty(inner, dtype)

        def fold_in(total: np.ndarray, plan: _Part) -> np.ndarray:
            places, whole = plan
            pieces = [v[p] for v, p in zip(laid, places, strict=True)]
            rows = compute(*(pieces if is_last else [np.ascontiguousarray(apart(p)) for p in pieces]))[0]
            if rows.shape != whole:
                rows = np.broadcast_to(rows, whole)
            width = len(total)
            flat = rows.reshape(width, -1).T if is_last else rows.reshape(-1, width)
            if ufunc is not None and not is_last and width >= _WIDE and rows.flags.c_contiguous and _is_new(rows, laid):
                # They are ours: the total is added to the first of them, so that nothing is brought together.
                ufunc(total, flat[0], out=flat[0])
                return ufunc.reduce(flat, axis=0)
            return fold(no_step, (total,), [flat])[0]

        def start(index: int) -> np.ndarray:
            return np.broadcast_to(values[-1], widths[index])

        def work(index: int) -> None:
            total = functools.reduce(fold_in, plans[index], start(index))
            result[columns[index]] = total.reshape(result[columns[index]].shape)

        if folding.largest is None or len(columns) > tuning().fold_few:
            for_each(range(len(columns)), work, size, pace)
            return result
        # The parts of each column by themselves, and then what they gave in order: of several NaN the first is wanted.
        extremes: list[list[Any]] = [[None] * len(some) for some in plans]

        def work_on_part(place: tuple[int, int]) -> None:
            i, j = place
            extremes[i][j] = fold_in(start(i), plans[i][j])

        for_each([(i, j) for i, some in enumerate(plans) for j in range(len(some))], work_on_part, size, pace)
        for column, (total, *others) in zip(columns, extremes, strict=True):
            total = fold(no_step, (total,), [np.stack(others)])[0] if others else total
            result[column] = total.reshape(result[column].shape)
        return result

    return kernel


def _is_crosswise(leaves: Sequence[Leaf], shape: Shape, kept: Sequence[int], folded: Sequence[int]) -> bool:
    """Whether few numbers are kept of many, and some leaves vary along what is kept alone, others along what is not."""
    few, many = (math.prod(shape[d] for d in dimensions) for dimensions in (kept, folded))
    if few > tuning().across_short or many < tuning().across_short_many:
        return False
    spreads = [leaf.spread(len(shape)) for leaf in leaves]
    alone = {tuple(any(spread[d] > 1 for d in dimensions) for dimensions in (kept, folded)) for spread in spreads}
    return {(True, False), (False, True)} <= alone


def _is_new(rows: np.ndarray, leaves: Sequence[np.ndarray]) -> bool:
    """Whether an array is none of the leaves, nor a part of one."""
    return rows.flags.writeable and not any(np.may_share_memory(rows, leaf) for leaf in leaves)


def _steps(column: tuple[slice, ...], size: int) -> int:
    return max(block(size) // math.prod(c.stop - c.start for c in column), 1)


def no_step(*_: Any) -> Any:
    """Stand for the step of a fold that a single op makes, which takes none."""
    raise AssertionError("a fold of a single op asks for no step")
