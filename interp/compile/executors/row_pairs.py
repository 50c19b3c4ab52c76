"""Sums of lookups along rows in which one code stays the same, as in a softmax: two rows at a time.

The rule. A group is a table of two codes; one of them is the same along a row, the other one is not. The rows with the
same such code have a table of 256 entries of their own, and so one of all pairs, which is looked up for two rows at
once. Each step of a sum is made for all these rows together, in the order of the steps.

Measured with numpy alone on one thread, ms: sums of exp(x - largest) of 1000 rows of 1000, by single lookups 1.74, by
pairs 1.18.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....ops.engine.amortised import Amortised, Recent
from ....ops.engine.blocks import LINE, Pace, block, for_each
from ....ops.engine.speed import tuning
from ....ops.op import lookup
from ....ops.traits import OpTraits, Run
from ..group import Group, Reduction
from ..leaf import alone, width
from .job import Job

#: Rows that numpy sums side by side, each in the order of its steps, at least.
_FEWEST = 16


def varying_leaf(group: Group, reduction: Reduction) -> int | None:
    """The leaf that varies along the rows to be summed; None where sums are not formed so, or it does not pay."""
    leaves, shape, folded = group.leaves, group.shape, sorted(reduction.dimensions)
    kept = len(shape) - len(folded)
    record, varying = lookup(reduction.name), alone(leaves, shape)
    if record is None or varying is None or len(leaves) != 2 or folded != list(range(kept, len(shape))):
        return None
    at, (other,) = varying
    codes = all(width(leaf.type.element) == 8 for leaf in leaves) and not any(leaf.is_turned for leaf in leaves)
    is_sum = reduction.element.dtype == np.float32 and _adds(record.traits)
    rows, steps = math.prod(shape[:kept]), math.prod(shape[kept:])
    pays = rows >= 8 * tuning().row_pairs_rows and steps >= tuning().row_pairs_steps
    return at if codes and is_sum and pays and all(n == 1 for n in other[kept:]) else None


def _adds(traits: OpTraits) -> bool:
    """Whether steps are made by a ufunc on floats, and are no choice of one of them."""
    combining = traits.combining
    return combining is not None and combining.on_floats and combining.largest is None and combining.ufunc is not None


def by_row_pairs(job: Job, otherwise: Run | None) -> Run:
    """The kernel that looks up two rows at a time; `otherwise` as long as there is no table of the group."""
    group, tables = job.group, job.tables
    reduction: Reduction = job.operation.attributes["reduction"]
    at, combining = varying_leaf(group, reduction), job.folding.traits.combining
    assert at is not None
    assert combining is not None
    assert combining.ufunc is not None
    assert otherwise is not None
    fold, (view, other_view) = combining.ufunc, (group.leaves[i].view(group.shape) for i in (at, 1 - at))
    kept = len(group.shape) - len(reduction.dimensions)
    outer, steps, size = group.shape[:kept], math.prod(group.shape[kept:]), math.prod(group.shape)
    pace = Pace()
    some: Recent[int, Amortised[np.ndarray]] = Recent()

    def of_code(code: int) -> Amortised[np.ndarray]:
        def make() -> np.ndarray:
            entries = tables.built.made()[0].entries.reshape(256, 256)
            one = entries[:, code] if at == 0 else entries[code]
            pairs = np.empty((256, 256, 2), np.float32)
            pairs[..., 0], pairs[..., 1] = one, one[:, None]
            return pairs.view(np.uint64).reshape(-1)

        made = Amortised(make, lambda: tuning().pairs_from, nbytes=lambda pairs: pairs.nbytes)
        return some.get(code) or some.keep(code, made)

    def kernel(*values: np.ndarray) -> np.ndarray:
        made = tables.built.value or tables.built.get(size)
        if made is None:
            return otherwise(*values)
        entries, x, y = made[0].entries, values[at], values[1 - at]
        codes = (x if view is None else view(x)).view(np.uint8).reshape(-1, steps)
        same = (y if other_view is None else other_view(y)).view(np.uint8)
        same = np.broadcast_to(same.reshape(same.shape[:kept]), outer).reshape(-1)
        result = np.empty(len(same), np.float32)

        def work(part: tuple[np.ndarray, np.ndarray | None]) -> None:
            rows, pairs = part
            rows = np.resize(rows, max(len(rows) + len(rows) % 2, _FEWEST))  # some of them again
            lines, table = codes.take(rows, axis=0), entries if pairs is None else pairs
            if pairs is None:
                index = _joined(lines, same[rows, None]) if at == 0 else _joined(same[rows, None], lines)
            else:
                index = _joined(lines[1::2], lines[0::2])
            total: np.ndarray = np.broadcast_to(values[-1], len(rows))
            length = max(block(size) // len(rows), 1)
            for first in range(0, steps, length):
                here = index[:, first : first + length].T
                wide = np.empty(here.shape, np.intp)  # laid out and widened in one go
                wide[...] = here
                terms = table.take(wide, mode="wrap").view(np.float32)
                fold(total, terms[0], out=terms[0])
                total = fold.reduce(terms, axis=0)
            result[rows] = total

        parts = parts_of(same, steps, of_code)
        if not parts:
            return otherwise(*values)
        for_each(parts, work, size, pace)
        if np.isnan(result).any():
            return otherwise(*values)  # the sign of a sum of several NaN depends on where numpy has a row
        return result.reshape(outer)

    return kernel


def parts_of(same: np.ndarray, steps: int, of_code: Callable[[int], Amortised[np.ndarray]]) -> list[_Part]:
    """Rows that are summed side by side: those of one code with its table of pairs, and all others without one.

    Nothing where there are more of these.
    """
    counts = np.bincount(same, minlength=256)
    order = np.argsort(same, kind="stable")
    ends = np.cumsum(counts)
    most = np.argsort(-counts, kind="stable")[: tuning().shapes]
    parts, rest = [], np.ones(len(same), bool)
    for code in most[counts[most] >= tuning().row_pairs_rows].tolist():
        table = of_code(code)
        rows = order[ends[code] - counts[code] : ends[code]]
        pairs = table.value
        if pairs is None:
            pairs = table.get(len(rows) * steps)
        if pairs is not None:
            rest[rows] = False
            parts += [(part, pairs) for part in _split(rows)]
    if 2 * np.count_nonzero(rest) > len(rest):
        return []
    return parts + [(part, None) for part in _split(np.flatnonzero(rest))]


#: Rows, and the table of pairs for them.
_Part = tuple[np.ndarray, np.ndarray | None]


def _split(rows: np.ndarray) -> list[np.ndarray]:
    together = tuning().fold_columns
    return [rows[i : i + together] for i in range(0, len(rows), together)]


def _joined(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Indices of two bytes, with gaps between the rows: no two of a column need one place of the cache."""
    upper, lower = high.astype(np.uint16), low.astype(np.uint16)
    upper *= 256
    rows, columns = np.broadcast_shapes(upper.shape, lower.shape)
    index = np.empty((rows, columns + LINE // 2), np.uint16)[:, :columns]
    return np.bitwise_or(upper, lower, out=index)
