"""Choices that block formats leave open to a backend: other results that are no errors.

The points are those of `ops.blocks.open_points`, with the same identifiers. A choice gives the codes of all results, so
that a block is explained only by equal codes. Sources of the choices: torchao 0.18, microxcaling, NVIDIA's PTX.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...judging.record import Choice
from ...oracle import blocks as oracle
from ...oracle.blocks import Block, Quantized
from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact, encode
from ..block_parts import BlockPart

_F32 = FORMATS["f32"]
#: The concatenated codes of a part; None if the choice does not differ from the right result.
Codes = Callable[[BlockPart], np.ndarray | None]
Changed = Callable[[BlockPart, np.ndarray], Quantized | None]


def of_quantize(change: Changed) -> Codes:
    """Makes a choice or a fault of quantize from a function of a part and its numbers."""

    def of(part: BlockPart) -> np.ndarray | None:
        if part.case.op != "quantize":
            return None
        with np.errstate(all="ignore"):
            found = change(part, part.numbers)
        return None if found is None else part.of(found)

    return of


def with_scales(part: BlockPart, x: np.ndarray, scales: np.ndarray, of_tensor: np.ndarray | None = None) -> Quantized:
    """Quantizes numbers with the given scales."""
    scales = scales.astype(part.block.scale_fmt.code_dtype)
    return Quantized(oracle.elements(x, scales, part.block, of_tensor), scales, of_tensor)


def _amax(x: np.ndarray, block: Block, nan: float, infinity: float) -> np.ndarray:
    """The largest magnitude of each block, with the given substitutes for NaN and infinities."""
    size = np.where(np.isnan(x), nan, np.where(np.isinf(x), infinity, np.abs(x)))
    return block.each(size).max(axis=-1, initial=0.0)


def _from_amax(nan: float, infinity: float) -> Changed:
    def of(part: BlockPart, x: np.ndarray) -> Quantized:
        block = part.block
        of_tensor = oracle.tensor_scale(oracle.largest_of(x, block)) if block.has_tensor_scale else None
        scales = oracle.scales_of(_amax(x, block, nan, infinity), block, part.rule, of_tensor)
        return with_scales(part, x, scales, of_tensor)

    return of


def _largest_scale(part: BlockPart, x: np.ndarray) -> Quantized:
    right = oracle.quantize(x, part.block, part.rule)
    infinite = np.isinf(_amax(x, part.block, np.nan, np.inf))
    return with_scales(part, x, np.where(infinite, part.block.scale_fmt.max_code, right.scales), right.tensor_scale)


def _zero_scale(value: float) -> Changed:
    """Another scale for blocks of zeros."""

    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        fmt = part.block.scale_fmt
        if value == 0 and not fmt.has_zero:
            return None
        right = oracle.quantize(x, part.block, part.rule)
        zeros = _amax(x, part.block, np.nan, np.inf) == 0
        scales = np.where(zeros, encode(fmt, Exact.of(np.array([value])))[0][0], right.scales)
        return Quantized(right.codes, scales.astype(right.scales.dtype), right.tensor_scale)

    return of


def _flush(part: BlockPart, x: np.ndarray) -> Quantized:
    return oracle.quantize(np.where(np.abs(x) < 2.0**-126, np.copysign(0.0, x), x), part.block, part.rule)


def _without_saturation(part: BlockPart, x: np.ndarray) -> Quantized:
    return oracle.quantize(x, part.block, part.rule, saturates=False)


def _in_f32(quotient: Callable[[np.ndarray, float], np.ndarray], by_logarithm: bool) -> Changed:
    """The exponent of amax / largest, rounded up, of a quotient in f32; by a logarithm in f32, or of the quotient."""

    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        if part.rule != "rceil" or not part.block.has_power_scale:
            return None
        share = quotient(oracle.largest_of(x, part.block).astype(np.float32), part.block.largest)
        positive = np.where(share > 0, share, 1).astype(np.float64)
        if by_logarithm:
            power = np.ceil(np.log2(positive).astype(np.float32)).astype(np.int64)
        else:
            fraction, exponent = np.frexp(positive)
            power = exponent - (fraction == 0.5)
        codes = np.clip(power, -127, 127) + 127
        codes = np.where(share == 0, 0, np.where(np.isnan(share), 255, codes))
        infinite = np.isinf(_amax(x, part.block, np.nan, np.inf))
        return with_scales(part, x, np.where(infinite, 254, codes))

    return of


def _quotient(amax: np.ndarray, largest: float) -> np.ndarray:
    return amax / np.float32(largest)


def _by_reciprocal(amax: np.ndarray, largest: float) -> np.ndarray:
    return amax * np.float32(1 / largest)


def _in_steps(least: float, reciprocal: bool) -> Changed:
    """NVFP4 with each step rounded to f32: amax / 6, then divided by the tensor's scale."""

    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        block, f32 = part.block, np.float32
        if not block.has_tensor_scale or part.rule != "nearest":
            return None
        amax = oracle.largest_of(x, block)
        of_tensor = oracle.tensor_scale(amax)
        whole = f32(_F32.decode(of_tensor))
        share = ((amax.astype(f32) / f32(6)) / whole).astype(np.float64)
        codes = encode(block.scale_fmt, Exact.of(np.clip(share, least, block.scale_fmt.max)))[0]
        scales = np.where(np.isnan(amax), block.scale_fmt.nan_code or 0, codes).astype(block.scale_fmt.code_dtype)
        if not reciprocal:
            return with_scales(part, x, scales, of_tensor)
        factors = (f32(1) / whole) / block.scale_fmt.decode(scales).astype(f32)
        shared = block.spread(factors, (x.shape[0], x.shape[1]))
        numbers = (x.astype(f32) * shared).astype(np.float64)
        one = np.where(np.isnan(shared), np.nan, 1.0)
        return Quantized(oracle.encode_elements(numbers, one, block), scales, of_tensor)

    return of


