"""ONNX Runtime, on the processor: the same models as `onnx`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from .base import OPERATIONS, Kind, Operate
from .codes import code_dtype
from .onnx_models import CONVERSIONS, OPTIONS, model, names, newest, tensor_type
from .operation import Operation

KIND = Kind(
    "onnxruntime[:saturate|quantize]",
    rest=OPTIONS,
    modules=("onnxruntime", "onnx"),
    extra="onnxruntime",
    packages=("onnxruntime", "onnx"),
    takes=OPERATIONS,
    conversions=CONVERSIONS,
)


def start(options: str) -> Operate:
    """Return the function that computes one operation by ONNX Runtime."""
    runtime: Any = importlib.import_module("onnxruntime")
    runtime.set_default_logger_severity(4)

    def session(made: bytes) -> Any:
        return runtime.InferenceSession(made, providers=["CPUExecutionProvider"])

    versions = newest(session)

    def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        y, t = tensor_type(operation.result), ELEMENT_TYPES[operation.result]
        running = session(model(operation, options, arrays[0].ndim, *versions).SerializeToString())
        make = runtime.OrtValue.ortvalue_from_numpy_with_onnx_type
        result = np.empty(arrays[0].shape, code_dtype(t))
        binding = running.io_binding()
        for name, given, element in zip(names(operation), arrays, operation.operands, strict=True):
            packed = _pack(np.asarray(given, order="C"), ELEMENT_TYPES[element].bits)
            binding.bind_ortvalue_input(name, make(packed, tensor_type(element)))
        binding.bind_ortvalue_output("y", make(result, y))
        running.run_with_iobinding(binding)
        return _unpack(result, t.bits)

    return operate


def _pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Pack codes of few bits as the runtime stores them: several in a byte, the first lowest."""
    if bits not in (2, 4):
        return codes
    fields = np.zeros((-(-codes.size * bits // 8), 8 // bits), np.uint8)
    fields.reshape(-1)[: codes.size] = codes.ravel()
    stored = np.zeros_like(codes)
    stored.reshape(-1)[: len(fields)] = np.bitwise_or.reduce(fields << _shifts(bits), axis=1)
    return stored


def _unpack(stored: np.ndarray, bits: int) -> np.ndarray:
    if bits not in (2, 4):
        return stored
    fields = (stored.reshape(-1, 1) >> _shifts(bits)) & np.uint8((1 << bits) - 1)
    return fields.reshape(-1)[: stored.size].reshape(stored.shape)


def _shifts(bits: int) -> np.ndarray:
    return np.arange(0, 8, bits, dtype=np.uint8)
