"""Exact sums, and exact products of many numbers: the nearest f64, and the side of it on which the exact one lies."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from .rounding import Exact


def exact_sums(terms: np.ndarray) -> Exact:
    """The exact sums of rows: f64 [results, terms]. Zero is +0, as a sum starts with that."""
    with np.errstate(all="ignore"):
        simple = np.sum(terms, axis=1) + 0.0
        is_exact = _fits(terms)
    return _of_rows(terms, simple, ~is_exact & np.isfinite(simple), _exact_sum)


def exact_products(terms: np.ndarray) -> Exact:
    """The exact products of the numbers of each row."""
    with np.errstate(all="ignore"):
        simple = np.prod(terms, axis=1)
    is_plain = ~np.isfinite(terms).all(axis=1) | (terms == 0).any(axis=1)
    return _of_rows(terms, simple, ~is_plain, _exact_product)


def _of_rows(
    terms: np.ndarray, simple: np.ndarray, hard: np.ndarray, exact: Callable[[list[float]], tuple[float, int]]
) -> Exact:
    value, side = simple.astype(np.float64), np.zeros(len(terms), np.int8)
    for i in np.flatnonzero(hard):
        value[i], side[i] = exact(terms[i].tolist())
    return Exact(value, side)


def _fits(terms: np.ndarray) -> np.ndarray:
    """Whether every partial sum of the terms is a number of f64, so that no order rounds. NaN and infinities fit."""
    size = np.abs(terms)
    fraction, exponent = np.frexp(np.where(np.isfinite(size), size, 0.0))
    whole = np.ldexp(fraction, 53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)  # the lowest bit of a significand
    unit = np.where(whole != 0, np.ldexp(lowest, exponent - 53), np.inf).min(axis=1, initial=np.inf)
    return ~np.isfinite(size).all(axis=1) | (size.sum(axis=1) <= unit * 2.0**53)


def _exact_sum(row: list[float]) -> tuple[float, int]:
    total = math.fsum(row)
    rest = math.fsum([*row, -total])
    return total + 0.0, (rest > 0) - (rest < 0)


def _exact_product(row: list[float]) -> tuple[float, int]:
    ratios = [x.as_integer_ratio() for x in row if x != 1]
    product = Fraction(math.prod(n for n, _ in ratios), math.prod(d for _, d in ratios))
    try:
        nearest = float(product)
    except OverflowError:
        return math.copysign(math.inf, product), 0
    rest = product - Fraction(nearest)
    return nearest, (rest > 0) - (rest < 0)
