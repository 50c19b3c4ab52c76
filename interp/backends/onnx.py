"""ONNX by its reference evaluator, which has conversions and is_finite of float8 and float4 types only, and blocks.

A conversion is a Cast without `saturate`, as StableHLO requires: a number beyond the range becomes infinity or NaN.
`onnx:saturate` turns it on; `onnx:quantize` (and `onnx:saturate+quantize`) converts from f32, f16 and bf16 by
QuantizeLinear and to f32 by DequantizeLinear, with a scale of 1.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import OPERATIONS, Kind, Operate
from .codes import codes, to_typed
from .onnx_models import CONVERSIONS, OPTIONS, model, names
from .operation import Operation

KIND = Kind(
    "onnx[:saturate|quantize]",
    rest=OPTIONS,
    modules=("onnx",),
    extra="onnx",
    packages=("onnx", "ml_dtypes"),
    takes=OPERATIONS,
    conversions=CONVERSIONS,
)


def start(options: str) -> Operate:
    """Return the function that computes one operation by ONNX's reference evaluator."""
    onnx: Any = importlib.import_module("onnx")
    reference: Any = importlib.import_module("onnx.reference")
    latest = onnx.defs.onnx_opset_version(), onnx.IR_VERSION

    def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        evaluator = reference.ReferenceEvaluator(model(operation, options, arrays[0].ndim, *latest))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            inputs = zip(names(operation), arrays, operation.operands, strict=True)
            (result,) = evaluator.run(None, {name: to_typed(x, t) for name, x, t in inputs})
        return codes(result, operation.result)

    return operate
