"""Variants of a dot of blocks: scaled numbers rounded to a type, and named faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from ...oracle import blocks as oracle
from ...oracle.blocks import Block
from ...oracle.formats import FORMATS
from ..block_parts import ScaledPart
from .block_faults import exchange_neighbours, in_type, partial

#: The scaled numbers of one side, [rows, k], from a block format, elements and scales; None if they do not differ.
Side = Callable[[Block, np.ndarray, np.ndarray], "np.ndarray | None"]
_SIDES = ((True, False), (False, True), (True, True))
_OF = {(True, False): " of the left operand", (False, True): " of the right operand", (True, True): ""}


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
                read = self.side(block, codes, scales) if changes else None
            is_other |= read is not None and not np.array_equal(read, right, equal_nan=True)
            found.append(right if read is None else read)
        return part.with_operands((found[0], found[1])) if is_other else None


def readings() -> Iterator[Reading]:
    """Roundings of scaled numbers to a type, the likeliest first."""
    for name in ("bf16", "f32", "f16"):
        for flushed in (False, True):
            for scales in (True, False):
                yield _round(name, flushed, scales)


def _round(name: str, flushed: bool, scales: bool) -> Reading:
    """Rounds scaled numbers to a type; if `flushed`, its subnormal numbers become zero, those of scales too.

    With `scales`, scales are rounded by themselves first, as in JAX's decomposition.
    """
    sentence = f"scaled numbers are rounded to {name} before they are multiplied"
    least = 2.0 ** FORMATS[name].min_exponent if flushed else 0.0

    def side(block: Block, codes: np.ndarray, given: np.ndarray) -> np.ndarray:
        each = block.spread(oracle.factors(given, block), (codes.shape[0], codes.shape[1]))
        each = np.where(np.abs(each) < least, 0.0, each)
        found = in_type(oracle.values(codes, block) * (in_type(each, name) if scales else each), name)
        return np.where(np.abs(found) < least, np.copysign(0.0, found), found)

    if flushed:
        return Reading(f"scaled-in/{name}/flushed", f"{sentence}, subnormal ones taken for zero", side)
    return Reading(f"scaled-in/{name}", sentence, side)


def _with_factors(change: Callable[[np.ndarray], np.ndarray]) -> Side:
    def side(block: Block, codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
        each = block.spread(oracle.factors(scales, block), (codes.shape[0], codes.shape[1]))
        return oracle.values(codes, block) * change(each)

    return side


def _with_scales(change: Callable[[np.ndarray], np.ndarray]) -> Side:
    return lambda block, codes, scales: oracle.apply_scales(codes, change(scales), block)


def _with_codes(change: Callable[[np.ndarray], np.ndarray]) -> Side:
    return lambda block, codes, scales: oracle.apply_scales(change(codes), scales, block)


def _nibbles(block: Block, codes: np.ndarray, scales: np.ndarray) -> np.ndarray | None:
    is_packed = block.fmt is not None and block.fmt.bits == 4
    return oracle.apply_scales(exchange_neighbours(codes), scales, block) if is_packed else None


def _partial(block: Block, codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    last = block.spread(partial(block, codes.shape), (codes.shape[0], codes.shape[1]))
    return np.where(last, oracle.values(codes, block), oracle.apply_scales(codes, scales, block))


def _nan_as(value: float) -> Side:
    return _with_factors(lambda f: np.where(np.isnan(f), value, f))


_FAULTS: tuple[tuple[str, str, Side], ...] = (
    ("scale-twice", "the scales{} are applied twice", _with_factors(lambda f: f * f)),
    ("scale-too-small", "each scale{} is half of what it should be", _with_factors(lambda f: f / 2)),
    ("scale-too-large", "each scale{} is twice what it should be", _with_factors(lambda f: f * 2)),
    ("unscaled", "the scales{} are not applied", _with_factors(np.ones_like)),
    ("scale-inverted", "elements{} are divided by their scales", _with_factors(lambda f: 1 / f)),
    ("wrong-axis", "the scales{} are taken in the order of the other axis",
     _with_scales(lambda s: s.reshape(s.shape[::-1]).T)),
    ("partial-block-unscaled", "the last block{}, which is not full, is not scaled", _partial),
    ("nan-scale-not-nan", "a scale{} that is NaN counts as 1", _nan_as(1.0)),
    ("nan-scale-not-nan", "a scale{} that is NaN counts as 0", _nan_as(0.0)),
    ("nan-scale-not-nan", "a scale{} that is NaN counts as 2^128", _nan_as(2.0**128)),
    ("smallest-scale", "the scale{} of code 0 counts as 0; it is 2^-127",
     _with_factors(lambda f: np.where(f == 2.0**-127, 0.0, f))),
    ("smallest-scale", "the scale{} of code 0 counts as 2^-126; it is 2^-127",
     _with_factors(lambda f: np.where(f == 2.0**-127, 2.0**-126, f))),
    ("nibbles-exchanged", "the low and the high four bits of each byte{} are exchanged", _nibbles),
    ("scale-off-by-one", "each scale{} is in the place of its neighbour", _with_scales(lambda s: np.roll(s, 1, 1))),
    ("scale-off-by-one", "each scale{} is in the place of its neighbour", _with_scales(lambda s: np.roll(s, -1, 1))),
    ("element-off-by-one", "each element{} is in the place of its neighbour", _with_codes(lambda c: np.roll(c, 1, 1))),
    ("element-off-by-one", "each element{} is in the place of its neighbour", _with_codes(lambda c: np.roll(c, -1, 1))),
)  # fmt: skip


def faults() -> Iterator[Reading]:
    """All faults, of one operand and of both."""
    for identifier, sentence, side in _FAULTS:
        for of in _SIDES:
            yield Reading(identifier, sentence.format(_OF[of]), side, of)
