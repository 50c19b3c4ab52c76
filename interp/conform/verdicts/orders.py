"""Diagnoses wrong sorts: finds the order in which rows were sorted."""

from __future__ import annotations

import numpy as np

from ...comparison.diagnosis import NONE, Diagnosis
from ...oracle.exact import total_order
from ...oracle.formats import Format
from ..format_text import number_text


def of_rows(fmt: Format, given: np.ndarray, got: np.ndarray) -> Diagnosis:
    """Diagnoses every row of a wrong sort; empty if there is no common property.

    Args:
        fmt: the format of the codes.
        given: the rows before they are sorted: codes [rows, n].
        got: the same rows after that.
    """
    if (np.sort(given, axis=1) != np.sort(got, axis=1)).any():
        return Diagnosis("rows have other elements after they are sorted", ("sort-other-elements",))
    numbers = fmt.decode(got)
    # NaN without sign is last, or first.
    first = np.isnan(numbers[:, :1])
    place = np.where(first, total_order(fmt, got, nan_first=True), total_order(fmt, got))
    if fmt.nan != "sign":  # all NaN of one sign are equal
        place = np.where(np.isnan(numbers), np.where(np.signbit(numbers), -1 << 32, 1 << 32), place)
    if (np.diff(place, axis=1) <= 0).all():
        return Diagnosis("in descending order", ("sort-descending",))
    signed = np.where(got & fmt.sign_bit != 0, got.astype(np.int64) - (fmt.ones + 1) * 2, got)
    for words, key in (("as unsigned integers", got.astype(np.int64)), ("as signed integers", signed)):
        if (np.diff(key, axis=1) >= 0).all():
            return Diagnosis(f"the codes are sorted {words}", ("sort-codes",))
    falls = np.diff(place, axis=1) < 0
    if not falls.any():
        return NONE
    left, right = numbers[:, :-1][falls], numbers[:, 1:][falls]
    if ((left == 0) & (right == 0)).all():
        return Diagnosis("-0 and +0 count as equal", ("sort-zeros-equal",))
    if (np.isnan(left) | np.isnan(right)).any():
        return _of_nan(fmt, numbers, place)
    return _of_equals(numbers, left, right)


def _of_nan(fmt: Format, numbers: np.ndarray, place: np.ndarray) -> Diagnosis:
    """Only numbers are in order; NaN is in its original position, or at one end."""
    rest = [p[~np.isnan(x)] for p, x in zip(place, numbers, strict=True)]
    if any((np.diff(p) < 0).any() for p in rest):
        return NONE
    nan = np.isnan(numbers)
    if fmt.nan == "sign":
        return Diagnosis("NaN is neither first nor last", ("sort-nan-inside",))
    ends = [("first", np.sort(~nan, axis=1) == ~nan), ("last", np.sort(nan, axis=1) == nan)]
    words = next((words for words, fits in ends if fits.all()), None)
    return Diagnosis(f"every NaN comes {words}, regardless of its sign", (f"sort-nan-{words}",)) if words else NONE


def _of_equals(numbers: np.ndarray, left: np.ndarray, right: np.ndarray) -> Diagnosis:
    """Numbers between two magnitudes count as equal, with all their signs or within each; all others are in order."""
    sizes = np.abs(np.concatenate([left, right]))
    least, most = float(sizes.min()), float(sizes.max())
    if not np.isfinite(most):
        return NONE
    crosses = bool((np.signbit(left) != np.signbit(right)).any())
    size, keys = np.abs(numbers), numbers
    inside = (size <= most) & (crosses | (size >= least))
    keys = np.where(inside, 0.0 if crosses else np.copysign(least, numbers), numbers)
    # A NaN is at the end for its sign, or without a sign at either end.
    ends = (np.copysign(np.inf, numbers), np.full(numbers.shape, np.inf))
    ordered = (np.where(np.isnan(numbers), end, keys) for end in ends)
    if not np.logical_or.reduce([(x[:, 1:] >= x[:, :-1]).all(axis=1) for x in ordered]).all():
        return NONE
    if crosses:
        return Diagnosis(
            f"numbers from -{number_text(most)} to {number_text(most)} count as equal", ("sort-small-equal",)
        )
    return Diagnosis(
        f"numbers of one sign and of sizes from {number_text(least)} to {number_text(most)} count as equal",
        ("sort-range-equal",),
    )
