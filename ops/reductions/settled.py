"""Products that are zero or infinite early on: of the numbers that follow only signs matter, and what makes NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine.speed import tuning
from .fold import Fold, Step


def settling(fold: Fold) -> Fold:
    """A fold of products, step by step, that ends once all are zero or infinite; of long columns, if these are few.

    Products of numbers that are not near 1 are zero or infinite after some hundred steps.
    """

    def run(step: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        x, now = rows[0], tuning()
        if len(x) < now.settled_from or x.shape[1] > now.fold_single:
            return fold(step, starts, rows)
        (total,) = fold(step, starts, [x[: now.settled_after]])
        rest = x[now.settled_after :]
        products = [_product(t, column) for t, column in zip(total, rest.T, strict=True)]
        if any(p is None for p in products):
            return fold(step, [total], [rest])
        return (np.array(products, total.dtype),)

    return run


def _bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.itemsize}")


def _product(total: np.ndarray, column: np.ndarray) -> np.ndarray | None:
    """The product; None if that of the total is neither zero nor infinite, or becomes NaN."""
    if total != 0 and not np.isinf(total):
        return None
    sign = total.itemsize * 8 - 1
    magnitude = np.array((1 << sign) - 1, _bits(total).dtype)
    infinity = _bits(np.abs(total) if total else np.array(np.inf, total.dtype))
    is_negative = np.signbit(total)
    step = tuning().settled_block
    for first in range(0, len(column), step):
        bits = _bits(column[first : first + step])
        sizes = bits & magnitude
        if sizes.max() > infinity or (sizes.min() == 0 if total else sizes.max() == infinity):
            return None
        is_negative ^= bool(np.bitwise_xor.reduce(bits) >> sign)
    return -np.abs(total) if is_negative else np.abs(total)
