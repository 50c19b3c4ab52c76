"""Rules of operations that are compositions of others: batch normalization, pooling gradients, broadcasting forms.

An implementation may evaluate any algebraic form of a composition. A bound for all of them is the exact value with an
error of some unit roundoffs of the magnitudes that enter it, before they cancel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.op import full_name, lookup, ops
from ...ops.types import TensorType
from ..bodies import sole_operation
from ..program import Operation, Value
from .evaluate import Evaluator, rule
from .intervals import Interval, add, multiply, negate
from .sums import adds, sum_of_elements
from .values import Enclosure, largest, least_normal

#: The roundings on the way of each element of a normalization, but for those of sums.
_ROUNDINGS = 12


class _Features:
    """Intervals over the elements of a tensor, and over its features, which are shaped to broadcast along them."""

    def __init__(self, e: Evaluator, operation: Operation, x: Enclosure) -> None:
        self.axis, self.shape = int(operation.attributes["feature_index"]), x.value.shape
        self.others = tuple(d for d in range(len(self.shape)) if d != self.axis)
        self.count = max(int(np.prod([self.shape[d] for d in self.others])), 1)
        unit = 2.0**-x.element.format.precision
        self.slack = np.expm1(_ROUNDINGS * unit + e.allowed.ulps(x.element) * unit)
        self.sum_slack = np.expm1((_ROUNDINGS + self.count) * np.log1p(unit))
        self.epsilon = float(operation.attributes["epsilon"])
        #: The most that a product loses where it is subnormal.
        self.unit, self.least = unit, least_normal(x.element)
        self.lost = self.least * (1 if e.allowed.flushes(x.element) else 2 * unit)
        #: The largest magnitude on the way to each element.
        self.reached: np.ndarray | float = 0.0

    def reaches(self, *sizes: np.ndarray) -> None:
        """Note magnitudes of values on the way."""
        for size in sizes:
            self.reached = np.maximum(self.reached, size)

    def ways(self, *sizes: np.ndarray) -> np.ndarray:
        """Note the largest product of some of these magnitudes, and return what one of all may lose on the way."""
        whole = np.multiply.reduce([np.maximum(size, 1.0) for size in np.broadcast_arrays(*sizes)])
        self.reaches(whole)
        return len(sizes) * self.lost * whole

    def spread(self, x: np.ndarray) -> np.ndarray:
        return x.reshape([-1 if d == self.axis else 1 for d in range(len(self.shape))])

    def interval(self, x: Enclosure) -> Interval:
        low, high, _ = x.bounds()
        return (low, high) if low.ndim == len(self.shape) else (self.spread(low), self.spread(high))

    def sum(self, x: Interval, size: np.ndarray) -> Interval:
        """Return the sums over elements of each feature; `size` is the magnitude of what is added."""
        whole = size.sum(self.others, keepdims=True)
        self.reaches(whole)
        error = self.sum_slack * whole + self.count * self.lost
        low, high = (v.sum(self.others, keepdims=True) for v in np.broadcast_arrays(*x))
        return low - error, high + error

    def mean(self, x: Interval, size: np.ndarray) -> Interval:
        low, high = self.sum(x, size)
        return low / self.count, high / self.count

    def rsqrt(self, variance: Interval) -> Interval:
        """Return 1 / sqrt(variance + epsilon); no number where that may be negative."""
        low, high = (1 / np.sqrt(v + self.epsilon) for v in variance)
        return high, low


def _size(x: Interval) -> np.ndarray:
    return np.maximum(np.abs(x[0]), np.abs(x[1]))


def _widened(x: Interval, error: np.ndarray | float) -> Interval:
    return x[0] - error, x[1] + error


@rule("batch_norm_inference", "batch_norm_training", "batch_norm_grad")
def batch_norm(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Normalization by mean and variance, which may be E[(x - mean)^2] or E[x^2] - mean^2, and its gradients."""
    if any(x.since is not None for x in operands):
        return None
    f, x = _Features(e, operation, operands[0]), operands[0]
    given = list(map(f.interval, operands))
    is_gradient = operation.name.endswith("grad")
    if is_gradient:
        results = _gradients(f, *given)
    elif operation.name.endswith("inference"):
        results = [_normalized(f, *given)]
    else:
        value, scale, offset = given
        mean = f.mean(value, _size(value))
        centered = add(value, negate(mean))
        away = np.where((centered[0] <= 0) & (centered[1] >= 0), 0.0, np.minimum(*map(np.abs, centered)))
        size = _size(value) ** 2 + _size(mean) ** 2
        variance = _widened(f.mean((away**2, _size(centered) ** 2), size), 3 * f.lost)
        results = [_normalized(f, value, scale, offset, mean, variance), mean, variance]
    reached = np.broadcast_to(f.reached, f.shape)
    special = any(bool(n.any() or not np.isfinite([lo, hi]).all()) for lo, hi, n in (v.bounds() for v in operands))
    most, found = largest(x.element), []
    for i, (low, high) in enumerate(results):
        ways = reached if low.shape == f.shape else reached.max(f.others, keepdims=True, initial=0.0)
        beyond = ~(np.maximum(_size((low, high)), ways) <= most)
        if i == 0 or is_gradient:  # the quotient is zero where the variance overflows
            none = (np.float64(0), np.float64(0)) if is_gradient else f.interval(operands[2])
            low, high = (
                np.where(beyond, np.minimum(low, none[0]), low),
                np.where(beyond, np.maximum(high, none[1]), high),
            )
        unknown = np.isnan(low) | np.isnan(high) | special
        low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
        shape = [n or 0 for n in operation.results[i].shape or ()]
        low, high, unknown, beyond = (
            np.broadcast_to(v, f.shape if i == 0 else low.shape).reshape(shape) for v in (low, high, unknown, beyond)
        )
        found.append(e.finish(operation, operands, low, high, unknown, index=i, beyond=beyond))
    return found


