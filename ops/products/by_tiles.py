"""Exact products by the processor's matrix tiles: which operands they serve, and which kind of results they give.

| results | given by the tiles |
|---|---|
| minifloats, to nearest even | their codes |
| f32, to nearest even | f32, rounded once |
| other floats, and where products are infinite or NaN | f32 rounded to odd, which is rounded once more |
| stochastic rounding, f64, sums outside the normal range of f32 | exact sums in f64 |
"""

from __future__ import annotations

import importlib

import numpy as np

from ..engine import tiles
from ..engine.compiled import tiles as loaded
from ..policy import Policy
from ..types import ELEMENT_TYPES, ElementType, Kind
from .operand import Operand

_F32 = ELEMENT_TYPES["f32"]
#: The largest and smallest exponents of f32 between which all sums are its normal numbers.
_LEAST, _MOST = -126, 127


def takes(x: Operand, y: Operand, length: int, terms: int) -> bool:
    """Whether the tiles serve two operands whose sums have `length` products, in all `terms` of them."""
    bound = length * x.largest * y.largest
    if bound > 1 << 53 or not bound:
        return False
    return tiles.fits(tiles.digits_of(x.largest), tiles.digits_of(y.largest), length) and loaded(terms) is not None


def exact(x: Operand, y: Operand, result: ElementType, policy: Policy) -> np.ndarray | None:
    """The sums of the products of the finite numbers of operands of shape (batch, M, K) and (batch, K, N).

    They have the type of the result where nothing more needs rounding; otherwise they are f32 rounded to odd, or exact
    f64. None where the tiles do not serve the operands.
    """
    (batch, lines, length), columns = x.codes.shape, y.codes.shape[-1]
    terms = batch * lines * length * columns
    if not takes(x, y, length, terms) or (multiplier := loaded(terms)) is None:
        return None
    low, bits = x.low + y.low, (length * x.largest * y.largest).bit_length()
    kind, how = _kind(x.has_special or y.has_special, low, low + bits, result, policy)
    x_digits, y_digits = (operand.digits(tiles.digits_of(operand.largest)) for operand in (x, y))
    sums = multiplier.product(x.codes, y.codes, x_digits, y_digits, kind, 2.0**low, how)
    return sums.view(result.dtype) if kind == tiles.CODES else sums


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
    """The product of integers of up to 8 bits, or booleans, as int32. None where the tiles do not serve them."""
    (batch, lines, length), columns = x.shape, y.shape[-1]
    if x_type.bits > 8 or y_type.bits > 8 or (multiplier := loaded(batch * lines * length * columns)) is None:
        return None
    (x_digits, y_digits) = _integer_digits(x_type), _integer_digits(y_type)
    if not tiles.fits(x_digits[1], y_digits[1], length):
        return None
    return multiplier.product(x.view(np.uint8), y.view(np.uint8), x_digits, y_digits, tiles.I32, 1.0)


def _integer_digits(t: ElementType) -> tuple[np.ndarray, int]:
    """The digits of the bytes of an integer type."""
    is_signed = t.kind is Kind.SIGNED
    count = 1 if is_signed or t.bits < 8 else 2
    return tiles.digits(np.arange(256, dtype=np.uint8).view(np.int8 if is_signed else np.uint8), count), count
