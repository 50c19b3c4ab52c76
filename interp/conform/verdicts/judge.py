"""Verdicts: each result against the right one, what the format leaves open, and the limit of accuracy."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import numpy as np

from ..cases import rounding
from ..cases.expected import Expected
from ..cases.faithful import is_faithful
from ..cases.formats import FORMATS, Format, bits
from ..result import ABSENT, ACCURACY, CUT, DIVERGENT, FAIL, IS_INFINITE, IS_NAN, NOT_NAN, OPEN, PASS, WRONG_ZERO
from . import choices

#: Verdicts of elements, as bytes.
ELEMENT_VERDICTS = (PASS, DIVERGENT, ACCURACY, FAIL)
_PASS, _DIVERGENT, _ACCURACY, _FAIL = range(4)
#: What stands for no distance.
FAR = np.int64(1) << 62
#: Formats of up to 8 bits are computed in a wider one everywhere: functions are faithful there (faithful.py). Those of
#: 16 are computed in themselves by some (XLA's expm1 in f16 is 2 ULP off); there an exact result that is a number of
#: the format has to be that number. Wider ones are left to the limit, as in mathematical libraries.
_FAITHFUL_BITS, _EXACT_BITS = 8, 16

#: On which side of the right results at some places the exact ones lie (faithful.py).
Sides = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass
class Judged:
    """The verdict on each element, its error as a byte (result.py), its distance, and choices by open point."""

    verdicts: np.ndarray
    errors: np.ndarray
    distances: np.ndarray  #: in ULP, FAR where there is none
    choices: dict[int, Counter[str]]
    right: (
        np.ndarray
    )  #: the right codes; where a backend has a rule of its own for what is left open, those of the rule


def judge(
    result: str,
    got: np.ndarray,
    expected: Expected,
    limit: int = 0,
    zeros_are_open: bool = True,
    sides: Sides | None = None,
) -> Judged:
    """Judge results of one element type.

    `limit` is how many ULP are a matter of accuracy, 0 if the right result is required. With `sides` minifloats have to
    be faithful, whatever the limit.
    """
    right, chosen = _by_rules(result, got, expected)
    equal = got == right
    if result in FORMATS:
        fmt = FORMATS[result]
        nan, nan_right = fmt.is_nan(got), fmt.is_nan(right)
        equal |= nan & nan_right
        signed, distances = _distances(result, got, right, expected.left_open)
        errors = np.clip(signed, -CUT, CUT).astype(np.int8)
        errors[(signed == 0) & ~equal] = WRONG_ZERO
        errors[np.isinf(fmt.decode(got)) & (distances > 1)] = IS_INFINITE
        errors[nan & ~nan_right & (distances == FAR)] = IS_NAN
        errors[nan_right & ~nan] = NOT_NAN
        errors[fmt.is_none(got)] = ABSENT
        errors[equal] = 0
    else:
        signed = got.astype(np.float64) - right.astype(np.float64)
        distances = np.where(equal, 0, FAR)
        errors = np.where(equal, 0, np.clip(signed, -CUT, CUT)).astype(np.int8)
    distances = np.where(equal, 0, distances)
    verdicts = np.where(equal, _PASS, _FAIL).astype(np.uint8)
    if limit:
        no_sign = False if expected.is_zero is None else (errors == WRONG_ZERO) & expected.is_zero
        near = _is_near(FORMATS[result], got, right, distances, limit)
        if sides is not None and FORMATS[result].bits <= _EXACT_BITS:
            near &= _as_good_as(result, got, right, expected, ~equal & near, sides)
        near &= ~np.asarray(no_sign)
        if expected.by_steps is not None:
            near |= (got == expected.by_steps) & ~FORMATS[result].is_nan(got)
        verdicts[~equal & near] = _ACCURACY
    judged = Judged(verdicts, errors, distances, {}, right)
    if expected.left_open.any():
        _open_points(result, got, expected, judged, chosen, zeros_are_open)
    return judged


def _as_good_as(
    result: str, got: np.ndarray, right: np.ndarray, expected: Expected, candidates: np.ndarray, sides: Sides
) -> np.ndarray:
    """Which of the candidates are faithful, or in a wider format inexact where the exact result is no number of it.

    What a rule of the backend makes of an open point has no neighbours.
    """
    found = np.zeros(got.shape, bool)
    at = np.flatnonzero(candidates & (right == expected.codes))
    if at.size:
        side = sides(at)
        is_narrow = FORMATS[result].bits <= _FAITHFUL_BITS
        found[at] = is_faithful(result, got[at], right[at], side) if is_narrow else side != 0
    return found


def _is_near(fmt: Format, got: np.ndarray, right: np.ndarray, distances: np.ndarray, limit: int) -> np.ndarray:
    """Which wrong results are a matter of accuracy: a step off, or up to `limit` within a quarter of a power of two.

    In formats of few mantissa bits four steps are a factor of two. And what is zero, infinite, NaN or of the other
    sign, where the right result is steps away from that, is not inaccurate but another result.
    """
    numbers, exact = fmt.decode(got), fmt.decode(right)
    is_other = (numbers == 0) | ~np.isfinite(numbers)
    is_other |= (np.signbit(numbers) != np.signbit(exact)) & (exact != 0)
    most = min(limit, (1 << fmt.mantissa_bits) // 4)
    return (distances <= 1) | ((distances <= most) & ~is_other)


def _by_rules(result: str, got: np.ndarray, expected: Expected) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """The right codes, where a backend has a rule of its own those of the rule; and the choices made at such points."""
    right, chosen = expected.codes, {}
    for point in choices.RULED:
        at = np.flatnonzero(expected.left_open == point)
        if at.size:
            magnitudes = None if expected.magnitudes is None else expected.magnitudes[at]
            codes, chosen[point] = choices.by_rule(point, result, got[at], expected.codes[at], magnitudes)
            right = right.copy()
            right[at] = codes
    return right, chosen


def _distances(result: str, got: np.ndarray, codes: np.ndarray, left_open: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps from the right result, with sign, and without; FAR where one of the two is no number."""
    fmt = FORMATS[result]
    beyond = fmt.max_code + 1
    ranks = fmt.rank(got).astype(np.float64)
    right = fmt.rank(codes).astype(np.float64)
    nan, nan_right = fmt.is_nan(got), fmt.is_nan(codes)
    far = nan | nan_right | fmt.is_none(got)
    if not fmt.has_infinity and fmt.nan != "none":  # NaN stands for what is beyond the largest number
        overflowed = left_open == rounding.OVERFLOW
        sign = np.where(overflowed & ~nan, np.sign(ranks), 1.0)
        right = np.where(overflowed & nan_right, sign * beyond, right)
        ranks = np.where(nan & ~nan_right, np.copysign(beyond, right), ranks)
        near_the_end = np.abs(right) >= beyond - 4
        far = (nan & ~nan_right & ~near_the_end) | (nan_right & ~nan & ~overflowed) | fmt.is_none(got)
    signed = ranks - right
    if fmt.bits == 64:  # whose ranks f64 does not tell apart
        between = fmt.rank(got) - fmt.rank(codes)
        signed = np.where(np.abs(signed) < 2.0**61, between.astype(np.float64), signed)
    signed = np.where(far, 0.0, signed)
    return signed, np.where(far, FAR, np.minimum(np.abs(signed), float(FAR)).astype(np.int64))


def _open_points(
    result: str, got: np.ndarray, expected: Expected, judged: Judged, ruled: dict[int, np.ndarray], zeros_are_open: bool
) -> None:
    """Turns what is left open and one of the known choices into DIVERGENT; tells which choices were made."""
    for point in map(int, np.unique(expected.left_open)):
        if not point or (point == rounding.ZEROS and not zeros_are_open):
            continue
        at = np.flatnonzero(expected.left_open == point)
        right, verdicts = judged.right[at], judged.verdicts[at]
        chosen = ruled[point] if point in ruled else choices.choose(point, result, got[at], expected.codes[at])
        by_rule = (verdicts == _PASS) & (right != expected.codes[at])
        is_divergent = by_rule | ((verdicts != _PASS) & (chosen >= 0) & (point not in choices.ONE_RULE))
        places = at[is_divergent]
        judged.verdicts[places], judged.errors[places] = _DIVERGENT, OPEN
        if places.size:
            names = choices.names(point)
            judged.choices[point] = Counter(names[c] for c in chosen[chosen >= 0].tolist())


def error_bits(result: str) -> int:
    """The width of a result's codes, for printing."""
    return bits(result)
