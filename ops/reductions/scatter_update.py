"""Scatter updates: the updates of each row are combined in their order, rows that have one each all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..op import Body, Call
from ..ordering import stable_argsort
from ..types import TensorType
from .folds import Step, fold_of, ufunc_of

Arrays = tuple[np.ndarray, ...]

#: Updates rows in place. Takes the region; for each operand a contiguous array of rows (or of elements); the row of
#: each update, int64, all in bounds; and for each operand the updates, as many rows (or elements) as there are numbers.
ScatterUpdate = Callable[[Step, Arrays, np.ndarray, Arrays], None]


def scatter_update(call: Call, body: Body) -> ScatterUpdate:
    """A function that applies updates by a body, as if one after the other in their order."""
    elements = [t.element for t in body.results if isinstance(t, TensorType)]
    if body.passed_on == tuple(range(len(elements), 2 * len(elements))):  # the updates as they are
        return overwrite
    step, fold, ufunc = body.vectorised, fold_of(call, body), None
    if len(elements) == 1 and not (elements[0].is_integer and elements[0].bits < 8):
        ufunc = ufunc_of(call, body, elements[0])  # whose `at` gives the results bit for bit, but for complex products
        ufunc = None if elements[0].is_complex and ufunc is np.multiply else ufunc

    def apply(region: Step, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
        if not updates[0].size:
            return
        if ufunc is not None and rows[0].ndim == 1:
            ufunc.at(rows[0], targets, updates[0])
            return
        groups, counts, order, firsts = _group(targets, len(rows[0]))
        if step is not None and len(groups) == len(targets):
            results = step(*(r.take(targets, axis=0) for r in rows), *updates)
            for r, result in zip(rows, results, strict=True):
                r[targets] = result
            return
        updates = tuple([np.ascontiguousarray(u) for u in updates])  # else each `take` would copy them all
        done, active = 0, len(groups)
        states = [r.take(groups, axis=0) for r in rows]
        # The next update of every row that has one, while no more steps than such rows are left; then one row after the
        # other. So the cost does not grow faster than the number of updates, however these are distributed.
        while step is not None and active and int(counts[0]) - done <= active:
            chosen = order[firsts[:active] + done]
            results = step(*(s[:active] for s in states), *(u.take(chosen, axis=0) for u in updates))
            if len(states) > 1:  # they may be views of each other
                results = tuple(map(np.array, results))
            for state, result in zip(states, results, strict=True):
                state[:active] = result
            done += 1
            active = int(np.searchsorted(-counts, -done))
        for i in range(active):
            chosen = order[firsts[i] + done : firsts[i] + counts[i]]
            starts = [s[i : i + 1].reshape(-1) for s in states]
            results = fold(region, starts, [u.take(chosen, axis=0).reshape(len(chosen), -1) for u in updates])
            for state, result in zip(states, results, strict=True):
                state[i : i + 1] = result
        for r, state in zip(rows, states, strict=True):
            r[groups] = state

    return apply


def overwrite(_: Any, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
    """Put updates in the place of rows."""
    for r, u in zip(rows, updates, strict=True):
        r[targets] = u  # numpy, too, keeps the last one


def _group(targets: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The distinct targets, those with the most updates first.

    Returns:
        The targets; how many updates each has; the indices of the updates, target by target; and for each target where
        its indices begin there.
    """
    order = stable_argsort(targets.astype(np.int32) if size < 1 << 31 else targets)
    ordered = targets[order]
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(firsts, append=len(targets))
    most = counts.max()
    by_count = np.argsort((most - counts).astype(np.min_scalar_type(most)), kind="stable")
    firsts = firsts[by_count]
    return ordered[firsts], counts[by_count], order, firsts
