"""Arithmetic: sums, products, quotients, signs, whole numbers, the larger and the smaller; and logic on bits."""

from __future__ import annotations

import functools

import numpy as np

from ..minifloat import arithmetic
from ..op import CORRECTLY_ROUNDED, EXACT
from ..traits import LINEAR, NOTHING, Combining, OpTraits
from .elementwise import elementwise


def _forward(x: np.ndarray) -> np.ndarray:
    """Complex numbers that lie forward in memory: numpy rounds products of such that lie backwards in other ways."""
    return x.copy() if min(x.strides, default=0) < 0 else x


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The truncated quotient; by zero all bits set (as XLA), and of the smallest by -1 the smallest."""
    divisor = np.where(y == 0, 1, y)
    floored = x // divisor
    return np.where(y == 0, ~y, floored + (((x < 0) != (y < 0)) & (floored * divisor != x)))


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The remainder of truncated division, with the sign of the dividend; by zero the dividend (as XLA)."""
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))


def _product(x, y):
    return np.multiply(_forward(x), _forward(y)) if x.dtype.kind == "c" else np.multiply(x, y)


_ADD = OpTraits(combining=Combining(np.add, np.logical_or, on_floats=True), linear=range)
_SUBTRACT = OpTraits(combining=Combining(np.subtract, any_order=False, on_floats=True), linear=range)
_MULTIPLY = OpTraits(combining=Combining(np.multiply, np.logical_and, on_floats=True), is_bilinear=True)
_ROUNDED, _REAL, _NUMBERS, _ALL = (
    CORRECTLY_ROUNDED,
    "integer float",
    "integer float complex",
    "bool integer float complex",
)
for _name, _types, _accuracy, _host, _integer, _boolean, _traits, _doc in (
    ("add", _ALL, _ROUNDED, np.add, None, np.logical_or, _ADD, "Sum; of booleans, or."),
    ("subtract", _NUMBERS, _ROUNDED, np.subtract, None, None, _SUBTRACT, "Difference."),
    ("multiply", _ALL, _ROUNDED, _product, np.multiply, np.logical_and, _MULTIPLY, "Product; of booleans, and."),
    ("divide", _NUMBERS, _ROUNDED, np.divide, _divide, None, LINEAR,
     "Quotient; of integers truncated, by zero all bits set (as XLA), and the smallest by -1 itself."),
    ("remainder", _REAL, EXACT, np.fmod, _remainder, None, NOTHING,
     "Remainder of truncated division, with the sign of the dividend; of integers by zero, the dividend (as XLA)."),
):  # fmt: skip
    elementwise(
        _name, _types, accuracy=_accuracy, operands=2, direct=getattr(arithmetic, _name),
        integer=_integer, boolean=_boolean, doc=_doc, traits=_traits,
    )(_host)  # fmt: skip
elementwise(
    "negate", _NUMBERS, accuracy=EXACT, direct=arithmetic.negate, is_native=True, traits=LINEAR,
    doc="The operand with its sign flipped, of NaN and zero too; of integers, the two's complement.",
)(np.negative)  # fmt: skip


@elementwise("sign", "signed float complex", accuracy=EXACT, direct=arithmetic.sign, integer=np.sign)
def sign(x):
    """-1, 0 (with its sign) or 1, NaN of NaN; of a complex number, the number over its absolute value."""
    if np.iscomplexobj(x):
        x = _forward(x)
        size = np.abs(x)
        return np.where(np.isnan(x), complex(np.nan, np.nan), np.where(size == 0, 0, x / np.where(size == 0, 1, size)))
    return np.where(np.isnan(x), x, np.copysign(np.sign(x), x))  # numpy gives +0 of either zero


for _name, _host, _direct, _doc in (
    ("floor", np.floor, arithmetic.floor, "The largest integer not above the operand."),
    ("ceil", np.ceil, arithmetic.ceil, "The smallest integer not below the operand."),
    ("round_nearest_even", np.rint, arithmetic.round_nearest_even, "The nearest integer, ties to even."),
):
    elementwise(_name, "float", accuracy=EXACT, direct=_direct, doc=_doc)(_host)


@elementwise("round_nearest_afz", "float", accuracy=EXACT, direct=arithmetic.round_nearest_afz)
def round_nearest_afz(x):
    """The nearest integer, ties away from zero."""
    size = np.abs(x)
    whole = np.trunc(size)
    return np.copysign(whole + (size - whole >= 0.5), x)


# On the bits of integers, and on booleans.
for _name, _host, _doc in (
    ("and", np.bitwise_and, "Bitwise and."),
    ("or", np.bitwise_or, "Bitwise or."),
    ("xor", np.bitwise_xor, "Bitwise exclusive or."),
):
    _traits = OpTraits(combining=Combining(_host))
    elementwise(_name, "bool integer", accuracy=EXACT, operands=2, doc=_doc, traits=_traits)(_host)
elementwise("not", "bool integer", accuracy=EXACT, doc="Bitwise complement.")(np.invert)


_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def _extreme(choose: np.ufunc, choose_zero: np.ufunc, x, y):
    """numpy's maximum or minimum, with -0 below +0 as IEEE 754-2019 section 9.6 asks.

    Equal numbers have equal bits unless they are zeros of unlike sign: `choose_zero` gives the bits of both.
    """
    if x.dtype.kind == "c":
        return _complex_extreme(choose is np.maximum, x, y)
    result = np.asarray(choose(x, y))
    if y.size and not any(y.strides) and y[(0,) * y.ndim] != 0:
        return result  # beside one number that is not zero, no two zeros meet
    bits = _BITS[result.itemsize]
    loser = 1 << 8 * result.itemsize - 1 if choose is np.maximum else 0
    if (result.view(bits) == loser).any():
        result = np.where(x == y, choose_zero(x.view(bits), y.view(bits)).view(result.dtype), result)
    return result


def _complex_extreme(largest: bool, x, y):
    """Complex numbers in lexicographic order; NaN in any part makes that operand the result."""
    before = (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))
    take_y = (before if largest else ~before & (x != y)) & ~np.isnan(x)
    return np.where(take_y | (np.isnan(y) & ~np.isnan(x)), y, x)


_COMPLEX = "complex numbers lexicographically; of booleans"
for _name, _choose, _choose_zero, _of_booleans, _direct, _doc in (
    ("maximum", np.maximum, np.bitwise_and, np.logical_or, arithmetic.maximum,
     f"The larger; NaN if either is NaN, +0 above -0; {_COMPLEX}, or."),
    ("minimum", np.minimum, np.bitwise_or, np.logical_and, arithmetic.minimum,
     f"The smaller; NaN if either is NaN, -0 below +0; {_COMPLEX}, and."),
):  # fmt: skip
    elementwise(
        _name,
        "bool integer float complex",
        accuracy=EXACT,
        operands=2,
        direct=_direct,
        integer=_choose,
        boolean=_of_booleans,
        doc=_doc,
        traits=OpTraits(Combining(_choose, _of_booleans, largest=_choose is np.maximum), selects_operand=True),
    )(functools.partial(_extreme, _choose, _choose_zero))
