"""Integers in the order of the elements of a type, by which these are compared and sorted."""

from __future__ import annotations

import functools

import numpy as np

from ..minifloat.codec import decode
from ..minifloat.formats import Nan
from ..types import ElementType, Kind
from .cast import codes_of


def total_keys(x: np.ndarray, element: ElementType) -> np.ndarray:
    """An integer for each element (not of a complex type), in the total order: unlike codes have unlike keys."""
    if not element.is_float:
        return _integers(x, element)
    if element.is_minifloat:
        return key_table(element, True).take(codes_of(x, element.format))
    codes = x.view(f"i{element.dtype.itemsize}")
    return codes ^ ((codes >> (element.bits - 1)) & _largest(codes))


def value_keys(x: np.ndarray, element: ElementType) -> np.ndarray:
    """An integer for each element (not of a complex type), in the order of values.

    Zeros have one key, 0, and NaN have one, the largest integer. Neighbouring finite numbers have neighbouring keys.
    """
    if not element.is_float:
        return _integers(x, element)
    if element.is_minifloat:
        return key_table(element, False).take(codes_of(x, element.format))
    codes = x.view(f"i{element.dtype.itemsize}")
    magnitude = codes & _largest(codes)
    return np.where(x != x, _largest(codes), np.where(codes < 0, -magnitude, magnitude))


def _largest(x: np.ndarray) -> int:
    return (1 << (8 * x.dtype.itemsize - 1)) - 1


def _integers(x: np.ndarray, element: ElementType) -> np.ndarray:
    if element.bits >= 8:
        return x
    return x.astype(np.int8 if element.kind is Kind.SIGNED else np.uint8)


@functools.cache
def key_table(element: ElementType, total: bool) -> np.ndarray:
    """The key of every byte, as int16."""
    fmt = element.format
    codes = np.arange(256) & ((1 << fmt.bits) - 1)
    magnitude = codes & ~fmt.sign_bit
    keys = np.where(codes == magnitude, magnitude, -magnitude - total)
    # Where a NaN has no code above the numbers of its sign, it gets a key above all.
    is_nan = decode(codes, fmt).is_nan
    if not total or fmt.nan is Nan.NEGATIVE_ZERO:
        keys = np.where(is_nan, np.iinfo(np.int16).max, keys)
    table = keys.astype(np.int16)
    table.setflags(write=False)
    return table
