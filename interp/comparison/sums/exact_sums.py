"""Exact sums in f64, and how far from these a sum in f32 or f64 may be, in any order.

A sum of n terms whose magnitudes add up to s is off by at most n * u * s in a type of unit roundoff u, in any order. Of
many terms that says little: it may be more than the sum itself. Errors of rounding seldom agree, so nearly all sums are
within a few sqrt(n) * u * s. For those that are not (all terms alike, whose errors agree) the terms are looked at: each
step is off by u times the sum so far at most.
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
from ..wide import in_f64, sole, widened, with_body
from .terms import Terms, targets_of, terms_of

_PLAIN, F64 = Policy(), ELEMENT_TYPES["f64"]
_ADD, _MULTIPLY = "stablehlo.add", "stablehlo.multiply"
#: So many standard deviations of errors that do not agree.
_SPREAD = 4
#: So many of these sums are looked at first.
_SAMPLE = 128
#: So many terms in all are looked at one by one, where sums are further off than that.
_LOOKED_AT = 1 << 26

Arrays = Sequence[np.ndarray]


@dataclasses.dataclass
class ExactSums:
    """The exact sums of an op, or products of many, in the shape of its results."""

    operation: Operation
    operands: Arrays
    exact: np.ndarray  #: f64, or complex
    sizes: np.ndarray  #: sums of the terms' magnitudes; of products their own
    counts: np.ndarray  #: how many terms there are; may have any shape that fits
    terms: Terms | None

    @classmethod
    def of(cls, operation: Operation, operands: Arrays) -> ExactSums | None:
        """None where they cannot be had."""
        if operation.name.endswith("select_and_scatter"):
            return cls._of_selected(operation, operands)
        exact, sizes, terms = (
            in_f64(operation, operands),
            in_f64(operation, operands, np.abs),
            terms_of(operation, operands),
        )
        if exact is None or sizes is None:
            return None
        if operation.name.endswith(".scatter"):  # of which every result has as many terms as there are updates for it
            counted = in_f64(with_body(operation, _ADD), operands, lambda x: np.ones(x.shape))
            counts = counted[0] if counted is not None else np.full(exact[0].shape, operands[-1].size + 1.0)
        else:
            counts = np.asarray(float(terms.count if terms is not None else _count(operation, operands, exact[0].size)))
        return cls(operation, operands, exact[0], sizes[0], counts, terms)

    @classmethod
    def _of_selected(cls, operation: Operation, operands: Arrays) -> ExactSums | None:
        values = [widened(x, v.type) for x, v in zip(operands, operation.operands, strict=True)]
        places = targets_of(operation, values)
        if places is None or sole(operation.regions[1]) != _ADD:
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
        """Whether numbers are multiplied, and not added."""
        return bool(self.operation.regions) and sole(self.operation.regions[-1]) == _MULTIPLY

    def slack(self, precision: int) -> np.ndarray:
        """How far from the exact sums nearly all are that are formed in a type of so many bits, in any order."""
        return slack_of(self.counts, precision, self.sizes)

    def at_most(self, precision: int) -> np.ndarray:
        """How far from the exact sums any is that is formed in a type of so many bits."""
        return (self.counts + 1) * 2.0**-precision * self.sizes

    def within(self, theirs: np.ndarray, precision: int, through: ElementType | None = None) -> np.ndarray:
        """Which results are sums in a type of so many bits, rounded once, or to another type before that."""
        slack = self.slack(precision)
        if np.iscomplexobj(self.exact):
            return np.abs(theirs - self.exact) <= slack
        inside = between(theirs, self.exact, slack, through) & self._has_its_zero(theirs, slack)
        return inside | self._one_by_one(theirs, ~inside, precision, through)

    def _one_by_one(
        self, theirs: np.ndarray, outside: np.ndarray, precision: int, through: ElementType | None
    ) -> np.ndarray:
        """Those of the results outside that are within what their terms, one after the other, allow."""
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

        if fit(spread(flat, _SAMPLE)).mean() < 0.5:  # they are not sums of this kind, whatever a few are
            return found
        sample = spread(flat, max(_LOOKED_AT // max(terms.count, 1), 1))
        hits = fit(sample)
        found.reshape(-1)[sample] = hits
        return most if len(sample) < len(flat) and hits.all() else found

    def wrong_zeros(self, theirs: np.ndarray) -> np.ndarray:
        """Which results are -0 although they are sums of zeros among which there is a +0."""
        found = (theirs == 0) & (self.sizes == 0) & np.signbit(theirs.astype(np.float64))
        flat = np.flatnonzero(found)
        if not flat.size or self.terms is None or self.is_product:
            return np.zeros(theirs.shape, bool)
        for at, rows in self.terms.blocks(flat):
            found.reshape(-1)[flat[at]] = ~np.signbit(rows).all(axis=1)
        return found

    def _has_its_zero(self, theirs: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Whether what is zero has the sign that some order gives it."""
        negative = (theirs == 0) & np.signbit(theirs.astype(np.float64))
        positive = (theirs == 0) & ~negative
        if not has_negative_zero(type_of_dtype(theirs.dtype)):
            return np.ones(theirs.shape, bool)
        # +0 where the sum is below zero for sure, -0 where it is not below zero for sure; and such as are looked at.
        return ~((positive & (self.exact + slack < 0)) | (negative & ((self.exact == 0) | (self.exact - slack >= 0))))


