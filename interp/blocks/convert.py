"""Blocks that share a scale, for Python: quantize, dequantize, straight_through."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...ops.types import type_of_dtype
from ..errors import InputError
from ..system import host_floats, memory
from ..values.numbers import element_of, real_array
from .checks import Axis, block_axes, block_format, check_blocks, conversion, scale_of_tensor


@host_floats.in_default
def quantize(
    x: Any,
    name: str,
    axis: Axis = -1,
    *,
    scale: str | None = None,
    rounding: str = "nearest_even",
    overflow: str = "saturate",
    seed: int = 0,
    tensor_scale: Any = None,
) -> tuple[Any, ...]:
    """Convert an array to a block format: elements of a few bits, and a scale for each block of them.

    The scale is computed from the exact largest magnitude of its block and rounded once. Each element is the exact
    quotient of `x` and the scale, rounded once. A block with NaN or an infinity has the scale NaN, and NaN elements
    where their format has NaN. A block of zeros has the smallest scale of its format (1 in the DeepSeek formats).

    In a JAX program (`jax.jit`, `jax.vmap`, `jax.grad`, `interp.jit`) it takes and returns JAX arrays; elements of six
    bits, which JAX has no type for, are uint8 there. The derivative is straight through. That of `dequantize` of the
    same elements, in the same function, is the identity. That of the elements by themselves is the one of `x / scale`
    with the scale held constant, rounded to the type of the elements.

    Args:
        x: An array of any shape and real dtype, a number, or nested lists of numbers.
        name: A block format, such as `"mxfp8_e4m3"`; `minihlo formats` lists them.
        axis: The dimension along which blocks lie. Of 128x128 blocks: the second of the two dimensions, or both.
        scale: How the scale is chosen: `"floor"`, `"ceil"`, `"even"`, `"rceil"` or `"nearest"`. By default as the
            source of the format says: `"floor"` for MX (OCP MX 1.0, section 6.3), `"nearest"` for the others.
        rounding: Of the elements, as for `cast`.
        overflow: What an element beyond the largest becomes, as for `cast`. OCP MX 1.0 saturates.
        seed: Starts the generator of stochastic rounding.
        tensor_scale: The scale of the whole tensor, where the format has one; by default the largest magnitude divided
            by the largest element and the largest scale.

    Returns:
        `(codes, scales)`, and the scale of the tensor where the format has one. The codes have the shape of `x` and the
        dtype of the elements (of ml_dtypes; int8 for mxint8). The scales have the number of blocks along `axis`. The
        last block of an axis may be shorter than the others.

    Raises:
        InputError: `name`, `axis` or an option is not valid, or `x` is not an array of real numbers.
    """
    fmt = block_format(name)
    options = conversion(fmt, scale, rounding, overflow, seed)
    if _is_jax(x):
        from ..transform import blocks as in_jax

        return in_jax.quantize(x, fmt, block_axes(x.ndim, fmt, axis), options, tensor_scale)
    array, source = real_array(x)
    axes = block_axes(array.ndim, fmt, axis)
    memory.check(2 * array.size, f"the result of quantizing to {fmt.name}")
    found = options.quantize(array, source, fmt, axes, scale_of_tensor(tensor_scale, fmt, required=False))
    parts = (found.codes, found.scales)
    return parts if found.tensor_scale is None else (*parts, found.tensor_scale[()])


@host_floats.in_default
def dequantize(
    codes: Any,
    scales: Any,
    name: str,
    axis: Axis = -1,
    *,
    tensor_scale: Any = None,
    format: str = "f32",
    rounding: str = "nearest_even",
    overflow: str = "ieee",
    seed: int = 0,
) -> Any:
    """Compute the numbers that blocks stand for: each the exact product of element and scales, rounded once.

    Args:
        codes: The elements, as `quantize` returns them, or as unsigned codes (uint8).
        scales: The scales, as `quantize` returns them, or as unsigned codes.
        name: The block format.
        axis: As for `quantize`.
        tensor_scale: The scale of the tensor, for a format that has one.
        format: The element type of the result, as MLIR names it. Every value is a number of `"f64"`; in `"f32"` the
            largest overflow.
        rounding: As for `cast`.
        overflow: As for `cast`.
        seed: Starts the generator of stochastic rounding.

    Returns:
        An array of the shape of `codes`. A block whose scale is NaN is NaN.

    Raises:
        InputError: `name`, `axis` or an option is not valid, or the shapes or dtypes do not belong to the format.
    """
    fmt = block_format(name)
    target = element_of(format)
    if not target.is_float:
        raise InputError(f"expected a floating-point type, got {target}")
    options = conversion(fmt, None, rounding, overflow, seed)
    if _is_jax(codes) or _is_jax(scales):
        from ..transform import blocks as in_jax

        axes = block_axes(np.ndim(codes), fmt, axis)
        return in_jax.dequantize(codes, scales, fmt, axes, options, target, tensor_scale)
    parts = (codes, scales) if fmt.tensor_scale is None and tensor_scale is None else (codes, scales, tensor_scale)
    blocks = check_blocks(parts, fmt, axis)
    memory.check(blocks.codes.size * target.dtype.itemsize, f"the result of dequantizing {fmt.name}")
    return options.dequantize(blocks, fmt, target)


def straight_through(x: Any, name: str, axis: Axis = -1, **options: Any) -> Any:
    """Quantize an array and dequantize it: the numbers of `x` that the block format holds, in the dtype of `x`.

    Its derivative is straight through, that of the identity (arXiv 1308.3432), so that a program with it can be
    trained. It takes numpy arrays, and JAX arrays in any JAX program.

    Args:
        x: A floating-point array.
        name: The block format.
        axis: As for `quantize`.
        **options: As for `quantize`.

    Returns:
        An array of the shape and dtype of `x`.

    Raises:
        InputError: As `quantize`; or `x` is not of a floating-point dtype.
    """
    if _is_jax(x):
        from ..transform import blocks as in_jax

        return in_jax.straight_through(x, lambda value: _round_trip(value, name, axis, options))
    return _round_trip(x, name, axis, options)


def _round_trip(x: Any, name: str, axis: Axis, options: dict[str, Any]) -> Any:
    dtype = np.dtype(x.dtype) if hasattr(x, "dtype") else np.asarray(x).dtype
    try:
        element = type_of_dtype(dtype)
    except ValueError:
        element = None
    if element is None or not element.is_float:
        raise InputError(f"expected a floating-point array, got dtype {dtype}")
    codes, scales, *rest = quantize(x, name, axis, **options)
    return dequantize(codes, scales, name, axis, tensor_scale=rest[0] if rest else None, format=element.name)


def _is_jax(x: Any) -> bool:
    """Whether an array is JAX's, without an import of JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.Array)
