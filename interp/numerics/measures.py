"""The distance between two results of a program, as one number."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.types import Type, type_of_dtype
from ..errors import Error, InputError
from ..judging.equality import distance
from .evaluators import convert_to

Outputs = Sequence[Any]
#: The results of a run, or the error that ended it.
Outcome = list[Any] | Error

MEASURES = ("norm", "ulp", "loss")


@dataclasses.dataclass(frozen=True, order=True)
class Amount:
    """A distance. Elements that are finite in only one result, and cannot be subtracted, count first."""

    lost: int = 0  #: elements that are NaN or infinite in only one of the two, or differently
    size: float = 0.0  #: the measure of all other elements

    def __bool__(self) -> bool:
        return self != NONE

    def __str__(self) -> str:
        if not self.lost:
            return f"{self.size:.4g}"
        return f"{self.lost} not finite" + (f", else {self.size:.4g}" if self.size else "")

    def data(self) -> dict[str, Any]:
        """The amount for JSON."""
        return {"not_finite": self.lost, "size": self.size}

    def of(self, whole: Amount) -> float:
        """The share of another amount: 1 is all of it."""
        if whole.lost:
            return self.lost / whole.lost
        if self.lost:
            return math.inf
        return self.size / whole.size if whole.size else math.inf if self.size else 0.0


NONE = Amount()
#: The distance between results and a failed run.
FAILED = Amount(lost=1 << 62, size=math.inf)


class Measure:
    """A measure of a program's outputs against the good ones."""

    def __init__(
        self, kind: Any, good: Outputs, types: Sequence[Type], unflatten: Callable[[list[Any]], Any] = list
    ) -> None:
        """`kind` is one of MEASURES or a function of (good output, output). Raises InputError for anything else."""
        self._good, self._types = list(good), types
        self._number: Callable[[Outputs], float] | None = None  #: a measure that compares one number of each result
        self.name = getattr(kind, "__name__", type(kind).__name__) if callable(kind) else str(kind)
        if callable(kind):
            self._number = lambda outputs: self._float(kind(unflatten(list(good)), unflatten(list(outputs))))
        elif kind == "loss":
            losses = [i for i, x in enumerate(good) if isinstance(x, np.ndarray) and _is_scalar(x)]
            if not losses:
                raise InputError("measure: expected an output that is a floating-point scalar for loss, got none")
            self._number = lambda outputs: float(_numbers(outputs[losses[0]]))
        elif kind not in MEASURES:
            raise InputError(f"measure: expected one of {', '.join(MEASURES)} or a function, got {kind!r}")
        self._scales = [_norm(np.where(np.isfinite(x), x, 0)) or 1.0 for x in map(_numbers, self._good)]

    def of(self, outcome: Outcome) -> Amount:
        """The distance of a result from the good one."""
        return self.between(self._good, outcome)

    def between(self, first: Outcome, second: Outcome) -> Amount:
        """The distance between two results. Raises InputError if the user's function gives no number."""
        if isinstance(first, Error) or isinstance(second, Error):
            return NONE if isinstance(first, Error) and isinstance(second, Error) else FAILED
        if self._number is not None:
            return _difference(np.array(self._number(first)), np.array(self._number(second)))
        each = self._ulp if self.name == "ulp" else self._norm
        parts = [each(i, a, b) for i, (a, b) in enumerate(zip(first, second, strict=True)) if isinstance(a, np.ndarray)]
        return Amount(sum(p.lost for p in parts), max((p.size for p in parts), default=0.0))

    def _float(self, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(f"measure: expected a number from {self.name}, got {type(value).__name__}") from None

    def _norm(self, i: int, first: np.ndarray, second: np.ndarray) -> Amount:
        return _difference(_numbers(first), _numbers(second), self._scales[i])

    def _ulp(self, i: int, first: np.ndarray, second: np.ndarray) -> Amount:
        steps = distance(*(convert_to(x, self._types[i]) for x in (first, second)))
        lost = np.isnan(steps)
        return Amount(int(lost.sum()), float(np.max(steps, initial=0.0, where=~lost)))


def _is_scalar(x: np.ndarray) -> bool:
    return x.shape == () and type_of_dtype(x.dtype).is_float


def _numbers(x: Any) -> np.ndarray:
    """An array in the widest type of its kind; zeros for anything but an array."""
    if not isinstance(x, np.ndarray):
        return np.zeros(0)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _norm(x: np.ndarray) -> float:
    """The Euclidean norm, without overflow."""
    largest = float(np.max(np.abs(x), initial=0.0))
    return largest * float(np.sqrt(np.sum(np.abs(x / largest) ** 2))) if 0 < largest < math.inf else largest


def _difference(a: np.ndarray, b: np.ndarray, scale: float = 1.0) -> Amount:
    with np.errstate(all="ignore"):
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        lost = ~equal & ~(np.isfinite(a) & np.isfinite(b))
        return Amount(int(lost.sum()), _norm((a - b)[~equal & ~lost]) / scale)
