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


def of_dequantize(change: Callable[[BlockPart, np.ndarray, np.ndarray], np.ndarray | None]) -> Codes:
    """Makes a choice or a fault of dequantize from a function of a part, its elements' codes and the blocks' factors,
    which gives the numbers that are rounded to results."""

    def of(part: BlockPart) -> np.ndarray | None:
        if part.case.op != "dequantize":
            return None
        codes, scales, *rest = part.arrays
        with np.errstate(all="ignore"):
            found = change(part, codes, oracle.factors(scales, part.block, *rest))
            return None if found is None else part.concatenate([encode(FORMATS[part.case.result], Exact.of(found))[0]])

    return of


def with_scales(part: BlockPart, x: np.ndarray, scales: np.ndarray, of_tensor: np.ndarray | None = None) -> Quantized:
    """Quantizes numbers with the given scales."""
    scales = scales.astype(part.block.scale_fmt.code_dtype)
    return Quantized(oracle.elements(x, scales, part.block, of_tensor), scales, of_tensor)


def _amax(x: np.ndarray, block: Block, nan: float, infinity: float) -> np.ndarray:
    """The largest magnitude of each block, with the given substitutes for NaN and infinities."""
    size = np.where(np.isnan(x), nan, np.where(np.isinf(x), infinity, np.abs(x)))
    return block.each(size).max(axis=-1, initial=0.0)


def _from_amax(part: BlockPart, x: np.ndarray, nan: float, infinity: float) -> Quantized:
    block = part.block
    of_tensor = oracle.tensor_scale(oracle.largest_of(x, block)) if block.has_tensor_scale else None
    return with_scales(
        part, x, oracle.scales_of(_amax(x, block, nan, infinity), block, part.rule, of_tensor), of_tensor
    )


def _largest_scale(part: BlockPart, x: np.ndarray) -> Quantized:
    right = oracle.quantize(x, part.block, part.rule)
    infinite = np.isinf(_amax(x, part.block, np.nan, np.inf))
    return with_scales(part, x, np.where(infinite, part.block.scale_fmt.max_code, right.scales), right.tensor_scale)


def _zero_scale(part: BlockPart, x: np.ndarray, value: float) -> Quantized | None:
    """Another scale for blocks of zeros."""
    fmt = part.block.scale_fmt
    if value == 0 and not fmt.has_zero:
        return None
    right = oracle.quantize(x, part.block, part.rule)
    zeros = _amax(x, part.block, np.nan, np.inf) == 0
    scales = np.where(zeros, encode(fmt, Exact.of(np.array([value])))[0][0], right.scales)
    return Quantized(right.codes, scales.astype(right.scales.dtype), right.tensor_scale)


def _in_f32(part: BlockPart, x: np.ndarray, by_reciprocal: bool, by_logarithm: bool) -> Quantized | None:
    """The exponent of amax / largest, rounded up, of a quotient in f32; by a logarithm in f32, or of the quotient."""
    if part.rule != "rceil" or not part.block.has_power_scale:
        return None
    amax, largest = oracle.largest_of(x, part.block).astype(np.float32), part.block.largest
    share = amax * np.float32(1 / largest) if by_reciprocal else amax / np.float32(largest)
    positive = np.where(share > 0, share, 1).astype(np.float64)
    if by_logarithm:
        power = np.ceil(np.log2(positive).astype(np.float32)).astype(np.int64)
    else:
        fraction, exponent = np.frexp(positive)
        power = exponent - (fraction == 0.5)
    codes = np.where(share == 0, 0, np.where(np.isnan(share), 255, np.clip(power, -127, 127) + 127))
    return with_scales(part, x, np.where(np.isinf(_amax(x, part.block, np.nan, np.inf)), 254, codes))


def _in_steps(part: BlockPart, x: np.ndarray, least: float, reciprocal: bool) -> Quantized | None:
    """NVFP4 with each step rounded to f32: amax / 6, then divided by the tensor's scale."""
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
    shared = block.spread((f32(1) / whole) / block.scale_fmt.decode(scales).astype(f32), x.shape[:2])
    numbers = (x.astype(f32) * shared).astype(np.float64)
    return Quantized(oracle.encode_elements(numbers, np.where(np.isnan(shared), np.nan, 1.0), block), scales, of_tensor)


