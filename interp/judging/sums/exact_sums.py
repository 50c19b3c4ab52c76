"""Exact sums in f64, and bounds for the error of a sum in f32 or f64, in any order.

A sum of n terms whose magnitudes add up to s is off by at most n * u * s in a type of unit roundoff u, in any order.
For many terms this bound is weak: it may exceed the sum itself. Rounding errors seldom agree, so nearly all sums are
within a few sqrt(n) * u * s. For the others (all terms alike, with errors that agree) the terms are examined: the
error of each step is at most u times the running sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ....ops.cast import cast
from ....ops.ordering import value_keys
from ....ops.policy import Policy
from ....ops.types import ELEMENT_TYPES, ElementType, TensorType, type_of_dtype
from ...program import Operation
from ..wide import in_f64, sole_op_name, widen, with_body
from .terms import Terms, targets_of, terms_of

_PLAIN, F64 = Policy(), ELEMENT_TYPES["f64"]
_ADD, _MULTIPLY = "stablehlo.add", "stablehlo.multiply"
#: Standard deviations of independent errors that are permitted.
_SPREAD = 4
#: The factor by which operands are scaled where magnitudes overflow.
_DOWN = 2.0**-64
#: Number of these sums that are examined first.
_SAMPLE = 128
#: Number of terms examined one by one, in all, where sums exceed that bound.
_LOOKED_AT = 1 << 26

Arrays = Sequence[np.ndarray]


@dataclasses.dataclass
class ExactSums:
    """The exact sums of an op, or products of many numbers, in the shape of its results."""

    operation: Operation
    operands: Arrays
    exact: np.ndarray  #: f64, or complex
    sizes: np.ndarray  #: sums of the terms' magnitudes; for products their own
    counts: np.ndarray  #: the numbers of terms; of any shape that broadcasts
    terms: Terms | None

    @classmethod
    def of(cls, operation: Operation, operands: Arrays) -> ExactSums | None:
        """The exact sums; None if they are unavailable."""
        if operation.name.endswith("select_and_scatter"):
            return cls._of_selected(operation, operands)
        exact, sizes = in_f64(operation, operands), in_f64(operation, operands, np.abs)
        if exact is None or sizes is None:
            return None
        terms, sizes = terms_of(operation, operands), [_large_sizes(operation, operands, exact[0], sizes[0])]
        if operation.name.endswith(".scatter"):  # here every result has as many terms as updates
            counted = in_f64(with_body(operation, _ADD), operands, lambda x: np.ones(x.shape))
            counts = counted[0] if counted is not None else np.full(exact[0].shape, operands[-1].size + 1.0)
        else:
            counts = np.asarray(float(terms.count if terms is not None else _count(operation, operands, exact[0].size)))
        return cls(operation, operands, exact[0], sizes[0], counts, terms)

    @classmethod
    def _of_selected(cls, operation: Operation, operands: Arrays) -> ExactSums | None:
        values = [widen(x, v.type) for x, v in zip(operands, operation.operands, strict=True)]
        places = targets_of(operation, values)
        if places is None or sole_op_name(operation.regions[1]) != _ADD:
            return None
        x, sources, init = values
        there = places >= 0
        where, given = places[there], sources.reshape(-1)[there]
        sums, sizes, counts = (np.bincount(where, w, x.size).reshape(x.shape) for w in (given, np.abs(given), None))
        return cls(operation, operands, init + sums, np.abs(init) + sizes, counts + 1.0, terms_of(operation, operands))

    @property
    def element(self) -> ElementType:
        """The type of the first operand."""
        t = self.operation.operands[0].type
        assert isinstance(t, TensorType)
        return t.element

    @property
    def is_product(self) -> bool:
        """Whether numbers are multiplied, not added."""
        return bool(self.operation.regions) and sole_op_name(self.operation.regions[-1]) == _MULTIPLY

    def slack(self, precision: int) -> np.ndarray:
        """The distance from the exact sums that nearly all sums in a type of so many bits keep, in any order."""
        return np.asarray(slack_of(self.counts, precision, self.sizes), np.float64)

    def at_most(self, precision: int) -> np.ndarray:
        """The largest distance from the exact sums of any sum in a type of so many bits."""
        return np.asarray((self.counts + 1) * 2.0**-precision * self.sizes, np.float64)

    def within(self, theirs: np.ndarray, precision: int, through: ElementType | None = None) -> np.ndarray:
        """Tests which results are sums in a type of so many bits, rounded once, or to another type before that."""
        slack = self.slack(precision)
        if np.iscomplexobj(self.exact):
            return np.abs(theirs - self.exact) <= slack
        inside = between(theirs, self.exact, slack, through) & self._has_its_zero(theirs, slack)
        return inside | self._one_by_one(theirs, ~inside, precision, through)

    def _one_by_one(
        self, theirs: np.ndarray, outside: np.ndarray, precision: int, through: ElementType | None
    ) -> np.ndarray:
        """Tests which of the results outside the usual bound are within the bound that their terms allow."""
        found = np.zeros(theirs.shape, bool)
        most = between(theirs, self.exact, self.at_most(precision), through) & outside
        flat = np.flatnonzero(most)
        terms = self.terms if flat.size and not self.is_product else None
        if terms is None:
            return most & self._has_its_zero(theirs, self.at_most(precision)) if self.is_product else found
        exact, got = self.exact.reshape(-1), theirs.reshape(-1)

        def fit(flat: np.ndarray) -> np.ndarray:
            hits = np.zeros(len(flat), bool)
            for at, rows in terms.blocks(flat):
                slack, which = step_by_step(rows, precision), flat[at]
                hits[at] = between(got[which], exact[which], slack, through)
                hits[at] &= _zeros_fit(got[which], exact[which], slack, rows)
            return hits

        if fit(spread(flat, _SAMPLE)).mean() < 0.5:  # these are sums of another kind, even if a few fit
            return found
        sample = spread(flat, max(_LOOKED_AT // max(terms.count, 1), 1))
        hits = fit(sample)
        found.reshape(-1)[sample] = hits
        return most if len(sample) < len(flat) and hits.all() else found

    def wrong_zeros(self, theirs: np.ndarray) -> np.ndarray:
        """Tests which results are -0 although they are sums of zeros with a +0 among them."""
        found = (theirs == 0) & (self.sizes == 0) & np.signbit(theirs.astype(np.float64))
        flat = np.flatnonzero(found)
        if not flat.size or self.terms is None or self.is_product:
            return np.zeros(theirs.shape, bool)
        for at, rows in self.terms.blocks(flat):
            found.reshape(-1)[flat[at]] = ~np.signbit(rows).all(axis=1)
        return found

    def _has_its_zero(self, theirs: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Whether zero results have a sign that some order produces."""
        negative = (theirs == 0) & np.signbit(theirs.astype(np.float64))
        positive = (theirs == 0) & ~negative
        if not has_negative_zero(type_of_dtype(theirs.dtype)):
            return np.ones(theirs.shape, bool)
        # +0 is wrong if the sum is certainly below zero, -0 if it is certainly not; the terms of the others are
        # examined.
        return ~((positive & (self.exact + slack < 0)) | (negative & ((self.exact == 0) | (self.exact - slack >= 0))))


