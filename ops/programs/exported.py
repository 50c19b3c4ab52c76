"""custom_call targets of the programs that JAX exports for symbolic sizes (`jax.export`)."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

import numpy as np

from ..op import Call, OpError, Run, kernel_of
from ..require import require
from ..types import TensorType
from .custom_call import bound_target


@bound_target("shape_assertion")
def shape_assertion(call: Call) -> Run:
    """Fails unless the first operand is true; `{0}`, `{1}` … in `error_message` are the operands after it."""
    message = str(call.attributes.get("error_message", "the sizes are not what the program was exported for"))
    require(call.operands and call.tensor().shape == (), f"expected a scalar as the first operand, got {call.tensor()}")

    def kernel(holds: Any, *sizes: Any) -> None:
        if not holds:
            texts = [str(n) for n in sizes]
            raise OpError(re.sub(r"\{(\d+)\}", lambda m: texts[int(m[1])] if int(m[1]) < len(texts) else m[0], message))

    return kernel


@bound_target("stablehlo.dynamic_reduce_window")
def dynamic_reduce_window(call: Call) -> Run:
    """reduce_window whose window sizes, strides, dilations and padding are values; the body is a function."""
    callee = call.callee()
    fits = len(call.operands) >= 7 and len(call.operands) % 2 == 1
    require(fits, f"expected 2N + 5 operands, got {len(call.operands)}")
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")
    count = len(call.operands) - len(names)
    for i in range(count, len(call.operands)):
        require(call.tensor(i).element.is_integer, f"operand {i} is {call.tensor(i)} (expected integers)")

    @functools.lru_cache
    def bound(shapes: tuple[tuple[int, ...], ...], *lists: tuple[int, ...]) -> Run:
        types = tuple(TensorType(shape, call.tensor(i).element) for i, shape in enumerate(shapes))
        use = {"operands": types, "attributes": dict(zip(names, lists, strict=True)), "bodies": (callee.body,)}
        return kernel_of(dataclasses.replace(call, name="reduce_window", **use))

    def kernel(*values: np.ndarray) -> Any:
        tensors, lists = values[:count], values[count:]
        key = tuple(x.shape for x in tensors), *(tuple(np.ravel(v).tolist()) for v in lists)
        return bound(*key)((callee.run,), *tensors)

    return kernel


@bound_target("stablehlo.dynamic_top_k")
def dynamic_top_k(call: Call) -> Run:
    """top_k of as many elements as the second operand says."""
    require(len(call.operands) == 2, f"expected 2 operands, got {len(call.operands)}")
    fits = call.tensor(1).element.is_integer and call.tensor(1).shape == ()
    require(fits, f"k is {call.tensor(1)} (expected an integer)")

    @functools.lru_cache
    def bound(shape: tuple[int, ...], k: int) -> Run:
        results = [TensorType((*shape[:-1], k), call.result(i).element) for i in range(2)]
        return kernel_of(call.like("chlo.top_k", [TensorType(shape, call.tensor().element)], results, k=k))

    return lambda x, k: bound(x.shape, int(k))(x)


@bound_target("stablehlo.dynamic_rng_bit_generator")
def dynamic_rng_bit_generator(call: Call) -> Run:
    """rng_bit_generator of a shape that is the second operand."""
    require(len(call.operands) == 2, f"expected 2 operands, got {len(call.operands)}")
    require(call.tensor(1).element.is_integer, f"the shape is {call.tensor(1)} (expected integers)")

    @functools.lru_cache
    def bound(*shape: int) -> Run:
        output = TensorType(shape, call.result(1).element)
        require(call.result(1).admits(shape), f"the shape is {list(shape)} (expected that of {call.result(1)})")
        call.reserve(output)
        types = {"operands": call.operands[:1], "results": (call.result(), output)}
        return kernel_of(dataclasses.replace(call, name="rng_bit_generator", **types))

    return lambda state, shape: bound(*np.ravel(shape).tolist())(state)
