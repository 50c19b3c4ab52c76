"""Block formats for the tester's oracle: quantize, dequantize, and the values that scaled dots multiply.

It shares no fact and no line with `ops.blocks`. Written from OCP Microscaling Formats (MX) 1.0, sections 5 and 6, the
block scaling of NVIDIA's PTX ISA, and arXiv 2412.19437, section 3.3. The exponent of a scale that is a power of two
follows from significands as integers; the other quotients are those of f64 with the sign of the remainder.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .exact import divide
from .formats import FORMATS, Format
from .rounding import EVEN, INFINITE, OVERFLOW, UP, Exact, encode

RULES = ("floor", "ceil", "even", "rceil", "nearest")
_F32 = FORMATS["f32"]
#: Significands as integers have this many bits.
_BITS = 53


@dataclasses.dataclass(frozen=True)
class Block:
    """The facts of a block format."""

    name: str
    element: str  #: `i8` has six fraction bits
    shape: tuple[int, ...]  #: of a block
    scale: str
    rules: tuple[str, ...]  #: for the scale; the first is that of its source
    has_tensor_scale: bool = False
    zero_scale: float | None = None  #: of a block of zeros; None: the smallest

    @property
    def size(self) -> int:
        """Number of elements along the last dimension of a block."""
        return self.shape[-1]

    @property
    def fmt(self) -> Format | None:
        """The format of the elements; None for integers."""
        return FORMATS.get(self.element)

    @property
    def scale_fmt(self) -> Format:
        """The format of the scales."""
        return FORMATS[self.scale]

    @property
    def has_power_scale(self) -> bool:
        """Whether scales are powers of two."""
        return self.scale_fmt.mantissa_bits == 0

    @property
    def largest(self) -> float:
        """The largest element."""
        return 127 / 64 if self.fmt is None else self.fmt.max

    @property
    def mantissa_bits(self) -> int:
        """The mantissa bits of the largest element."""
        return 6 if self.fmt is None else self.fmt.mantissa_bits

    @property
    def nan_element(self) -> int:
        """The code of an element of a block with NaN scale."""
        return 0 if self.fmt is None else int(encode(self.fmt, Exact.of(np.array([np.nan])))[0][0])

    def scale_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """The shape of the scales of an array."""
        rows = self.shape[0] if len(self.shape) == 2 else 1
        return -(-shape[0] // rows), -(-shape[1] // self.size)

    def spread(self, each: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Repeats one value for each block as one for each element of an array of a shape."""
        if len(self.shape) == 2:
            each = np.repeat(each, self.shape[0], axis=0)
        return np.repeat(each, self.size, axis=1)[: shape[0], : shape[1]]

    def each(self, x: np.ndarray) -> np.ndarray:
        """The elements of each block of an array, padded with zeros: [rows of blocks, blocks, elements]."""
        rows = self.shape[0] if len(self.shape) == 2 else 1
        down, along = self.scale_shape((x.shape[0], x.shape[1]))
        whole = np.zeros((down * rows, along * self.size), x.dtype)
        whole[: x.shape[0], : x.shape[1]] = x
        return whole.reshape(down, rows, along, self.size).transpose(0, 2, 1, 3).reshape(down, along, -1)


_MX = RULES
BLOCKS: dict[str, Block] = {
    b.name: b
    for b in (
        Block("mxfp8_e4m3", "f8E4M3FN", (32,), "f8E8M0FNU", _MX),
        Block("mxfp8_e5m2", "f8E5M2", (32,), "f8E8M0FNU", _MX),
        Block("mxfp6_e2m3", "f6E2M3FN", (32,), "f8E8M0FNU", _MX),
        Block("mxfp6_e3m2", "f6E3M2FN", (32,), "f8E8M0FNU", _MX),
        Block("mxfp4_e2m1", "f4E2M1FN", (32,), "f8E8M0FNU", _MX),
        Block("mxint8", "i8", (32,), "f8E8M0FNU", _MX),
        Block("nvfp4", "f4E2M1FN", (16,), "f8E4M3FN", ("nearest",), has_tensor_scale=True),
        Block("fp4_ue5m3", "f4E2M1FN", (16,), "f8E5M3FNU", ("nearest",)),
        Block("deepseek_1x128", "f8E4M3FN", (128,), "f32", ("nearest",), zero_scale=1.0),
        Block("deepseek_128x128", "f8E4M3FN", (128, 128), "f32", ("nearest",), zero_scale=1.0),
    )
}


