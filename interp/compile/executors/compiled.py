"""Groups by compiled code, where that knows all that a group does; otherwise as they are without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.engine.fast.recipes import Recipe
from ....ops.engine.fast.run import Runner, View
from ....ops.engine.speed import tuning
from ....ops.kernel import Run
from ....ops.registry import lookup
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
    runner, is_single = Runner(job.recipe, job.compute, sizes, spreads, _views(leaves, shape)), len(dtypes) == 1

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
    if math.prod(shape) < (now.fast_few if len(group.function.steps) >= now.fast_steps else now.fast_from):
        return False
    if reduction is None:
        return True
    first, record = len(shape) - len(reduction.dimensions), lookup(reduction.name)
    is_inner = reduction.dimensions == tuple(range(first, len(shape)))
    if record is None or record.facts.compiled_fold is None or not is_inner or reduction.element.name != "f32":
        return False
    rows = [math.prod(leaf.spread(len(shape))[first:]) for leaf in group.leaves]
    return all(n in (1, math.prod(shape[first:])) for n in rows)


def _views(leaves: Sequence[Leaf], shape: Shape) -> list[View]:
    """What lays leaves along the shape; None where their elements lie in its order, whatever their own shape is."""
    return [leaf.view(shape) if leaf.is_turned else None for leaf in leaves]


def _folds(job: Job, otherwise: Run | None, recipe: Recipe, compute: Compute) -> Run:
    leaves, shape, folding = job.group.leaves, job.group.shape, job.folding
    first, fold = len(shape) - len(folding.dimensions), folding.facts.compiled_fold
    assert otherwise is not None
    assert fold is not None
    spreads = [leaf.spread(len(shape)) for leaf in leaves]
    spreads = [[*s[:first], math.prod(s[first:])] for s in spreads]
    sizes = [*shape[:first], math.prod(shape[first:])]
    runner, is_free = Runner(recipe, compute, sizes, spreads, _views(leaves, shape)), folding.largest is not None
    kept = shape[:first]

    def instead(totals: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return folding.fold(no_step, (totals,), [np.ascontiguousarray(rows.T)])[0]

    def kernel(*values: np.ndarray) -> np.ndarray:
        totals = runner.fold(fold, is_free, values[:-1], values[-1], instead)
        return otherwise(*values) if totals is None else totals.reshape(kept)

    return kernel
