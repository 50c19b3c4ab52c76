"""Integers in the order of the elements of a type, by which these are compared and sorted."""

from __future__ import annotations

import functools

import numpy as np

from .cast import array_of, codes_of
from .minifloat.codec import decode
from .minifloat.formats import Nan
from .tables import Tabulated, look_up
from .types import ELEMENT_TYPES, ElementType


def total_keys(x: np.ndarray, element: ElementType) -> np.ndarray:
    """An integer for each element (not of a complex type), in the total order: unlike codes have unlike keys."""
    if not element.is_float:
        return x.astype(element.working_dtype, copy=False)
    if element.is_minifloat:
        return _ranks(element)[1](x)
    codes = x.view(f"i{element.dtype.itemsize}")
    return codes ^ ((codes >> (element.bits - 1)) & _largest(codes))


def of_total_keys(keys: np.ndarray, element: ElementType) -> np.ndarray:
    """The floats that have these keys in the total order."""
    if element.is_minifloat:
        return _ranks(element)[0](keys)
    return (keys ^ ((keys >> (element.bits - 1)) & _largest(keys))).view(element.dtype)


def is_nan(x: np.ndarray, element: ElementType) -> np.ndarray:
    """Which floats are NaN."""
    keys = value_keys(x, element)
    return keys == np.iinfo(keys.dtype).max


def value_keys(x: np.ndarray, element: ElementType) -> np.ndarray:
    """An integer for each element (not of a complex type), in the order of values.

    Zeros have one key, 0, and NaN have one, the largest integer. Neighbouring finite numbers have neighbouring keys.
    """
    if not element.is_float:
        return x.astype(element.working_dtype, copy=False)
    if element.is_minifloat:
        return look_up(_key_table(element, False), [codes_of(x, element.format)])
    codes = x.view(f"i{element.dtype.itemsize}")
    magnitude = codes & _largest(codes)
    return np.where(x != x, _largest(codes), np.where(codes < 0, -magnitude, magnitude))


def sort_total(x: np.ndarray, element: ElementType) -> np.ndarray:
    """The elements of each row (of no complex type) in their total order."""
    keys = total_keys(x, element)
    keys = np.sort(keys, kind="stable" if keys.itemsize <= 2 else None)  # numpy counts integers of up to 16 bits
    return of_total_keys(keys, element) if element.is_float else keys.astype(element.dtype, copy=False)


def stable_argsort(keys: np.ndarray) -> np.ndarray:
    """The positions of each row's keys in ascending order; equal keys keep their order.

    numpy sorts integers of up to 16 bits by counting. Those of 32 bits are joined with their positions, so that any
    sort is stable: numpy's quickest is ten times as quick as its stable one.
    """
    if keys.itemsize != 4:
        return np.argsort(keys, axis=-1, kind="stable")
    wide = keys.astype(np.int64) - (1 << 31 if keys.dtype.kind == "u" else 0)
    return np.sort((wide << 32) | np.arange(keys.shape[-1]), axis=-1) & 0xFFFFFFFF


def _largest(x: np.ndarray) -> int:
    return (1 << (8 * x.dtype.itemsize - 1)) - 1


@functools.cache
def _ranks(element: ElementType) -> tuple[Tabulated, Tabulated]:
    """The functions from places in the total order of a minifloat to its elements, and back."""
    fmt, codes = element.format, np.arange(1 << element.format.bits, dtype=np.uint8)
    ordered = codes[np.argsort(_key_table(element, True)[codes], kind="stable")]
    elements, ranks = array_of(ordered, fmt), np.zeros(256, np.uint8)
    ranks[ordered] = codes
    to_elements = Tabulated(lambda keys: elements.take(keys, mode="wrap"), [ELEMENT_TYPES["ui8"]], element.dtype)
    return to_elements, Tabulated(lambda x: ranks.take(codes_of(x, fmt)), [element], ranks.dtype)


@functools.cache
def _key_table(element: ElementType, total: bool) -> np.ndarray:
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