@dataclasses.dataclass(frozen=True)
class Quantized:
    """The codes of elements, of scales, and of the tensor's scale if there is one."""

    codes: np.ndarray
    scales: np.ndarray
    tensor_scale: np.ndarray | None = None

    def parts(self) -> list[np.ndarray]:
        """All existing arrays, in this order."""
        return [self.codes, self.scales, *([] if self.tensor_scale is None else [self.tensor_scale])]


def quantize(
    x: np.ndarray, block: Block, rule: str, rounding: str = EVEN, saturates: bool = True, scale_rounding: str = EVEN
) -> Quantized:
    """Quantizes f64 (exact numbers of up to 24 bits, [rows, k]) to blocks along the last dimension."""
    amax = largest_of(x, block)
    of_tensor = tensor_scale(amax) if block.has_tensor_scale else None
    scales = scales_of(amax, block, rule, of_tensor, scale_rounding)
    return Quantized(elements(x, scales, block, of_tensor, rounding, saturates), scales, of_tensor)


def largest_of(x: np.ndarray, block: Block) -> np.ndarray:
    """The largest magnitude of each block; NaN if it has NaN or an infinity."""
    size = np.where(np.isfinite(x), np.abs(x), np.nan)
    return block.each(size).max(axis=-1, initial=0.0)


def tensor_scale(amax: np.ndarray) -> np.ndarray:
    """The f32 code of NVFP4's tensor scale: the largest finite block over 6 * 448, and 1 for zeros alone."""
    most = np.array(np.where(np.isfinite(amax), amax, 0.0).max(initial=0.0))
    if most == 0:
        return np.array(_F32.bias << _F32.mantissa_bits, np.uint32)
    code = encode(_F32, divide(most.reshape(1), np.array([6.0 * 448])))[0]
    return np.clip(code, np.uint32(1), np.uint32(_F32.max_code)).reshape(())


def scales_of(
    amax: np.ndarray, block: Block, rule: str, of_tensor: np.ndarray | None = None, rounding: str = EVEN
) -> np.ndarray:
    """The codes of the scales of blocks."""
    fmt = block.scale_fmt
    known = np.where(np.isnan(amax), 1.0, amax)
    if block.has_power_scale:
        codes = np.maximum(exponents(known, block, rule), -fmt.bias) + fmt.bias
        codes = np.where(known == 0, 0, codes)
        wrong = np.isnan(amax) | (codes > fmt.max_code)
        return np.where(wrong, fmt.ones, codes).astype(fmt.code_dtype)
    divisor = block.largest * (1.0 if of_tensor is None else float(_F32.decode(of_tensor)))
    codes = encode(fmt, divide(known, np.full(known.shape, divisor)), UP if rule == "rceil" else rounding)[0]
    codes = np.maximum(np.where(codes > fmt.max_code, fmt.max_code, codes), 1)
    if block.zero_scale is not None:
        codes = np.where(known == 0, encode(fmt, Exact.of(np.array([block.zero_scale])))[0], codes)
    return np.where(np.isnan(amax), fmt.nan_code or 0, codes).astype(fmt.code_dtype)


