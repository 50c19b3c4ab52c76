"""Groups by compiled code, where that is in use and knows all that a group does; otherwise as they are without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ops.engine.fast.recipes import Recipe
from ....ops.engine.fast.run import FROM, Runner
from ....ops.reductions.reduce import Folding
from ....ops.types import TensorType
from .blocks import in_merged, merged_dimensions
from .folds import no_step
from .leaf import Compute, Leaf, Shape

#: A kernel: takes the leaves, and of a reduction the initial value too.
Otherwise = Callable[..., Any]


def or_compiled(
    otherwise: Otherwise,
    recipe: Recipe | None,
    compute: Compute,
    leaves: Sequence[Leaf],
    shape: Shape,
    results: Sequence[TensorType],
) -> Otherwise:
    """The kernel of a group that is run by compiled code if that can be, else by another kernel."""
    if recipe is None or math.prod(shape) < FROM:
        return otherwise
    merged = merged_dimensions(leaves, shape)
    spreads = [in_merged(leaf.spread(len(shape)), merged) for leaf in leaves]
    runner = Runner(recipe, compute, [math.prod(shape[d] for d in dims) for dims in merged], spreads)
    views, dtypes = [leaf.view(shape) for leaf in leaves], [t.element.dtype for t in results]

    def kernel(*values: np.ndarray) -> Any:
        found = runner.run(values, views, dtypes)
        if found is None:
            return otherwise(*values)
        laid = [r.reshape(shape) for r in found]
        return laid[0] if len(laid) == 1 else tuple(laid)

    return kernel


def fold_or_compiled(
    otherwise: Otherwise,
    recipe: Recipe | None,
    compute: Compute,
    leaves: Sequence[Leaf],
    shape: Shape,
    folding: Folding,
) -> Otherwise:
    """The kernel of a reduction of a group that is run by compiled code if that can be, else by another kernel."""
    first, fold = len(shape) - len(folding.dimensions), folding.facts.compiled_fold
    is_inner = folding.dimensions == tuple(range(first, len(shape)))
    if recipe is None or fold is None or not is_inner or folding.element.name != "f32":
        return otherwise
    spreads = [leaf.spread(len(shape)) for leaf in leaves]
    spreads = [[*s[:first], math.prod(s[first:])] for s in spreads]
    sizes = [*shape[:first], math.prod(shape[first:])]
    if math.prod(sizes) < FROM or any(s[-1] not in (1, sizes[-1]) for s in spreads):
        return otherwise
    runner, views = Runner(recipe, compute, sizes, spreads), [leaf.view(shape) for leaf in leaves]

    def instead(totals: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return folding.fold(no_step, (totals,), [np.ascontiguousarray(rows.T)])[0]

    def kernel(*values: np.ndarray) -> np.ndarray:
        totals = runner.fold(fold, folding.largest is not None, values[:-1], views, values[-1], instead)
        return otherwise(*values) if totals is None else totals.reshape(shape[:first])

    return kernel
