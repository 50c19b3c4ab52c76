"""torchao: arrays in MX and NVFP4 blocks, quantized, dequantized and multiplied as its tensors do on a processor.

Its rules for scales are `floor`, `ceil`, `even` and `rceil`; NVFP4 has a rule without a name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from .base import OPERATIONS, BackendError, Kind, Operate
from .operation import Operation
from .torch import DEVICES

KIND = Kind(
    "torchao:cpu|cuda",
    DEVICES,
    modules=("torchao", "torch"),
    extra="torchao",
    packages=("torchao", "torch"),
    takes=OPERATIONS,
)

_ELEMENT = {
    "mxfp8_e4m3": "f8E4M3FN",
    "mxfp8_e5m2": "f8E5M2",
    "mxfp6_e2m3": "f6E2M3FN",
    "mxfp6_e3m2": "f6E3M2FN",
    "mxfp4_e2m1": "f4E2M1FN",
}
_RULES = ("floor", "ceil", "even", "rceil")
_OWN = "own"


def start(device: str) -> Operate:
    """Return the function that computes one operation by torchao. Raises RuntimeError if there is no such device."""
    torch: Any = importlib.import_module("torch")
    torch.ones((), device=device)  # raises at once if the device does not exist
    folder = "torchao.prototype.mx_formats"
    mx, nv, config, kernels, constants = (
        importlib.import_module(f"{folder}.{name}")
        for name in ("mx_tensor", "nvfp4_tensor", "config", "kernels", "constants")
    )
    preference: Any = importlib.import_module("torchao.quantization.quantize_.common").KernelPreference

    def tensor(codes: np.ndarray, name: str) -> Any:
        """Codes as a tensor of torch's type for them; types of less than 8 bits keep the codes."""
        flat = torch.from_numpy(np.array(codes, order="C"))
        t = ELEMENT_TYPES[name]
        return (flat.view(getattr(torch, t.dtype.name)) if t.bits >= 8 else flat).to(device)

    def codes(found: Any) -> np.ndarray:
        found = found.detach().cpu().contiguous()
        return found.view(getattr(torch, f"uint{8 * found.element_size()}")).numpy()

    elements = {
        "f8E4M3FN": torch.float8_e4m3fn,
        "f8E5M2": torch.float8_e5m2,
        "f6E2M3FN": constants.DTYPE_FP6_E2M3,
        "f6E3M2FN": constants.DTYPE_FP6_E3M2,
        "f4E2M1FN": torch.float4_e2m1fn_x2,
    }
    types = {"f32": torch.float32, "bf16": torch.bfloat16}

    def block_format(name: str) -> bool:
        """Whether the format is NVFP4. Raises BackendError for a format that torchao does not have."""
        if name not in (*_ELEMENT, "nvfp4"):
            raise BackendError("refused", f"torchao has no {name}")
        return name == "nvfp4"

    def pack(x: np.ndarray, name: str) -> Any:
        return kernels.pack_uint4(tensor(x, name)) if ELEMENT_TYPES[name].bits == 4 else tensor(x, name)

    def unpack(found: Any, name: str) -> np.ndarray:
        return codes(kernels.unpack_uint4(found) if ELEMENT_TYPES[name].bits == 4 else found)

    def quantize(operation: Operation, x: np.ndarray) -> np.ndarray:
        name, rule, gives = (operation.attributes[k] for k in ("format", "scale", "gives"))
        numbers = tensor(x, operation.operands[0])
        if block_format(name):
            if rule != _OWN:
                raise BackendError("refused", "torchao has no name for the rule of nvfp4")
            whole = nv.per_tensor_amax_to_scale(numbers.abs().max())
            scales, data = nv.nvfp4_quantize(numbers, 16, whole)
            parts = {"elements": lambda: unpack(data, "f4E2M1FN"), "scales": lambda: codes(scales)}
            return (parts | {"tensor_scale": lambda: codes(whole)})[gives]()
        if rule not in (*_RULES, _OWN):
            raise BackendError("refused", f"torchao has no rule {rule}")
        mode = config.ScaleCalculationMode.FLOOR if rule == _OWN else config.ScaleCalculationMode[rule.upper()]
        element = _ELEMENT[name]
        scales, data = mx.to_mx(numbers, elements[element], 32, mode)
        return unpack(data, element) if gives == "elements" else codes(scales)

    def blocks(name: str, x: np.ndarray, scales: np.ndarray, target: Any, whole: Any = None) -> Any:
        """The tensor of elements and scales."""
        if block_format(name):
            return nv.NVFP4Tensor(pack(x, "f4E2M1FN"), tensor(scales, "f8E4M3FN"), 16, target, whole)
        element = _ELEMENT[name]
        data, scales = pack(x, element), tensor(scales, "f8E8M0FNU")
        return mx.MXTensor(data, scales, elements[element], 32, target, preference.EMULATED, None, False)

    def dequantize(operation: Operation, x: np.ndarray, scales: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        whole = [tensor(r, "f32").reshape(()) for r in rest]
        target = types[operation.result]
        _require_full(x.shape[1], operation.attributes["block"][-1])
        return codes(blocks(operation.attributes["format"], x, scales, target, *whole).dequantize(target))

    def scaled_dot(operation: Operation, x: np.ndarray, y: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        left, right = operation.attributes["formats"]
        if operation.result not in types:
            raise BackendError("refused", f"torchao has no {operation.result} for results")
        target = types[operation.result]
        _require_full(x.shape[1], max(operation.attributes["blocks"]))
        a, b = blocks(left, x, s, target), blocks(right, y.T, t.T, target)
        return codes(torch.mm(a, b.t()))

    known: tuple[Callable[..., np.ndarray], ...] = (quantize, dequantize, scaled_dot)

    def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        function = next((f for f in known if f.__name__ == operation.op), None)
        if function is None:
            raise BackendError("refused", "torchao has operations on blocks only")
        return function(operation, *arrays)

    return operate


def _require_full(k: int, size: int) -> None:
    if k % size:
        raise BackendError("refused", f"torchao has only full blocks of {size}, and there are {k} elements")
