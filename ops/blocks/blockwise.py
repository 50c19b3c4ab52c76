"""Arrays to blocks that share a scale, and back: the formats and the rules for scales are those of `blocks/`.

An operand of any real type is brought to f32 or f64 without loss; integers beyond 53 bits are rounded to odd there,
which no later comparison can tell from the exact value. The scale and each element are thus rounded once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cast import array_of, cast, codes_of
from ..draws import FRACTION_BITS, Draws
from ..policy import Policy
from ..types import ELEMENT_TYPES, ElementType
from .formats import BlockFormat
from .scales import block_scales, decode_f64, quotient, tensor_scale

_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]
_EXACT = Policy()


@dataclasses.dataclass(frozen=True)
class Quantized:
    """The elements of an array of any shape, the scales of its blocks, and the scale of the tensor, if there is one.

    codes: the shape of the array; the type of the elements, int8 for MXINT8.
    scales: the same but for the blocked dimensions, which have the number of blocks.
    tensor_scale: one f32 for each index of the leading dimensions that count as different tensors.
    """

    codes: np.ndarray
    scales: np.ndarray
    tensor_scale: np.ndarray | None


def quantize(
    x: np.ndarray,
    source: ElementType,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    rule: str,
    policy: Policy,
    given: np.ndarray | None = None,
    draws: Draws | None = None,
    tensors: int = 0,
) -> Quantized:
    """An array in blocks along `axes` (one for each dimension of a block; none of a scalar).

    rule: how a scale is chosen; see `blocks.scales`.
    policy: its `rounding` and `overflow` apply to the elements.
    given: the scale of the tensor; computed from its largest finite block where None.
    tensors: how many leading dimensions are of different tensors, each with a scale of its own.
    """
    layout = Layout.of(x.shape, fmt, axes)
    rows = layout.rows(_plain(x, source))
    amax = _largest(rows)
    of_tensor: np.ndarray | None = None
    of_block: np.ndarray | None = None  # the tensor scale of each block
    if fmt.tensor_scale is not None:
        outer = x.shape[:tensors]
        if given is None:
            per_tensor = layout.by_tensor(amax, outer)
            finite = np.where(np.isfinite(per_tensor), per_tensor, 0.0).max(axis=1, initial=0.0)
            of_tensor = np.array([tensor_scale(a, fmt) for a in finite.tolist()], np.float32).reshape(outer)
        else:
            of_tensor = np.broadcast_to(np.asarray(given, np.float32), outer).copy()
        of_block = layout.of_blocks(of_tensor.astype(np.float64), outer, len(rows))
    scales = block_scales(amax, fmt, rule, of_block)
    codes = _elements(rows, fmt, scales, of_block, policy, draws)
    return Quantized(layout.whole(codes), layout.scales(array_of(scales, fmt.scale_format)), of_tensor)


def dequantize(
    codes: np.ndarray,
    scales: np.ndarray,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    target: ElementType,
    policy: Policy,
    of_tensor: np.ndarray | None = None,
    draws: Draws | None = None,
    tensors: int = 0,
) -> np.ndarray:
    """The numbers that elements and scales stand for: exact products, each rounded once to the type `target`."""
    layout = Layout.of(codes.shape, fmt, axes)
    rows = layout.rows(codes)
    factors = decode_f64(codes_of(layout.scale_rows(scales), fmt.scale_format), fmt.scale_format)
    if of_tensor is not None:
        factors = factors * layout.of_blocks(np.asarray(of_tensor, np.float64), codes.shape[:tensors], len(rows))
    products = element_values(rows, fmt).astype(np.float64) * factors[:, None]
    return layout.whole(cast(products, _F64, target, policy, draws))


def element_values(codes: np.ndarray, fmt: BlockFormat) -> np.ndarray:
    """The values of elements before they are scaled, as f32."""
    if fmt.element_format is None:
        return codes.astype(np.float32) * np.float32(2.0**-fmt.fraction_bits)
    return cast(codes, ELEMENT_TYPES[fmt.element], _F32, _EXACT)


def _pad(x: np.ndarray, more: list[int]) -> np.ndarray:
    padded = np.zeros([n + m for n, m in zip(x.shape, more, strict=True)], x.dtype)
    padded[tuple(slice(n) for n in x.shape)] = x
    return padded


def _in_order(x: Any) -> Any:
    """An array of numpy in row-major order; others have none."""
    return np.asarray(x, order="C") if isinstance(x, np.ndarray) else x


@dataclasses.dataclass(frozen=True)
class Layout:
    """The places of the blocks of an array: rows of a matrix, in row-major order, the last ones filled with zeros.

    Arrays are numpy's, or others of such methods.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]  #: the blocked dimensions are the last ones
    block: tuple[int, ...]
    counts: tuple[int, ...]  #: blocks along each blocked dimension

    @staticmethod
    def of(shape: tuple[int, ...], fmt: BlockFormat, axes: tuple[int, ...]) -> Layout:
        axes = tuple(a % len(shape) for a in axes)
        sizes = fmt.block[len(fmt.block) - len(axes) :]
        order = (*(d for d in range(len(shape)) if d not in axes), *axes)
        return Layout(shape, order, sizes, tuple(-(-shape[a] // b) for a, b in zip(axes, sizes, strict=True)))

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the other dimensions."""
        return tuple(self.shape[d] for d in self.order[: len(self.order) - len(self.block)])

    @property
    def split(self) -> tuple[int, ...]:
        """The shape in which each blocked dimension is two: of blocks, and within them."""
        return (*self.outer, *(n for pair in zip(self.counts, self.block, strict=True) for n in pair))

    @property
    def block_order(self) -> list[int]:
        """The dimensions of `split`, those within a block last."""
        first, several = len(self.outer), len(self.block)
        return [*range(first), *(first + 2 * i for i in range(several)), *(first + 2 * i + 1 for i in range(several))]

    def rows(self, x: Any, pad: Callable[..., Any] = _pad) -> Any:
        """A row for each block of an array of this shape; `pad(x, more)` puts zeros after it, so many a dimension."""
        x = x.transpose(self.order)
        more = [n * b - s for n, b, s in zip(self.counts, self.block, x.shape[len(self.outer) :], strict=True)]
        x = pad(x, [0] * len(self.outer) + more) if any(more) else x
        shape = math.prod((*self.outer, *self.counts)), math.prod(self.block)
        return _in_order(x.reshape(self.split).transpose(self.block_order).reshape(shape))

    def whole(self, rows: Any) -> Any:
        """The array of this shape whose blocks are these rows."""
        order, split = self.block_order, self.split
        x = rows.reshape([split[d] for d in order]).transpose(np.argsort(order).tolist())
        x = x.reshape((*self.outer, *(n * b for n, b in zip(self.counts, self.block, strict=True))))
        x = x[tuple(slice(self.shape[d]) for d in self.order)]
        return _in_order(x.transpose(np.argsort(self.order).tolist()))

    @property
    def scale_shape(self) -> tuple[int, ...]:
        """The shape of the scales: the blocked dimensions have the number of blocks."""
        sizes = dict(zip(self.order[len(self.outer) :], self.counts, strict=True))
        return tuple(sizes.get(d, n) for d, n in enumerate(self.shape))

    def scales(self, each: Any) -> Any:
        """One value for each row as an array of `scale_shape`."""
        return _in_order(each.reshape((*self.outer, *self.counts)).transpose(np.argsort(self.order).tolist()))

    def scale_rows(self, scales: Any) -> Any:
        """One value for each row, from an array of `scale_shape`."""
        return _in_order(scales.transpose(self.order).reshape((math.prod(scales.shape),)))

    def by_tensor(self, each: np.ndarray, outer: tuple[int, ...]) -> np.ndarray:
        """One value for each row as a row for each tensor: the leading dimensions `outer` are of different ones."""
        return each.reshape(int(np.prod(outer, dtype=np.int64)), -1)

    def of_blocks(self, per_tensor: np.ndarray, outer: tuple[int, ...], count: int) -> np.ndarray:
        """A value of each tensor for each of its rows."""
        return np.repeat(per_tensor.reshape(-1), count // max(int(np.prod(outer, dtype=np.int64)), 1))


def _plain(x: np.ndarray, source: ElementType) -> np.ndarray:
    """The operand as f32 or f64: exact, or rounded to odd where an integer has more than 53 bits."""
    if source.is_float:
        return x if source.bits >= 32 else cast(x, source, _F32, _EXACT)
    if source.bits <= 16:
        return x.astype(np.float32)
    if source.bits < 64:
        return x.astype(np.float64)
    negative = x < 0
    magnitude = np.where(negative, np.negative(x.astype(np.uint64)), x.astype(np.uint64))
    cut = (magnitude >> np.uint64(11) | (magnitude & np.uint64(0x7FF) != 0)) << np.uint64(11)
    odd = np.where(magnitude >> np.uint64(53) != 0, cut, magnitude).astype(np.float64)
    return np.where(negative, -odd, odd)


def _largest(rows: np.ndarray) -> np.ndarray:
    """The largest magnitude of each row as f64; NaN where there is NaN or an infinity."""
    unsigned = np.dtype(f"u{rows.itemsize}")
    mask = unsigned.type((1 << (8 * rows.itemsize - 1)) - 1)
    top = (rows.view(unsigned) & mask).max(axis=1, initial=0).view(rows.dtype).astype(np.float64)
    top[~np.isfinite(top)] = np.nan
    return top


def _elements(
    rows: np.ndarray,
    fmt: BlockFormat,
    scales: np.ndarray,
    of_tensor: np.ndarray | None,
    policy: Policy,
    draws: Draws | None,
) -> np.ndarray:
    """The elements of blocks whose scales, as codes, are given."""
    factors = decode_f64(scales, fmt.scale_format)
    if of_tensor is not None:
        factors = factors * of_tensor
    nearest = policy.rounding in ("nearest_even", "nearest_away", "toward_zero")
    scaled: np.ndarray[Any, Any]
    if fmt.has_power_scale and rows.dtype == np.float32 and nearest:
        # Exact, but where the product is subnormal in f32, and so far below the smallest element that it becomes zero.
        scaled = rows * (1 / factors).astype(np.float32)[:, None]
    elif fmt.has_power_scale:
        scaled = rows * (1 / factors)[:, None]
        vanished = (scaled == 0) & (rows != 0)
        if vanished.any():
            scaled[vanished] = np.copysign(np.finfo(np.float64).tiny, rows[vanished])
    elif rows.dtype == np.float32:
        # A quotient of 24 bits by 28 is never as near to a border between two elements that f64 could take it for that.
        scaled = rows / factors[:, None]
    else:
        scaled = quotient(rows, factors[:, None])
    scaled[np.isnan(factors)] = np.nan
    if fmt.element_format is None:
        return _integers(scaled * scaled.dtype.type(1 << fmt.fraction_bits), policy.rounding, draws)
    return cast(scaled, _F32 if scaled.dtype == np.float32 else _F64, ELEMENT_TYPES[fmt.element], policy, draws)


def _integers(x: np.ndarray, rounding: str, draws: Draws | None) -> np.ndarray:
    """f32 or f64 rounded to int8 from -127 to 127, as a policy's `rounding` says; NaN is 0."""
    match rounding:
        case "nearest_even":
            whole = np.rint(x)
        case "toward_zero":
            whole = np.trunc(x)
        case "up":
            whole = np.ceil(x)
        case "down":
            whole = np.floor(x)
        case "nearest_away":
            whole = np.trunc(x)
            whole = whole + np.copysign(np.abs(x - whole) >= 0.5, x)
        case _:
            assert draws is not None
            whole = np.trunc(x)
            rest = np.ldexp(np.where(np.isfinite(x), np.abs(x - whole), 0.0).astype(np.float64), FRACTION_BITS)
            whole = whole + np.copysign(draws.round_up(rest.astype(np.int64)), x)
    return np.clip(np.where(np.isnan(x), 0, whole), -127, 127).astype(np.int8)
