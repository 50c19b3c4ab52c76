"""The accuracy required of functions, which no standard requires to be correctly rounded.

Functions of minifloats must be faithful, as in the conformance tester, and computed in f16 at least. Functions of f16
and bf16 may be off by some ULP, and must be exact where the exact result is a number of the format. Functions of f32
and f64 must be as good as mathematical libraries, and exact at 0, 1 and -1 if the result there is one of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ops.cast import codes_of
from ...ops.types import type_of_dtype
from ..oracle.exact import estimate
from ..oracle.formats import FORMATS
from ..oracle.functions import FUNCTIONS, decide
from ..oracle.rounding import Exact
from ..program import Operation
from .equality import GradedResult, distance, is_subnormal
from .left_open import note
from .record import NEAR, OPEN
from .sums.exact_sums import between
from .table import cause
from .wide import in_f64

#: The largest distance from the correctly rounded result.
ULPS = {"f16": 4, "bf16": 4, "f32": 32, "f64": 64}
#: For minifloats: the number in f16 may be off by `_OF_F16` of its ULP, and is rounded once more; these ULP are
#: `_SHARE` of a number, or `_LEAST` where it is subnormal.
_OF_F16, _SHARE, _LEAST = 4, 2.0**-11, 2.0**-25
#: The error of a function in f64 is less than this share of its value. If it is this near to a number of a narrow
#: format, its result must be that number.
_DOUBT = 2.0**-44
#: Above this number of results, the side is not decided one by one.
_DECIDED = 1 << 14

Array = np.ndarray
Arrays = Sequence[np.ndarray]


def grade_near(operation: Operation, operands: Arrays, theirs: Array, ours: Array, graded: GradedResult) -> None:
    """Grades as NEAR those results of a function that are close enough to the exact ones."""
    element = type_of_dtype(theirs.dtype)
    if element.is_complex:
        part = element.part.format
        error = np.abs(theirs - ours) <= ULPS[element.part.name] * 2.0**-part.precision * np.abs(ours)
        limit = ULPS[element.part.name]
        graded.set(error, NEAR, cause("near-complex", limit=limit))
        graded.set(~np.isfinite(theirs) & ~np.isfinite(ours), OPEN, note("complex-not-finite"))
    elif element.is_minifloat:
        apart = distance(theirs, ours)
        close = np.isnan(apart) | (apart <= 2)  # NaN may stand for an overflow
        side = _sides(operation, operands, ours, close & (graded.grades > OPEN))
        if side is None:
            return graded.set(apart <= 1, NEAR, cause("near", limit=1))
        got, right = (codes_of(np.asarray(x, order="C"), element.format) for x in (theirs, ours))
        close &= is_faithful(element.name, got, right, side)
        exact = in_f64(operation, operands)
        if exact is not None and exact[0].shape == theirs.shape:
            close &= between(theirs, exact[0], np.abs(exact[0]) * _OF_F16 * _SHARE + _OF_F16 * _LEAST)
        graded.set(close, NEAR, cause("faithful"))
    elif element.is_float:
        limit = ULPS[element.name]
        near = (distance(theirs, ours) <= limit) & ~_is_exact(operation, operands, ours, graded)
        graded.set(near, NEAR, cause("near", limit=limit))
        graded.set((theirs == 0) & is_subnormal(ours), NEAR, cause("subnormal-flushed"))
    return None


def _is_exact(operation: Operation, operands: Arrays, ours: np.ndarray, graded: GradedResult) -> np.ndarray:
    """The places where a result must be ours because the exact result is a number of the format."""
    element = type_of_dtype(ours.dtype)
    if element.bits == 16:
        side = _sides(operation, operands, ours, graded.grades > OPEN)
        return np.zeros(ours.shape, bool) if side is None else np.asarray(side == 0) & np.isfinite(ours)
    simple = [(x == 0) | (np.abs(x) == 1) for x in operands if type_of_dtype(x.dtype).is_float]
    whole = (ours == 0) | (np.abs(ours) == 1)
    return np.logical_and.reduce([np.broadcast_to(s, ours.shape) for s in simple]) & whole


def _sides(operation: Operation, operands: Arrays, ours: np.ndarray, where: np.ndarray) -> np.ndarray | None:
    """The side of our results on which the exact ones lie (`faithful.sides`), at `where`; None if unknown."""
    element = type_of_dtype(ours.dtype)
    name = operation.name.rpartition(".")[2]
    sides_, flat = np.zeros(ours.shape, np.int8), np.flatnonzero(where)
    codes = codes_of(np.asarray(ours, order="C"), element.format).reshape(-1)
    alike = all(x.dtype == ours.dtype and x.shape == ours.shape for x in operands)
    if name in FUNCTIONS and alike and len(flat) <= _DECIDED:
        given = tuple(codes_of(np.asarray(x, order="C"), element.format).reshape(-1)[flat] for x in operands)
        sides_.reshape(-1)[flat] = sides_of_function(name, element.name, given, codes[flat])
        return sides_
    exact = in_f64(operation, operands)
    if exact is None or exact[0].shape != ours.shape:
        return None
    side = sides(element.name, codes, Exact.of(exact[0].reshape(-1)))
    number = FORMATS[element.name].decode(codes)
    with np.errstate(all="ignore"):
        is_number = np.abs(exact[0].reshape(-1) - number) <= _DOUBT * np.abs(number)
    return np.where(is_number, 0, side).reshape(ours.shape)


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
