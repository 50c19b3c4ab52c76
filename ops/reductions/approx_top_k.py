"""The first elements along a dimension by a comparator, which JAX's programs call by name, exactly."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from ..op import Call, Run, kernel_of
from ..programs.custom_call import bound_target
from ..require import require, unpack
from ..types import TensorType


@bound_target("ApproxTopK")
@bound_target("PartialReduce")
@bound_target("stablehlo.dynamic_approx_top_k")
def approx_top_k(call: Call) -> Run:
    """The first elements along a dimension by the comparator, exactly: operands, and an initial value of each.

    A last operand, a scalar besides these, says how many.
    """
    callee = call.callee()
    has_count = len(call.operands) == 2 * len(call.results) + 1
    require(has_count or len(call.operands) == 2 * len(call.results), "takes an initial value for each operand")
    count, dimension = len(call.results), reduction_dimension(call)
    types = tuple([call.tensor(i) for i in range(count)])
    for i, t in enumerate(types):
        require(t.shape == types[0].shape, f"operand {i} is a {t} (expected the shape of operand 0, {types[0]})")
    ordered = kernel_of(_sort(call, types, dimension, callee.body))
    size = call.result().shape[dimension]

    def kernel(*values: np.ndarray) -> Any:
        arrays, length = values[:count], values[0].shape[dimension]
        most = int(values[-1]) if has_count else length if size is None else size
        outputs = ordered((callee.run,), *arrays)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return unpack(tuple(np.take(x, range(most), dimension) for x in outputs))

    return kernel


def reduction_dimension(call: Call) -> int:
    """Return the dimension of the elements; raises OpError where the options do not have it."""
    config = call.configuration or {}
    config = _of_json(config) if isinstance(config, str) else config
    require("reduction_dim" in config, "attribute 'reduction_dim' is missing")
    return int(config["reduction_dim"])


@bound_target("TopK")
def top_k(call: Call) -> Run:
    """The first elements along the last dimension by the comparator, and their indices."""
    callee = call.callee()
    t, count = call.tensor(), call.shape()[-1]
    places = TensorType(t.shape, call.result(1).element)
    ordered = kernel_of(_sort(call, (t, places), len(t.shape) - 1, callee.body))

    def kernel(x: np.ndarray) -> Any:
        numbers = np.arange(x.shape[-1], dtype=places.element.dtype)
        outputs = ordered((callee.run,), x, np.broadcast_to(numbers, x.shape).copy())
        return tuple(o[..., :count] for o in outputs)

    return kernel


def _of_json(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except ValueError:
        config = None
    return config if isinstance(config, dict) else {}


def _sort(call: Call, types: tuple[TensorType, ...], dimension: int, body: Any) -> Call:
    attributes = {"dimension": dimension}
    return dataclasses.replace(call, name="sort", operands=types, results=types, attributes=attributes, bodies=(body,))
