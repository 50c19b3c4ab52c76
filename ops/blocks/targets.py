"""Custom calls that convert arrays to blocks that share a scale, and back: what `interp.quantize` is in a JAX program.

As composites of the same names they have a decomposition, which other compilers run. The attributes `format`, `axes`,
`rule`, `rounding`, `overflow`, `seed` and `tensors` of `backend_config`, or of the composite, are the arguments of
`blockwise.quantize`. Elements of six bits, which JAX has no type for, are codes in ui8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..op import Call, OpError, Run
from ..policy import Policy
from ..programs.control import known_composite
from ..programs.custom_call import bound_target
from ..random_stream import first_draws
from ..types import ELEMENT_TYPES, TensorType
from . import blockwise
from .formats import BLOCK_FORMATS, BlockFormat
from .scales import RULES

QUANTIZE, DEQUANTIZE = "minihlo.quantize", "minihlo.dequantize"


@known_composite(QUANTIZE)
@bound_target(QUANTIZE)
def quantize(call: Call) -> Run:
    """The elements and the scales of an array, and the scale of the tensor where the format has one.

    A second operand is that scale, given.
    """
    config, fmt, axes, policy, tensors = configuration(call)
    rule = str(config.get("rule", fmt.rule))
    if rule not in RULES:
        raise OpError(f"expected a rule of {', '.join(RULES)}, got {rule!r}")
    source = call.tensor(0).element
    types = [call.result(i) for i in range(len(call.results))]
    if len(types) != 2 + (fmt.tensor_scale is not None):
        raise OpError(f"expected {2 + (fmt.tensor_scale is not None)} results of {fmt.name}, got {len(types)}")

    def kernel(x: np.ndarray, given: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        draws = first_draws(policy)
        found = blockwise.quantize(x, source, fmt, axes, rule, policy, given, draws, tensors)
        parts = (found.codes, found.scales, found.tensor_scale)[: len(types)]
        return tuple(_as(np.asarray(p), t) for p, t in zip(parts, types, strict=True))

    return kernel


@known_composite(DEQUANTIZE)
@bound_target(DEQUANTIZE)
def dequantize(call: Call) -> Run:
    """The numbers of elements and scales; a third operand is the scale of the tensor."""
    _, fmt, axes, policy, tensors = configuration(call)
    target = call.result().element

    def kernel(codes: np.ndarray, scales: np.ndarray, of_tensor: np.ndarray | None = None) -> np.ndarray:
        codes, scales = codes.view(fmt.element_dtype), scales.view(fmt.scale_format.dtype)
        return blockwise.dequantize(codes, scales, fmt, axes, target, policy, of_tensor, first_draws(policy), tensors)

    return kernel


def configuration(call: Call) -> tuple[Mapping[str, Any], BlockFormat, tuple[int, ...], Policy, int]:
    """The attributes, the format, the blocked axes, the policy of elements, and the number of leading dimensions of
    different tensors."""
    names = ("backend_config", "mhlo.backend_config", "composite_attributes")
    config = next((call.attributes[n] for n in names if call.attributes.get(n)), None)
    fmt = BLOCK_FORMATS.get(str(config.get("format"))) if isinstance(config, Mapping) else None
    if fmt is None or not isinstance(config, Mapping):
        raise OpError(f"expected a backend_config with a format of {', '.join(BLOCK_FORMATS)}, got {config!r:.100}")
    rank = len(call.tensor().shape)
    axes = tuple(int(a) for a in np.ravel(config.get("axes", [rank - 1])))
    if len(axes) > len(fmt.block) or not all(0 <= a < rank for a in axes):
        raise OpError(f"expected at most {len(fmt.block)} axes of a tensor of rank {rank}, got {list(axes)}")
    try:
        policy = Policy(
            rounding=str(config.get("rounding", "nearest_even")),
            overflow=str(config.get("overflow", "saturate")),
            seed=int(config.get("seed", 0)),
        )
    except ValueError as error:
        raise OpError(str(error)) from None
    return config, fmt, axes, policy, int(config.get("tensors", 0))


def _as(array: np.ndarray, t: TensorType) -> np.ndarray:
    if array.dtype != t.element.dtype:
        if t.element != ELEMENT_TYPES["ui8"] or array.dtype.itemsize != 1:
            raise OpError(f"expected a result of element type {array.dtype}, got {t}")
        array = array.view(np.uint8)
    if not t.admits(array.shape):
        raise OpError(f"expected a result of shape {list(array.shape)}, got {t}")
    return array
