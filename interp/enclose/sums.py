"""Rules of sums: of elements, of products, in windows, at scattered places. Any order and grouping is enclosed.

A sum is linear in its operands, so the operation itself, computed in f64, gives what is needed: on the midpoints of
intervals the sum, on magnitudes its size, on ones the number of terms. With k terms, size A, radii that add up to R and
unit roundoff u, every result lies within R + ((1 + u)**k - 1) * A of the sum (Higham, section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.accumulators.record import Accumulator
from ...ops.accumulators.units import UNITS
from ...ops.op import traits_of
from ...ops.policy import Policy
from ...ops.types import ElementType, TensorType
from ..judging.sums.narrowed import NARROWED, is_imprecise
from ..program import Operation
from .combining import combination
from .evaluate import Evaluator, rule
from .values import C128, F32, F64, Enclosure, by_parts, causes_of, hull, largest, least_normal, to_f64

#: The unit roundoff of f64, in which sums are computed here.
_U64 = 2.0**-53
#: The fewest products after which a chip that sums in f16 rounds.
_F16_PRODUCTS = min(unit.record.step for unit in UNITS if unit.result == "f16")
_PRODUCTS = ("dot_general", "dot", "convolution", "chlo.ragged_dot", "einsum", "unary_einsum", "dynamic_conv")


@rule(*_PRODUCTS)
def products(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Sums of products."""
    factors = operands[:2]
    return _sum(e, operation, operands, range(len(factors)))


def adds(operation: Operation) -> bool:
    """Return whether an operation with a region adds in it."""
    sole = combination(operation.regions[-1]) if operation.regions else None
    return sole is not None and sole.name == "stablehlo.add"


def sum_of_elements(
    e: Evaluator, operation: Operation, operands: Sequence[Any], at: Sequence[int] | None = None
) -> Sequence[Any] | None:
    """A reduction, window or scatter whose region adds the operands `at`; those in which it is linear by default."""
    linear = traits_of(operation.name).linear
    if at is None:
        at = None if linear is None else list(linear(len(operands)))
    return None if at is None else _sum(e, operation, operands, at)


