"""ONNX Runtime, on the processor: the same models as `onnx`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from . import onnx
from .base import OPERATIONS, BackendError, Kind, Operate
from .codes import code_dtype

if TYPE_CHECKING:
    from ..conform.backend import Operation

KIND = Kind(
    "onnxruntime[:saturate|quantize]",
    rest=onnx.OPTIONS,
    modules=("onnxruntime", "onnx"),
    extra="onnxruntime",
    packages=("onnxruntime", "onnx"),
    takes=OPERATIONS,
)


def start(options: str) -> Operate:
    runtime: Any = importlib.import_module("onnxruntime")
    runtime.set_default_logger_severity(4)
    newest = _newest(runtime)

    def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        x, y = onnx.tensor_type(operation.operands[0]), onnx.tensor_type(operation.result)
        t = ELEMENT_TYPES[operation.result]
        if 1 < t.bits < 8 or 1 < ELEMENT_TYPES[operation.operands[0]].bits < 8:
            raise BackendError("refused", "ONNX Runtime packs types of less than 8 bits")
        session = _session(runtime, onnx.model(operation, options, arrays[0].ndim, *newest))
        make = runtime.OrtValue.ortvalue_from_numpy_with_onnx_type
        result = np.empty(arrays[0].shape, code_dtype(t))
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", make(np.asarray(arrays[0], order="C"), x))
        binding.bind_ortvalue_output("y", make(result, y))
        session.run_with_iobinding(binding)
        return result

    return operate


def _newest(runtime: Any) -> tuple[int, int]:
    """The newest versions of the operators and of the format that this ONNX Runtime reads."""
    package: Any = importlib.import_module("onnx")
    identity = package.parser.parse_graph("g (float x) => (float y) { y = Identity(x) }")
    error: Exception | None = None
    for opset in range(package.defs.onnx_opset_version(), 18, -1):
        for ir_version in range(package.IR_VERSION, 9, -1):
            made = package.helper.make_model(
                identity, opset_imports=[package.helper.make_opsetid("", opset)], ir_version=ir_version
            )
            try:
                _session(runtime, made)
            except Exception as refusal:
                error = refusal
            else:
                return opset, ir_version
    raise RuntimeError(f"ONNX Runtime reads no model: {error}")


def _session(runtime: Any, made: Any) -> Any:
    return runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
