"""The integers of a quantized type, and kernels from them to numbers of the expressed type and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cast import cast
from ..op import Call, Run, kernel_of
from ..policy import Policy
from ..require import identity, require
from ..types import ELEMENT_TYPES, QuantizedType, TensorType

_F64, _I64 = ELEMENT_TYPES["f64"], ELEMENT_TYPES["i64"]


def _constants(t: TensorType) -> tuple[np.ndarray, ...]:
    """The parameters of a quantized type, shaped to go with a tensor of it.

    The scales, of the expressed type; the zero points as 64-bit integers; these again and both limits of what is
    stored, of the expressed type.
    """
    element, policy = quantized_element(t), Policy()
    expressed, zero = element.expressed, along(element.zero_points, t, np.int64)
    scale = cast(along(element.scales, t, np.float64), _F64, expressed, policy)
    wide = np.asarray(cast(scale, expressed, _F64, policy))
    fits = bool((np.isfinite(wide) & (wide > 0)).all())
    require(fits, f"{element} has a scale that is no positive number of {expressed}")
    integers = (zero, np.array(element.storage_min), np.array(element.storage_max))
    return tuple(map(np.asarray, (scale, zero, *(cast(n, _I64, expressed, policy) for n in integers))))


def quantized_element(t: TensorType) -> QuantizedType:
    """The element type of a quantized tensor."""
    assert isinstance(t.element, QuantizedType)
    return t.element


def along(values: tuple[Any, ...], t: TensorType, dtype: Any) -> np.ndarray:
    """Parameters of a quantized type as an array that goes with a tensor of it."""
    return beside(values, quantized_element(t).axis, len(t.shape), dtype)


def beside(values: tuple[Any, ...], axis: int | None, rank: int, dtype: Any) -> np.ndarray:
    """The values as an array that broadcasts along one dimension; without an axis the only one, for the whole."""
    array = np.array(values, dtype)
    return array.reshape(()) if axis is None else array.reshape(-1, *[1] * (rank - 1 - axis))


def _kernels(t: TensorType, call: Call, **operands: int) -> list[Run]:
    """Kernels of ops of so many operands on the numbers that a quantized tensor means."""
    expressed = TensorType(t.shape, t.element.expressed)
    return [kernel_of(call.like(name, (expressed,) * count, (expressed,))) for name, count in operands.items()]


def dequantizer(t: TensorType, call: Call) -> Run:
    """From the integers of a quantized tensor to numbers of its expressed type; of any other tensor nothing."""
    if not isinstance(t.element, QuantizedType):
        return identity
    element, expressed = t.element, t.element.expressed
    policy = call.policy.for_results(expressed)
    (scale, zero, *_), (multiply,) = _constants(t), _kernels(t, call, multiply=2)
    wide = np.dtype(np.int32 if element.bits <= 16 else np.int64)
    zero = zero.astype(wide)
    is_host, dtype = expressed.bits >= 32, expressed.dtype
    has_zero, kind = bool(zero.any()), ELEMENT_TYPES[f"i{8 * wide.itemsize}"]

    def kernel(x: np.ndarray) -> Any:
        numbers = x.astype(wide)
        if has_zero:
            numbers = numbers - zero
        if is_host:
            return multiply(numbers.astype(dtype), scale)
        draws = call.random.draws(policy)
        return multiply(np.asarray(cast(numbers, kind, expressed, policy, draws)), scale)

    return _of_open_size(kernel, t)


def quantizer(t: TensorType, call: Call) -> Run:
    """From numbers of the expressed type to the integers of a quantized tensor; for any other tensor nothing."""
    if not isinstance(t.element, QuantizedType):
        return identity
    element = t.element
    scale, _, shift, low, high = _constants(t)
    divide, add, clamp, rounded = _kernels(t, call, divide=2, add=2, clamp=3, round_nearest_even=1)
    has_shift = any(element.zero_points)

    def kernel(x: np.ndarray) -> Any:
        x = divide(x, scale)
        if has_shift:
            x = add(x, shift)
        return np.asarray(cast(rounded(clamp(low, x, high)), element.expressed, element.storage, Policy()))

    return _of_open_size(kernel, t)


def _of_open_size(kernel: Run, t: TensorType) -> Run:
    """The kernel, which sees to (C13) itself where the type leaves open how long the quantized dimension is."""
    axis, count = quantized_element(t).axis, len(quantized_element(t).scales)
    if axis is None or t.shape[axis] is not None:
        return kernel

    def check_size(x: np.ndarray) -> Any:
        require(x.shape[axis] == count, f"{t} has {count} scales for dimension {axis} of size {x.shape[axis]}")
        return kernel(x)

    return check_size