def slack_of(counts: np.ndarray | int, precision: int, sizes: np.ndarray) -> np.ndarray:
    """How far from the exact ones sums of so many terms are whose magnitudes add up to `sizes`, but for very few."""
    return (np.minimum(counts, _SPREAD * np.sqrt(counts)) + 1) * 2.0**-precision * sizes


def spread(flat: np.ndarray, count: int) -> np.ndarray:
    """Up to so many of some numbers, evenly spread over them."""
    return flat if len(flat) <= count else flat[np.linspace(0, len(flat) - 1, count).astype(np.intp)]


def has_negative_zero(element: ElementType) -> bool:
    """Whether an element type has -0."""
    return element.is_float and element.format.has_negative_zero


def _zeros_fit(got: np.ndarray, exact: np.ndarray, slack: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Whether zeros have a sign that a sum of these terms gives them, to nearest."""
    negative = (got == 0) & np.signbit(got.astype(np.float64))
    positive = (got == 0) & ~negative
    if not has_negative_zero(type_of_dtype(got.dtype)):
        return np.ones(got.shape, bool)
    # What cancels is +0, unless a step was rounded. Only zeros below zero add up to -0.
    all_negative = (np.signbit(rows) & (rows == 0)).all(axis=1)
    may_be = np.where((exact == 0) & ~all_negative, ~is_exact_in(rows, 24), exact - slack < 0)
    return ~((negative & ~(may_be | all_negative)) | (positive & (exact + slack < 0)))


def unit_of(rows: np.ndarray) -> np.ndarray:
    """The power of two that all terms of a sum are multiples of; infinite where they are all zero."""
    fraction, exponent = np.frexp(np.abs(rows))
    whole = np.ldexp(fraction, 53).astype(np.int64)
    lowest = whole & -whole  # the lowest bit of a significand
    units = np.ldexp(lowest.astype(np.float64), exponent - 53)
    return np.where(rows != 0, units, np.inf).min(axis=1, initial=np.inf)


def is_exact_in(rows: np.ndarray, precision: int) -> np.ndarray:
    """Whether every sum of some of the terms is a number of so many bits: no order rounds."""
    return np.abs(rows).sum(axis=1) <= unit_of(rows) * 2.0**precision


def step_by_step(rows: np.ndarray, precision: int) -> np.ndarray:
    """How far off a sum of terms may be that is rounded at each step: in order, or in reverse if that is more."""
    unit = 2.0**-precision
    sizes = np.abs(rows).sum(axis=1)
    forth = np.cumsum(rows, axis=1)
    back = forth[:, -1:] - forth if rows.shape[1] else forth
    steps = np.maximum(np.abs(forth).sum(axis=1), np.abs(back).sum(axis=1))
    return unit * np.minimum(steps + 2 * sizes, (rows.shape[1] + 1) * sizes)


def _count(operation: Operation, operands: Arrays, results: int) -> int:
    """How many terms a result of complex numbers has at most."""
    name = operation.name.rpartition(".")[2]
    if name == "reduce_window":
        return int(np.prod([int(v) for v in np.ravel(operation.attributes["window_dimensions"])])) + 1
    each = operands[0].size // max(results, 1) + 1 if name == "reduce" else max(x.size for x in operands)
    return max(each, 1)


def between(
    x: np.ndarray,
    middle: np.ndarray,
    slack: np.ndarray,
    through: ElementType | None = None,
    policy: Policy = _PLAIN,
) -> np.ndarray:
    """Elements that numbers from `middle - slack` to `middle + slack` round to; none where these are not finite.

    With `through` numbers are rounded to that type first; the policy says how they are in the end. NaN and infinities
    stand for what is beyond the largest number of a format. Zeros are one number.
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
        # In a format without infinity NaN stands for what is beyond the largest number.
        ends.append(np.where(keys > beyond, np.where(bound < 0, -beyond, beyond), keys))
    is_nan = places > beyond
    overflows = (ends[0] == -beyond) | (ends[1] == beyond)
    inside = (ends[0] <= places) & (places <= ends[1])
    return np.asarray(known & np.where(is_nan, overflows & (not element.format.has_infinity), inside))
