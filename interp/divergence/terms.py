"""The terms that a sum is made of: of products and of reductions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.types import TensorType
from ..program import Operation
from .wide import sole, widened

#: More terms than this are not looked at one by one.
_MOST = 1 << 20


def terms_of(operation: Operation, operands: Sequence[np.ndarray], flat: np.ndarray) -> np.ndarray | None:
    """The exact terms in f64 of results, which are told by their flat indices: a row for each of them.

    None for an op whose terms are not looked at one by one, or where they are too many.
    """
    values = [widened(x, v.type) for x, v in zip(operands, operation.operands, strict=True)]
    name = operation.name.removeprefix("stablehlo.")
    if name in ("dot", "dot_general"):
        return _of_product(operation, values, flat)
    return _of_reduction(operation, values, flat) if name == "reduce" else None


def _of_product(operation: Operation, values: list[np.ndarray], flat: np.ndarray) -> np.ndarray | None:
    numbers = operation.attributes.get("dot_dimension_numbers")
    lhs, rhs = values
    if numbers is None:
        numbers = {"lhs_contracting_dimensions": (lhs.ndim - 1,), "rhs_contracting_dimensions": (0,)}
    rows = []
    for side, x in (("lhs", lhs), ("rhs", rhs)):
        batch = tuple(int(d) for d in numbers.get(f"{side}_batching_dimensions", ()))
        summed = tuple(int(d) for d in numbers.get(f"{side}_contracting_dimensions", ()))
        free = tuple(d for d in range(x.ndim) if d not in batch + summed)
        sizes = [int(np.prod([x.shape[d] for d in dims], dtype=np.int64)) for dims in (batch, free, summed)]
        rows.append(x.transpose(batch + free + summed).reshape(sizes))
    left, right = rows
    if len(flat) * left.shape[2] > _MOST:
        return None
    b, m, n = np.unravel_index(flat, (left.shape[0], left.shape[1], right.shape[1]))
    with np.errstate(all="ignore"):
        return left[b, m] * right[b, n]


def _of_reduction(operation: Operation, values: list[np.ndarray], flat: np.ndarray) -> np.ndarray | None:
    result = operation.results[0].type
    dimensions = tuple(int(d) for d in np.ravel(operation.attributes.get("dimensions", ())))
    if len(values) != 2 or not isinstance(result, TensorType):
        return None
    x, init = values
    kept = [d for d in range(x.ndim) if d not in dimensions]
    rows = x.transpose([*kept, *dimensions]).reshape(result.size, -1)[flat]
    if rows.size > _MOST:
        return None
    neutral = 1.0 if sole(operation.regions[0]) == "stablehlo.multiply" else 0.0
    if float(init) == neutral and rows.shape[1]:
        return rows
    return np.concatenate([np.full((len(rows), 1), float(init)), rows], axis=1)
