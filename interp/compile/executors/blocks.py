"""Groups over wider types: as many elements at a time as fit the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.engine.blocks import Pace, block, blocks, empty, for_each, repeated
from ....ops.traits import Run
from ..leaf import Leaf, Shape, cut, filled
from .job import Job


def by_blocks(job: Job, _: Run | None) -> Run:
    """The kernel that computes as many elements at a time as fit the cache."""
    leaves, shape, types = job.group.leaves, job.group.shape, job.group.results
    is_single, size = len(types) == 1, math.prod(shape)
    step = block(size, len(job.group.function.steps))
    if size <= step:
        compute = job.compute_few
        views = [leaf.view(shape) for leaf in leaves]

        if is_single and not any(views):

            def only(*values: np.ndarray) -> np.ndarray:
                (result,) = compute(*values)
                return result if result.shape == shape else repeated(result, shape)

            return only

        def whole(*values: np.ndarray) -> Any:
            return filled(compute(*[v if lay is None else lay(v) for v, lay in zip(values, views, strict=True)]), shape)

        return whole
    compute, merged = job.compute, merged_dimensions(leaves, shape)
    spreads = [in_merged(leaf.spread(len(shape)), merged) for leaf in leaves]
    sizes = tuple(math.prod(shape[d] for d in dims) for dims in merged)
    views = [leaf.view(shape) for leaf in leaves]
    parts = [(part, cut(part, spreads)) for part in blocks(sizes, step)]
    pace, dtypes = Pace(), [t.element.dtype for t in types]

    def kernel(*values: np.ndarray) -> Any:
        laid = [
            (v if lay is None else lay(v)).reshape(spread)
            for v, lay, spread in zip(values, views, spreads, strict=True)
        ]
        results = [empty(sizes, dtype) for dtype in dtypes]

        def work(part: tuple[tuple[slice, ...], list[tuple[slice, ...]]]) -> None:
            here, there = part
            wanted = [whole[here] for whole in results]
            pieces = compute(*[v[p] for v, p in zip(laid, there, strict=True)], *wanted)
            for whole, piece in zip(wanted, pieces, strict=True):
                if piece is not whole:
                    whole[...] = piece

        for_each(parts, work, size, pace)
        results = [r.reshape(shape) for r in results]
        return results[0] if is_single else tuple(results)

    return kernel


def merged_dimensions(leaves: Sequence[Leaf], shape: Shape) -> list[list[int]]:
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


def in_merged(spread: list[int], merged: list[list[int]]) -> list[int]:
    """The sizes of merged dimensions."""
    return [math.prod(spread[d] for d in dims) for dims in merged]
