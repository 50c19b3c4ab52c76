"""Scatter updates: the updates of each row are combined in their order, rows that have one each all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.compiled import kernels
from ..engine.speed import tuning
from ..op import Body, Call
from ..ordering import is_nan
from ..types import ElementType, Kind
from .folds import fold_of
from .host_folds import combining_of
from .scatter_extremes import scatter_extremes
from .scatter_repeats import scatter_repeats

Arrays = tuple[np.ndarray, ...]
Step = Callable[..., Arrays]

#: Updates rows in place. Takes the region; for each operand a contiguous array of rows (or of elements); the row of
#: each update, int64, all in bounds; and for each operand the updates, as many rows (or elements) as there are numbers.
ScatterUpdate = Callable[[Step, Arrays, np.ndarray, Arrays], None]


def scatter_update(call: Call, body: Body) -> ScatterUpdate:
    """A function that applies updates by a body, as if one after the other in their order."""
    elements = [t.element for t in body.results]  # type: ignore[union-attr]
    if body.passed_on == tuple(range(len(elements), 2 * len(elements))):  # the updates as they are
        return overwrite
    step = body.vectorised
    ufunc, extreme = _in_place(call, body, elements), scatter_extremes(body, elements)
    fold = fold_of(call, body)
    repeated = scatter_repeats(call, body, elements, fold)

    def apply(region: Step, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
        if not updates[0].size:
            return
        if ufunc is np.add and _add_halves(elements[0], rows[0], targets, updates[0]):
            return
        if extreme is not None and extreme.compiled(rows[0], targets, updates[0]):
            return
        if ufunc is not None and rows[0].ndim == 1:
            ufunc.at(rows[0], targets, updates[0])
            return
        if ufunc is not None and _row_by_row(ufunc, rows[0], targets, updates[0]):
            return
        if extreme is not None and rows[0].ndim == 1:
            chosen = extreme(rows[0], targets, updates[0])
            if not chosen.any():
                return
            targets, updates = targets[chosen], (updates[0][chosen],)
        if step is not None and _is_unique(targets, len(rows[0])):
            _update_once(step, rows, targets, updates)
            return
        if repeated is not None:
            repeated(region, rows, targets, updates)
            return
        updates = tuple([np.ascontiguousarray(u) for u in updates])  # else each `take` would copy them all
        groups, counts, places = _grouped(targets, len(rows[0]))
        done, active, falling = 0, len(groups), -counts
        states = [r.take(groups, axis=0) for r in rows]
        # The next update of every row that has one.
        while step is not None and active and int(counts[0]) - done <= tuning().scatter_steps * active:
            chosen = places(slice(active), done)
            results = step(*(s[:active] for s in states), *(u.take(chosen, axis=0) for u in updates))
            if len(states) > 1:  # they may be views of each other
                results = tuple(map(np.array, results))
            for state, result in zip(states, results, strict=True):
                state[:active] = result
            done += 1
            active = int(np.searchsorted(falling, -done))
        for r, state in zip(rows, states, strict=True):
            r[groups] = state
        for i, (row, count) in enumerate(zip(groups[:active].tolist(), counts[:active].tolist(), strict=True)):
            chosen = places(i, np.arange(done, count))
            starts = [r[row : row + 1].reshape(-1) for r in rows]
            results = fold(region, starts, [u.take(chosen, axis=0).reshape(len(chosen), -1) for u in updates])
            for r, result in zip(rows, results, strict=True):
                r[row : row + 1] = result

    return apply


def _add_halves(element: ElementType, rows: np.ndarray, targets: np.ndarray, updates: np.ndarray) -> bool:
    """Add f16 or bf16 in place by compiled code; False where there is none, or a sum is NaN: its bits are numpy's."""
    if element.name not in ("f16", "bf16") or (compiled := kernels(updates.size)) is None or compiled.scatters is None:
        return False
    before, count = rows.copy(), len(rows)
    with np.errstate(invalid="ignore"):
        codes = [
            np.ascontiguousarray(x).view(np.uint16).reshape(n, -1) for x, n in ((rows, count), (updates, len(updates)))
        ]
        compiled.scatters[0](codes[0], np.ascontiguousarray(targets), codes[1], element.name == "f16")
    if is_nan(rows, element).any():
        rows[...] = before
        return False
    return True


