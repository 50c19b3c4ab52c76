"""ONNX by its reference evaluator: conversions, which are all that ONNX allows on its float8, float6 and float4 types.

A conversion is a Cast with `saturate` off, as StableHLO means it: what is too large becomes infinity or NaN.
`onnx:saturate` switches it on; `onnx:quantize` (and `onnx:saturate+quantize`) converts from f32, f16 and bf16 by
QuantizeLinear and to f32 by DequantizeLinear, with a scale of 1.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from .base import OPERATIONS, BackendError, Kind, Operate
from .codes import codes, typed

if TYPE_CHECKING:
    from ..conform.backend import Operation

OPTIONS = "(saturate|quantize|saturate[+]quantize)?"

KIND = Kind(
    "onnx[:saturate|quantize]",
    rest=OPTIONS,
    modules=("onnx",),
    extra="onnx",
    packages=("onnx", "ml_dtypes"),
    takes=OPERATIONS,
)


def start(options: str) -> Operate:
    onnx: Any = importlib.import_module("onnx")
    reference: Any = importlib.import_module("onnx.reference")
    latest = onnx.defs.onnx_opset_version(), onnx.IR_VERSION

    def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        source = operation.operands[0]
        evaluator = reference.ReferenceEvaluator(model(operation, options, arrays[0].ndim, *latest))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            (result,) = evaluator.run(None, {"x": typed(arrays[0], source)})
        return codes(result, operation.result)

    return operate


def model(operation: Operation, options: str, rank: int, opset: int, ir_version: int) -> Any:
    """The operation as a model of one node, from `x` to `y`. Raises BackendError where ONNX has no such thing."""
    if operation.op != "convert":
        raise BackendError("refused", "ONNX converts these types, and computes nothing on them")
    onnx: Any = importlib.import_module("onnx")
    (source,), target = operation.operands, operation.result
    x, y = (tensor_type(t) for t in (source, target))
    nodes: list[Any] = []
    make: Callable[..., Any] = onnx.helper.make_node
    saturate = int("saturate" in options)
    minifloat = {t: ELEMENT_TYPES[t].is_minifloat for t in (source, target)}
    if "quantize" not in options or minifloat[source] == minifloat[target]:
        more: dict[str, Any] = {"saturate": saturate} if target.startswith("f8") else {}
        more |= {"round_mode": "nearest"} if target == "f8E8M0FNU" else {}
        nodes = [make("Cast", ["x"], ["y"], to=y, **more)]
    else:
        scale = onnx.helper.make_tensor("one", tensor_type(target if minifloat[source] else source), [], [1])
        nodes = [make("Constant", [], ["scale"], value=scale)]
        if minifloat[source]:
            nodes.append(make("DequantizeLinear", ["x", "scale"], ["y"]))
        else:
            nodes.append(make("QuantizeLinear", ["x", "scale"], ["y"], output_dtype=y, saturate=saturate))
    value, shape = onnx.helper.make_tensor_value_info, [None] * rank
    graph = onnx.helper.make_graph(nodes, "convert", [value("x", x, shape)], [value("y", y, shape)])
    made = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=ir_version, producer_name="minihlo"
    )
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise BackendError("refused", str(error)) from None
    return made


def tensor_type(name: str) -> int:
    """ONNX's number of an element type. Raises BackendError where it has none."""
    onnx: Any = importlib.import_module("onnx")
    try:
        return onnx.helper.np_dtype_to_tensor_dtype(ELEMENT_TYPES[name].dtype)
    except (KeyError, ValueError):
        raise BackendError("refused", f"ONNX has no type for {name}") from None
