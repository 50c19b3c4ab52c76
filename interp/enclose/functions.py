"""Rules of functions: at the ends of intervals on which they are monotone, or by samples where they are smooth."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.types import Kind
from ..program import Operation
from .evaluate import Evaluator, rule
from .intervals import Interval, broadcast, indefinite, widen
from .values import C128, F64, Enclosure, by_parts, computed_in, leaves_open, of_parts, to_f64, ulp_of

_TAU = 2 * math.pi


def function_of_points(e: Evaluator, operation: Operation, operands: Sequence[Enclosure]) -> list[Enclosure]:
    """Return a function of numbers that are known: the interpreter's result, within the ULP that are allowed."""
    found = []
    for i, x in enumerate(e.nominal(operation, operands)):
        own = to_f64(x.value, x.element)
        part = x.element.part
        if not part.is_float:
            found.append(x)
            continue
        error = 2 * e.allowed.ulps(part) * ulp_of(np.abs(own), computed_in(part))
        error = np.where(np.isfinite(error), error, 0.0)
        if x.element.is_complex:  # whose parts depend on the formula where one overflows or is NaN
            error = np.where(np.isfinite(own), error, np.inf)
        found.append(e.around(operation, operands, own, error, value=x.value, index=i))
    return found


@np.errstate(all="ignore")
def function_of_samples(e: Evaluator, operation: Operation, operands: Sequence[Enclosure]) -> list[Enclosure] | None:
    """Return a smooth function of intervals, or of complex boxes: its change at their corners, doubled.

    Corners half as far away tell whether the function is smooth there: it must change by half or a quarter as much.
    Elsewhere, as beside a pole or a branch cut, elements are undecided.
    """
    if all(x.is_exact for x in operands):
        return function_of_points(e, operation, operands)
    if len(operation.results) != 1 or not all(x.element.is_float or x.element.is_complex for x in operands):
        return None
    wide = C128 if any(x.element.is_complex for x in operands) else F64
    middle, reach = [], []
    for x in operands:
        low, high, _ = x.bounds()
        middle.append(by_parts(low, lambda v: v / 2) + by_parts(high, lambda v: v / 2))
        reach.append(by_parts(high - low, lambda v: v / 2))
    shape = np.broadcast_shapes(*(m.shape for m in middle))

    def at(arrays: Sequence[np.ndarray]) -> np.ndarray:
        given = [v.astype(wide.dtype) if x.element.is_complex else v for v, x in zip(arrays, operands, strict=True)]
        return np.asarray(e.run_as(operation, given, wide, range(len(operands)))[0])

    center = at(middle)
    signs = [(1, -1) if not np.iscomplexobj(m) else (1 + 1j, 1 - 1j, -1 + 1j, -1 - 1j) for m in middle]

    def change(part: float) -> np.ndarray:
        found = np.zeros(shape)
        for corner in itertools.product(*signs):
            moved = [
                m + part * (of_parts(np.real(r) * np.real(s), np.imag(r) * np.imag(s)) if np.iscomplexobj(m) else r * s)
                for m, r, s in zip(middle, reach, corner, strict=True)
            ]
            found = np.fmax(found, np.abs(at(moved) - center))
        return found

    whole, half = change(1.0), change(0.5)
    noise = np.abs(center) * 2.0**-44
    smooth = ((whole >= 1.5 * half) & (whole <= 5 * half)) | (whole <= noise)
    known = smooth & np.isfinite(center) & np.isfinite(whole)
    (own,) = e.nominal(operation, operands)
    part = own.element.part
    error = 2 * whole + noise + 2 * e.allowed.ulps(part) * ulp_of(np.abs(center), computed_in(part))
    center = np.where(known, center, to_f64(own.value, own.element))
    return [e.around(operation, operands, center, error, known, own.value)]


# -- functions ---------------------------------------------------------------------------------------------------------

#: Functions that grow: the least number that they are of, and the greatest.
_GROWING: dict[str, tuple[float, float]] = {
    "sqrt": (0, np.inf), "cbrt": (-np.inf, np.inf), "exponential": (-np.inf, np.inf),
    "exponential_minus_one": (-np.inf, np.inf), "log": (0, np.inf), "log_plus_one": (-1, np.inf),
    "logistic": (-np.inf, np.inf), "tanh": (-np.inf, np.inf), "chlo.erf": (-np.inf, np.inf), "chlo.erf_inv": (-1, 1),
    "chlo.sinh": (-np.inf, np.inf), "chlo.asinh": (-np.inf, np.inf), "chlo.atan": (-np.inf, np.inf),
    "chlo.asin": (-1, 1), "chlo.atanh": (-1, 1), "chlo.acosh": (1, np.inf),
}  # fmt: skip
#: Functions that fall.
_FALLING: dict[str, tuple[float, float]] = {
    "rsqrt": (0, np.inf), "chlo.acos": (-1, 1), "chlo.erfc": (-np.inf, np.inf),
}  # fmt: skip
#: Functions of one number with rules of their own, in terms of the function itself.
_OTHERS = ("sine", "cosine", "tan", "chlo.tan", "chlo.cosh", "chlo.lgamma", "chlo.digamma", "chlo.bessel_i1e")


