"""Verdicts: each result against the right one, what the format leaves open, and the limit of accuracy."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np

from . import choices, rounding
from .expected import Expected
from .formats import FORMATS, bits
from .result import ACCURACY, CUT, DIVERGENT, FAIL, IS_INFINITE, IS_NAN, NOT_NAN, OPEN, PASS, WRONG_ZERO

#: Verdicts of elements, as bytes.
ELEMENT_VERDICTS = (PASS, DIVERGENT, ACCURACY, FAIL)
_PASS, _DIVERGENT, _ACCURACY, _FAIL = range(4)
#: What part of negative numbers has to lose its sign for that to be a rule.
_MOSTLY = 0.75
#: What stands for no distance.
FAR = np.int64(1) << 62


@dataclasses.dataclass
class Judged:
    """The verdict on each element, its error as a byte (result.py), its distance, and choices by open point."""

    verdicts: np.ndarray
    errors: np.ndarray
    distances: np.ndarray  #: in ULP, FAR where there is none
    choices: dict[int, Counter[str]]


def judge(result: str, got: np.ndarray, expected: Expected, limit: int = 0, zeros_are_open: bool = True) -> Judged:
    """Judge results of one element type. `limit` is how many ULP are a matter of accuracy."""
    right = expected.codes
    equal = got == right
    if result in FORMATS:
        fmt = FORMATS[result]
        nan, nan_right = fmt.is_nan(got), fmt.is_nan(right)
        equal |= nan & nan_right
        signed, distances = _distances(result, got, expected)
        errors = np.clip(signed, -CUT, CUT).astype(np.int8)
        errors[(signed == 0) & ~equal] = WRONG_ZERO
        errors[np.isinf(fmt.decode(got)) & (distances > 1)] = IS_INFINITE
        errors[nan & ~nan_right & (distances == FAR)] = IS_NAN
        errors[nan_right & ~nan] = NOT_NAN
        errors[equal] = 0
    else:
        signed = got.astype(np.float64) - right.astype(np.float64)
        distances = np.where(equal, 0, FAR)
        errors = np.where(equal, 0, np.clip(signed, -CUT, CUT)).astype(np.int8)
    distances = np.where(equal, 0, distances)
    verdicts = np.where(equal, _PASS, _FAIL).astype(np.uint8)
    verdicts[~equal & (distances <= limit) & ((errors != WRONG_ZERO) | (limit > 0))] = _ACCURACY
    if limit == 0:
        verdicts[~equal] = _FAIL
    made = _open_points(result, got, expected, verdicts, errors, zeros_are_open)
    return Judged(verdicts, errors, distances, made)


def _distances(result: str, got: np.ndarray, expected: Expected) -> tuple[np.ndarray, np.ndarray]:
    """Steps from the right result, with sign, and without; FAR where one of the two is no number."""
    fmt = FORMATS[result]
    beyond = fmt.max_code + 1
    ranks = fmt.rank(got).astype(np.float64)
    right = fmt.rank(expected.codes).astype(np.float64)
    nan, nan_right = fmt.is_nan(got), fmt.is_nan(expected.codes)
    far = nan | nan_right
    if not fmt.has_infinity and fmt.nan != "none":  # NaN stands for what is beyond the largest number
        overflowed = expected.left_open == rounding.OVERFLOW
        sign = np.where(overflowed & ~nan, np.sign(ranks), 1.0)
        right = np.where(overflowed & nan_right, sign * beyond, right)
        ranks = np.where(nan & ~nan_right, np.copysign(beyond, right), ranks)
        near_the_end = np.abs(right) >= beyond - 4
        far = (nan & ~nan_right & ~near_the_end) | (nan_right & ~nan & ~overflowed)
    signed = np.where(far, 0.0, ranks - right)
    return signed, np.where(far, FAR, np.minimum(np.abs(signed), float(FAR)).astype(np.int64))


def _open_points(
    result: str,
    got: np.ndarray,
    expected: Expected,
    verdicts: np.ndarray,
    errors: np.ndarray,
    zeros_are_open: bool,
) -> dict[int, Counter[str]]:
    """Turns what is left open and one of the known choices into DIVERGENT; tells which choices were made."""
    made: dict[int, Counter[str]] = {}
    if not expected.left_open.any():
        return made
    for point in np.unique(expected.left_open):
        if not point or (point == rounding.ZEROS and not zeros_are_open):
            continue
        at = np.flatnonzero(expected.left_open == point)
        chosen = choices.choose(int(point), result, got[at], expected.codes[at])
        if point == rounding.NEGATIVE and expected.magnitudes is not None:
            others, without_sign = chosen < 0, (chosen < 0) & (got[at] == expected.magnitudes[at])
            if np.count_nonzero(without_sign) > _MOSTLY * np.count_nonzero(others):  # a rule, not the mistake of some
                chosen = np.where(without_sign, choices.MAGNITUDE, chosen)
        which, how_often = np.unique(chosen[chosen >= 0], return_counts=True)
        counts = Counter(dict(zip(which.tolist(), how_often.tolist(), strict=True)))
        differs = verdicts[at] != _PASS
        if point == rounding.OVERFLOW and counts:
            # One rule for all: a result that is beyond the largest number now and then is rounded wrongly.
            rule = counts.most_common(1)[0][0]
            usual = choices.choose(int(point), result, expected.codes[at], expected.codes[at])
            is_divergent = differs & (chosen == rule)
            strays = (chosen >= 0) & (chosen != rule)
            verdicts[at[strays & (rule != usual)]] = _FAIL
        else:
            is_divergent = differs & (chosen >= 0)
        places = at[is_divergent]
        verdicts[places], errors[places] = _DIVERGENT, OPEN
        names = choices.names(int(point))
        if places.size:
            made[int(point)] = Counter({names[c]: n for c, n in counts.items()})
    return made


def error_bits(result: str) -> int:
    """The width of a result's codes, for printing."""
    return bits(result)
