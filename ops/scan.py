"""scan: a body carried along a dimension, from slice to slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import BY_BODY, Body, Call, Kernel, OpError, op
from .types import TensorType, Type


@op("chlo.scan", values="regions", accuracy=BY_BODY)
def scan(call: Call) -> Kernel:
    """The body applied to each slice of the inputs along a dimension and to what it carries from one to the next.

    The operands are inputs and then first values of the carries; the body takes a slice of each input (without the
    dimension) and the carries, and gives a slice of each output and the next carries; the results are the outputs and
    the last carries. `is_reverse` begins with the last slice. Where there are no inputs, `scan_dim_size` tells how many
    slices there are. `is_associative` allows an order of evaluation that is not made use of.
    """
    if len(call.bodies) != 1:
        raise OpError(f"has {len(call.bodies)} regions (would be 1)")
    body = call.bodies[0]
    inputs, outputs = _counts(call, body)
    dimension, backwards = int(call.attribute("dimension")), bool(call.attributes.get("is_reverse", False))
    length = _check(call, body, inputs, outputs, dimension)
    if inputs == 0 and length is None:
        raise OpError("scan_dim_size is missing (there are no inputs to tell it)")
    element_shapes = [call.result(i) for i in range(outputs)]
    is_single = len(call.results) == 1

    def kernel(regions: tuple[Callable[..., tuple[Any, ...]], ...], *values: np.ndarray) -> Any:
        step, arrays, carries = regions[0], values[:inputs], values[inputs:]
        steps = arrays[0].shape[dimension] if arrays else length
        slices = [np.moveaxis(x, dimension, 0) for x in arrays]
        collected: list[np.ndarray] = []
        for t in element_shapes:
            shape = [n for d, n in enumerate(t.shape) if d != dimension]
            collected.append(np.empty((steps, *_sizes(shape, slices)), t.element.dtype))
        order = range(steps - 1, -1, -1) if backwards else range(steps)
        for i in order:
            found = step(*(x[i, ...] for x in slices), *carries)
            carries = found[outputs:]
            for place, value in zip(collected, found[:outputs], strict=True):
                place[i] = value
        results = (*(np.moveaxis(x, 0, dimension) for x in collected), *carries)
        return results[0] if is_single else results

    return kernel