def exponents(amax: np.ndarray, block: Block, rule: str) -> np.ndarray:
    """The exponent of the power of two that a rule gives to a block with positive largest magnitude."""
    w, e = _significand(amax)
    (top,), (e_top,) = _significand(np.array([block.largest]))
    one = np.int64(1) << np.int64(_BITS - 1)
    match rule:
        case "floor":
            return e - e_top
        case "ceil":
            return e - e_top + (w != one)
        case "even":  # of amax rounded to the bits of an element, halves away from zero
            below = _BITS - 1 - block.mantissa_bits
            return e - e_top + ((w + (np.int64(1) << np.int64(below - 1))) >> np.int64(_BITS) != 0)
        case "rceil":
            return e - e_top + (w > top)
        case "nearest":
            is_less = w < top
            return e - e_top - is_less + (np.where(is_less, 4, 2) * w >= 3 * top)
    raise ValueError(f"expected one of {', '.join(RULES)}, got {rule!r}")


def _significand(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Significands of _BITS bits as integers, and exponents with which a significand is a fraction from 1/2 to 1."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(fraction, _BITS).astype(np.int64), exponent.astype(np.int64)


def factors(scales: np.ndarray, block: Block, of_tensor: np.ndarray | None = None) -> np.ndarray:
    """The value of each scale, including the tensor's: exact in f64."""
    value = block.scale_fmt.decode(scales)
    return value if of_tensor is None else value * _F32.decode(of_tensor)


def elements(
    x: np.ndarray,
    scales: np.ndarray,
    block: Block,
    of_tensor: np.ndarray | None = None,
    rounding: str = EVEN,
    saturates: bool = True,
) -> np.ndarray:
    """The codes of numbers divided by the scales of their blocks."""
    shape = x.shape[0], x.shape[1]
    return encode_elements(x, block.spread(factors(scales, block, of_tensor), shape), block, rounding, saturates)


def encode_elements(
    x: np.ndarray, factor: np.ndarray, block: Block, rounding: str = EVEN, saturates: bool = True
) -> np.ndarray:
    """The codes of numbers divided by a factor each; NaN factors give NaN if the elements have it."""
    unknown = np.isnan(factor)
    exact = divide(np.where(unknown, 1.0, x), np.where(unknown, 1.0, factor))
    # The remainder of a division is meaningless for zeros and infinities.
    exact = Exact(exact.value, np.where((x == 0) | ~np.isfinite(x), np.int8(0), exact.side))
    if block.fmt is None:
        whole = np.rint(exact.value * 64)  # exact: f64 rounds no quotient to a tie
        whole = np.clip(np.where(unknown | np.isnan(whole), 0, whole), -127, 127)
        return whole.astype(np.int64).astype(np.int8).view(np.uint8)
    codes, left_open = encode(block.fmt, exact, rounding)
    if saturates:
        top = np.where(np.signbit(exact.value), block.fmt.max_code | block.fmt.sign_bit, block.fmt.max_code)
        codes = np.where((left_open == OVERFLOW) | (left_open == INFINITE) | np.isinf(exact.value), top, codes)
    return np.where(unknown, block.nan_element, codes).astype(block.fmt.code_dtype)


def values(codes: np.ndarray, block: Block) -> np.ndarray:
    """The numbers of elements before scaling."""
    return codes.astype(np.uint8).view(np.int8) / 64.0 if block.fmt is None else block.fmt.decode(codes)


def apply_scales(
    codes: np.ndarray, scales: np.ndarray, block: Block, of_tensor: np.ndarray | None = None
) -> np.ndarray:
    """The numbers represented by blocks, exact in f64."""
    with np.errstate(invalid="ignore"):
        each = block.spread(factors(scales, block, of_tensor), (codes.shape[0], codes.shape[1]))
        product = values(codes, block) * each
    return np.where(np.isnan(product), np.nan, product)


def dequantize(
    codes: np.ndarray, scales: np.ndarray, block: Block, result: str, of_tensor: np.ndarray | None = None
) -> np.ndarray:
    """The numbers represented by blocks, rounded once to a type: codes."""
    return encode(FORMATS[result], Exact.of(apply_scales(codes, scales, block, of_tensor)))[0]
