"""Checks of what callers pass about blocks that share a scale: formats, axes, options and the blocks themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...ops.blocks import blockwise
from ...ops.blocks.blockwise import Layout, Quantized
from ...ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from ...ops.blocks.scales import RULES
from ...ops.close import hint
from ...ops.policy import Policy
from ...ops.random_stream import first_draws
from ...ops.types import ElementType
from ..errors import InputError
from ..values.values import to_numpy

Axis = int | tuple[int, ...]


def block_format(name: Any) -> BlockFormat:
    """The block format of a name. Raises InputError."""
    fmt = BLOCK_FORMATS.get(name) if isinstance(name, str) else None
    if fmt is None:
        raise InputError(f"expected a block format, got {name!r}{hint(str(name), BLOCK_FORMATS)}")
    return fmt


def block_axes(rank: int, fmt: BlockFormat, axis: Any) -> tuple[int, ...]:
    """The dimensions along which the blocks of an array lie, from 0 on; as many as a block has, and the array.

    Raises InputError.
    """
    several = len(fmt.block)
    named = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    if any(isinstance(a, bool) or not isinstance(a, int | np.integer) for a in named) or len(named) not in (1, several):
        count = "an integer" if several == 1 else f"an integer or {several} of them"
        raise InputError(f"axis: expected {count}, got {axis!r}")
    if rank == 0:
        if named in ((-1,), (0,)) or named == tuple(range(-several, 0)):
            return ()
        raise InputError(f"axis: expected -1 for a scalar, got {axis!r}")
    if bad := [a for a in named if not -rank <= a < rank]:
        raise InputError(f"axis: expected from {-rank} to {rank - 1}, got {int(bad[0])}")
    axes = tuple(int(a) % rank for a in named)
    if len(axes) < several:
        last = axes[0]
        axes = tuple(d for d in range(last - several + 1, last + 1) if d >= 0)
    if len(set(axes)) != len(axes):
        raise InputError(f"axis: expected different dimensions, got {axis!r}")
    return axes


@dataclasses.dataclass(frozen=True)
class Options:
    """The choices of one conversion. Hashable."""

    rule: str
    policy: Policy

    def quantize(
        self,
        x: np.ndarray,
        source: ElementType,
        fmt: BlockFormat,
        axes: tuple[int, ...],
        tensor_scale: np.ndarray | None,
        tensors: int = 0,
    ) -> Quantized:
        """See `blockwise.quantize`."""
        with np.errstate(all="ignore"):
            return blockwise.quantize(
                x, source, fmt, axes, self.rule, self.policy, tensor_scale, first_draws(self.policy), tensors
            )

    def dequantize(self, blocks: Blocks, fmt: BlockFormat, target: ElementType, tensors: int = 0) -> np.ndarray:
        """See `blockwise.dequantize`."""
        axes, scale = blocks.axes, blocks.tensor_scale
        with np.errstate(all="ignore"):
            return blockwise.dequantize(
                blocks.codes, blocks.scales, fmt, axes, target, self.policy, scale, first_draws(self.policy), tensors
            )


@dataclasses.dataclass(frozen=True)
class Blocks:
    """What a caller gives as blocks, checked."""

    codes: np.ndarray
    scales: np.ndarray
    tensor_scale: np.ndarray | None
    axes: tuple[int, ...]
    layout: Layout


def check_blocks(quantized: Any, fmt: BlockFormat, axis: Axis) -> Blocks:
    """What a caller passes as the result of `quantize`. Raises InputError where it does not belong to the format."""
    count = 2 + (fmt.tensor_scale is not None)
    if not isinstance(quantized, tuple | list) or len(quantized) != count:
        parts = "codes, scales and tensor_scale" if count == 3 else "codes and scales"
        got = f"{len(quantized)} parts" if isinstance(quantized, tuple | list) else type(quantized).__name__
        raise InputError(f"expected the {parts} of {fmt.name}, got {got}")
    codes = _as_stored(quantized[0], fmt.element_dtype, f"codes of {fmt.element}")
    if fmt.element_bits < 8 and codes.size and int(codes.view(np.uint8).max()) >> fmt.element_bits:
        last = (1 << fmt.element_bits) - 1
        raise InputError(f"codes: expected from 0 to {last}, got {int(codes.view(np.uint8).max())}")
    scales = _as_stored(quantized[1], fmt.scale_format.dtype, f"scales of {fmt.scale}")
    axes = block_axes(codes.ndim, fmt, axis)
    layout = Layout.of(codes.shape, fmt, axes)
    if scales.shape != layout.scale_shape:
        raise InputError(f"scales: expected shape {list(layout.scale_shape)}, got {list(scales.shape)}")
    of_tensor = scale_of_tensor(quantized[2], fmt, required=True) if count == 3 else None
    return Blocks(codes, scales, of_tensor, axes, layout)


def conversion(fmt: BlockFormat, rule: str | None, rounding: str, overflow: str, seed: int) -> Options:
    """The options of a conversion. Raises InputError."""
    if rule is not None and rule not in RULES:
        raise InputError(f"scale: expected one of {', '.join(RULES)}, got {rule!r}")
    try:
        return Options(rule or fmt.rule, Policy(rounding=rounding, overflow=overflow, seed=seed))
    except ValueError as error:
        raise InputError(str(error)) from None


def scale_of_tensor(value: Any, fmt: BlockFormat, *, required: bool) -> np.ndarray | None:
    """What a caller passes as the scale of a tensor, as f32. Raises InputError."""
    if value is None and not required:
        return None
    if fmt.tensor_scale is None:
        raise InputError(f"tensor_scale: expected none for {fmt.name}, got {value!r}")
    try:
        number = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        number = np.zeros((), np.float32)
    if number.shape != () or not 0 < number < np.inf:
        raise InputError(f"tensor_scale: expected a positive number of f32, got {value!r}")
    return number


def _as_stored(x: Any, dtype: np.dtype, what: str) -> np.ndarray:
    array = to_numpy(x)
    if array.dtype == dtype:
        return array
    if array.dtype == np.dtype(f"u{dtype.itemsize}"):
        return array.view(dtype)
    raise InputError(f"{what}: expected dtype {dtype} or uint{8 * dtype.itemsize}, got {array.dtype}")
