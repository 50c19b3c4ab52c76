"""Quantized types, carried as their storage: conversions, sums of products, and operations on the numbers meant.

Conversions are one division, addition or product each of f32 or f64, which devices round as the interpreter does.
What an operation does to the numbers themselves is the device's. Of 8 bits there are tables of that instead, and what
only moves elements moves the storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.op import OpError, lookup
from ...ops.policy import Policy
from ...ops.quantization.quantization import beside
from ...ops.quantization.quantized import axis_in_result
from ...ops.tables import MOST_BITS, index_bits
from ...ops.types import ElementType, QuantizedType, TensorType, Type
from ..program import Operation
from .rewrite import Emulation
from .rounding import round_float
from .rules import emulates
from .tensor import F32, F64, I64, Tensor, constant, where

_PRODUCTS = [f"stablehlo.{name}" for name in ("dot_general", "dot", "convolution")]


@emulates("uniform_quantize", "uniform_dequantize")
def requantize(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Numbers of the expressed type from integers, and integers from these."""
    e.call(operation)
    return [_quantized(_numbers(operands[0], operation.operands[0].type), operation.results[0].type)]


def _numbers(x: Tensor, source: Type) -> Tensor:
    """Return the numbers that integers of a quantized type stand for; other values as they are."""
    t = source.element if isinstance(source, TensorType) else None
    if not isinstance(t, QuantizedType):
        return x
    whole = x.to(I64) - _along(t.zero_points, I64, t, x)
    scales = _along(t.scales, _expressed(t), t, x)
    if t.expressed != F32:
        return whole.to(t.expressed) * scales
    # f64 holds the product. It is rounded in integers, since compilers contract products with sums that follow.
    numbers = whole.to(F64) if t.bits <= 16 else _in_f32(whole.to(F64)).to(F64)
    return _in_f32(numbers * scales.to(F64))


def _in_f32(x: Tensor) -> Tensor:
    return round_float(x, F32.format, Policy()).bits(F32)


def _quantized(x: Tensor, target: Type) -> Tensor:
    """Return the integers of a quantized type for numbers; other values as they are."""
    t = target.element if isinstance(target, TensorType) else None
    if not isinstance(t, QuantizedType):
        return x
    # Compilers multiply by the reciprocal of a constant instead, which is another number.
    x = x // where(x.differs(x), x, _along(t.scales, _expressed(t), t, x))
    return _stored(x + _along(t.zero_points, t.expressed, t, x) if any(t.zero_points) else x, t)


def _stored(x: Tensor, t: QuantizedType) -> Tensor:
    """Return floats rounded to the integers of a quantized type, within its limits; NaN is 0."""
    x = x.at_least(float(t.storage_min)).at_most(float(t.storage_max))
    whole = x.elementwise("round_nearest_even", x)
    return where(whole.differs(whole), 0.0, whole).to(t.storage)


@emulates("minihlo.quantized")
def quantized(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Any operation that computes with the numbers of quantized types, but by a table; nothing for others."""
    record, count = lookup(operation.name), len(operation.operands)
    elements = [v.type.element for v in (*operation.operands, *operation.results) if isinstance(v.type, TensorType)]
    types = [t for t in elements if isinstance(t, QuantizedType)]
    if not types or record is None or record.values != "numbers" or operation.regions or "uniform" in record.name:
        return ()
    has_table = sum(map(index_bits, elements[:count])) <= MOST_BITS and all(t.axis is None for t in types)
    if record.is_elementwise and has_table:
        return ()
    is_product = record.name in _PRODUCTS and len(types) == 3 and max(t.bits for t in types[:2]) <= 16
    if is_product and types[0].axis is None:
        return [_sums(e, operation, operands, types)]
    numbers = [_numbers(x, v.type) for x, v in zip(operands, operation.operands, strict=True)]
    results = e.rewritten(operation, numbers, elements=[t.expressed for t in elements[count:]])
    return [_quantized(x, v.type) for x, v in zip(results, operation.results, strict=True)]


def _sums(e: Emulation, operation: Operation, operands: Sequence[Tensor], types: Sequence[QuantizedType]) -> Tensor:
    """Return sums of products of integers less their zero points, exact; times the scales, and rounded once, in f64."""
    x, y, out = types
    call, wide = e.call(operation), F64 if x.bits + y.bits + 2 + operands[1].size.bit_length() <= 53 else I64
    sides = [(v.to(I64) - _along(t.zero_points, I64, t, v)).to(wide) for v, t in zip(operands, types[:2], strict=True)]
    sums = e.rewritten(operation, sides)[0].to(F64)
    axis, rank = None if y.axis is None else axis_in_result(call, y.axis), len(sums.shape)
    factor = x.scales[0] * beside(y.scales, axis, rank, np.float64) / beside(out.scales, out.axis, rank, np.float64)
    scaled = sums * _spread(np.asarray(factor), F64, sums.shape)
    return _stored(scaled + _along(out.zero_points, F64, out, sums) if any(out.zero_points) else scaled, out)


def _expressed(t: QuantizedType) -> ElementType:
    if t.expressed.bits < 32:
        raise OpError(f"expected a quantized type that expresses f32 or f64, got {t}")
    return t.expressed


def _along(values: Sequence[float], element: ElementType, t: QuantizedType, x: Tensor) -> Tensor:
    """Return parameters of a type in the shape of a tensor."""
    return _spread(beside(tuple(values), t.axis, len(x.shape), element.dtype), element, x.shape)


def _spread(array: np.ndarray, element: ElementType, shape: Sequence[int]) -> Tensor:
    """Return an array that broadcasts to a shape, in it."""
    dims = [len(shape) - array.ndim + d for d in range(array.ndim) if array.shape[d] > 1]
    if not dims:
        return constant(array.reshape(-1)[0], element, shape)
    return constant(array.reshape([shape[d] for d in dims]), element).broadcast(shape, dims)
