"""Faithful results: one of the two numbers that enclose the exact value, and the exact value itself if it is a number.

Functions need not be correctly rounded, but any implementation that computes them in a wider type is faithful. `sides`
finds the side of the correctly rounded result on which the exact value lies; `is_faithful` uses it.
"""

from __future__ import annotations

import math

import numpy as np

from ..oracle.exact import estimate
from ..oracle.formats import FORMATS
from ..oracle.functions import FUNCTIONS, decide
from ..oracle.rounding import Exact

#: The error of a function in f64 is less than this share of its value.
_DOUBT = 2.0**-44


def is_faithful(element: str, got: np.ndarray, right: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Tests which results are faithful.

    Args:
        element: the name of the format of all codes.
        got: the codes to judge.
        right: the codes of the exact values, rounded once to nearest.
        side: int8, the sign of the exact value minus the number of `right` (see `sides`).

    Returns:
        bool, of the shape of `got`. Zeros of both signs are one number. NaN is faithful to NaN alone, except that in a
        format without infinity it stands for an overflow.
    """
    fmt = FORMATS[element]
    beyond = fmt.max_code + 1
    rank, wanted = fmt.rank(got), fmt.rank(right)
    nan, nan_right = fmt.is_nan(got), fmt.is_nan(right)
    if not fmt.has_infinity:
        # NaN follows the largest number, with the sign that leads there.
        rank = np.where(nan & (np.abs(wanted) == fmt.max_code), np.sign(wanted) * beyond, rank)
        # Where the exact value has overflowed, `side` points back to the largest number.
        wanted = np.where(nan_right & (side != 0), -np.sign(side).astype(np.int64) * beyond, wanted)
        unordered = (nan & (np.abs(rank) != beyond)) | (nan_right & (side == 0))
    else:
        unordered = nan | nan_right
    steps = rank - wanted
    return (got == right) | (nan & nan_right) | (~unordered & ~fmt.is_none(got) & ((steps == 0) | (steps == side)))


def sides(element: str, right: np.ndarray, exact: Exact) -> np.ndarray:
    """The side of their codes on which exact values lie: int8, -1 below, 1 above, 0 if they are equal.

    The code of an overflow (infinity, or NaN in a format without it) stands for the number after the largest. The side
    is
    0 for values above that number, infinite values and NaN.
    """
    number = _numbers(element, right, exact.value)
    with np.errstate(invalid="ignore"):
        side = np.sign(exact.value - number)
    side = np.where(side == 0, exact.side, side)
    step_beyond = ~np.isfinite(FORMATS[element].decode(right)) & (np.sign(number) * side > 0)
    return np.where(np.isnan(side) | ~np.isfinite(exact.value) | step_beyond, 0, side).astype(np.int8)


def sides_of_function(op: str, element: str, operands: tuple[np.ndarray, ...], right: np.ndarray) -> np.ndarray:
    """`sides` of one of `FUNCTIONS` on codes of one format, each decided with as many digits as that takes."""
    fmt = FORMATS[element]
    numbers = [fmt.decode(x) for x in operands]
    value = estimate(op, *numbers)
    sides_ = sides(element, right, Exact.of(value))
    with np.errstate(all="ignore"):
        number = _numbers(element, right, value)
        near = np.abs(value - number) <= _DOUBT * np.abs(value)
    finite = np.logical_and.reduce([np.isfinite(x) for x in numbers])
    for i in np.flatnonzero((near | (value == 0)) & np.isfinite(value) & finite):
        sides_[i] = _decide_side(op, [float(x[i]) for x in numbers], float(number[i]), float(value[i]))
    return sides_


def _numbers(element: str, codes: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Decodes codes; an overflow becomes the number after the largest, with the sign of `like`."""
    fmt = FORMATS[element]
    number = fmt.decode(codes)
    beyond = fmt.max + (fmt.max - float(fmt.decode(np.array([fmt.max_code - 1]))[0]))
    return np.where(np.isfinite(number) | ~np.isfinite(like), number, np.copysign(beyond, like))


def _decide_side(op: str, operands: list[float], number: float, value: float) -> int:
    """The sign of a function's exact value minus the nearby number `number`; `value` is the function in f64."""
    if FUNCTIONS[op].is_exact(operands, number):
        return 0
    nearest, side = decide(op, *operands)
    if nearest != number:
        return 1 if nearest > number else -1
    if side == 0 and FUNCTIONS[op].is_bounded and abs(number) == 1:
        return -int(number)
    if side == 0 and number == 0:  # smaller than any decimal number
        return int(math.copysign(1, value))
    return side
