"""Conversions as ONNX models of one node: what its reference evaluator and ONNX Runtime are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ops.types import ELEMENT_TYPES
from .base import BackendError

if TYPE_CHECKING:
    from ..conform.backend import Operation

#: A regular expression of what follows the colon of either backend's name.
OPTIONS = "(saturate|quantize|saturate[+]quantize)?"


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


def newest(accepts: Callable[[bytes], Any]) -> tuple[int, int]:
    """The newest versions of the operators and of the format with which a model is accepted; else raises."""
    onnx: Any = importlib.import_module("onnx")
    identity = onnx.parser.parse_graph("g (float x) => (float y) { y = Identity(x) }")
    error: Exception | None = None
    for opset in range(onnx.defs.onnx_opset_version(), 18, -1):
        for ir_version in range(onnx.IR_VERSION, 9, -1):
            opsets = [onnx.helper.make_opsetid("", opset)]
            made = onnx.helper.make_model(identity, opset_imports=opsets, ir_version=ir_version)
            try:
                accepts(made.SerializeToString())
            except Exception as refusal:
                error = refusal
            else:
                return opset, ir_version
    raise RuntimeError(f"no model is read: {error}")
