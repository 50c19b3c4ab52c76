"""Groups whose leaves have few bits: a lookup table of all cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ops.engine.lookup import of_pairs
from ....ops.engine.speed import tuning
from ....ops.traits import Run
from ..leaf import Leaf, filled
from .job import Job


def by_table(job: Job, otherwise: Run | None) -> Run:
    """The kernel of a group whose leaves have few bits; `otherwise` is its kernel without a table."""
    tables, leaves, shape, wide = job.tables, job.group.leaves, job.group.shape, otherwise
    assert wide is not None
    is_single = len(job.group.function.outputs) == 1
    views, size, built = [leaf.view(shape) for leaf in leaves], math.prod(shape), tables.built
    codes = [np.dtype(f"u{leaf.type.element.dtype.itemsize}") for leaf in leaves]
    view, code = views[0], codes[0]

    def of_one(x: np.ndarray) -> Any:
        made = built.value or built.get(size)
        if made is None:
            return wide(x)
        x = (x if view is None else view(x)).view(code)
        return filled([table.at(x) for table in made], shape)

    def of_many(*values: np.ndarray) -> Any:
        made = built.value or built.get(size)
        if made is None:
            return wide(*values)
        parts = [(v if lay is None else lay(v)).view(code) for v, lay, code in zip(values, views, codes, strict=True)]
        return filled([table.at_joined(parts, tables.widths) for table in made], shape)

    if len(leaves) == 1:
        return of_one
    is_small = size <= tuning().lookup_tiny and len(leaves) == 2 and tables.widths[1] == 8
    if not is_small or not is_single or not all(_fits(leaf, len(shape)) for leaf in leaves):
        return of_many
    operands: list[Any] = [(leaf.type.shape, leaf.type.element.dtype) for leaf in leaves]
    return of_pairs(shape, operands, lambda: None if built.value is None else built.value[0].entries, of_many)


def _fits(leaf: Leaf, rank: int) -> bool:
    """Whether numpy itself lays a leaf along the group's shape: it lies along the last dimensions, in order."""
    kept = tuple(axis for axis in leaf.axes if axis is not None)
    return kept == tuple(range(rank - len(kept), rank)) and leaf.axes[len(leaf.axes) - len(kept) :] == kept
