"""Conversions to quantized types and back, in the device's f32 or f64: one division, addition or product each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.op import OpError
from ...ops.types import ElementType, QuantizedType, TensorType
from ..program import Operation
from .rewrite import Emulation, emulates
from .tensor import I32, I64, Tensor, constant, where


@emulates("uniform_quantize", "uniform_dequantize")
def requantize(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Numbers of the expressed type from integers, and integers from these."""
    e.call(operation)
    x, source, target = operands[0], operation.operands[0].type, operation.results[0].type
    assert isinstance(source, TensorType)
    assert isinstance(target, TensorType)
    if isinstance(source.element, QuantizedType):
        t = source.element
        wide = x.to(I32 if t.bits <= 16 else I64)
        x = (wide - _along(t.zero_points, wide.element, t, x)).to(_expressed(t)) * _along(t.scales, t.expressed, t, x)
    if isinstance(target.element, QuantizedType):
        t = target.element
        x = x // _along(t.scales, _expressed(t), t, x)
        x = x + _along(t.zero_points, t.expressed, t, x) if any(t.zero_points) else x
        x = x.at_least(float(t.storage_min)).at_most(float(t.storage_max))
        whole = x.elementwise("round_nearest_even", x)
        x = where(whole.differs(whole), 0.0, whole).to(t.storage)
    return [x]


def _expressed(t: QuantizedType) -> ElementType:
    if t.expressed.bits < 32 or t.bits > 16:
        raise OpError(f"expected at most 16 bits that express f32 or f64, got {t}")
    return t.expressed


def _along(values: Sequence[float], element: ElementType, t: QuantizedType, x: Tensor) -> Tensor:
    """Return parameters of a type in the shape of a tensor."""
    array = np.array(values, np.float64).astype(element.dtype)
    if t.axis is None:
        return constant(array[0], element, x.shape)
    return constant(array, element).broadcast(x.shape, [t.axis])
