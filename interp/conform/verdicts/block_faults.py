"""Named faults of quantize and dequantize: each gives the codes of all results of a backend that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...judging.record import Fault
from ...oracle import blocks as oracle
from ...oracle import rounding
from ...oracle.blocks import Quantized
from ...oracle.rounding import Exact, encode
from ..block_parts import BlockPart
from .block_choices import Changed, of_dequantize, of_quantize, with_scales
from .block_readings import READINGS, exchange_neighbours, in_type, partial


def _right(part: BlockPart, x: np.ndarray) -> Quantized:
    return oracle.quantize(x, part.block, part.rule)


def _factors(part: BlockPart, found: Quantized) -> np.ndarray:
    return part.block.spread(oracle.factors(found.scales, part.block, found.tensor_scale), part.numbers.shape[:2])


def _with_factors(part: BlockPart, x: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> Quantized:
    """The right scales, and elements of other factors."""
    found = _right(part, x)
    codes = oracle.encode_elements(x, change(_factors(part, found)), part.block)
    return Quantized(codes, found.scales, found.tensor_scale)


def _of_rule(part: BlockPart, x: np.ndarray, rule: str) -> Quantized | None:
    is_other = rule != part.rule and part.block.has_power_scale
    return oracle.quantize(x, part.block, rule) if is_other else None


def _round_scales(part: BlockPart, x: np.ndarray, how: str) -> Quantized | None:
    is_usual = part.block.has_power_scale or (how == rounding.UP and part.rule == "rceil")
    return None if is_usual else oracle.quantize(x, part.block, "nearest", scale_rounding=how)


def _shift_scales(part: BlockPart, x: np.ndarray, steps: int) -> Quantized:
    """Each scale off by so many steps."""
    found, fmt = _right(part, x), part.block.scale_fmt
    moved = np.clip(found.scales.astype(np.int64) + steps, 0, fmt.max_code)
    return with_scales(part, x, np.where(fmt.is_nan(found.scales), found.scales, moved), found.tensor_scale)


def _along_the_other_axis(part: BlockPart, x: np.ndarray, is_transposed: bool) -> Quantized | None:
    found = oracle.quantize(x.T, part.block, part.rule)
    wanted = part.block.scale_shape(x.shape[:2])
    if len(part.block.shape) == 2 or found.scales.size != np.prod(wanted):
        return None
    return Quantized(
        found.codes.T, found.scales.T if is_transposed else found.scales.reshape(wanted), found.tensor_scale
    )


def _partial_unscaled(part: BlockPart, x: np.ndarray, scale_too: bool) -> Quantized | None:
    last = partial(part.block, x.shape)
    if not last.any():
        return None
    spread = part.block.spread(last, x.shape[:2])
    found = _with_factors(part, x, lambda factors: np.where(spread, 1.0, factors))
    one = encode(part.block.scale_fmt, Exact.of(np.array([1.0])))[0][0]
    scales = np.where(last, one, found.scales).astype(found.scales.dtype) if scale_too else found.scales
    return Quantized(found.codes, scales, found.tensor_scale)


def _quotients_through(part: BlockPart, x: np.ndarray, name: str) -> Quantized:
    """Rounds quotients to another type before they become elements."""
    found = _right(part, x)
    factors = _factors(part, found)
    codes = oracle.encode_elements(in_type(x / factors, name), np.where(np.isnan(factors), np.nan, 1.0), part.block)
    return Quantized(codes, found.scales, found.tensor_scale)


def _nibbles(part: BlockPart, x: np.ndarray) -> Quantized | None:
    if part.block.fmt is None or part.block.fmt.bits != 4:
        return None
    found = _right(part, x)
    return Quantized(exchange_neighbours(found.codes), found.scales, found.tensor_scale)


def _smallest_scale(part: BlockPart, x: np.ndarray, value: float) -> Quantized | None:
    """Reads the scale of code 0 as another number."""
    has_one = part.block.has_power_scale
    return _with_factors(part, x, lambda f: np.where(f == 2.0**-127, value, f)) if has_one else None


def _roll(part: BlockPart, x: np.ndarray, elements: int, scales: int) -> Quantized:
    found = _right(part, x)
    return Quantized(np.roll(found.codes, elements, 1), np.roll(found.scales, scales, 1), found.tensor_scale)


def _round_elements(part: BlockPart, x: np.ndarray, how: str) -> Quantized | None:
    return None if part.block.fmt is None else oracle.quantize(x, part.block, part.rule, how)


_UP, _DOWN, _CUT, _AWAY = rounding.UP, rounding.DOWN, rounding.TOWARD_ZERO, rounding.AWAY
_QUANTIZE: tuple[tuple[str, str, Changed], ...] = (
    *((f"scale-rule-{rule}", f"the scales are those of the rule {rule}", lambda p, x, r=rule: _of_rule(p, x, r))
      for rule in oracle.RULES),
    ("scale-rounded-up", "the scales are rounded up", lambda p, x: _round_scales(p, x, _UP)),
    ("scale-rounded-down", "the scales are rounded down", lambda p, x: _round_scales(p, x, _DOWN)),
    ("scale-too-large", "each scale is one step too large", lambda p, x: _shift_scales(p, x, 1)),
    ("scale-too-small", "each scale is one step too small", lambda p, x: _shift_scales(p, x, -1)),
    ("scale-twice", "elements are divided by their scale twice", lambda p, x: _with_factors(p, x, lambda f: f * f)),
    ("scale-inverted", "elements are multiplied by their scale", lambda p, x: _with_factors(p, x, lambda f: 1 / f)),
    ("unscaled", "elements are not scaled", lambda p, x: _with_factors(p, x, np.ones_like)),
    *(("wrong-axis", "blocks lie along the other axis", lambda p, x, t=turned: _along_the_other_axis(p, x, t))
      for turned in (True, False)),
    *(("partial-block-unscaled", "the last block, which is not full, is not scaled",
       lambda p, x, too=too: _partial_unscaled(p, x, too)) for too in (True, False)),
    *((f"through-{t}", f"numbers are rounded to {t} before they are quantized",
       lambda p, x, t=t: _right(p, in_type(x, t))) for t in ("bf16", "f16")),
    *((f"quotients-through-{t}", f"quotients are rounded to {t} before they become elements",
       lambda p, x, t=t: _quotients_through(p, x, t)) for t in ("bf16", "f16")),
    ("nibbles-exchanged", "the low and the high four bits of each byte are exchanged", _nibbles),
    ("smallest-scale", "the scale of code 0 counts as 2^-126; it is 2^-127",
     lambda p, x: _smallest_scale(p, x, 2.0**-126)),
    ("smallest-scale", "the scale of code 0 counts as 1; it is 2^-127", lambda p, x: _smallest_scale(p, x, 1.0)),
    ("elements-toward-zero", "elements are rounded toward zero", lambda p, x: _round_elements(p, x, _CUT)),
    ("elements-ties-away", "elements are rounded to nearest, ties away from zero",
     lambda p, x: _round_elements(p, x, _AWAY)),
    *(("element-off-by-one", "each element is in the place of its neighbour", lambda p, x, n=n: _roll(p, x, n, 0))
      for n in (1, -1)),
    *(("scale-off-by-one", "each scale is in the place of its neighbour", lambda p, x, n=n: _roll(p, x, 0, n))
      for n in (1, -1)),
)  # fmt: skip


def faults() -> Iterator[Fault]:
    """The faults of quantize and dequantize, the likeliest first."""
    yield from (Fault(name, sentence, of_quantize(change)) for name, sentence, change in _QUANTIZE)
    for name, sentence, side, ops in READINGS:
        if "dequantize" in ops:
            yield Fault(name, sentence.format(""), of_dequantize(lambda p, c, f, side=side: side(p.block, c, f)))
