"""Intervals of f64: their arithmetic, rounded outward, and how they are widened."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...ops.types import ElementType
from .values import F32, Enclosure, round_to, ulp_of

#: An interval: the least and the greatest number.
Interval = tuple[np.ndarray, np.ndarray]


def _down(x: np.ndarray, inexact: np.ndarray | bool = True) -> np.ndarray:
    return np.where(inexact, np.nextafter(x, -np.inf), x)


def _up(x: np.ndarray, inexact: np.ndarray | bool = True) -> np.ndarray:
    return np.where(inexact, np.nextafter(x, np.inf), x)


def broadcast(operands: Sequence[Enclosure]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the bounds of operands; scalars beside arrays have their shape."""
    shape = max((x.value.shape for x in operands), key=len)
    return [tuple(np.broadcast_to(v, shape) for v in x.bounds()) for x in operands]  # type: ignore[misc]


def add(x: Interval, y: Interval) -> Interval:
    """Return the sums of two intervals, rounded outward where f64 rounds them."""
    ends = []
    for a, b, outward in ((x[0], y[0], _down), (x[1], y[1], _up)):
        s = a + b
        back = s - a
        error = (a - (s - back)) + (b - back)
        ends.append(outward(s, error != 0))
    return ends[0], ends[1]


def multiply(x: Interval, y: Interval) -> Interval:
    """Return the products of two intervals, rounded outward where f64 may round them."""
    a, b, c, d = np.broadcast_arrays(*x, *y)
    products = [a * c, a * d, b * c, b * d]
    low, high = np.minimum.reduce(products), np.maximum.reduce(products)
    short = [round_to(v, F32) == v for v in (a, b, c, d)]  # 24 bits each
    is_exact = np.logical_and.reduce(short) & (np.abs(high) < 1e300) & ((np.abs(low) > 1e-290) | (low == 0))
    return _down(low, ~is_exact), _up(high, ~is_exact)


def negate(x: Interval) -> Interval:
    """Return the negated interval."""
    return -x[1], -x[0]


def divide(x: Interval, y: Interval) -> Interval:
    """Return the quotients of two intervals."""
    quotients = [a / b for a in x for b in y]
    low, high = np.minimum.reduce(quotients), np.maximum.reduce(quotients)
    is_exact = (x[0] == x[1]) & (y[0] == y[1]) & (low * y[0] == x[0]) & (round_to(low, F32) == low)
    is_exact &= round_to(y[0], F32) == y[0]
    low, high = _down(low, ~is_exact), _up(high, ~is_exact)
    has_zero = (y[0] <= 0) & (y[1] >= 0)
    return np.where(has_zero, -np.inf, low), np.where(has_zero, np.inf, high)


def _holds_zero(x: Interval) -> np.ndarray:
    return (x[0] <= 0) & (x[1] >= 0)


def _is_endless(x: Interval) -> np.ndarray:
    return np.isinf(x[0]) | np.isinf(x[1])


#: Where an operation on numbers of two intervals may have no result: the difference of infinities, zero times infinity.
UNDEFINED: dict[str, Callable[[Interval, Interval], np.ndarray]] = {
    "add": lambda x, y: ((x[1] == np.inf) & (y[0] == -np.inf)) | ((x[0] == -np.inf) & (y[1] == np.inf)),
    "subtract": lambda x, y: ((x[1] == np.inf) & (y[1] == np.inf)) | ((x[0] == -np.inf) & (y[0] == -np.inf)),
    "multiply": lambda x, y: (_holds_zero(x) & _is_endless(y)) | (_is_endless(x) & _holds_zero(y)),
    "divide": lambda x, y: (_holds_zero(x) & _holds_zero(y)) | (_is_endless(x) & _is_endless(y)),
}


def indefinite(
    low: np.ndarray, high: np.ndarray, nan: np.ndarray, only_nan: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bounds of which an end is no number: it can be anything, unless an operand can only be NaN."""
    unknown = (np.isnan(low) | np.isnan(high)) & ~only_nan
    low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
    return np.where(only_nan, np.nan, low), np.where(only_nan, np.nan, high), nan | unknown | only_nan


def widen(low: np.ndarray, high: np.ndarray, ulp: float, element: ElementType) -> Interval:
    """Return bounds moved apart by so many ULP of a type, and by one of f64."""
    return _down(low - ulp * ulp_of(low, element)), _up(high + ulp * ulp_of(high, element))
