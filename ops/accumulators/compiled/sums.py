"""Sums of products of matrices by the compiled kernel, for the records that it serves."""

from __future__ import annotations

import itertools

import numpy as np

from ...engine.compiled import compiled_module, kernels
from ..operands import Operand
from ..record import Accumulator
from ..steps import Chunk, Step
from .served import facts, forms, pairs, serves

#: With fewer columns than this, and more rows, the product of the transposed matrices is formed: its rows are longer.
_SHORT = 32


def run(record: Accumulator, a: Operand, b: Operand, chunk: Chunk, start: np.ndarray) -> np.ndarray | None:
    """The running sums after the steps of a chunk, which begin with `start`. None where the kernel does not serve them.

    The operands are those of a product of matrices, (k, batch or 1, rows, 1) and (k, batch or 1, 1, columns), and
    `start` is (batch, rows, columns).
    """
    x, y = a.values, b.values
    if x.ndim != 4 or x.shape[3] != 1 or y.shape[2] != 1 or start.shape[1:] != (x.shape[2], y.shape[3]):
        return None
    steps = [step for group in chunk for step in group]
    terms = max(map(len, steps), default=0)
    if not serves(record, terms) or kernels(len(x) * start.size) is None:
        return None
    if (kernel := compiled_module(f"{__package__}.kernel")) is None:
        return None
    sides = [(x[..., 0], a.exponents[..., 0]), (y[:, :, 0], b.exponents[:, :, 0])]
    is_turned = start.shape[2] < _SHORT and start.shape[2] < start.shape[1]
    if is_turned:  # the product of the transposed matrices
        sides, start = sides[::-1], start.swapaxes(1, 2)
    sums = np.array(start, np.float64, order="C")
    order, middles = _order(record, steps)
    bounds = np.cumsum([0, *map(len, steps)], dtype=np.int64)
    sizes = [len(group) for group in chunk] if record.c == "after" else [1] * len(steps)
    limit = np.inf if record.product_limit is None else 2.0**record.product_limit
    found = facts(record, terms)
    kernel(
        *(np.ascontiguousarray(v) for side in sides for v in side), sums, order, bounds, bounds[:-1] + middles,
        np.cumsum([0, *sizes], dtype=np.int64), pairs(found.width), found, *forms(record), limit,
    )  # fmt: skip
    return sums.swapaxes(1, 2) if is_turned else sums


def _order(record: Accumulator, steps: list[Step]) -> tuple[np.ndarray, np.ndarray]:
    """The positions k of all steps in sequence, and the number of even ones in each step, which come first."""
    parts = [part for s in steps for part in (s[0::2], s[1::2])] if record.even_odd else steps
    counts = [len(s[0::2]) if record.even_odd else len(s) for s in steps]
    order = np.fromiter(itertools.chain.from_iterable(parts), np.int64)
    return order, np.array(counts, np.int64)
