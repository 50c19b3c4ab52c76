"""Named faults of quantize and dequantize: each gives the codes of all results of a backend that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...judging.record import Fault
from ...oracle import blocks as oracle
from ...oracle import rounding
from ...oracle.blocks import Quantized
from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact, encode
from ..block_parts import BlockPart
from .block_choices import Changed, Codes, of_quantize, with_scales
from .block_readings import READINGS, Side, exchange_neighbours, in_type, partial


def _right(part: BlockPart, x: np.ndarray) -> Quantized:
    return oracle.quantize(x, part.block, part.rule)


def _factors(part: BlockPart, found: Quantized) -> np.ndarray:
    shape = part.numbers.shape
    return part.block.spread(oracle.factors(found.scales, part.block, found.tensor_scale), (shape[0], shape[1]))


def _with_factors(factors: Callable[[np.ndarray], np.ndarray]) -> Changed:
    """The right scales, and elements of other factors."""

    def of(part: BlockPart, x: np.ndarray) -> Quantized:
        found = _right(part, x)
        codes = oracle.encode_elements(x, factors(_factors(part, found)), part.block)
        return Quantized(codes, found.scales, found.tensor_scale)

    return of


def _of_rule(rule: str) -> Changed:
    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        if rule == part.rule or not part.block.has_power_scale:
            return None
        return oracle.quantize(x, part.block, rule)

    return of


def _of_scale_rounding(how: str) -> Changed:
    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        if part.block.has_power_scale or (how == rounding.UP and part.rule == "rceil"):
            return None
        return oracle.quantize(x, part.block, "nearest", scale_rounding=how)

    return of


def _shift_scales(steps: int) -> Changed:
    """Each scale off by so many steps."""

    def of(part: BlockPart, x: np.ndarray) -> Quantized:
        found, fmt = _right(part, x), part.block.scale_fmt
        moved = np.clip(found.scales.astype(np.int64) + steps, 0, fmt.max_code)
        return with_scales(part, x, np.where(fmt.is_nan(found.scales), found.scales, moved), found.tensor_scale)

    return of


def _along_the_other_axis(how: Callable[[np.ndarray, tuple[int, ...]], np.ndarray]) -> Changed:
    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        found = oracle.quantize(x.T, part.block, part.rule)
        wanted = part.block.scale_shape((x.shape[0], x.shape[1]))
        if len(part.block.shape) == 2 or found.scales.size != np.prod(wanted):
            return None
        return Quantized(found.codes.T, how(found.scales, wanted), found.tensor_scale)

    return of


def _partial_unscaled(scale_too: bool) -> Changed:
    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        last = partial(part.block, x.shape)
        if not last.any():
            return None
        found, fmt = _right(part, x), part.block.scale_fmt
        one = encode(fmt, Exact.of(np.array([1.0])))[0][0]
        spread = part.block.spread(last, (x.shape[0], x.shape[1]))
        codes = oracle.encode_elements(x, np.where(spread, 1.0, _factors(part, found)), part.block)
        scales = np.where(last, one, found.scales).astype(found.scales.dtype) if scale_too else found.scales
        return Quantized(codes, scales, found.tensor_scale)

    return of


def _through(name: str) -> Changed:
    """Rounds numbers to another type first."""

    def of(part: BlockPart, x: np.ndarray) -> Quantized:
        return _right(part, in_type(x, name))

    return of


def _quotients_through(name: str) -> Changed:
    """Rounds quotients to another type before they become elements."""

    def of(part: BlockPart, x: np.ndarray) -> Quantized:
        found = _right(part, x)
        factors = _factors(part, found)
        codes = oracle.encode_elements(in_type(x / factors, name), np.where(np.isnan(factors), np.nan, 1.0), part.block)
        return Quantized(codes, found.scales, found.tensor_scale)

    return of


def _nibbles(part: BlockPart, x: np.ndarray) -> Quantized | None:
    if part.block.fmt is None or part.block.fmt.bits != 4:
        return None
    found = _right(part, x)
    return Quantized(exchange_neighbours(found.codes), found.scales, found.tensor_scale)


def _round_elements(how: str) -> Changed:
    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        return None if part.block.fmt is None else oracle.quantize(x, part.block, part.rule, how)

    return of


def _smallest_scale(value: float) -> Changed:
    """Reads the scale of code 0 as another number."""

    def of(part: BlockPart, x: np.ndarray) -> Quantized | None:
        if not part.block.has_power_scale:
            return None
        return _with_factors(lambda f: np.where(f == 2.0**-127, value, f))(part, x)

    return of


def _roll(part: BlockPart, x: np.ndarray, elements: int, scales: int) -> Quantized:
    found = _right(part, x)
    return Quantized(np.roll(found.codes, elements, 1), np.roll(found.scales, scales, 1), found.tensor_scale)


_QUANTIZE: tuple[tuple[str, str, Changed], ...] = (
    *(
        (f"scale-rule-{rule}", f"the scales are those of the rule {rule}", _of_rule(rule))
        for rule in oracle.RULES
    ),
    ("scale-rounded-up", "the scales are rounded up", _of_scale_rounding(rounding.UP)),
    ("scale-rounded-down", "the scales are rounded down", _of_scale_rounding(rounding.DOWN)),
    ("scale-too-large", "each scale is one step too large", _shift_scales(1)),
    ("scale-too-small", "each scale is one step too small", _shift_scales(-1)),
    ("scale-twice", "elements are divided by their scale twice", _with_factors(lambda f: f * f)),
    ("scale-inverted", "elements are multiplied by their scale", _with_factors(lambda f: 1 / f)),
    ("unscaled", "elements are not scaled", _with_factors(np.ones_like)),
    ("wrong-axis", "blocks lie along the other axis", _along_the_other_axis(lambda s, _: s.T)),
    ("wrong-axis", "blocks lie along the other axis", _along_the_other_axis(lambda s, shape: s.reshape(shape))),
    ("partial-block-unscaled", "the last block, which is not full, is not scaled", _partial_unscaled(True)),
    ("partial-block-unscaled", "the last block, which is not full, is not scaled", _partial_unscaled(False)),
    ("through-bf16", "numbers are rounded to bf16 before they are quantized", _through("bf16")),
    ("through-f16", "numbers are rounded to f16 before they are quantized", _through("f16")),
    ("quotients-through-bf16", "quotients are rounded to bf16 before they become elements", _quotients_through("bf16")),
    ("quotients-through-f16", "quotients are rounded to f16 before they become elements", _quotients_through("f16")),
    ("nibbles-exchanged", "the low and the high four bits of each byte are exchanged", _nibbles),
    ("smallest-scale", "the scale of code 0 counts as 2^-126; it is 2^-127", _smallest_scale(2.0**-126)),
    ("smallest-scale", "the scale of code 0 counts as 1; it is 2^-127", _smallest_scale(1.0)),
    ("elements-toward-zero", "elements are rounded toward zero", _round_elements(rounding.TOWARD_ZERO)),
    ("elements-ties-away", "elements are rounded to nearest, ties away from zero", _round_elements(rounding.AWAY)),
    *(
        ("element-off-by-one", "each element is in the place of its neighbour", lambda p, x, n=n: _roll(p, x, n, 0))
        for n in (1, -1)
    ),
    *(
        ("scale-off-by-one", "each scale is in the place of its neighbour", lambda p, x, n=n: _roll(p, x, 0, n))
        for n in (1, -1)
    ),
)  # fmt: skip


def _of_dequantize(side: Side) -> Codes:
    def of(part: BlockPart) -> np.ndarray | None:
        if part.case.op != "dequantize":
            return None
        codes, scales, *rest = part.arrays
        with np.errstate(all="ignore"):
            found = side(part.block, codes, oracle.factors(scales, part.block, *rest))
            return None if found is None else part.concatenate([encode(FORMATS[part.case.result], Exact.of(found))[0]])

    return of


def faults() -> Iterator[Fault]:
    """The faults of quantize and dequantize, the likeliest first."""
    yield from (Fault(name, sentence, of_quantize(change)) for name, sentence, change in _QUANTIZE)
    for name, sentence, side, ops in READINGS:
        if "dequantize" in ops:
            yield Fault(name, sentence.format(""), _of_dequantize(side))