def _one_scale(part: BlockPart) -> np.ndarray | None:
    """Dequantized numbers with the product of both scales rounded to f32 first."""
    if part.case.op != "dequantize" or not part.block.has_tensor_scale:
        return None
    codes, scales, *rest = part.arrays
    factors = oracle.factors(scales, part.block, *rest).astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        numbers = oracle.values(codes, part.block) * part.block.spread(factors, (codes.shape[0], codes.shape[1]))
    wide = FORMATS["f32"].decode(encode(FORMATS["f32"], Exact.of(numbers))[0])
    return part.concatenate([encode(FORMATS[part.case.result], Exact.of(wide))[0]])


_LEAST, _NORMAL = 2.0**-9, 2.0**-6  # of f8E4M3FN
_CHOICES: tuple[tuple[str, str, str, Changed], ...] = (
    ("block-with-nan", "nan-elements", "only the elements that are NaN become NaN", _from_amax(0.0, np.nan)),
    ("block-with-infinity", "largest-scale", "the largest scale, and infinities saturate", _largest_scale),
    ("block-with-infinity", "next-power", "infinities count as 2^128, and saturate", _from_amax(np.nan, 2.0**128)),
    ("block-with-infinity", "finite-scale", "the scale of the others, and infinities saturate", _from_amax(np.nan, 0)),
    ("block-of-zeros", "one", "the scale is 1", _zero_scale(1.0)),
    ("block-of-zeros", "zero", "the scale is 0", _zero_scale(0.0)),
    ("block-of-zeros", "normal", "the scale is 2^-6", _zero_scale(_NORMAL)),
    ("subnormal-block", "flushed", "subnormal numbers of f32 are taken for zero", _flush),
    ("beyond-the-largest-element", "not-saturated", "elements beyond the largest do not saturate", _without_saturation),
    ("scale-rceil", "quotient", "amax / largest is rounded to f32", _in_f32(_quotient, False)),
    ("scale-rceil", "logarithm", "the logarithm of amax / largest is rounded to f32", _in_f32(_quotient, True)),
    ("scale-rceil", "reciprocal", "amax is multiplied by a rounded reciprocal", _in_f32(_by_reciprocal, False)),
    ("two-scales", "steps", "each quotient is rounded to f32", _in_steps(_LEAST, False)),
    ("two-scales", "reciprocal", "multiplied by a rounded reciprocal of both scales", _in_steps(_LEAST, True)),
    ("two-scales", "normal-steps", "each quotient in f32, scales from 2^-6 on", _in_steps(_NORMAL, False)),
    ("two-scales", "normal-reciprocal", "multiplied by a rounded reciprocal of both scales, which begin at 2^-6",
     _in_steps(_NORMAL, True)),
)  # fmt: skip


def _products(flushed: float) -> Codes:
    """Dequantized numbers with results that are subnormal in f32 flushed, and with scales below a number flushed."""

    def of(part: BlockPart) -> np.ndarray | None:
        if part.case.op != "dequantize":
            return None
        codes, scales, *rest = part.arrays
        with np.errstate(all="ignore"):
            each = part.block.spread(oracle.factors(scales, part.block, *rest), (codes.shape[0], codes.shape[1]))
            each = np.where(np.abs(each) < flushed, 0.0, each)
            numbers = oracle.values(codes, part.block) * each
        numbers = np.where(np.abs(numbers) < 2.0**-126, np.copysign(0.0, numbers), numbers)
        return part.concatenate([encode(FORMATS[part.case.result], Exact.of(numbers))[0]])

    return of


_OF_DEQUANTIZE: tuple[tuple[str, str, str, Codes], ...] = (
    ("subnormal-block", "flushed", "subnormal numbers of f32 are taken for zero", _products(2.0**-126)),
    # Some implementations join the fraction of an integer element to the scale.
    ("subnormal-block", "flushed", "subnormal numbers of f32 are taken for zero", _products(2.0**-120)),
    ("subnormal-block", "flushed-results", "subnormal results are zero", _products(0.0)),
    ("two-scales", "rounded", "the product of both scales is rounded to f32", _one_scale),
)
CHOICES: tuple[Choice, ...] = tuple(
    Choice(name, words, compute=of, point=point)
    for point, name, words, of in (*((p, n, w, of_quantize(of)) for p, n, w, of in _CHOICES), *_OF_DEQUANTIZE)
)
