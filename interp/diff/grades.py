"""How each element of a result stands to ours: the same, left open, near enough, or wrong; and how far it is off."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...ops.engine.cast import codes_of
from ...ops.engine.keys import value_keys
from ...ops.types import type_of_dtype
from ..conform.result import ACCURACY, DIVERGENT, FAIL, PASS

#: The grade of an element, from best to worst, and the verdict that it is.
SAME, OPEN, NEAR, WRONG = range(4)
VERDICTS = (PASS, DIVERGENT, ACCURACY, FAIL)


@dataclasses.dataclass
class Graded:
    """The elements of one result."""

    grades: np.ndarray  #: uint8
    notes: list[str] = dataclasses.field(default_factory=list)  #: why they are graded so, in words

    @property
    def verdict(self) -> str:
        """That of the worst element."""
        return VERDICTS[int(self.grades.max(initial=SAME))]

    def set(self, where: np.ndarray, grade: int, note: str = "") -> None:
        """Grade the elements that are wrong so far, where `where`."""
        chosen = where & (self.grades == WRONG)
        if chosen.any():
            self.grades[chosen] = grade
            if note and note not in self.notes:
                self.notes.append(note)


def graded(theirs: np.ndarray, ours: np.ndarray) -> Graded:
    """What is not the same is wrong."""
    return Graded(np.where(same(theirs, ours), np.uint8(SAME), np.uint8(WRONG)))


def same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Elements that have one code, or are both NaN; of complex numbers, both parts."""
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return same(np.real(x), np.real(y)) & same(np.imag(x), np.imag(y))
    if not element.is_float:
        return np.asarray(x == y)
    x, y = (np.asarray(v, order="C") for v in (x, y))
    is_nan = [value_keys(v, element) == _nan_key(v) for v in (x, y)]
    return np.asarray((codes_of(x, element.format) == codes_of(y, element.format)) | (is_nan[0] & is_nan[1]))


def ulps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How far apart elements are, in f64: as `conform.result` says, NaN where there is no distance.

    Of integers the difference; of complex numbers the larger distance of their parts.
    """
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return np.fmax(ulps(np.real(x), np.real(y)), ulps(np.imag(x), np.imag(y)))
    if element.name == "i1":
        return (x != y).astype(np.float64)
    x, y = (np.asarray(v, order="C") for v in (x, y))
    keys = value_keys(x, element), value_keys(y, element)
    wide = np.uint64 if keys[0].dtype.kind == "u" else np.int64
    first, second = (k.astype(wide) for k in keys)
    with np.errstate(over="ignore"):  # modulo 2**64 the difference is right
        apart = np.maximum(first, second).astype(np.uint64) - np.minimum(first, second).astype(np.uint64)
    distance = np.asarray(apart.astype(np.float64))
    if element.is_float:
        distance[(keys[0] == _nan_key(x)) != (keys[1] == _nan_key(y))] = np.nan
    return distance


def is_subnormal(x: np.ndarray) -> np.ndarray:
    """Which floats are smaller than the smallest normal one, but not zero; in f8E8M0FNU 2**-127, as it is in f32."""
    fmt = type_of_dtype(x.dtype).format
    size = codes_of(np.asarray(x, order="C"), fmt) & np.array(
        (1 << fmt.bits - 1) - 1 if fmt.is_signed else 255, fmt.code_dtype
    )
    if not fmt.has_zero:
        return np.asarray(size == 0)
    return np.asarray((size > 0) & (size < 1 << fmt.mantissa_bits) & (x == x))


def _nan_key(x: np.ndarray) -> int:
    """`value_keys` of NaN."""
    return np.iinfo(np.int16 if x.dtype.itemsize == 1 else f"i{x.dtype.itemsize}").max
