"""Quantized types: the specification's formulas in exact fractions."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from minihlo.interp.loaded import LoadedProgram
from minihlo.interp.parse import parser
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, QuantizedType, TensorType, element_type

from .. import oracle
from ..oracle import FORMATS
from ..oracle_numbers import INF, Value
from ..run_op import bind

F32 = ELEMENT_TYPES["f32"]
I8 = np.arange(-128, 128).astype(np.int8)

NAMES = (
    "!quant.uniform<i8:f32, 0.1:-30>",
    "!quant.uniform<i8:f32, 0.0039215452530804804>",
    "!quant.uniform<i8<-127:127>:f32, 0.25:1>",
    "!quant.uniform<u8:f32, 0.3:128>",
    "!quant.uniform<i4:f32, 3.5:-2>",
    "!quant.uniform<u4:f32, 0.7:15>",
    "!quant.uniform<i2:f32, 1.5>",
    "!quant.uniform<u2:f32, 1.0e-10:3>",
    "!quant.uniform<i8:f16, 0.1:7>",
    "!quant.uniform<i8:bf16, 0.1:-128>",
    "!quant.uniform<i8:f64, 0.1:-30>",
    "!quant.uniform<u4:f8E4M3FN, 0.5:3>",
    "!quant.uniform<i8:f8E5M2, 0.3:-5>",
)
PER_TENSOR = tuple(element_type(n) for n in NAMES)
WIDE = tuple(
    element_type(f"!quant.uniform<{n}>")
    for n in (
        "i16:f32, 0.013:100",
        "u16:f32, 2.5:65535",
        "i32:f32, 1.5e-05",
        "u32:f64, 0.125:7",
        "i32:f64, 0.1",
        "i32:f16, 0.5:-3",
    )
)


def quantized(name: str) -> QuantizedType:
    result = element_type(name)
    assert isinstance(result, QuantizedType)
    return result


Q = "!quant.uniform<i8:f32, 0.5:3>"


def rounded(x: Value, element: QuantizedType) -> Value:
    fmt = FORMATS[element.expressed.name]
    return oracle.decode(fmt, oracle.encode(fmt, x))


def divide(x: Value, y: Value) -> Value:
    return oracle.BINARY["divide"](x, y)


def quantize_one(x: Value, element: QuantizedType, index: int = 0) -> int:
    """(x / scale + zero point), clamped, to the nearest even integer."""
    scale = rounded(Fraction(element.scales[index]), element)
    shift, low, high = (
        rounded(Fraction(v), element) for v in (element.zero_points[index], element.storage_min, element.storage_max)
    )
    y = rounded(divide(x, scale), element)
    y = rounded(oracle.BINARY["add"](y, shift), element)
    if y != y:
        return 0
    y = min(max(y, low), high)
    if y in (INF, -INF):  # limits that the expressed type cannot hold
        return element.storage_max if y > 0 else element.storage_min
    return min(max(round(Fraction(y)), element.storage_min), element.storage_max)


def dequantize_one(code: int, element: QuantizedType, index: int = 0) -> Value:
    scale = rounded(Fraction(element.scales[index]), element)
    difference = rounded(Fraction(code - element.zero_points[index]), element)
    return rounded(oracle.BINARY["multiply"](difference, scale), element)


def numbers(x: np.ndarray, element: QuantizedType) -> list[Value]:
    fmt = FORMATS[element.expressed.name]
    return [oracle.decode(fmt, int(c)) for c in np.ascontiguousarray(x).view(f"u{x.itemsize}").ravel()]


def array(values: Sequence[Value], element: QuantizedType) -> np.ndarray:
    fmt = FORMATS[element.expressed.name]
    dtype = element.expressed.dtype
    return np.array([oracle.encode(fmt, v) for v in values], f"u{dtype.itemsize}").view(dtype)


def same(x: Value, y: Value) -> bool:
    return x == y or (x != x and y != y)


def all_codes(element: QuantizedType, most: int = 256) -> np.ndarray:
    whole = 1 << element.bits
    first = -(whole // 2) if str(element.storage).startswith("i") else 0
    codes = range(first, first + whole) if whole <= most else range(first, first + whole, whole // most + 7)
    return np.array(list(codes)).astype(np.int64 if element.bits > 8 else np.int16).astype(element.dtype)


def convert(name: str, x: np.ndarray, source: Any, target: Any, policy: Policy | None = None) -> np.ndarray:
    kernel = bind(name, [TensorType(x.shape, source)], TensorType(x.shape, target), policy)
    with np.errstate(all="ignore"):
        return np.asarray(kernel(x))


def run(program: str, *arrays: Any) -> list[np.ndarray]:
    return LoadedProgram(parser.parse(program))(*arrays)


def i8(seed: int, *shape: int, most: int = 128) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most, shape).astype(np.int8)
