"""Where two results differ, and by how much."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from minihlo.ops.registry import ops
from minihlo.ops.types import ElementType

from .program import Step, codes


@dataclasses.dataclass(frozen=True)
class Case:
    """One result of a step as we give it and as a peer does, on the same inputs."""

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

    def rerun(self, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Our result on changed inputs."""
        return self.again([change(x) for x in self.inputs])[self.index]


def is_nan(x: np.ndarray) -> np.ndarray:
    return np.asarray(x != x)


def parts(x: np.ndarray) -> list[np.ndarray]:
    """A complex array's two parts; any other array itself."""
    return [np.ascontiguousarray(p).reshape(x.shape) for p in (np.real(x), np.imag(x))] if x.dtype.kind == "c" else [x]


def same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where two arrays of one type have the same bits, or both NaN."""
    found = np.ones(x.shape, bool)
    for a, b in zip(parts(x), parts(y), strict=True):
        found &= (codes(a) == codes(b)) | (is_nan(a) & is_nan(b))
    return found


def steps_apart(x: np.ndarray, y: np.ndarray, t: ElementType) -> np.ndarray:
    """How many codes apart two arrays of a float type are; NaN is far from all but NaN. Of integers their distance."""
    far = float(1 << 64)
    if not t.is_float:
        return np.abs(x.astype(object) - y.astype(object)).astype(float)
    a, b = _places(x, t), _places(y, t)
    apart = np.abs(a - b).astype(float)
    nan = is_nan(x), is_nan(y)
    return np.where(nan[0] & nan[1], 0.0, np.where(nan[0] | nan[1], far, apart))


def _places(x: np.ndarray, t: ElementType) -> np.ndarray:
    """Floats as integers in the order of the numbers, both zeros at 0."""
    bits = codes(x).astype(object)
    sign = t.format.sign_bit
    return np.asarray(np.where((bits & sign) != 0, -(bits & (sign - 1)), bits) if sign else bits, object)


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
    """Where a float or a part of a complex number lies below the smallest normal f32, of f64 its own; and is not 0."""
    found = np.zeros(x.shape, bool)
    for part in parts(x):
        size = np.abs(part.astype(np.float64))
        found |= (size > 0) & (size < float(np.finfo(np.float64 if part.dtype == np.float64 else np.float32).tiny))
    return found


def flushed(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers, as f32 and f64 have them, replaced by zeros of their sign."""
    if x.dtype.kind in "biu" or (x.dtype.itemsize == 1 and x.dtype.name.startswith(("int", "uint"))):
        return x
    if x.dtype.kind == "c":
        result = np.empty(x.shape, x.dtype)
        result.real, result.imag = map(flushed, parts(x))
        return result
    return np.where(has_subnormal(x), np.copysign(0.0, x.astype(np.float64)).astype(np.float32).astype(x.dtype), x)


#: Functions that a host computes nearly.
_ELEMENTARY = frozenset(name.removeprefix("stablehlo.") for name, op in ops().items() if op.accuracy.is_near)
_COMPLEX_ONLY = ("sqrt", "abs", "sign", "divide", "multiply")


def close(case: Case, mine: np.ndarray) -> np.ndarray:
    """Whether the peer's results are as near to `mine` as the op promises; not so where it promises to be exact."""
    step, t = case.step, case.element
    if "sums" in step.notes and (t.is_float or t.is_complex):
        return _within_rounding(case, mine)
    if any(v.type.element.is_complex for v in step.operands) and step.short in (*_ELEMENTARY, *_COMPLEX_ONLY):
        error = np.abs(wide(mine) - wide(case.theirs))
        return np.asarray(error <= 16 * epsilon(t) * np.abs(wide(mine)))
    if step.short in _ELEMENTARY and t.is_float:
        return steps_apart(mine, case.theirs, t) <= (8 if t.bits >= 32 else 1)
    return np.zeros(mine.shape, bool)


def _within_rounding(case: Case, mine: np.ndarray) -> np.ndarray:
    """Within what rounding can do to a sum of that many terms of that size, in any order."""
    t = case.element
    count = max((x.size for x in case.inputs), default=1)
    size = np.abs(wide(case.rerun(absolute)))
    smallest = 2.0**t.part.format.min_exponent
    return np.asarray(np.abs(wide(mine) - wide(case.theirs)) <= count * (epsilon(t) * size + smallest))
