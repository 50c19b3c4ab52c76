"""Rules of sums: of elements, of products, in windows, at scattered places. Any order and grouping is enclosed.

A sum is linear in its operands, so the operation itself, computed in f64, gives what is needed: on the midpoints of
intervals the sum, on magnitudes its size, on ones the number of terms. With k terms, size A, radii that add up to R and
unit roundoff u, every result lies within R + ((1 + u)**k - 1) * A of the sum (Higham, section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.op import traits_of
from ...ops.types import ElementType, TensorType
from ..bodies import sole_operation
from ..program import Operation
from .evaluate import Evaluator, rule
from .values import F64, Enclosure, largest, least_normal, to_f64

#: The unit roundoff of f64, in which sums are computed here.
_U64 = 2.0**-53
_PRODUCTS = ("dot_general", "dot", "convolution", "chlo.ragged_dot", "einsum", "unary_einsum", "dynamic_conv")


@rule(*_PRODUCTS)
def products(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Sums of products."""
    factors = operands[:2]
    return _sum(e, operation, operands, range(len(factors)))


def adds(operation: Operation) -> bool:
    """Return whether an operation with a region adds in it."""
    if operation.name == "stablehlo.select_and_scatter":
        return False
    sole = sole_operation(operation.regions[-1]) if operation.regions else None
    return sole is not None and sole.name == "stablehlo.add"


def sum_of_elements(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A reduction, window or scatter whose region adds."""
    linear = traits_of(operation.name).linear
    return None if linear is None else _sum(e, operation, operands, list(linear(len(operands))))


def _sum(e: Evaluator, operation: Operation, operands: Sequence[Any], at: Sequence[int]) -> Sequence[Any] | None:
    if len(operation.results) != 1 or not all(isinstance(x, Enclosure) for x in operands):
        return None
    (result,) = operation.results
    assert isinstance(result.type, TensorType)
    element = result.type.element
    terms = [operands[i] for i in at]
    others = [x for i, x in enumerate(operands) if i not in at]
    if not all(x.element.is_float for x in terms) or not element.is_float or not all(x.is_exact for x in others):
        return None
    if any(x.since is not None for x in terms):
        return None

    def on(arrays: Sequence[np.ndarray]) -> np.ndarray:
        given = [arrays[list(at).index(i)] if i in at else x.value for i, x in enumerate(operands)]
        return np.asarray(e.run_as(operation, given, F64)[0])

    bounds = [x.bounds() for x in terms]
    has_special = [nan | ~np.isfinite(low) | ~np.isfinite(high) for low, high, nan in bounds]
    low, high = ([np.where(s, 0.0, b[i]) for b, s in zip(bounds, has_special, strict=True)] for i in range(2))
    middle = [a / 2 + b / 2 for a, b in zip(low, high, strict=True)]
    size = [np.maximum(np.abs(a), np.abs(b)) for a, b in zip(low, high, strict=True)]
    count = on([np.ones(v.shape) for v in middle])
    total, most = on(middle), on(size)
    is_known = all(x.low is None for x in terms)
    radius = np.zeros(total.shape) if is_known else _radius(on, (low, high), middle, operation)
    is_exact = np.asarray(radius == 0) & _is_exact(e, operation, terms, most, element)
    unit = _unit_roundoff(e, operation, terms, element)
    slack = np.expm1(count * np.log1p(unit)) + 4 * count * _U64
    error = np.where(is_exact, 0.0, slack * most * (1 + 1e-9) + radius * (1 + 1e-9))
    if e.allowed.flushes(element):
        error = error + np.where(is_exact & (most >= least_normal(element)), 0.0, count * least_normal(element))
    low_, high_ = total - error, total + error
    nan = np.zeros(total.shape, bool)
    beyond = most * (1 + slack) > largest(element)
    overflows = beyond & (np.maximum(np.abs(low_), np.abs(high_)) * 0 == 0)
    # Partial sums that overflow may do so in either direction.
    sign_changes = on([np.abs(v) for v in middle]) > np.abs(total) * (1 + 1e-12)
    either = overflows & sign_changes
    low_ = np.where(overflows & (either | (low_ < 0)), np.where(either | (high_ < 0), -np.inf, low_), low_)
    high_ = np.where(overflows & (either | (high_ > 0)), np.inf, high_)
    nan |= either
    if any(s.any() for s in has_special):
        low_, high_, nan = _with_specials(e, operation, operands, on, has_special, low_, high_, nan)
    return [e.finish(operation, operands, low_, high_, nan)]


def _radius(on: Any, bounds: Sequence[Any], middle: Sequence[np.ndarray], operation: Operation) -> np.ndarray:
    """Return how far the sum of numbers within bounds may be from that of the midpoints."""
    ends = zip(*bounds, middle, strict=True)
    radii = [np.nextafter(np.maximum(high - m, m - low), np.inf) * (high != low) for low, high, m in ends]
    if len(middle) == 1 or operation.regions:
        return on(radii)
    sizes = [np.abs(m) for m in middle]
    return on([radii[0], sizes[1] + radii[1]]) + on([sizes[0], radii[1]])


def _unit_roundoff(e: Evaluator, operation: Operation, terms: Sequence[Enclosure], element: ElementType) -> float:
    """Return the unit roundoff of partial sums: of a product that of an accumulator, else that of the type."""
    own = 2.0**-element.format.precision
    if operation.regions:
        return own
    widest = max(x.element.bits for x in terms)
    if widest <= 16:
        return 2.0 ** -e.allowed.sum_bits[int(widest > 8)]
    return _U64 if widest == 64 else 2.0**-24


def _is_exact(
    e: Evaluator, operation: Operation, terms: Sequence[Enclosure], most: np.ndarray, element: ElementType
) -> np.ndarray:
    """Return where every partial sum, in any order, is a number of the type in which it is formed."""
    units = [_unit(to_f64(x.value, x.element)) for x in terms]
    unit = min(units) if operation.regions else float(np.prod(units))
    bits = 1 / _unit_roundoff(e, operation, terms, element)
    return (most <= unit * min(bits, 2.0**53)) & np.isfinite(most)


def _unit(x: np.ndarray) -> float:
    """Return the largest power of two that all finite numbers are multiples of."""
    x = np.abs(x[np.isfinite(x) & (x != 0)])
    if not x.size:
        return 2.0**1000
    fraction, exponent = np.frexp(x)
    whole = (fraction * 2.0**53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return float(np.min(np.ldexp(lowest, exponent - 53)))


def _with_specials(
    e: Evaluator, operation: Operation, operands: Sequence[Any], on: Any, special: Sequence[np.ndarray],
    low: np.ndarray, high: np.ndarray, nan: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return bounds of sums with infinities and NaN: where these are certain, the interpreter's result."""
    if len(special) == 1 or operation.regions:
        touched = on([s * 1.0 for s in special]) > 0
    else:
        ones = [np.ones(s.shape) for s in special]
        touched = (on([special[0] * 1.0, ones[1]]) + on([ones[0], special[1] * 1.0])) > 0
    (nominal,) = e.nominal(operation, operands)
    own = to_f64(nominal.value, nominal.element)
    certain = touched & ~np.isfinite(own) & all(x.is_exact for x in operands)
    unknown = touched & ~certain
    low = np.where(certain, own, np.where(unknown, -np.inf, low))
    high = np.where(certain, own, np.where(unknown, np.inf, high))
    return low, high, nan | unknown | (certain & np.isnan(own))
