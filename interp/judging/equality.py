"""Equal results, distances in ULP, and the grades of elements.

Results are equal if they have the same code, or are both NaN. Distances are steps between numbers of a format: both
zeros are one number, and infinity is the step after the largest number. NaN has no distance to a number.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ...ops.cast import codes_of
from ...ops.types import type_of_dtype
from ..oracle.formats import FORMATS, Format
from .record import SAME, WRONG, Diagnosis


def equal_codes(element: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compares codes of an element type: equal, or both NaN.

    Args:
        element: the name of the element type. Integers and booleans have no NaN.
        a: codes, of any shape.
        b: codes of the same type, of a shape that broadcasts with that of `a`.

    Returns:
        bool, of the broadcast shape. -0 and +0 are different codes.
    """
    equal = np.asarray(a == b)
    if element in FORMATS:
        fmt = FORMATS[element]
        equal = equal | (fmt.is_nan(a) & fmt.is_nan(b))
    return equal


def equal_values(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`equal_codes` of typed arrays of one dtype; complex numbers are equal if both parts are."""
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return equal_values(np.real(x), np.real(y)) & equal_values(np.imag(x), np.imag(y))
    if not element.is_float:
        return np.asarray(x == y)
    codes = (codes_of(np.asarray(v, order="C"), element.format) for v in (x, y))
    return equal_codes(element.name, *codes)


#: The distance in `signed_steps` where there is none.
FAR = np.int64(1) << 62


def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The distance between the elements of two typed arrays.

    Args:
        x: numbers of any element type.
        y: numbers of the same type and shape.

    Returns:
        f64, of that shape; NaN where exactly one of two floats is NaN. The difference of integers, 0 or 1 for booleans,
        the larger distance of their parts for complex numbers.
    """
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return np.fmax(distance(np.real(x), np.real(y)), distance(np.imag(x), np.imag(y)))
    if element.name == "i1":
        return (x != y).astype(np.float64)
    if not element.is_float:
        wide = np.uint64 if np.asarray(x).dtype == np.uint64 else np.int64
        return _difference(x.astype(wide), y.astype(wide))
    fmt = FORMATS[element.name]
    first, second = (codes_of(np.asarray(v, order="C"), element.format) for v in (x, y))
    nan = fmt.is_nan(first), fmt.is_nan(second)
    steps = _difference(fmt.rank(first), fmt.rank(second))
    return np.where(nan[0] & nan[1], 0.0, np.where(nan[0] | nan[1], np.nan, steps))


def _difference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The difference of 64-bit integers in f64."""
    with np.errstate(over="ignore"):  # correct modulo 2**64
        return np.asarray((np.maximum(x, y).astype(np.uint64) - np.minimum(x, y).astype(np.uint64)).astype(np.float64))


def signed_steps(
    fmt: Format, got: np.ndarray, right: np.ndarray, overflowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Steps from right codes to given ones, where NaN may stand for an overflow.

    Args:
        fmt: the format of all codes.
        got: codes; invalid ones have no distance.
        right: codes.
        overflowed: bool, where the exact result overflows. In a format without infinity the NaN
            of such a result is the step after the largest number.

    Returns:
        the signed steps in f64, 0 where there is no distance; and their magnitudes in int64, FAR there.
    """
    beyond = fmt.max_code + 1
    ranks = fmt.rank(got).astype(np.float64)
    wanted = fmt.rank(right).astype(np.float64)
    nan, nan_right = fmt.is_nan(got), fmt.is_nan(right)
    far = nan | nan_right | fmt.is_none(got)
    if not fmt.has_infinity and fmt.nan != "none":  # NaN stands for an overflow
        sign = np.where(overflowed & ~nan, np.sign(ranks), 1.0)
        wanted = np.where(overflowed & nan_right, sign * beyond, wanted)
        ranks = np.where(nan & ~nan_right, np.copysign(beyond, wanted), ranks)
        near_the_end = np.abs(wanted) >= beyond - 4
        far = (nan & ~nan_right & ~near_the_end) | (nan_right & ~nan & ~overflowed) | fmt.is_none(got)
    signed = ranks - wanted
    if fmt.bits == 64:  # f64 cannot represent the ranks of its own codes
        between = fmt.rank(got) - fmt.rank(right)
        signed = np.where(np.abs(signed) < 2.0**61, between.astype(np.float64), signed)
    signed = np.where(far, 0.0, signed)
    return signed, np.where(far, FAR, np.minimum(np.abs(signed), float(FAR)).astype(np.int64))


@dataclasses.dataclass
class GradedResult:
    """The grades of one result's elements."""

    grades: np.ndarray  #: uint8
    notes: list[Diagnosis] = dataclasses.field(default_factory=list)
    reasons: list[Diagnosis] = dataclasses.field(default_factory=list)  #: those of grades that are better than WRONG

    @property
    def worst(self) -> int:
        """The grade of the worst element."""
        return int(self.grades.max(initial=SAME))

    def set(self, where: np.ndarray, grade: int, note: Diagnosis | None = None) -> None:
        """Changes the grade of those elements of `where` that are WRONG so far."""
        chosen = where & (self.grades == WRONG)
        if chosen.any():
            self.grades[chosen] = grade
            if note is not None and note not in self.notes:
                self.notes.append(note)
                self.reasons.append(note)


def grade_by_equality(theirs: np.ndarray, ours: np.ndarray) -> GradedResult:
    """Grades typed arrays by equality alone: an element that differs is WRONG."""
    return GradedResult(np.where(equal_values(theirs, ours), np.uint8(SAME), np.uint8(WRONG)))


def is_subnormal(x: np.ndarray) -> np.ndarray:
    """Tests which floats are subnormal; in f8E8M0FNU 2**-127 counts, as it does in f32."""
    element = type_of_dtype(x.dtype)
    return np.asarray(FORMATS[element.name].is_subnormal(codes_of(np.asarray(x, order="C"), element.format)))