def _one_scale(part: BlockPart, codes: np.ndarray, factors: np.ndarray) -> np.ndarray | None:
    """Dequantized numbers with the product of both scales rounded to f32 first."""
    if not part.block.has_tensor_scale:
        return None
    rounded = factors.astype(np.float32).astype(np.float64)
    numbers = oracle.values(codes, part.block) * part.block.spread(rounded, codes.shape[:2])
    return _F32.decode(encode(_F32, Exact.of(numbers))[0])


def _flushed(part: BlockPart, codes: np.ndarray, factors: np.ndarray, least: float) -> np.ndarray:
    """Dequantized numbers, zero where they are subnormal in f32 or their scale is below a number."""
    each = part.block.spread(factors, codes.shape[:2])
    numbers = oracle.values(codes, part.block) * np.where(np.abs(each) < least, 0.0, each)
    return _without_subnormals(numbers)


def _without_subnormals(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(0.0, x), x)


_LEAST, _NORMAL = 2.0**-9, 2.0**-6  # of f8E4M3FN
_FLUSHED = "subnormal numbers of f32 are taken for zero"
_CHOICES: tuple[tuple[str, str, str, Codes], ...] = (
    *((point, name, words, of_quantize(change)) for point, name, words, change in (
        ("block-with-nan", "nan-elements", "only the elements that are NaN become NaN",
         lambda p, x: _from_amax(p, x, 0.0, np.nan)),
        ("block-with-infinity", "largest-scale", "the largest scale, and infinities saturate", _largest_scale),
        ("block-with-infinity", "next-power", "infinities count as 2^128, and saturate",
         lambda p, x: _from_amax(p, x, np.nan, 2.0**128)),
        ("block-with-infinity", "finite-scale", "the scale of the others, and infinities saturate",
         lambda p, x: _from_amax(p, x, np.nan, 0)),
        ("block-of-zeros", "one", "the scale is 1", lambda p, x: _zero_scale(p, x, 1.0)),
        ("block-of-zeros", "zero", "the scale is 0", lambda p, x: _zero_scale(p, x, 0.0)),
        ("block-of-zeros", "normal", "the scale is 2^-6", lambda p, x: _zero_scale(p, x, _NORMAL)),
        ("subnormal-block", "flushed", _FLUSHED,
         lambda p, x: oracle.quantize(_without_subnormals(x), p.block, p.rule)),
        ("beyond-the-largest-element", "not-saturated", "elements beyond the largest do not saturate",
         lambda p, x: oracle.quantize(x, p.block, p.rule, saturates=False)),
        ("scale-rceil", "quotient", "amax / largest is rounded to f32", lambda p, x: _in_f32(p, x, False, False)),
        ("scale-rceil", "logarithm", "the logarithm of amax / largest is rounded to f32",
         lambda p, x: _in_f32(p, x, False, True)),
        ("scale-rceil", "reciprocal", "amax is multiplied by a rounded reciprocal",
         lambda p, x: _in_f32(p, x, True, False)),
        ("two-scales", "steps", "each quotient is rounded to f32", lambda p, x: _in_steps(p, x, _LEAST, False)),
        ("two-scales", "reciprocal", "multiplied by a rounded reciprocal of both scales",
         lambda p, x: _in_steps(p, x, _LEAST, True)),
        ("two-scales", "normal-steps", "each quotient in f32, scales from 2^-6 on",
         lambda p, x: _in_steps(p, x, _NORMAL, False)),
        ("two-scales", "normal-reciprocal", "multiplied by a rounded reciprocal of both scales, which begin at 2^-6",
         lambda p, x: _in_steps(p, x, _NORMAL, True)),
    )),
    # Some implementations join the fraction of an integer element to the scale.
    *(("subnormal-block", name, words, of_dequantize(lambda p, c, f, least=least: _flushed(p, c, f, least)))
      for name, words, least in (("flushed", _FLUSHED, 2.0**-126), ("flushed", _FLUSHED, 2.0**-120),
                                 ("flushed-results", "subnormal results are zero", 0.0))),
    ("two-scales", "rounded", "the product of both scales is rounded to f32", of_dequantize(_one_scale)),
)  # fmt: skip
CHOICES: tuple[Choice, ...] = tuple(Choice(name, words, compute=of, point=p) for p, name, words, of in _CHOICES)