def _sum(e: Evaluator, operation: Operation, operands: Sequence[Any], at: Sequence[int]) -> Sequence[Any] | None:
    if len(operation.results) != 1 or not all(isinstance(x, Enclosure) for x in operands):
        return None
    (result,) = operation.results
    assert isinstance(result.type, TensorType)
    element, terms = result.type.element, [operands[i] for i in at]
    kind = terms[0].element.kind if terms else None
    others = [x for i, x in enumerate(operands) if i not in at]
    if not all(x.element.kind is kind for x in terms) or element.kind is not kind:
        return None
    if not (element.is_float or element.is_complex) or not all(x.is_exact for x in others):
        return None
    linear = _Linear(e, operation, operands, at)
    bounds = [x.bounds() for x in terms]
    undecided = [x.undecided for x in terms]
    has_special = [nan | ~np.isfinite(low) | ~np.isfinite(high) for low, high, nan in bounds]
    hidden = [s | u for s, u in zip(has_special, undecided, strict=True)]
    low, high = ([np.where(s, 0.0, b[i]) for b, s in zip(bounds, hidden, strict=True)] for i in range(2))
    middle = [a / 2 + b / 2 for a, b in zip(low, high, strict=True)]
    size = [np.maximum(_size(a), _size(b)) for a, b in zip(low, high, strict=True)]
    count = linear([np.ones(v.shape) for v in middle]) * (2 if element.is_complex and len(terms) == 2 else 1)
    total, most = linear(middle), linear(size)
    radius = np.zeros(most.shape)
    if any(x.low is not None for x in terms):
        radius = linear.each([_radius(*v) for v in zip(low, high, middle, strict=True)], list(map(_size, middle)))
    unit = _unit_roundoff(e, operation, terms, element)
    is_exact = np.asarray(radius == 0) & _is_exact(operation, terms, most, unit)
    slack = np.expm1(count * np.log1p(unit)) + 4 * count * _U64
    if not operation.regions and element.name == "f16":  # which some chips round sums to after a few products
        of_all = traits_of(operation.name).terms  # those of padding among them
        shapes = [x.value.shape for x in operands]
        groups = np.ceil((of_all(shapes, operation.attributes) if of_all else count) / _F16_PRODUCTS)
        steps = np.maximum(np.minimum(count, groups) - 1, 0)
        slack = slack + np.expm1(steps * np.log1p(2.0**-11)) * (1 + slack)
        is_exact = is_exact & ((steps == 0) | _is_exact(operation, terms, most, 2.0**-11))
    error = np.where(is_exact, 0.0, slack * most * (1 + 1e-9) + radius * (1 + 1e-9))
    least = least_normal(element.part)
    if e.allowed.flushes(element.part):
        error = error + np.where(is_exact & (most >= least), 0.0, count * least)
    # Partial sums that overflow may do so in either direction.
    beyond = most * (1 + slack) > largest(element.part)
    turns = linear([_size(v) for v in middle]) > _size(total) * (1 + 1e-12)
    is_unknown = (most > 1e11 * largest(element.part)) | ~np.isfinite(most)
    is_lost = turns & ~is_unknown & (not element.is_complex)
    lost, nan = beyond & is_lost, beyond & ~is_lost & (is_unknown | element.is_complex)
    beyond = beyond & ~lost
    low_, high_ = by_parts(total, lambda v: v - error), by_parts(total, lambda v: v + error)
    if e.allowed.narrow and element.name == terms[0].element.name == "f32" and is_imprecise(operation):
        unit = 2.0 ** -e.allowed.sum_bits[1]
        is_exact = is_exact & _is_exact(operation, terms, most, unit)
        error = np.where(is_exact, 0.0, np.expm1(count * np.log1p(unit)) * most + count * least)
        for narrow in NARROWED.values():
            ends = [[to_f64(narrow(v.astype(np.float32)), F32) for v in end] for end in (low, high)]
            middle = [a / 2 + b / 2 for a, b in zip(*ends, strict=True)]
            radius = linear.each([_radius(*v) for v in zip(*ends, middle, strict=True)], list(map(_size, middle)))
            total = linear(middle)
            low_, high_ = hull([low_, total - error - radius], [high_, total + error + radius])
    low_ = by_parts(low_, lambda v: np.where(nan | (beyond & (v < 0)), -np.inf, v))
    high_ = by_parts(high_, lambda v: np.where(nan | (beyond & (v > 0)), np.inf, v))
    if any(s.any() for s in has_special):
        low_, high_, nan = _with_specials(e, operation, operands, linear, has_special, low_, high_, nan)
    if not operation.regions and element.is_float and element.bits <= 16:
        low_, high_, nan = _with_steps(e, operation, operands, low_, high_, nan, lost)
    since = None
    if any(u.any() for u in undecided):
        known = [int(causes_of(x)[u].min()) for x, u in zip(terms, undecided, strict=True) if u.any()]
        since = np.where(linear.touched(undecided), np.int32(min(known)), np.int32(0))
    return [e.finish(operation, operands, low_, high_, nan, since=since, beyond=lost if lost.any() else None)]


