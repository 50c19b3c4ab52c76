"""The accuracy required of functions, which no standard requires to be correctly rounded.

Functions of minifloats must be faithful, as in the conformance tester, and computed in f16 at least. Functions of f16
and bf16 may be off by some ULP, and must be exact where the exact result is a number of the format. Functions of f32
and f64 must be as good as mathematical libraries, and exact at 0, 1 and -1 if the result there is one of these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.cast import codes_of
from ...ops.types import type_of_dtype
from ..oracle.exact import FUNCTIONS
from ..oracle.formats import FORMATS
from ..oracle.rounding import Exact
from ..program import Operation
from .faithful import is_faithful, sides, sides_of_function
from .grades import NEAR, OPEN, GradedResult, Note, is_subnormal
from .left_open import note
from .sums.exact_sums import between
from .ulp import distance
from .wide import in_f64

#: The largest distance from the correctly rounded result.
ULPS = {"f16": 4, "bf16": 4, "f32": 32, "f64": 64}
#: For minifloats: the number in f16 may be off by `_OF_F16` of its ULP, and is rounded once more; these ULP are
#: `_SHARE` of a number, or `_LEAST` where it is subnormal.
_OF_F16, _SHARE, _LEAST = 4, 2.0**-11, 2.0**-25
#: If a function in f64 is this near to a number of a narrow format, its result must be that number.
_DOUBT = 2.0**-44
#: Above this number of results, the side is not decided one by one.
_DECIDED = 1 << 14

_FAITHFUL = Note("faithful", "one of the numbers next to the exact one, as if it was rounded to f16 first")
_FLUSHED = Note("subnormal-flushed", "a subnormal result is flushed to zero")

Arrays = Sequence[np.ndarray]


def grade_near(
    operation: Operation, operands: Arrays, theirs: np.ndarray, ours: np.ndarray, graded: GradedResult
) -> None:
    """Grades as NEAR those results of a function that are close enough to the exact ones."""
    element = type_of_dtype(theirs.dtype)
    if element.is_complex:
        part = element.part.format
        error = np.abs(theirs - ours) <= ULPS[element.part.name] * 2.0**-part.precision * np.abs(ours)
        limit = ULPS[element.part.name]
        graded.set(error, NEAR, Note("near-complex", f"within {limit} ULP of the number's length"))
        graded.set(~np.isfinite(theirs) & ~np.isfinite(ours), OPEN, note("complex-not-finite"))
    elif element.is_minifloat:
        apart = distance(theirs, ours)
        close = np.isnan(apart) | (apart <= 2)  # NaN may stand for an overflow
        side = _sides(operation, operands, ours, close & (graded.grades > OPEN))
        if side is None:
            return graded.set(apart <= 1, NEAR, Note("near", "within 1 ULP"))
        got, right = (codes_of(np.asarray(x, order="C"), element.format) for x in (theirs, ours))
        close &= is_faithful(element.name, got, right, side)
        exact = in_f64(operation, operands)
        if exact is not None and exact[0].shape == theirs.shape:
            close &= between(theirs, exact[0], np.abs(exact[0]) * _OF_F16 * _SHARE + _OF_F16 * _LEAST)
        graded.set(close, NEAR, _FAITHFUL)
    elif element.is_float:
        limit = ULPS[element.name]
        near = (distance(theirs, ours) <= limit) & ~_is_exact(operation, operands, ours, graded)
        graded.set(near, NEAR, Note("near", f"within {limit} ULP, and no standard asks for more"))
        graded.set((theirs == 0) & is_subnormal(ours), NEAR, _FLUSHED)
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
