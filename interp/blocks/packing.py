"""Elements and blocks as bytes without unused bits: pack, unpack."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.blocks.blockwise import Layout
from ...ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from ...ops.types import ELEMENT_TYPES, ElementType, TensorType
from ..errors import InputError
from ..system import memory
from ..values import npy
from ..values.bits import pack_bits, unpack_bits
from ..values.numbers import element_of
from ..values.values import refuse_mask
from .checks import block_axes, check_blocks


def pack(codes: Any, format: str, axis: int | tuple[int, ...] = -1) -> bytes:
    """Store elements of up to eight bits, or blocks that share a scale, without unused bits between them.

    The elements form one little-endian stream of bits, in row-major order. Two 4-bit elements share a byte, the first
    in the low four bits; four 6-bit elements share three bytes. Bits that are left over at the end are zero.

    Of blocks, the scale of the tensor comes first, where there is one. Then comes each block, in row-major order: its
    scale, little-endian, and its elements as above. The last block of a row is filled with zeros.

    Args:
        codes: An array of any shape: unsigned codes (uint8), or numbers of the type itself (a dtype of ml_dtypes). For
            signed integer types it may hold int8 values. Of a block format the tuple that `quantize` returns.
        format: An element type of up to eight bits as MLIR names it, such as `"f4E2M1FN"`, or a block format, such as
            `"mxfp8_e4m3"`.
        axis: The axis of the blocks, as for `quantize`.

    Returns:
        ceil(N * bits / 8) bytes for N elements; of blocks the bytes of each and four for the scale of a tensor.

    Raises:
        InputError: `format` is unknown or wider than eight bits, a code is out of range, or the scales are not those of
            the blocks.
    """
    fmt = BLOCK_FORMATS.get(format) if isinstance(format, str) else None
    if fmt is not None:
        return _pack_blocks(codes, fmt, axis)
    element = _packable(format)
    return pack_bits(_codes(codes, element).reshape(1, -1), element.bits).tobytes()


def unpack(
    data: bytes | bytearray | memoryview | np.ndarray,
    format: str,
    shape: int | tuple[int, ...],
    axis: int | tuple[int, ...] = -1,
) -> Any:
    """Read what `pack` stored.

    Args:
        data: The bytes, or an array of uint8.
        format: The element type as MLIR names it, or a block format.
        shape: The shape of the result.
        axis: The axis of the blocks, as for `quantize`.

    Returns:
        The codes, uint8 of that shape. `.view` with the dtype of ml_dtypes makes them numbers. Of a block format a
        tuple as `quantize` returns it.

    Raises:
        InputError: The number of bytes is not that of the shape, or `format` or `shape` is not valid.
    """
    fmt = BLOCK_FORMATS.get(format) if isinstance(format, str) else None
    element = ELEMENT_TYPES[fmt.element] if fmt is not None else _packable(format)
    dims = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if any(isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 0 for d in dims):
        raise InputError(f"expected a shape of integers of at least 0, got {shape!r}")
    dims = tuple(int(d) for d in dims)
    memory.check_type(TensorType(dims, element))
    size = math.prod(dims)
    try:
        raw = np.frombuffer(bytes(data) if isinstance(data, bytearray | memoryview) else data, np.uint8)
    except (TypeError, ValueError):
        raise InputError(f"expected packed bytes, got {type(data).__name__}") from None
    if fmt is not None:
        return _unpack_blocks(raw, dims, fmt, axis)
    needed = -(-size * element.bits // 8)
    if len(raw) != needed:
        raise InputError(f"expected {needed} bytes for {size} elements of {element}, got {len(raw)}")
    return unpack_bits(raw.reshape(1, -1), element.bits, size).reshape(dims)


def _pack_blocks(quantized: Any, fmt: BlockFormat, axis: int | tuple[int, ...]) -> bytes:
    blocks = check_blocks(quantized, fmt, axis)
    layout = blocks.layout
    scales = layout.scale_rows(blocks.scales)
    scale_bytes = scales.view(np.uint8).reshape(len(scales), scales.dtype.itemsize)
    rows = pack_bits(layout.rows(blocks.codes).view(np.uint8), fmt.element_bits)
    first = b"" if blocks.tensor_scale is None else np.asarray(blocks.tensor_scale, "<f4").tobytes()
    return first + np.concatenate([scale_bytes, rows], axis=1).tobytes()


def _unpack_blocks(raw: np.ndarray, dims: tuple[int, ...], fmt: BlockFormat, axis: int | tuple[int, ...]) -> Any:
    layout = Layout.of(dims, fmt, block_axes(len(dims), fmt, axis))
    count, size = math.prod(layout.scale_shape), math.prod(layout.block)
    first, scale = 4 * (fmt.tensor_scale is not None), fmt.scale_format.dtype.itemsize
    width = scale + -(-size * fmt.element_bits // 8)
    if len(raw) != first + count * width:
        needed = first + count * width
        raise InputError(f"expected {needed} bytes for {count} blocks of {fmt.name}, got {len(raw)}")
    rows = raw[first:].reshape(count, width)
    codes = unpack_bits(np.ascontiguousarray(rows[:, scale:]), fmt.element_bits, size).view(fmt.element_dtype)
    scales = np.ascontiguousarray(rows[:, :scale]).view(fmt.scale_format.dtype).reshape(count)
    parts = (layout.whole(codes), layout.scales(scales))
    return (*parts, raw[:first].view("<f4")[0]) if first else parts


def _packable(name: Any) -> ElementType:
    element = element_of(name)
    if element.bits > 8:
        raise InputError(f"expected a type of up to eight bits, got {element}")
    return element


def _codes(codes: Any, element: ElementType) -> np.ndarray:
    refuse_mask(codes, "the array")
    array = np.asarray(codes)
    mask = (1 << element.bits) - 1
    if array.dtype == element.dtype or npy.named_element(array.dtype) == element:
        array = npy.as_element(array, element, "the array")
        return array.view(np.uint8) & np.uint8(mask)
    if not array.size:  # an empty list is an array of f64
        return array.astype(np.uint8)
    if array.dtype.kind not in "iu":
        raise InputError(f"expected codes of {element} (unsigned integers or an array of this type), got {array.dtype}")
    low = element.range[0]
    if int(array.min()) < low or int(array.max()) > mask:
        wrong = array[(array < low) | (array > mask)].flat[0]
        raise InputError(f"expected a code of {element} ({low} to {mask}), got {wrong}")
    return array.astype(np.uint8) & np.uint8(mask)
