"""map: a body applied to each element."""

from __future__ import annotations

import numpy as np

from ..op import Call, Run, op
from ..require import on_arrays, require, require_shape
from ..types import TensorType
from .folds import Step


@op("map", values="regions")
def map_(call: Call) -> Run:
    """The body applied to the operands' elements at each place.

    (C1) operands and result have one shape. (C2) at least one operand. (C3) dimensions lists all dimensions in order.
    (C4) the body takes a scalar of each operand's element type and gives one of the result's.
    """
    require(call.operands, "expected at least one operand, got none")
    tensors, result, body = [call.tensor(i) for i in range(len(call.operands))], call.result(), call.bodies[0]
    rank = len(result.shape)
    for t in tensors:
        require_shape(call, t.shape)
    dimensions = call.integers("dimensions")
    require(dimensions == tuple(range(rank)), f"expected dimensions {list(range(rank))}, got {list(dimensions)}")
    takes, gives = tuple(TensorType((), t.element) for t in tensors), (TensorType((), result.element),)
    expected = f"({', '.join(map(str, takes))}) -> ({gives[0]})"
    require((body.arguments, body.results) == (takes, gives), f"the body has type {body} (expected {expected})")

    def kernel(regions: tuple[Step, ...], *arrays: np.ndarray) -> np.ndarray:
        step = body.vectorised or on_arrays(regions[0], result.element.dtype)
        return np.broadcast_to(step(*arrays)[0], arrays[0].shape)

    return kernel
