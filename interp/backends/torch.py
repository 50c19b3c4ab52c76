"""PyTorch: its float8 types, and the functions it has for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import OPERATIONS, BackendError, Kind, Operate

if TYPE_CHECKING:
    from ..conform.backend import Operation

KIND = Kind(
    "torch:cpu|cuda",
    rest=r"(cpu|cuda|mps|xpu)(:\d+)?",
    modules=("torch",),
    extra="torch",
    packages=("torch",),
    takes=OPERATIONS,
)

#: An element type to torch's name of it, where that is not the name of a numpy type.
_TYPES = {
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
    "bf16": "bfloat16",
    "i1": "bool",
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"{t}{n}": f"{u}int{n}" for n in (8, 16, 32, 64) for t, u in (("i", ""), ("ui", "u"))},
}
_SAME = ("abs", "add", "maximum", "minimum", "atan2", "sign", "sqrt", "rsqrt", "log", "tan", "tanh", "ceil", "floor")
#: StableHLO's name to torch's. Torch has no function that rounds halves away from zero, and its sort knows no total
#: order.
_NAMES = {
    **{name: name for name in _SAME},
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "power": "pow",
    "remainder": "fmod",
    "negate": "neg",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log_plus_one": "log1p",
    "logistic": "sigmoid",
    "sine": "sin",
    "cosine": "cos",
    "round_nearest_even": "round",
    "is_finite": "isfinite",
    "select": "where",
}
_SUMS = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin"}
_RUNNING = {"add": "cumsum", "multiply": "cumprod"}


def start(device: str) -> Operate:
    torch: Any = importlib.import_module("torch")
    torch.empty(0, device=device)  # so that a device that is not there is told at once

    def function(operation: Operation) -> Callable[..., Any]:
        op, body = operation.op, operation.attributes.get("body", "")
        if op == "convert":
            return lambda x: x.to(dtype(operation.result))
        if op == "compare" and operation.attributes.get("compare_type", "FLOAT") == "FLOAT":
            return getattr(torch, operation.attributes["comparison_direction"].lower())
        if op == "clamp":
            return lambda low, x, high: torch.clamp(x, low, high)
        if op == "reduce":
            return lambda x: getattr(torch, _SUMS[body])(x, -1)
        if op == "cumulative" and body in _RUNNING:
            return lambda x: getattr(torch, _RUNNING[body])(x, -1)
        if op == "dot_general":
            return torch.mm if operation.result == operation.operands[0] else scaled
        if op in _NAMES:
            return getattr(torch, _NAMES[op])
        raise BackendError("refused", "torch has no such function")

    def scaled(x: Any, y: Any) -> Any:
        """The product of float8 matrices in f32; it wants the second one by columns."""
        one = torch.ones((), device=device)
        return torch._scaled_mm(x, y.t().contiguous().t(), one, one, out_dtype=torch.float32)

    def dtype(name: str) -> Any:
        if name not in _TYPES:
            raise BackendError("refused", f"torch has no type for {name}")
        return getattr(torch, _TYPES[name])

    def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        given = [torch.from_numpy(np.ascontiguousarray(a).reshape(a.shape)) for a in arrays]
        tensors = [x.view(dtype(t)).to(device) for x, t in zip(given, operation.operands, strict=True)]
        result = function(operation)(*tensors)
        if result.dtype != dtype(operation.result):
            raise BackendError("refused", f"torch gives {result.dtype}")
        found = result.cpu().contiguous()
        size = found.element_size()
        return (found if operation.result == "i1" else found.view(dtype(f"ui{8 * size}"))).numpy()

    return operate
