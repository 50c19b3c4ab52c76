"""The grade of each element of a result, with the reasons."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...ops.cast import codes_of
from ...ops.types import type_of_dtype
from ..oracle.formats import FORMATS
from .equality import equal_values
from .record import SAME, WRONG, Diagnosis


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