def _row_by_row(ufunc: np.ufunc, rows: np.ndarray, targets: np.ndarray, updates: np.ndarray) -> bool:
    """Apply updates in place, one row after the other, by compiled code or where they are few; False where neither."""
    if ufunc is np.add and rows.dtype == np.float32 and (compiled := kernels(updates.size)) is not None:
        compiled.add_at(rows, np.ascontiguousarray(targets), np.ascontiguousarray(updates))
        return True
    if len(targets) > tuning().scatter_few or rows.shape[1] < tuning().scatter_wide:
        return False
    for target, update in zip(targets.tolist(), updates, strict=True):
        row = rows[target]
        ufunc(row, update, out=row)
    return True


def _update_once(step: Step, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
    """Apply one update to each of some rows, which are all different."""
    results = step(*(r.take(targets, axis=0) for r in rows), *updates)
    for r, result in zip(rows, results, strict=True):
        r[targets] = result


def overwrite(_: Any, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
    """Put updates in the place of rows."""
    for r, u in zip(rows, updates, strict=True):
        r[targets] = u  # numpy, too, keeps the last one


def _in_place(call: Call, body: Body, elements: Sequence[ElementType]) -> np.ufunc | None:
    """The ufunc that gives the results of the body bit for bit, and whose `at` is fast; None where there is none."""
    combining = combining_of(body.sole_op)
    if len(elements) != 1 or combining is None:
        return None
    element, ufunc = elements[0], combining.ufunc
    if element.kind is Kind.BOOL:
        return combining.of_booleans or ufunc
    if element.is_integer:
        return ufunc if element.bits >= 8 else None
    if element.is_complex:
        return ufunc if ufunc is np.add or ufunc is np.subtract else None
    is_host = not element.is_minifloat and (element.bits >= 32 or call.policy.rounding == "nearest_even")
    return ufunc if is_host and combining.on_floats else None


def _is_unique(targets: np.ndarray, size: int) -> bool:
    if len(targets) == 1:
        return True
    if size > 16 * len(targets) + 4096:
        ordered = np.sort(targets)
        return not (ordered[1:] == ordered[:-1]).any()
    last = np.empty(size, np.int64)
    numbers = np.arange(len(targets))
    last[targets] = numbers
    return np.array_equal(last[targets], numbers)


#: The targets, those with the most updates first; how many each has; and a function that gives the indices of updates,
#: by places among these targets and by how many updates of a target come before.
_Groups = tuple[np.ndarray, np.ndarray, Callable[[Any, Any], np.ndarray]]


def _grouped(targets: np.ndarray, size: int) -> _Groups:
    """Group updates by target."""
    bits = max(len(targets) - 1, 1).bit_length()
    if targets.max() < 1 << 16:  # numpy sorts small integers by their digits: 10**6 in 14 ms, those with places in 55
        order = np.argsort(targets.astype(np.uint16), kind="stable")
        ordered = targets[order]
    elif size.bit_length() + bits < 63:  # sorting numbers is quicker than a stable sort that gives the order
        keys = np.sort((targets << bits) | np.arange(len(targets)))
        order, ordered = keys & ((1 << bits) - 1), keys >> bits
    else:
        order = np.argsort(targets, kind="stable")
        ordered = targets[order]
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(firsts, append=len(ordered))
    most = counts.max()
    small = np.uint16 if most < 1 << 16 else np.int64
    by_count = np.argsort((most - counts).astype(small), kind="stable")
    firsts = firsts[by_count]
    return ordered[firsts], counts[by_count], lambda group, before: order[firsts[group] + before]
