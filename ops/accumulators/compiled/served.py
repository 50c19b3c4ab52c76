"""The accumulators that the compiled kernel serves, and their facts as the numbers that it takes."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ..numbers import HIGH, Numbers
from ..record import DROPS, ROUNDINGS, Accumulator

#: Where the running sum joins, or how the terms of a step are added.
ALIGNED, AFTER, JOINED, TREE, EXACT, EXACT_AFTER = range(6)
#: Terms of a step that is summed exactly or by halves: a row of each is held, and exact sums take the square of them.
_FEW = 64
#: The types in which a sum of two, rounded to nearest, is right by way of f64.
_TYPES = ("f32", "f16", "bf16")


class Facts(NamedTuple):
    """The fields of a record as integers. Fields without a comment have the meaning of the same field of the record."""

    place: int
    bits: int
    least: int
    most: int  #: the largest exponent that is aligned to
    low: int  #: the least exponent of the form that is kept
    drop: int  #: its place in `DROPS`
    normalise: int
    even_odd: int
    inner: int
    limited: int  #: whether products have a limit
    join: int  #: its place in `DROPS`
    sum_bits: int
    c_bits: int
    c_reach: int
    needs_odd: int  #: whether a sum of two is to be rounded to odd before it is rounded
    rounding: int  #: its place in `ROUNDINGS`
    width: int  #: the terms of a tree


def serves(record: Accumulator, terms: int) -> bool:
    """Whether the kernel forms sums as a record says, for steps of at most `terms` products."""
    few = (record.bits is not None and record.inner == 1) or max(record.step, terms) <= _FEW
    return few and record.type.name in _TYPES and (record.inner == 1 or record.bits is not None)


@functools.lru_cache(maxsize=1 << 8)
def facts(record: Accumulator, terms: int) -> Facts:
    """The facts of a record whose steps have at most `terms` products."""
    joined = {"aligned": ALIGNED, "after": AFTER, "joined": JOINED}[record.c]
    exact = EXACT if record.c == "aligned" else EXACT_AFTER
    return Facts(
        place=TREE if record.tree else exact if record.bits is None else joined,
        bits=record.bits or 0,
        least=Numbers.of(record).least,
        most=HIGH,
        low=1 - record.form.bias,
        drop=DROPS.index(record.drop),
        normalise=int(record.normalise),
        even_odd=int(record.even_odd),
        inner=record.inner,
        limited=int(record.product_limit is not None),
        join=DROPS.index(record.join),
        sum_bits=record.sum_bits or 0,
        c_bits=record.c_bits or 0,
        c_reach=1 << 20 if record.c_reach is None else record.c_reach,
        needs_odd=int(record.rounding != "nearest_even"),
        rounding=ROUNDINGS.index(record.rounding),
        width=max(record.step, terms) if record.tree else 1,
    )


@functools.cache
def pairs(width: int) -> np.ndarray:
    """The additions of a tree in order, as pairs of terms: the second is added to the first, which keeps the sum."""
    found = []

    def halve(first: int, last: int) -> None:
        if last - first > 1:
            middle = first + (last - first) // 2
            halve(first, middle)
            halve(middle, last)
            found.append((first, middle))

    halve(0, width)
    return np.array(found, np.int64).reshape(-1, 2)


@functools.lru_cache(maxsize=1 << 8)
def forms(record: Accumulator) -> tuple[np.ndarray, np.ndarray]:
    """The form that is kept between steps and the type of running sums, each as a row of numbers.

    Returns:
        For each: the smallest normal number, the unit of subnormals, the largest number, the result of overflow, and
        the smallest number that is not flushed to zero. And for each the number of bits by which f64 is longer.
    """
    rows, types = [], (record.form, record.type)
    for form in types:
        least, largest = 2.0 ** (1 - form.bias), (2.0 - 2.0**-form.mantissa_bits) * 2.0**form.bias
        beyond = {"infinity": np.inf, "largest": largest, "nan": np.nan}[record.overflow]
        flushed = least if "results" in record.flush else 0.0
        rows.append((least, least * 2.0**-form.mantissa_bits, largest, beyond, flushed))
    return np.array(rows), np.array([52 - form.mantissa_bits for form in types], np.int64)