@rule(*_GROWING, *_FALLING, *_OTHERS)
def function(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A function of one number."""
    (x,), name = operands, operation.name.removeprefix("stablehlo.")
    if not x.element.is_float:
        return function_of_samples(e, operation, operands)
    low, high, nan = x.bounds()
    only_nan = np.isnan(low)
    least, most = {**_GROWING, **_FALLING}.get(name, (-np.inf, np.inf))
    nan = nan | (low < least) | (high > most)
    only_nan = only_nan | (high < least) | (low > most)
    low, high = (np.clip(v, least, most) for v in (low, high))

    def at(v: np.ndarray) -> np.ndarray:
        return np.asarray(e.run_as(operation, [v], F64)[0])

    if name in _OTHERS and not (np.isnan(low) | (low == high)).all():
        if name.startswith(("chlo.lgamma", "chlo.digamma", "chlo.bessel")):
            return function_of_samples(e, operation, operands)
        ends = _periodic(name, low, high, at)
    else:
        ends = at(low), at(high)
    ends = (ends[1], ends[0]) if name in _FALLING else ends
    low, high = widen(*ends, e.allowed.ulps(x.element), computed_in(x.element))
    if name == "rsqrt":  # of -0, which subnormal numbers may be taken as
        low = np.where(x.bounds()[0] < 0, -np.inf, low)
    low, high, nan = indefinite(low, high, nan, only_nan)
    return [e.finish(operation, operands, low, high, nan)]


def _periodic(name: str, low: np.ndarray, high: np.ndarray, at: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """Return the range of an even or periodic function over intervals."""
    a, b = at(low), at(high)
    least, most = np.minimum(a, b), np.maximum(a, b)

    def crosses(point: float, period: float) -> np.ndarray:
        return np.floor((high - point) / period + 1e-9) > np.floor((low - point) / period - 1e-9)

    if name == "chlo.cosh":
        return np.where((low <= 0) & (high >= 0), 1.0, least), most
    if name in ("tan", "chlo.tan"):
        pole = crosses(math.pi / 2, math.pi) | ~np.isfinite(low - high)
        return np.where(pole, -np.inf, least), np.where(pole, np.inf, most)
    top = 0.0 if name == "cosine" else math.pi / 2
    wide = ~(high - low < _TAU) | (np.abs(low) > 1e15)
    most = np.where(wide | crosses(top, _TAU), 1.0, most)
    return np.where(wide | crosses(top + math.pi, _TAU), -1.0, least), most


@rule("power", "atan2", "remainder", "chlo.next_after", "chlo.polygamma", "chlo.zeta")
def binary_function(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A function of two numbers: at the corners of the intervals, where it grows or falls in each."""
    x, y = operands
    name, element = operation.name.removeprefix("stablehlo."), x.element
    if not element.is_float:
        if not element.is_complex:
            return left_open(e, operation, operands)
        return function_of_samples(e, operation, operands)
    (a, b, m), (c, d, n) = broadcast(operands)
    only_nan = np.isnan(a) | np.isnan(c)

    def at(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(e.run_as(operation, [u, v], F64)[0])

    if x.is_exact and y.is_exact:
        if name == "remainder" and leaves_open(element):  # what is no number of it
            return [e.finish(operation, operands, *indefinite(at(a, c), at(a, c), m | n, only_nan), rounds=False)]
        if name in ("remainder", "chlo.next_after"):
            return e.nominal(operation, operands)
        return function_of_points(e, operation, operands)
    corners = [at(u, v) for u in (a, b) for v in (c, d)]
    low, high, nan = np.minimum.reduce(corners), np.maximum.reduce(corners), m | n
    if name == "power":
        whole = (c == d) & (np.floor(c) == c) & (c >= 0)
        even = whole & (np.fmod(c, 2) == 0) & (a <= 0) & (b >= 0)
        low = np.where(even, 0.0, low)
        unknown = ~((a > 0) | whole)
    elif name == "atan2":
        low, high = (
            np.where((a <= 0) & (b >= 0) & (c <= 0), -math.pi, low),
            np.where((a <= 0) & (b >= 0) & (c <= 0), math.pi, high),
        )
        unknown = np.zeros(a.shape, bool)
    elif name == "remainder":
        same = np.trunc(a / c) == np.trunc(b / c)
        same = same & (np.trunc(a / d) == np.trunc(b / d)) & (np.trunc(a / c) == np.trunc(a / d))
        size = np.minimum(np.maximum(np.abs(c), np.abs(d)), np.maximum(np.abs(a), np.abs(b)))
        low, high = np.where(same, low, np.where(a < 0, -size, 0.0)), np.where(same, high, np.where(b > 0, size, 0.0))
        unknown = ((c <= 0) & (d >= 0)) | ~np.isfinite(a) | ~np.isfinite(b)
        nan = nan | unknown
    else:
        return function_of_samples(e, operation, operands) if name != "chlo.next_after" else None
    low, high = np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
    low, high = widen(low, high, e.allowed.ulps(element), computed_in(element))
    low, high, nan = indefinite(low, high, nan, only_nan)
    return [e.finish(operation, operands, low, high, nan)]


def left_open(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> list[Enclosure] | None:
    """Integers whose result the specification defines for all operands but some: these are undecided."""
    if not all(x.is_exact for x in operands):
        return None
    (found,), (x, y) = e.nominal(operation, operands), (np.asarray(v.value, np.float64) for v in operands)
    element = operands[0].element
    is_open = y == 0
    if operation.name.endswith("power"):
        size = np.abs(x) ** y
        is_open = (size >= 2.0 ** (element.bits - 1)) | ((y < 0) & (np.abs(x) != 1))
    elif element.kind is Kind.SIGNED:
        is_open = is_open | ((y == -1) & (x == -(2.0 ** (element.bits - 1))))
    if not is_open.any():
        return [found]
    return [dataclasses.replace(found, since=e.since(operation, np.broadcast_to(is_open, found.value.shape)))]