def _normalized(
    f: _Features, x: Interval, scale: Interval, offset: Interval, mean: Interval, variance: Interval
) -> Interval:
    inverse, far = f.rsqrt(variance), _size(x) + _size(mean)
    factor = multiply(scale, inverse)
    exact = add(multiply(factor, add(x, negate(mean))), offset)
    lost = 2 * f.ways(_size(scale), _size(inverse), far)
    slack = f.slack * (far * _size(factor) + _size(offset))
    # A factor that vanishes leaves the offset; of terms, and of roundings of subnormal numbers, little is lost.
    low, high = _widened(exact, slack + np.minimum(lost, 4 * f.least + 2 * f.unit * f.least / f.lost * lost))
    wide = _widened(exact, slack + lost)
    return np.maximum(np.minimum(low, offset[0]), wide[0]), np.minimum(np.maximum(high, offset[1]), wide[1])


def _gradients(
    f: _Features, x: Interval, scale: Interval, mean: Interval, variance: Interval, gradient: Interval
) -> list[Interval]:
    inverse, centered = f.rsqrt(variance), add(x, negate(mean))
    size, far = _size(gradient), _size(x) + _size(mean)
    grad_offset = f.sum(gradient, size)
    through = f.sum(multiply(gradient, centered), size * far)
    lost = f.ways(size, far, _size(inverse)).sum(f.others, keepdims=True)
    grad_scale = _widened(multiply(through, inverse), lost)
    squared = multiply(inverse, inverse)
    count = float(f.count)
    whole = size * count + _size(grad_offset) + _size(through) * far * _size(squared)
    f.reaches(whole)
    rest = add((gradient[0] * count, gradient[1] * count), negate(grad_offset))
    rest = add(rest, negate(multiply(multiply(through, centered), squared)))
    lost = f.ways(far, _size(inverse), 2 * lost / f.lost) + count * f.lost
    rest = _widened(rest, f.slack * whole + lost)
    factor = multiply(scale, (inverse[0] / count, inverse[1] / count))
    grad_operand = multiply(factor, rest)
    lost = f.ways(_size(scale), _size(inverse), _size(rest), np.asarray(count))
    return [
        _widened(grad_operand, f.slack * _size(grad_operand) + lost),
        _widened(grad_scale, f.slack * _size(grad_scale)),
        grad_offset,
    ]


