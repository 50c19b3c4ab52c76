"""top_k: the largest elements of each row, and their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import Call, Run, op
from ..ordering import stable_argsort, total_keys
from ..require import require
from ..traits import PURE
from ..types import TensorType


@op("chlo.top_k", "bool integer float", values="numbers", operands=1, traits=PURE)
def top_k(call: Call) -> Run:
    """The k largest elements along the last dimension, and their indices. Equal elements keep their order.

    The smallest where an attribute `largest`, which custom calls have for this op, is false.
    Floats are in total order, as XLA sorts them: NaN, infinity, …, +0, -0, …, -infinity, -NaN.
    """
    operand, count = call.tensor(), int(call.attribute("k"))
    values, indices = call.result(0), call.result(1)
    length = operand.shape[-1] if operand.shape else 0
    fits = operand.shape and count >= 0 and (length is None or count <= length)
    require(fits, f"k is {count} (expected at most the size of the last dimension of {operand})")
    shape = (*operand.shape[:-1], count)
    for name, t, element in (("values", values, operand.element), ("indices", indices, indices.element)):
        expected = TensorType(shape, element)
        require(t.element == element and t.agrees(expected), f"{name} is {t} (expected {expected})")
    is_wide = indices.element.is_integer and indices.element.bits >= 32
    require(is_wide, f"indices is {indices} (expected of element type i32)")
    index_dtype, is_largest = indices.element.dtype, call.attributes.get("largest", True)

    def kernel(x: np.ndarray) -> Any:
        rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1]) if x.size else x.reshape(-1, max(x.shape[-1], 1))
        keys = total_keys(rows, operand.element)
        order = stable_argsort(~keys if is_largest else keys)[:, :count]
        shape = (*x.shape[:-1], count)
        taken = np.take_along_axis(rows, order, 1).reshape(shape)
        return taken, order.astype(index_dtype).reshape(shape)

    return kernel
