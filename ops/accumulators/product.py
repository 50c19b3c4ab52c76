"""Products of matrices, each of their sums as an accumulator forms it."""

from __future__ import annotations

import numpy as np

from ..blas import parts
from .operands import Operand, operand, scale, with_unit_scales
from .record import EXACT, Accumulator
from .sums import accumulate, finish

#: Sums that are formed at a time, so that they stay in the cache.
#: tuning: 256**3 products of f8E4M3FN, as the H100 sums them, take 44 ms so, and 53 with half as many.
_SUMS = 1 << 15


def product(
    record: Accumulator,
    x: np.ndarray,
    y: np.ndarray,
    x_type: str,
    y_type: str,
    c: np.ndarray | None = None,
    *,
    x_scales: np.ndarray | None = None,
    y_scales: np.ndarray | None = None,
    scale_type: str = "f8E8M0FNU",
    block: int = 32,
    to_odd: bool = False,
) -> np.ndarray:
    """The products of (batch, M, K) and (batch, K, N) plus c of (batch, M, N), in the dtype of `record.storage`.

    Scales are of (batch, M, ceil(K / block)) and (batch, ceil(K / block), N). The types are those of `sums.dots`. With
    keep=exact the result is f64: rounded to nearest, or, `to_odd`, to odd.

    Raises:
        ValueError: A type is not one of operands.
    """
    (batch, rows, length), columns = x.shape, y.shape[-1]
    result = np.empty((batch, rows, columns), record.storage.dtype)

    def side(codes: np.ndarray, scales: np.ndarray | None, name: str) -> Operand:
        """An operand of shape (K, batch, M, 1) or (K, batch, 1, N)."""
        found = operand(np.ascontiguousarray(codes), name, record)
        if scales is not None:
            return scale(found, scales, scale_type, block, record)
        return found if record.inner == 1 else with_unit_scales(found)

    # All terms of a step whose sum is exact are held at once.
    each = columns * ((record.step or length) if record.bits is None else 1)
    right, at = None, None
    for part in parts(batch, rows, each, _SUMS):
        if right is None or at != part[0]:
            at = part[0]
            scales = None if y_scales is None else y_scales[at].transpose(1, 0, 2)[:, :, None]
            right = side(y[at].transpose(1, 0, 2)[:, :, None], scales, y_type)
        scales = None if x_scales is None else x_scales[part].transpose(2, 0, 1)[..., None]
        left = side(x[part].transpose(2, 0, 1)[..., None], scales, x_type)
        start = None if c is None else c[part]
        result[part] = finish(record, accumulate(record, left, right, start, result[part].shape, to_odd=to_odd))
    return result


def is_exact(record: Accumulator) -> bool:
    """Whether the record is that of exact sums, which `ops/products/exact.py` forms more quickly."""
    return record.keep == EXACT and not (record.flush or record.outer or record.product_limit is not None)
