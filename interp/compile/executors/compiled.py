"""Groups by compiled code, where that knows all that a group does; otherwise as they are without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ops.engine.fast.layouts import Layouts
from ....ops.engine.fast.recipes import Recipe
from ....ops.engine.fast.run import Runner, View
from ....ops.engine.speed import tuning
from ....ops.op import lookup
from ....ops.traits import Run
from ..group import Group, Reduction
from ..leaf import Compute, Leaf, Shape
from .blocks import in_merged, merged_dimensions
from .folds import looked_up, no_step
from .job import Job


def by_machine(job: Job, otherwise: Run | None) -> Run:
    """The kernel of a group that is run by compiled code, and `otherwise` as long as it cannot be."""
    leaves, shape = job.group.leaves, job.group.shape
    assert otherwise is not None
    merged = merged_dimensions(leaves, shape)
    spreads = [in_merged(leaf.spread(len(shape)), merged) for leaf in leaves]
    sizes, dtypes = [math.prod(shape[d] for d in dims) for dims in merged], [t.element.dtype for t in job.group.results]
    layouts, is_single = Layouts(shape, lays(leaves, shape), None), len(dtypes) == 1
    runner = Runner(job.recipe, job.compute, sizes, spreads, _views(leaves, shape), layouts=layouts)

    def kernel(*values: np.ndarray) -> Any:
        results = runner.run(values, shape, dtypes)
        if results is None:
            return otherwise(*values)
        return results[0] if is_single else tuple(results)

    return kernel


def folds_by_machine(job: Job, otherwise: Run | None) -> Run:
    """The same of a reduction of a group."""
    return _folds(job, otherwise, job.recipe, job.compute)


def table_folds_by_machine(job: Job, otherwise: Run | None) -> Run:
    """The same of a group that is a lookup table."""
    return _folds(job, otherwise, job.table_recipe, looked_up(job))


def is_for_machine(group: Group, reduction: Reduction | None) -> bool:
    """Whether a group is large enough for compiled code, and its reduction one that the machine has."""
    shape, now = group.shape, tuning()
    is_long = reduction is not None or len(group.function.steps) >= now.fast_steps
    if math.prod(shape) < (now.fast_few if is_long else now.fast_from):
        return False
    if reduction is None:
        return True
    record, dimensions = lookup(reduction.name), reduction.dimensions
    if record is None or record.traits.compiled_fold is None or not dimensions or reduction.element.name != "f32":
        return False
    if dimensions != tuple(range(dimensions[0], dimensions[-1] + 1)):
        return False
    first = _columns_from(dimensions, len(shape))
    rows = [math.prod(leaf.spread(len(shape))[first:]) for leaf in group.leaves]
    return all(n in (1, math.prod(shape[first:])) for n in rows)


def _columns_from(dimensions: Shape, rank: int) -> int:
    """The first of the dimensions that lie along a row: those that are folded, or what follows them."""
    return dimensions[0] if dimensions[-1] == rank - 1 else dimensions[-1] + 1


def _views(leaves: Sequence[Leaf], shape: Shape) -> list[View]:
    """What lays leaves along the shape; None where their elements lie in its order, whatever their own shape is."""
    return [leaf.view(shape) if leaf.is_turned else None for leaf in leaves]


def lays(leaves: Sequence[Leaf], shape: Shape) -> list[Callable[[np.ndarray], np.ndarray]]:
    """What gives each leaf all dimensions of the shape."""
    return [leaf.view(shape) or (lambda x: x) for leaf in leaves]


def _folds(job: Job, otherwise: Run | None, recipe: Recipe, compute: Compute) -> Run:
    leaves, shape, folding = job.group.leaves, job.group.shape, job.folding
    fold, dimensions = folding.traits.compiled_fold, folding.dimensions
    assert otherwise is not None
    assert fold is not None
    first = _columns_from(dimensions, len(shape))
    spreads = [leaf.spread(len(shape)) for leaf in leaves]
    spreads = [[*s[:first], math.prod(s[first:])] for s in spreads]
    sizes = [*shape[:first], math.prod(shape[first:])]
    down = math.prod(shape[d] for d in dimensions) if first > dimensions[0] else 0
    layouts, is_free = Layouts(shape, lays(leaves, shape), first), folding.largest is not None
    runner = Runner(recipe, compute, sizes, spreads, _views(leaves, shape), down, layouts)
    kept = tuple(n for d, n in enumerate(shape) if d not in dimensions)

    def instead(totals: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return folding.fold(no_step, (totals,), [np.ascontiguousarray(rows.T)])[0]

    def kernel(*values: np.ndarray) -> np.ndarray:
        totals = runner.fold(fold, is_free, values[:-1], values[-1], instead)
        return otherwise(*values) if totals is None else totals.reshape(kept)

    return kernel