def slack_of(counts: np.ndarray | int, precision: int, sizes: np.ndarray) -> np.ndarray:
    """The distance from the exact sums that all but very few keep, given terms with magnitudes that add up to
    `sizes`."""
    return (np.minimum(counts, _SPREAD * np.sqrt(counts)) + 1) * 2.0**-precision * sizes


def spread(flat: np.ndarray, count: int) -> np.ndarray:
    """Up to `count` of some numbers, evenly spaced."""
    return flat if len(flat) <= count else flat[np.linspace(0, len(flat) - 1, count).astype(np.intp)]


def has_negative_zero(element: ElementType) -> bool:
    """Whether an element type has -0."""
    return element.is_float and element.format.has_negative_zero


def _zeros_fit(got: np.ndarray, exact: np.ndarray, slack: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Whether zeros have a sign that a sum of these terms can produce, to nearest."""
    negative = (got == 0) & np.signbit(got.astype(np.float64))
    positive = (got == 0) & ~negative
    if not has_negative_zero(type_of_dtype(got.dtype)):
        return np.ones(got.shape, bool)
    # Cancellation gives +0, unless a step was rounded. Only negative zeros add up to -0.
    all_negative = (np.signbit(rows) & (rows == 0)).all(axis=1)
    may_be = np.where((exact == 0) & ~all_negative, ~is_exact_in(rows, 24), exact - slack < 0)
    return ~((negative & ~(may_be | all_negative)) | (positive & (exact + slack < 0)))


def unit_of(rows: np.ndarray) -> np.ndarray:
    """The power of two that divides all terms of a sum; infinite if they are all zero."""
    fraction, exponent = np.frexp(np.abs(rows))
    whole = np.ldexp(fraction, 53).astype(np.int64)
    lowest = whole & -whole  # the lowest bit of a significand
    units = np.ldexp(lowest.astype(np.float64), exponent - 53)
    return np.where(rows != 0, units, np.inf).min(axis=1, initial=np.inf)


def is_exact_in(rows: np.ndarray, precision: int) -> np.ndarray:
    """Whether every partial sum of the terms is a number of so many bits, so that no order rounds."""
    return np.abs(rows).sum(axis=1) <= unit_of(rows) * 2.0**precision


def step_by_step(rows: np.ndarray, precision: int) -> np.ndarray:
    """The error bound of a sum rounded at each step: in order or in reverse, whichever is larger."""
    unit = 2.0**-precision
    sizes = np.abs(rows).sum(axis=1)
    forth = np.cumsum(rows, axis=1)
    back = forth[:, -1:] - forth if rows.shape[1] else forth
    steps = np.maximum(np.abs(forth).sum(axis=1), np.abs(back).sum(axis=1))
    return unit * np.minimum(steps + 2 * sizes, (rows.shape[1] + 1) * sizes)


def _count(operation: Operation, operands: Arrays, results: int) -> int:
    """The largest number of terms of a complex result."""
    name = operation.name.rpartition(".")[2]
    if name == "reduce_window":
        return int(np.prod([int(v) for v in np.ravel(operation.attributes["window_dimensions"])])) + 1
    each = operands[0].size // max(results, 1) + 1 if name == "reduce" else max(x.size for x in operands)
    return max(each, 1)


def between(
    x: np.ndarray, middle: np.ndarray, slack: np.ndarray, through: ElementType | None = None, policy: Policy = _PLAIN
) -> np.ndarray:
    """Tests which elements numbers from `middle - slack` to `middle + slack` round to; none if these are not finite.

    With `through`, numbers are rounded to that type first; the policy describes the last rounding. NaN and infinities
    stand for an overflow. Both zeros are equal.
    """
    element = type_of_dtype(x.dtype)
    known = np.isfinite(middle) & np.isfinite(slack)
    low, high = middle - slack, middle + slack
    if element == F64:
        return known & (low <= x) & (x <= high)
    beyond = element.format.max_code + 1
    places = value_keys(np.asarray(x, order="C"), element).astype(np.int64)
    ends = []
    for bound in (low, high):
        rounded = bound if through is None else cast(cast(bound, F64, through, _PLAIN), through, F64, _PLAIN)
        keys = value_keys(cast(rounded, F64, element, policy), element).astype(np.int64)
        # In a format without infinity NaN stands for an overflow.
        ends.append(np.where(keys > beyond, np.where(bound < 0, -beyond, beyond), keys))
    is_nan = places > beyond
    overflows = (ends[0] == -beyond) | (ends[1] == beyond)
    inside = (ends[0] <= places) & (places <= ends[1])
    return np.asarray(known & np.where(is_nan, overflows & (not element.format.has_infinity), inside))


def _large_sizes(operation: Operation, operands: Arrays, exact: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sums of magnitudes; in a type of a wider range where they overflow f64, although the sums do not."""
    overflows = np.isinf(sizes) & np.isfinite(exact)
    bodies = {sole_op_name(r) for r in operation.regions}
    if not overflows.any() or bodies - {_ADD}:
        return sizes
    scaled = in_f64(operation, operands, lambda x: np.abs(x) * _DOWN)
    if scaled is None:
        return sizes
    up = np.longdouble(1 / _DOWN) ** (1 if bodies else 2)  # a product has two operands
    return np.where(overflows, scaled[0].astype(np.longdouble) * up, sizes)
