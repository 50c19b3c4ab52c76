"""Exact products of minifloats and bytes as whole numbers: by matrix tiles, or by sums of 16-bit products.

Both need a unit of the processor, of which tiles are the quicker one. What the results are:

| results | tiles give | words give |
|---|---|---|
| minifloats, to nearest even | their codes | f32 rounded to odd, which is rounded once more |
| f32, to nearest even | f32, rounded once | the same |
| other floats, and where products are infinite or NaN | f32 rounded to odd | the same |
| stochastic rounding, f64, sums outside the normal range of f32 | exact sums in f64 | the same |
"""

from __future__ import annotations

import functools
import importlib
import math

import numpy as np

from ..engine import tiles
from ..engine.compiled import tiles as loaded
from ..engine.native import words as native
from ..engine.words import LONGEST, Split, Words, split, words
from ..policy import Policy
from ..types import ELEMENT_TYPES, ElementType, Kind
from .operand import Operand

_F32 = ELEMENT_TYPES["f32"]
#: The largest and smallest exponents of f32 between which all sums are its normal numbers.
_LEAST, _MOST = -126, 127
#: The bits of a word without its sign. Numbers are taken to be of a quarter of the largest one's size, on average.
_WORD, _TYPICAL = 15, 2
#: The kinds of results of tiles, as words have them.
_OF_WORDS = {tiles.F64: native.F64, tiles.NEAREST: native.NEAREST, tiles.ODD: native.ODD, tiles.CODES: native.ODD}


def takes(x: Operand, y: Operand, length: int, terms: int, matrices: int) -> bool:
    """Whether one of the units serves two operands whose sums have `length` products.

    There are `terms` products in all, of so many matrices. Words may turn out not to, for the numbers there are: then
    `exact` gives None.
    """
    return _by_tiles(x, y, length, terms) is not None or _by_words(x, y, length, terms // max(matrices, 1)) is not None


def _by_tiles(x: Operand, y: Operand, length: int, terms: int) -> tiles.Tiles | None:
    bound = length * x.largest * y.largest
    if bound > 1 << 53 or not bound:
        return None
    return loaded(terms) if tiles.fits(tiles.digits_of(x.largest), tiles.digits_of(y.largest), length) else None


def _by_words(x: Operand, y: Operand, length: int, terms: int) -> Words | None:
    bound = length * x.largest * y.largest
    if bound > 1 << 53 or not bound or length > LONGEST or any(_shift(v) > _most_shift(v) for v in (x, y)):
        return None
    return words(terms)


def _shift(x: Operand) -> int:
    """How many bits the largest number has more than a word."""
    return max(x.largest.bit_length() - _WORD, 0)


def _most_shift(x: Operand) -> int:
    """The largest shift with which all low words are words: they are less than 2**(shift - 1 + precision)."""
    return _WORD + 1 - x.format.precision


def exact(x: Operand, y: Operand, result: ElementType, policy: Policy) -> np.ndarray | None:
    """The sums of the products of the finite numbers of operands of shape (batch, M, K) and (batch, K, N).

    They have the type of the result where nothing more needs rounding; otherwise they are f32 rounded to odd, or exact
    f64. None where neither unit serves the operands.
    """
    (batch, lines, length), columns = x.codes.shape, y.codes.shape[-1]
    terms = batch * lines * length * columns
    by_tiles = _by_tiles(x, y, length, terms)
    by_words = None if by_tiles else _by_words(x, y, length, terms // max(batch, 1))
    if by_tiles is None and by_words is None:
        return None
    low, bits = x.low + y.low, (length * x.largest * y.largest).bit_length()
    kind, how = _kind(x.has_special or y.has_special, low, low + bits, result, policy)
    if by_words is not None:
        return _words_product(by_words, x, y, _OF_WORDS[kind])
    assert by_tiles is not None
    x_digits, y_digits = (operand.digits(tiles.digits_of(operand.largest)) for operand in (x, y))
    sums = by_tiles.product(x.codes, y.codes, x_digits, y_digits, kind, 2.0**low, how)
    return sums.view(result.dtype) if kind == tiles.CODES else sums


def _words_product(multiplier: Words, x: Operand, y: Operand, kind: int) -> np.ndarray | None:
    """The product by words: high words get larger units until all sums of words fit."""
    shifts, operands = [_shift(x), _shift(y)], (x, y)
    sizes = [v.largest.bit_length() for v in operands]
    missing = x.codes.shape[-1].bit_length() + sum(sizes) - 2 * _TYPICAL - 31 - sum(shifts)
    while True:
        for _ in range(missing):  # one bit less for the operand whose high words have more
            shifts[sizes[0] - shifts[0] < sizes[1] - shifts[1]] += 1
        if any(s > _most_shift(v) for s, v in zip(shifts, operands, strict=True)):
            return None
        sums = multiplier.product(x.codes, y.codes, x.split(shifts[0]), y.split(shifts[1]), kind, x.low + y.low)
        if sums is None or isinstance(sums, np.ndarray):
            return sums
        missing = math.ceil(math.log2(sums))


def _kind(has_special: bool, low: int, high: int, result: ElementType, policy: Policy) -> tuple[int, np.ndarray | None]:
    """The kind of results to ask the tiles for, and how they round to minifloats."""
    if result.bits == 64 or policy.rounding == "stochastic" or low < _LEAST or high > _MOST:
        return tiles.F64, None
    is_nearest = policy.rounding == "nearest_even" and policy.overflow == "ieee"
    if result == _F32:
        return (tiles.NEAREST if is_nearest else tiles.F64), None
    if result.is_minifloat and not has_special and policy.rounding == "nearest_even":
        numbers, _ = importlib.import_module("..engine.fast.encoding", __package__).encoding(result, policy)
        if numbers is not None:
            return tiles.CODES, np.array(numbers, np.int64)
    return tiles.ODD, None


def integers(x: np.ndarray, y: np.ndarray, x_type: ElementType, y_type: ElementType) -> np.ndarray | None:
    """The product of integers of up to 8 bits, or booleans, as int32, in which all sums fit. None where neither unit
    serves them."""
    (batch, lines, length), columns = x.shape, y.shape[-1]
    if x_type.bits > 8 or y_type.bits > 8:
        return None
    terms = batch * lines * length * columns
    (x_digits, y_digits) = _integer_digits(x_type), _integer_digits(y_type)
    if tiles.fits(x_digits[1], y_digits[1], length) and (by_tiles := loaded(terms)) is not None:
        return by_tiles.product(x.view(np.uint8), y.view(np.uint8), x_digits, y_digits, tiles.I32, 1.0)
    if length > LONGEST or (by_words := words(terms // max(batch, 1))) is None:
        return None
    splits = _integer_split(x_type), _integer_split(y_type)
    sums = by_words.product(x.view(np.uint8), y.view(np.uint8), *splits, native.I32, 0, known=True)
    return sums if isinstance(sums, np.ndarray) else None


def _integer_digits(t: ElementType) -> tuple[np.ndarray, int]:
    """The digits of the bytes of an integer type."""
    count = 1 if t.kind is Kind.SIGNED or t.bits < 8 else 2
    return tiles.digits(_bytes(t), count), count


@functools.cache
def _integer_split(t: ElementType) -> Split:
    """The words of the bytes of an integer type."""
    return split(_bytes(t).astype(np.int64), 0)


def _bytes(t: ElementType) -> np.ndarray:
    """What each byte stands for."""
    return np.arange(256, dtype=np.uint8).view(np.int8 if t.kind is Kind.SIGNED else np.uint8)
