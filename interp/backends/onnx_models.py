"""ONNX models of conversions, of is_finite and of blocks that are dequantized: all that ONNX has for these types."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ...ops.types import ELEMENT_TYPES
from .base import BackendError, Conversion
from .codes import dtype_of
from .operation import Operation

#: A regular expression for the part after the colon, of both backends.
OPTIONS = "(saturate|quantize|saturate[+]quantize)?"
#: ONNX does not specify wider integers; they are truncated.
CONVERSIONS = (
    Conversion(("i4", "ui4"), "to nearest even", "ONNX: 4 bit integer types, Cast"),
    Conversion(("i2", "ui2"), "to nearest even", "ONNX: 2 bit integer types, Cast"),
)


def model(operation: Operation, options: str, rank: int, opset: int, ir_version: int) -> Any:
    """Return the operation as a model from `x`, and `scale` if there is one, to `y`.

    Raises BackendError if ONNX does not have it.
    """
    if operation.op not in ("convert", "is_finite", "dequantize"):
        raise BackendError("refused", "ONNX has only conversions of these types")
    onnx: Any = importlib.import_module("onnx")
    source, target = operation.operands[0], operation.result
    if operation.op == "dequantize":
        nodes = _dequantize_nodes(operation)
    else:
        nodes = _finite() if operation.op == "is_finite" else _convert_nodes(source, target, options)
    value, shape = onnx.helper.make_tensor_value_info, [None] * rank
    named = zip(names(operation), operation.operands, strict=True)
    takes, y = [value(name, tensor_type(t), shape) for name, t in named], tensor_type(target)
    graph = onnx.helper.make_graph(nodes, operation.op, takes, [value("y", y, shape)])
    made = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=ir_version, producer_name="minihlo"
    )
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise BackendError("refused", str(error)) from None
    return made


def names(operation: Operation) -> tuple[str, ...]:
    """The names of the inputs of a model."""
    return ("x", "scale")[: len(operation.operands)]


def _dequantize_nodes(operation: Operation) -> list[Any]:
    """Return the node that scales blocks. Raises BackendError for blocks that ONNX does not have."""
    onnx: Any = importlib.import_module("onnx")
    block = operation.attributes["block"]
    if len(operation.operands) != 2 or len(block) != 1 or operation.operands[0] == "i8":
        raise BackendError("refused", "ONNX has blocks of one dimension with one scale, and no fractions of integers")
    to = tensor_type(operation.result)
    make: Callable[..., Any] = onnx.helper.make_node
    return [make("DequantizeLinear", ["x", "scale"], ["y"], axis=1, block_size=block[0], output_dtype=to)]


def _finite() -> list[Any]:
    """Return the nodes that compute whether `x` is neither NaN nor infinite."""
    onnx: Any = importlib.import_module("onnx")
    steps = "IsNaN x nan", "IsInf x infinite", "Or nan infinite either", "Not either y"
    return [onnx.helper.make_node(op, takes, [gives]) for op, *takes, gives in map(str.split, steps)]


def _convert_nodes(source: str, target: str, options: str) -> list[Any]:
    onnx: Any = importlib.import_module("onnx")
    make: Callable[..., Any] = onnx.helper.make_node
    saturate = int("saturate" in options)
    minifloat = {t: ELEMENT_TYPES[t].is_minifloat for t in (source, target)}
    if "quantize" not in options or minifloat[source] == minifloat[target]:
        more: dict[str, Any] = {"saturate": saturate} if target.startswith("f8") else {}
        more |= {"round_mode": "nearest"} if target == "f8E8M0FNU" else {}
        return [make("Cast", ["x"], ["y"], to=tensor_type(target), **more)]
    scale = onnx.helper.make_tensor("one", tensor_type(target if minifloat[source] else source), [], [1])
    constant = make("Constant", [], ["scale"], value=scale)
    if minifloat[source]:
        return [constant, make("DequantizeLinear", ["x", "scale"], ["y"])]
    to = tensor_type(target)
    return [constant, make("QuantizeLinear", ["x", "scale"], ["y"], output_dtype=to, saturate=saturate)]


def tensor_type(name: str) -> int:
    """Return ONNX's number of an element type. Raises BackendError if it has none."""
    onnx: Any = importlib.import_module("onnx")
    try:
        return onnx.helper.np_dtype_to_tensor_dtype(dtype_of(name))
    except (KeyError, TypeError, ValueError):
        raise BackendError("refused", f"ONNX has no type for {name}") from None


def newest(accepts: Callable[[bytes], Any]) -> tuple[int, int]:
    """Return the newest versions of the operators and of the format with which a model is accepted; raise if none
    is."""
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
