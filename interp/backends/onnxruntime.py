"""ONNX Runtime, on the processor: the same models as `onnx`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from .base import OPERATIONS, BackendError, Kind, Operate
from .codes import code_dtype
from .onnx_models import OPTIONS, model, newest, tensor_type

if TYPE_CHECKING:
    from ..conform.backend import Operation

KIND = Kind(
    "onnxruntime[:saturate|quantize]",
    rest=OPTIONS,
    modules=("onnxruntime", "onnx"),
    extra="onnxruntime",
    packages=("onnxruntime", "onnx"),
    takes=OPERATIONS,
)


def start(options: str) -> Operate:
    runtime: Any = importlib.import_module("onnxruntime")
    runtime.set_default_logger_severity(4)

    def session(made: bytes) -> Any:
        return runtime.InferenceSession(made, providers=["CPUExecutionProvider"])

    versions = newest(session)

    def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        x, y = tensor_type(operation.operands[0]), tensor_type(operation.result)
        t = ELEMENT_TYPES[operation.result]
        if 1 < t.bits < 8 or 1 < ELEMENT_TYPES[operation.operands[0]].bits < 8:
            raise BackendError("refused", "ONNX Runtime packs types of less than 8 bits")
        running = session(model(operation, options, arrays[0].ndim, *versions).SerializeToString())
        make = runtime.OrtValue.ortvalue_from_numpy_with_onnx_type
        result = np.empty(arrays[0].shape, code_dtype(t))
        binding = running.io_binding()
        binding.bind_ortvalue_input("x", make(np.asarray(arrays[0], order="C"), x))
        binding.bind_ortvalue_output("y", make(result, y))
        running.run_with_iobinding(binding)
        return result

    return operate
