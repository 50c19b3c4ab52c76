"""Named faults of blocks, and ways to read them that are none.

A fault of quantize or dequantize gives the codes of all results of a backend that has it; a way to read the operands of
a dot gives the part with its operands as they are read.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ...judging.record import Fault
from ...oracle import blocks as oracle
from ...oracle import rounding
from ...oracle.blocks import Block, Quantized
from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact, encode
from ..block_parts import BlockPart, ScaledPart
from .block_choices import Changed, of_dequantize, of_quantize, with_scales


def _in_type(x: np.ndarray, name: str) -> np.ndarray:
    """Numbers rounded to a type."""
    return FORMATS[name].decode(encode(FORMATS[name], Exact.of(x))[0])


def partial(block: Block, shape: tuple[int, ...]) -> np.ndarray:
    """Tests which blocks of an array are not full."""
    is_last = np.zeros(block.scale_shape((shape[0], shape[1])), bool)
    is_last[:, -1] = shape[1] % block.size != 0
    return is_last


def _exchange_neighbours(codes: np.ndarray) -> np.ndarray:
    """Exchanges each element with its neighbour in a byte."""
    k = codes.shape[1] // 2 * 2
    swapped = codes.copy()
    swapped[:, :k] = codes[:, :k].reshape(len(codes), -1, 2)[:, :, ::-1].reshape(len(codes), k)
    return swapped


# -- of quantize -------------------------------------------------------------------------------------------------------


def _right(part: BlockPart, x: np.ndarray) -> Quantized:
    return oracle.quantize(x, part.block, part.rule)


def _factors(part: BlockPart, found: Quantized) -> np.ndarray:
    return part.block.spread(oracle.factors(found.scales, part.block, found.tensor_scale), part.numbers.shape[:2])


def _with_factors(part: BlockPart, x: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> Quantized:
    """The right scales, and elements of other factors."""
    found = _right(part, x)
    return dataclasses.replace(found, codes=oracle.encode_elements(x, change(_factors(part, found)), part.block))


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
    return dataclasses.replace(found, scales=np.where(last & scale_too, one, found.scales).astype(found.scales.dtype))


def _quotients_through(part: BlockPart, x: np.ndarray, name: str) -> Quantized:
    """Rounds quotients to another type before they become elements."""
    found = _right(part, x)
    factors = _factors(part, found)
    codes = oracle.encode_elements(_in_type(x / factors, name), np.where(np.isnan(factors), np.nan, 1.0), part.block)
    return dataclasses.replace(found, codes=codes)


def _nibbles(part: BlockPart, x: np.ndarray) -> Quantized | None:
    if part.block.fmt is None or part.block.fmt.bits != 4:
        return None
    found = _right(part, x)
    return dataclasses.replace(found, codes=_exchange_neighbours(found.codes))


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
       lambda p, x, t=t: _right(p, _in_type(x, t))) for t in ("bf16", "f16")),
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


# -- of what reads blocks ----------------------------------------------------------------------------------------------

#: Reads numbers [rows, k] from a block format, the codes of elements, and the factors of blocks; None if the fault does
#: not apply.
Side = Callable[[Block, np.ndarray, np.ndarray], "np.ndarray | None"]
_DEQUANTIZE, _DOT, _BOTH = ("dequantize",), ("scaled_dot",), ("dequantize", "scaled_dot")


def _spread(block: Block, codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The factor of each element."""
    return block.spread(factors, (codes.shape[0], codes.shape[1]))


def _scaled(change: Callable[[np.ndarray], np.ndarray]) -> Side:
    """Elements with changed factors."""
    return lambda block, codes, factors: oracle.values(codes, block) * change(_spread(block, codes, factors))


def _reordered(change: Callable[[np.ndarray], np.ndarray]) -> Side:
    """Reads scales in another order."""

    def side(block: Block, codes: np.ndarray, factors: np.ndarray) -> np.ndarray | None:
        moved = change(factors)
        return oracle.values(codes, block) * _spread(block, codes, moved) if moved.shape == factors.shape else None

    return side


def _across(block: Block, codes: np.ndarray, factors: np.ndarray, is_transposed: bool) -> np.ndarray | None:
    """Blocks along the first dimension."""
    other = block.scale_shape((codes.shape[1], codes.shape[0]))
    if len(block.shape) == 2 or other[0] * other[1] != factors.size:
        return None
    moved = factors.reshape(other[::-1]).T if is_transposed else factors.reshape(other)
    return oracle.values(codes, block) * _spread(block, codes.T, moved).T


def _last_unscaled(block: Block, codes: np.ndarray, factors: np.ndarray) -> np.ndarray | None:
    last = partial(block, codes.shape)
    if not last.any():
        return None
    return oracle.values(codes, block) * np.where(_spread(block, codes, last), 1.0, _spread(block, codes, factors))


def _factor_as(read: float, value: float) -> Side:
    """Reads a factor as another."""
    return _scaled(lambda f: np.where(np.isnan(f) if np.isnan(read) else f == read, value, f))


def _nan_scale(block: Block, codes: np.ndarray, factors: np.ndarray) -> np.ndarray | None:
    """Reads the code of NaN as the number after the largest."""
    beyond = float(block.scale_fmt.max) * (2.0 if block.has_power_scale else 480 / 448)
    return _factor_as(np.nan, beyond)(block, codes, factors) if np.isnan(factors).any() else None


def _swapped(block: Block, codes: np.ndarray, factors: np.ndarray) -> np.ndarray | None:
    is_packed = block.fmt is not None and block.fmt.bits == 4
    return oracle.values(_exchange_neighbours(codes), block) * _spread(block, codes, factors) if is_packed else None


