"""top_k: the largest elements of each row, and their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import Call, OpError, Run, op
from ..ordering import stable_argsort, total_keys
from ..traits import PURE
from ..types import ElementType, TensorType


@op("chlo.top_k", "bool integer float", values="numbers", operands=1, traits=PURE)
def top_k(call: Call) -> Run:
    """The k largest elements along the last dimension, and their indices. Equal elements keep their order.

    The smallest where an attribute `largest`, which custom calls have for this op, is false.
    Floats are in total order, as XLA sorts them: NaN, infinity, …, +0, -0, …, -infinity, -NaN.
    """
    operand, count = call.tensor(), int(call.attribute("k"))
    values, indices = call.result(0), call.result(1)
    length = operand.shape[-1] if operand.shape else 0
    if not operand.shape or count < 0 or (length is not None and count > length):
        raise OpError(f"k is {count} (expected at most the size of the last dimension of {operand})")
    shape = (*operand.shape[:-1], count)
    for name, t, element in (("values", values, operand.element), ("indices", indices, indices.element)):
        if t.element != element or not _fits(t, shape):
            raise OpError(f"{name} is {t} (expected {TensorType(shape, element)})")
    if not indices.element.is_integer or indices.element.bits < 32:
        raise OpError(f"indices is {indices} (expected of element type i32)")
    index_dtype, is_largest = indices.element.dtype, call.attributes.get("largest", True)

    def kernel(x: np.ndarray) -> Any:
        rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1]) if x.size else x.reshape(-1, max(x.shape[-1], 1))
        choose = largest if is_largest else _smallest
        order = choose(rows, operand.element, count)
        shape = (*x.shape[:-1], count)
        taken = np.take_along_axis(rows, order, 1).reshape(shape)
        return taken, order.astype(index_dtype).reshape(shape)

    return kernel


def _fits(t: TensorType, shape: tuple[int | None, ...]) -> bool:
    return len(t.shape) == len(shape) and all(a == b or None in (a, b) for a, b in zip(t.shape, shape, strict=True))


def largest(rows: np.ndarray, element: ElementType, count: int) -> np.ndarray:
    """The positions of the `count` largest elements of each row, in order."""
    return stable_argsort(~total_keys(rows, element))[:, :count]  # the smallest key is the largest element


def _smallest(rows: np.ndarray, element: ElementType, count: int) -> np.ndarray:
    return stable_argsort(total_keys(rows, element))[:, :count]