@rule("select_and_scatter")
def select_and_scatter(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Sums of sources at the selected places: where the choice is not decided, at any place that may be selected."""
    x, source, init = operands
    if not adds(operation) or not x.element.is_float or any(v.since is not None for v in operands):
        return None
    if x.is_exact:
        return sum_of_elements(e, operation, operands, at=(1, 2))
    chooses = sole_operation(operation.regions[0])
    direction = "" if chooses is None else str(chooses.attributes.get("comparison_direction"))
    low, high, nan = x.bounds()
    if direction not in ("GE", "GT", "LE", "LT") or nan.any() or not init.is_exact or source.bounds()[2].any():
        return None
    if direction[0] == "L":
        low, high = -high, -low
    rank = low.ndim
    sizes, strides = (
        [int(n) for n in np.ravel(operation.attributes.get(name, [1] * rank))]
        for name in ("window_dimensions", "window_strides")
    )
    padding = np.reshape(np.asarray(operation.attributes.get("padding", np.zeros((rank, 2)))), (rank, 2)).astype(int)
    if not rank or (padding < 0).any():
        return None

    def windows(v: np.ndarray) -> np.ndarray:
        padded = np.pad(v, padding, constant_values=-np.inf)
        return np.lib.stride_tricks.sliding_window_view(padded, sizes)[tuple(slice(None, None, s) for s in strides)]

    inner = tuple(range(rank, 2 * rank))
    first, last = windows(low), windows(high)
    may = (last >= first.max(inner, keepdims=True)) & (last > -np.inf)
    certain = may & (may.sum(inner, keepdims=True) == 1)
    padded_shape = tuple(np.add(low.shape, padding.sum(1)))
    places = np.arange(int(np.prod(padded_shape))).reshape(padded_shape)
    places = np.lib.stride_tricks.sliding_window_view(places, sizes)[tuple(slice(None, None, s) for s in strides)]
    s_low, s_high, _ = (v.reshape(v.shape + (1,) * rank) for v in source.bounds())
    inside = tuple(slice(p, p + n) for (p, _), n in zip(padding, low.shape, strict=True))

    def scattered(values: np.ndarray) -> np.ndarray:
        total = np.bincount(places.ravel(), np.broadcast_to(values, places.shape).ravel(), places.max(initial=0) + 1)
        return np.pad(total, (0, int(np.prod(padded_shape)) - total.size)).reshape(padded_shape)[inside]

    least = scattered(np.where(certain, s_low, np.where(may, np.minimum(s_low, 0.0), 0.0)))
    most = scattered(np.where(certain, s_high, np.where(may, np.maximum(s_high, 0.0), 0.0)))
    size = scattered(np.where(may, np.maximum(np.abs(s_low), np.abs(s_high)), 0.0))
    start = float(init.bounds()[0])
    unit = 2.0**-x.element.format.precision
    error = np.expm1((scattered(may * 1.0) + 2) * np.log1p(unit)) * (size + abs(start))
    return [e.finish(operation, operands, least + start - error, most + start + error, np.zeros(low.shape, bool))]


@rule(*(name for name in ops() if name.startswith("chlo.broadcast_")))
def broadcast(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """A broadcasting form of CHLO: the plain operation on operands of the result's shape."""
    (result,), name = operation.results, operation.name.removeprefix("chlo.broadcast_")
    shape, given = tuple([n or 0 for n in result.shape or ()]), operation.attributes.get("broadcast_dimensions")
    spread = [_spread(x, shape, given) for x in operands]

    def plain() -> Operation:
        known = full_name(name) if lookup(name) is not None else f"chlo.{name}"
        attributes = {key: v for key, v in operation.attributes.items() if key != "broadcast_dimensions"}
        values = tuple([Value(x.type) for x in spread])
        return Operation(known, values, (result,), attributes, (), operation.location)

    return e.operation(e.remember(operation, plain), spread)


def _spread(x: Enclosure, shape: tuple[int, ...], given: Any) -> Enclosure:
    """Return an operand repeated to a shape; its dimensions are the last ones, unless others are given."""
    rank = x.value.ndim
    is_last = given is None or rank == len(shape)
    at = range(len(shape) - rank, len(shape)) if is_last else [int(d) for d in np.ravel(np.asarray(given))]
    sizes = [1] * len(shape)
    for d, n in zip(at, x.value.shape, strict=True):
        sizes[d] = n

    def again(v: Any) -> Any:
        return None if v is None else np.broadcast_to(v.reshape(sizes), shape)

    return dataclasses.replace(
        x, type=TensorType(shape, x.element), value=again(x.value), low=again(x.low), high=again(x.high),
        nan=again(x.nan), since=again(x.since), beyond=again(x.beyond),
    )  # fmt: skip