#: The identifier, the sentence, in which `{}` names the operand of a dot, the fault, and the ops that may have it.
READINGS: tuple[tuple[str, str, Side, tuple[str, ...]], ...] = (
    ("scale-twice", "the scales{} are applied twice", _scaled(lambda f: f * f), _BOTH),
    ("scale-too-small", "each scale{} is half of what it should be", _scaled(lambda f: f / 2), _DOT),
    ("scale-too-large", "each scale{} is twice what it should be", _scaled(lambda f: f * 2), _DOT),
    ("scale-inverted", "elements{} are divided by their scales", _scaled(lambda f: 1 / f), _BOTH),
    ("unscaled", "the scales{} are not applied", _scaled(np.ones_like), _BOTH),
    *(("wrong-axis", "blocks lie along the other axis", lambda b, c, f, t=t: _across(b, c, f, t), _DEQUANTIZE)
      for t in (False, True)),
    ("wrong-axis", "the scales{} are taken in the order of the other axis",
     _reordered(lambda f: f.reshape(f.shape[::-1]).T), _BOTH),
    ("partial-block-unscaled", "the last block{}, which is not full, is not scaled", _last_unscaled, _BOTH),
    *((f"through-{t}", f"products are rounded to {t} first",
       lambda b, c, f, t=t: _in_type(oracle.values(c, b) * _spread(b, c, f), t), _DEQUANTIZE)
      for t in ("bf16", "f16", "f32")),
    ("scale-through-bf16", "scales are rounded to bf16 first", _scaled(lambda f: _in_type(f, "bf16")), _DEQUANTIZE),
    ("nan-scale-not-nan", "a scale{} that is NaN counts as a number", _nan_scale, _BOTH),
    ("nan-scale-not-nan", "a scale{} that is NaN counts as 1", _factor_as(np.nan, 1.0), _BOTH),
    ("nan-scale-not-nan", "a scale{} that is NaN counts as 0", _factor_as(np.nan, 0.0), _DOT),
    ("smallest-scale", "the scale{} of code 0 counts as 2^-126; it is 2^-127", _factor_as(2.0**-127, 2.0**-126), _BOTH),
    ("smallest-scale", "the scale{} of code 0 counts as 0; it is 2^-127", _factor_as(2.0**-127, 0.0), _BOTH),
    ("nibbles-exchanged", "the low and the high four bits of each byte{} are exchanged", _swapped, _BOTH),
    *(("scale-off-by-one", "each scale{} is in the place of its neighbour",
       _reordered(lambda f, n=n: np.roll(f, n, 1)), _BOTH) for n in (1, -1)),
    *(("element-off-by-one", "each element is in the place of its neighbour",
       lambda b, c, f, n=n: np.roll(oracle.values(c, b) * _spread(b, c, f), n, 1), _DEQUANTIZE) for n in (1, -1)),
    *(("element-off-by-one", "each element{} is in the place of its neighbour",
       lambda b, c, f, n=n: np.roll(oracle.values(c, b), n, 1) * _spread(b, c, f), _DOT) for n in (1, -1)),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Reading:
    """A way to read the operands of a dot."""

    identifier: str
    sentence: str
    side: Side
    of: tuple[bool, bool] = (True, True)

    def part(self, part: ScaledPart) -> ScaledPart | None:
        """The part with its operands read in this way; None if they are the same."""
        x, y, s, t = part.arrays
        found, is_other = [], False
        given = ((x, s), (y.T, t.T))
        for block, (codes, scales), changes in zip(part.sides, given, self.of, strict=True):
            right = oracle.apply_scales(codes, scales, block)
            with np.errstate(all="ignore"):
                read = self.side(block, codes, oracle.factors(scales, block)) if changes else None
            is_other |= read is not None and not np.array_equal(read, right, equal_nan=True)
            found.append(right if read is None else read)
        return dataclasses.replace(part, operands=(found[0], found[1])) if is_other else None


def roundings() -> Iterator[Reading]:
    """Roundings of scaled numbers to a type, the likeliest first."""
    yield from itertools.starmap(_round, itertools.product(("bf16", "f32", "f16"), (False, True), (True, False)))


def _round(name: str, flushed: bool, scales: bool) -> Reading:
    """Rounds scaled numbers to a type; if `flushed`, its subnormal numbers become zero, those of scales too.

    With `scales`, scales are rounded by themselves first, as in JAX's decomposition.
    """
    sentence = f"scaled numbers are rounded to {name} before they are multiplied"
    least = 2.0 ** FORMATS[name].min_exponent if flushed else 0.0

    def side(block: Block, codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
        each = _spread(block, codes, factors)
        each = np.where(np.abs(each) < least, 0.0, each)
        found = _in_type(oracle.values(codes, block) * (_in_type(each, name) if scales else each), name)
        return np.where(np.abs(found) < least, np.copysign(0.0, found), found)

    words = ("/flushed", ", subnormal ones taken for zero") if flushed else ("", "")
    return Reading(f"scaled-in/{name}{words[0]}", f"{sentence}{words[1]}", side)


def faults_of_dots() -> Iterator[Reading]:
    """All faults, of one operand and of both."""
    sides = (((True, False), " of the left operand"), ((False, True), " of the right operand"), ((True, True), ""))
    for identifier, sentence, side, ops in READINGS:
        if "scaled_dot" in ops:
            yield from (Reading(identifier, sentence.format(words), side, of) for of, words in sides)


def faults() -> Iterator[Fault]:
    """The faults of quantize and dequantize, the likeliest first."""
    yield from (Fault(name, sentence, of_quantize(change)) for name, sentence, change in _QUANTIZE)
    for name, sentence, side, ops in READINGS:
        if "dequantize" in ops:
            yield Fault(name, sentence.format(""), of_dequantize(lambda p, c, f, side=side: side(p.block, c, f)))
