"""PyTorch: its float8 types, and the functions it has for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from .base import OPERATIONS, BackendError, Kind, Operate
from .functions import NUMPY, function
from .operation import Operation, result_shape

#: Devices that may follow the colon.
DEVICES = r"(cpu|cuda|mps|xpu)(:\d+)?"
KIND = Kind("torch:cpu|cuda", DEVICES, modules=("torch",), extra="torch", packages=("torch",), takes=OPERATIONS)

#: On GPUs, sizes of products of float8 matrices are multiples of this.
_MULTIPLE = 16
#: PyTorch has no function that rounds halves away from zero, and its sort has no total order.
_NAMES = {
    **{name: numpys for name, numpys in NUMPY.items() if "." not in numpys and name != "cbrt"},
    "power": "pow",
    "round_nearest_even": "round",
    "compare_EQ": "eq",
    "logistic": "sigmoid",
    "rsqrt": "rsqrt",
    "reduce_add": "sum",
    "reduce_multiply": "prod",
    "reduce_maximum": "amax",
    "reduce_minimum": "amin",
    "cumulative_add": "cumsum",
    "cumulative_multiply": "cumprod",
}


def start(device: str) -> Operate:
    """Return the function that computes one operation by PyTorch. Raises RuntimeError if it has no such device."""
    torch: Any = importlib.import_module("torch")
    one = torch.ones((), device=device)  # raises at once if the device does not exist

    def function_for(operation: Operation) -> Callable[..., Any]:
        to = dtype(operation.result)
        if _is_scaled(operation):
            # x by rows and y by columns
            return lambda x, y: torch._scaled_mm(x.contiguous(), y.t().contiguous().t(), one, one, out_dtype=to)
        own = {"convert": lambda x: x.to(to), "clamp": lambda low, x, high: x.clamp(low, high), "dot_general": torch.mm}
        return own.get(operation.op) or function(torch, _NAMES, operation)

    def dtype(element: str) -> Any:
        t = ELEMENT_TYPES[element]
        named = t.dtype.name
        if t.bits in (2, 4, 6) or not t.has_dtype or not hasattr(torch, named):
            raise BackendError("refused", f"torch has no type for {element}")
        return getattr(torch, named)

    def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        shape = result_shape(operation, [a.shape for a in arrays])
        if _is_scaled(operation) and device != "cpu":
            arrays = [np.pad(a, [(0, -n % _MULTIPLE) for n in a.shape]) for a in arrays]  # to sizes that GPUs multiply
        # Torch has no negative strides.
        kept = (a if all(s >= 0 for s in a.strides) and a.flags.writeable else np.array(a, order="C") for a in arrays)
        codes = [torch.from_numpy(a) for a in kept]
        tensors = [x.view(dtype(t)).to(device) for x, t in zip(codes, operation.operands, strict=True)]
        result = function_for(operation)(*tensors)
        if operation.op == "dot_general":
            result = result[: shape[0], : shape[1]]
        result = result.cpu().contiguous()
        if result.dtype != dtype(operation.result):
            raise BackendError("refused", f"torch gives {result.dtype}")
        return (result if operation.result == "i1" else result.view(dtype(f"ui{8 * result.element_size()}"))).numpy()

    return operate


def _is_scaled(operation: Operation) -> bool:
    """Return whether an operation is a product that PyTorch only has with scales for float8."""
    return operation.op == "dot_general" and operation.result != operation.operands[0]
