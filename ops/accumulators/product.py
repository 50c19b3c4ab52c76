"""Products of matrices, each of their sums as an accumulator forms it."""

from __future__ import annotations

import numpy as np

from ..engine.blocks import for_each
from ..engine.speed import tuning
from .operands import Operand, operand, scaled, unscaled
from .record import EXACT, Accumulator
from .sums import accumulate, finish


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

    def side(part: np.ndarray, scales: np.ndarray | None, name: str) -> Operand:
        """An operand with K as its first axis."""
        found = operand(part, name, record)
        if scales is not None:
            return scaled(found, scales, scale_type, block, record)
        return found if record.inner == 1 else unscaled(found)

    def work(tile: tuple[slice, slice, slice]) -> None:
        b, i, j = tile
        left = side(
            np.ascontiguousarray(x[b, i].transpose(2, 0, 1))[..., None],
            None if x_scales is None else x_scales[b, i].transpose(2, 0, 1)[..., None],
            x_type,
        )
        right = side(
            np.ascontiguousarray(y[b, :, j].transpose(1, 0, 2))[:, :, None],
            None if y_scales is None else y_scales[b, :, j].transpose(1, 0, 2)[:, :, None],
            y_type,
        )
        start = None if c is None else c[tile]
        sums = accumulate(record, left, right, start, result[tile].shape, to_odd=to_odd)
        result[tile] = finish(record, sums)

    batch_step, row_step, column_step = _tile(batch, rows, columns, length, record)
    tiles = [
        (slice(b, b + batch_step), slice(i, i + row_step), slice(j, j + column_step))
        for b in range(0, batch, batch_step)
        for i in range(0, rows, row_step)
        for j in range(0, columns, column_step)
    ]
    for_each(tiles, work, batch * rows * columns * max(length, 1) // tuning().product_terms)
    return result


def _tile(batch: int, rows: int, columns: int, length: int, record: Accumulator) -> tuple[int, int, int]:
    """How many matrices, rows and columns of a result are formed at a time."""
    most = tuning().accumulator_tile
    if record.bits is None and (record.step or length) > 1:  # all terms of a step are there at once
        most = max(most // (record.step or max(length, 1)), 1)
    # Operands take ten bytes an element.
    side = max(tuning().accumulator_operand_bytes // (10 * max(length, 1)), 1)
    column_step = max(min(columns, side, max(int(most**0.5), most // max(rows, 1))), 1)
    row_step = max(min(rows, side, most // column_step), 1)
    batch_step = max(min(batch, side // (row_step + column_step), most // (row_step * column_step)), 1)
    return batch_step, row_step, column_step


def is_exact(record: Accumulator) -> bool:
    """Whether the record is that of exact sums, which `exact_matmul` forms more quickly."""
    return record.keep == EXACT and not (record.flush or record.outer or record.product_limit is not None)
