"""Verdicts on elements: by the right result, the open points of the format, and the limit of accuracy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ...judging import open_points as choices
from ...judging.equality import FAR, equal_codes, signed_steps
from ...judging.functions import is_faithful
from ...judging.record import NEAR, OPEN, SAME, WRONG
from ...oracle import rounding
from ...oracle.expected import Expected
from ...oracle.formats import FORMATS, Format, bits
from ..result import ABSENT, CUT, IS_INFINITE, IS_NAN, NOT_NAN, WRONG_ZERO
from ..result import OPEN as LEFT_OPEN

#: Formats of up to 8 bits are computed in a wider one everywhere: functions are faithful there (faithful.py). Formats
#: of 16 bits are computed in themselves by some (XLA's expm1 in f16 is 2 ULP off); an exact result that is a number of
#: the format has to be that number. Wider ones only have the limit, as in mathematical libraries.
_FAITHFUL_BITS, _EXACT_BITS = 8, 16

#: The side of the right results, at some indices, on which the exact ones lie (faithful.py).
Sides = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass
class Judgement:
    """The verdict on each element, its error as a byte (result.py), its distance, and choices by open point."""

    verdicts: np.ndarray  #: the grades of judging.record
    errors: np.ndarray
    distances: np.ndarray  #: in ULP, FAR if there is none
    choices: dict[int, dict[str, int]]  #: by open point (oracle.rounding) the number of results of each choice
    right: np.ndarray  #: the right codes; if a backend has a rule of its own at an open point, those of the rule


def judge(
    result: str,
    got: np.ndarray,
    expected: Expected,
    limit: int = 0,
    zeros_are_open: bool = True,
    sides: Sides | None = None,
) -> Judgement:
    """Judges results of one element type.

    `limit` is the distance in ULP that counts as accuracy, 0 if the right result is required. With `sides`
    minifloats must be faithful, regardless of the limit.
    """
    right, chosen = _by_rules(result, got, expected)
    equal = equal_codes(result, got, right)
    if result in FORMATS:
        fmt = FORMATS[result]
        nan, nan_right = fmt.is_nan(got), fmt.is_nan(right)
        signed, distances = signed_steps(fmt, got, right, expected.left_open == rounding.OVERFLOW)
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
    verdicts = np.where(equal, SAME, WRONG).astype(np.uint8)
    if limit:
        no_sign = False if expected.is_zero is None else (errors == WRONG_ZERO) & expected.is_zero
        near = _is_near(FORMATS[result], got, right, distances, limit)
        if sides is not None and FORMATS[result].bits <= _EXACT_BITS:
            near &= _as_good_as(result, got, right, expected, ~equal & near, sides)
        near &= ~np.asarray(no_sign)
        if expected.by_steps is not None:
            near |= (got == expected.by_steps) & ~FORMATS[result].is_nan(got)
        verdicts[~equal & near] = NEAR
    judged = Judgement(verdicts, errors, distances, {}, right)
    if expected.left_open.any():
        _open_points(result, got, expected, judged, chosen, zeros_are_open)
    if result != "i1" and bits(result) < 8 * got.dtype.itemsize:  # an invalid code is no choice
        none = got > (1 << bits(result)) - 1
        judged.verdicts[none], judged.errors[none] = WRONG, ABSENT
    return judged


def _as_good_as(
    result: str, got: np.ndarray, right: np.ndarray, expected: Expected, candidates: np.ndarray, sides: Sides
) -> np.ndarray:
    """Tests which candidates are faithful, or in a wider format inexact where the exact result is no number of it.

    A result that the backend's rule gives at an open point has no neighbours.
    """
    fit = np.zeros(got.shape, bool)
    at = np.flatnonzero(candidates & (right == expected.codes))
    if at.size:
        side = sides(at)
        is_narrow = FORMATS[result].bits <= _FAITHFUL_BITS
        fit[at] = is_faithful(result, got[at], right[at], side) if is_narrow else side != 0
    return fit


def _is_near(fmt: Format, got: np.ndarray, right: np.ndarray, distances: np.ndarray, limit: int) -> np.ndarray:
    """Tests which wrong results are a matter of accuracy: a step off, or up to `limit` within a quarter of a power of
    two.

    In formats of few mantissa bits four steps are a factor of two. A result that is zero, infinite, NaN or of the other
    sign, steps away from the right result, is not inaccurate but wrong.
    """
    numbers, exact = fmt.decode(got), fmt.decode(right)
    is_other = (numbers == 0) | ~np.isfinite(numbers)
    is_other |= (np.signbit(numbers) != np.signbit(exact)) & (exact != 0)
    most = min(limit, (1 << fmt.mantissa_bits) // 4)
    return (distances <= 1) | ((distances <= most) & ~is_other)


def _by_rules(result: str, got: np.ndarray, expected: Expected) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """The right codes, by the backend's own rules if it has any, and the choices made at such points."""
    right, chosen = expected.codes, {}
    for point in choices.RULED:
        at = np.flatnonzero(expected.left_open == point)
        if at.size:
            magnitudes = None if expected.magnitudes is None else expected.magnitudes[at]
            codes, chosen[point] = choices.apply_rule(point, result, got[at], expected.codes[at], magnitudes)
            right = right.copy()
            right[at] = codes
    return right, chosen


def _open_points(
    result: str, got: np.ndarray, expected: Expected, judged: Judgement, ruled: dict[int, np.ndarray], open_zeros: bool
) -> None:  # fmt: skip
    """Changes known choices at open points to DIVERGENT, and counts the choices."""
    for point in map(int, np.unique(expected.left_open)):
        if not point or (point == rounding.ZEROS and not open_zeros):
            continue
        at = np.flatnonzero(expected.left_open == point)
        right, verdicts = judged.right[at], judged.verdicts[at]
        chosen = ruled[point] if point in ruled else choices.classify(point, result, got[at], expected.codes[at])
        by_rule = (verdicts == SAME) & (right != expected.codes[at])
        is_divergent = by_rule | ((verdicts != SAME) & (chosen >= 0) & (point not in choices.ONE_RULE))
        places = at[is_divergent]
        judged.verdicts[places], judged.errors[places] = OPEN, LEFT_OPEN
        if places.size:
            judged.choices[point] = choices.count_choices(point, chosen)