def _with_steps(
    e: Evaluator, operation: Operation, operands: Sequence[Any], low: np.ndarray, high: np.ndarray, nan: np.ndarray,
    lost: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return bounds that hold the specification's own steps: each product and sum, in order, rounded to the type."""
    (result,) = operation.results
    assert isinstance(result.type, TensorType)
    element, values = result.type.element, [x.value for x in operands]
    way = "element" if element.is_minifloat else Accumulator(1, tree=True, c="after", keep=element.name)
    policies = Policy(), Policy(accumulate=way)
    own, steps = (to_f64(np.asarray(e.run(operation, values, p)[0]), element) for p in policies)
    shift = np.where(np.isfinite(own) & np.isfinite(steps), steps - own, 0.0)
    low, high = np.minimum(low, low + shift), np.maximum(high, high + shift)
    is_infinite = np.isinf(steps) & ~lost
    low, high = np.where(is_infinite, np.fmin(low, steps), low), np.where(is_infinite, np.fmax(high, steps), high)
    return low, high, nan | (np.isnan(steps) & ~lost)


class _Linear:
    """An operation that is linear in some of its operands, on f64: of complex numbers also on their magnitudes."""

    def __init__(self, e: Evaluator, operation: Operation, operands: Sequence[Enclosure], at: Sequence[int]) -> None:
        self._e, self._operation, self._operands, self.at = e, operation, operands, list(at)
        # Operands of the same type that only choose are computed with as well.
        element = operands[self.at[0]].element
        self._retyped = [i for i, x in enumerate(operands) if x.element == element or i in self.at]
        self._is_product = len(self.at) == 2 and not operation.regions

    def __call__(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the operation on arrays, one for each operand in which it is linear."""
        given = [to_f64(x.value, x.element) if i in self._retyped else x.value for i, x in enumerate(self._operands)]
        for i, x in zip(self.at, arrays, strict=True):
            given[i] = x
        element = C128 if any(map(np.iscomplexobj, arrays)) else F64
        return np.asarray(self._e.run_as(self._operation, given, element, self._retyped)[0])

    def each(self, parts: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> np.ndarray:
        """Return the sum over operands of the operation on a part of one, beside the others and their parts."""
        if not self._is_product:
            return self(parts)
        return self([parts[0], others[1] + parts[1]]) + self([others[0], parts[1]])

    def touched(self, marks: Sequence[np.ndarray]) -> np.ndarray:
        """Return which results depend on the elements that are marked."""
        return self.each([m * 1.0 for m in marks], [np.ones(m.shape) for m in marks]) > 0


def _size(x: np.ndarray) -> np.ndarray:
    """Return magnitudes; of complex numbers the sums of those of both parts, which bound those of products too."""
    return np.abs(np.real(x)) + np.abs(np.imag(x)) if np.iscomplexobj(x) else np.abs(x)


def _radius(low: np.ndarray, high: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Return how far numbers within bounds may be from the midpoints."""
    away = np.maximum(_size(high - middle), _size(middle - low))
    return np.nextafter(away, np.inf) * (high != low)


def _unit_roundoff(e: Evaluator, operation: Operation, terms: Sequence[Enclosure], element: ElementType) -> float:
    """Return the unit roundoff of partial sums: of a product that of an accumulator, else that of the type."""
    own = 2.0**-element.part.format.precision
    if operation.regions:
        return own
    widest = max(x.element.part.bits for x in terms)
    if widest <= 16:
        return 2.0 ** -e.allowed.sum_bits[int(widest > 8)]
    return _U64 if widest == 64 else 2.0**-24


def _is_exact(operation: Operation, terms: Sequence[Enclosure], most: np.ndarray, roundoff: float) -> np.ndarray:
    """Return where every partial sum, in any order, is a number of the type in which it is formed."""
    units = [_unit(to_f64(x.value, x.element)) for x in terms]
    unit = min(units) if operation.regions else float(np.prod(units))
    return (most <= unit * min(1 / roundoff, 2.0**53)) & np.isfinite(most)


def _unit(x: np.ndarray) -> float:
    """Return the largest power of two that all finite numbers are multiples of."""
    x = np.abs(np.concatenate([np.real(x).ravel(), np.imag(x).ravel()]) if np.iscomplexobj(x) else x)
    x = x[np.isfinite(x) & (x != 0)]
    if not x.size:
        return 2.0**1000
    fraction, exponent = np.frexp(x)
    whole = (fraction * 2.0**53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return float(np.min(np.ldexp(lowest, exponent - 53)))


def _with_specials(
    e: Evaluator, operation: Operation, operands: Sequence[Any], linear: _Linear, special: Sequence[np.ndarray],
    low: np.ndarray, high: np.ndarray, nan: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return bounds of sums with infinities and NaN: where these are certain, the interpreter's result."""
    touched = linear.touched(special)
    (nominal,) = e.nominal(operation, operands)
    own = to_f64(nominal.value, nominal.element)
    certain = touched & ~np.isfinite(own) & all(x.is_exact and not x.element.is_complex for x in operands)
    if operation.name.endswith(("convolution", "dynamic_conv")):
        certain = certain & ~np.isnan(own)  # NaN may be an infinity times a zero of padding, which is often left out
    if not nominal.element.is_complex:  # NaN stays NaN, whatever it meets
        only_nan = linear.touched([np.isnan(operands[i].bounds()[0]) for i in linear.at])
        own, certain = np.where(only_nan, np.nan, own), certain | only_nan
    unknown = touched & ~certain
    low = by_parts(low, lambda v: np.where(certain, np.real(own), np.where(unknown, -np.inf, v)))
    high = by_parts(high, lambda v: np.where(certain, np.real(own), np.where(unknown, np.inf, v)))
    return low, high, nan | unknown | (certain & np.isnan(own))
