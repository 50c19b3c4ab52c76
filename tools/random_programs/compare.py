"""Locates differences of two results of a step, and decides how near they have to be, as `interp.diff` does."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from minihlo.interp.diff.judge import Kind, judge, kind_of
from minihlo.interp.diff.source import Source
from minihlo.interp.judging.equality import GradedResult, grade_by_equality
from minihlo.interp.judging.record import WRONG
from minihlo.interp.program import Operation
from minihlo.ops.types import ElementType

from .program import Step, cut_steps


@dataclasses.dataclass(frozen=True)
class Case:
    """Our result and a peer's result of a step, on the same inputs."""

    peer: str
    step: Step
    inputs: tuple[np.ndarray, ...]  #: of `step.inputs`
    index: int  #: of the result
    ours: np.ndarray
    theirs: np.ndarray
    #: The step as we run it, on other inputs; or another step.
    again: Callable[..., list[np.ndarray]]

    @property
    def element(self) -> ElementType:
        return self.step.results[self.index].type.element

    @functools.cached_property
    def operation(self) -> Operation:
        """The step as `interp.diff` has it."""
        body = Source.of_text(cut_steps([self.step])[0].named(), "step.mlir").function.body
        assert body is not None
        return body.operations[0]

    def rerun(self, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Our result on changed inputs."""
        return self.again([change(x) for x in self.inputs])[self.index]

    def judge_step(self, mine: np.ndarray | None = None, inputs: Sequence[np.ndarray] | None = None) -> GradedResult:
        """The grades of the peer's result where `mine` is ours, of `inputs`. By default both are those of the case."""
        mine = self.ours if mine is None else mine
        known = dict(zip(self.step.inputs, self.inputs if inputs is None else inputs, strict=True))
        if kind_of(self.operation) is Kind.STEPS:  # which `interp.diff` judges by size alone
            result = grade_by_equality(self.theirs, mine)
            if "sums" in self.step.notes and (self.element.is_float or self.element.is_complex):
                result.grades[_within_rounding(self, mine)] = 0
            return result
        others = [mine] * len(self.step.results)  # of the other results nothing is asked
        theirs = [self.theirs if i == self.index else mine for i in range(len(others))]
        return judge(self.operation, [known[v] for v in self.step.operands], theirs, others)[self.index]


def is_nan(x: np.ndarray) -> np.ndarray:
    return np.asarray(x != x)


def parts(x: np.ndarray) -> list[np.ndarray]:
    """A complex array's two parts; any other array itself."""
    return [np.ascontiguousarray(p).reshape(x.shape) for p in (np.real(x), np.imag(x))] if x.dtype.kind == "c" else [x]


def wide(x: np.ndarray) -> np.ndarray:
    """Real or complex numbers in double precision."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def absolute(x: np.ndarray) -> np.ndarray:
    """Magnitudes, in the type itself: of a complex number, |re| + |im|."""
    if x.dtype.kind == "c":
        return (np.abs(np.real(x)) + np.abs(np.imag(x))).astype(x.dtype)
    if x.dtype.kind in "bu":
        return x
    return np.abs(x.astype(np.float64)).astype(np.float32).astype(x.dtype) if x.itemsize < 4 else np.abs(x)


def epsilon(t: ElementType) -> float:
    """The distance from 1 to the next number."""
    return 2.0**-t.part.format.mantissa_bits


def has_subnormal(x: np.ndarray) -> np.ndarray:
    """Tests where a float or a part of a complex number is subnormal in f32, or in f64 for f64; zeros are not."""
    result = np.zeros(x.shape, bool)
    for part in parts(x):
        size = np.abs(part.astype(np.float64))
        result |= (size > 0) & (size < float(np.finfo(np.float64 if part.dtype == np.float64 else np.float32).tiny))
    return result


def flush(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers, as f32 and f64 have them, replaced by zeros of their sign."""
    if x.dtype.kind in "biu" or (x.dtype.itemsize == 1 and x.dtype.name.startswith(("int", "uint"))):
        return x
    if x.dtype.kind == "c":
        result = np.empty(x.shape, x.dtype)
        result.real, result.imag = map(flush, parts(x))
        return result
    return np.where(has_subnormal(x), np.copysign(0.0, x.astype(np.float64)).astype(np.float32).astype(x.dtype), x)


def close(case: Case, mine: np.ndarray, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Whether the peer's results are as near to `mine`, our results on `inputs`, as the op requires."""
    return case.judge_step(mine, inputs).grades != WRONG


def _within_rounding(case: Case, mine: np.ndarray) -> np.ndarray:
    """Within what rounding can do to a sum of that many terms of that size, in any order."""
    t = case.element
    count = max((x.size for x in case.inputs), default=1)
    size = np.abs(wide(case.rerun(absolute)))
    smallest = 2.0**t.part.format.min_exponent
    return np.asarray(np.abs(wide(mine) - wide(case.theirs)) <= count * (epsilon(t) * size + smallest))
