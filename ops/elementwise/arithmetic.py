"""Arithmetic: sums, products, quotients, signs, and numbers rounded to whole ones."""

from __future__ import annotations

import numpy as np

from ..minifloat import arithmetic
from ..op import CORRECTLY_ROUNDED, EXACT
from ..traits import Combining, OpTraits, first_operand
from . import whole_division
from .elementwise import elementwise


def _forward(x: np.ndarray) -> np.ndarray:
    """Complex numbers that lie forward in memory: numpy rounds products of such that lie backwards in other ways."""
    return x.copy() if min(x.strides, default=0) < 0 else x


elementwise(
    "add",
    "bool integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.add,
    boolean=np.logical_or,
    doc="Sum; of booleans, or.",
    traits=OpTraits(combining=Combining(np.add, np.logical_or, on_floats=True), linear=range),
)(np.add)


elementwise(
    "subtract",
    "integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.subtract,
    doc="Difference.",
    traits=OpTraits(combining=Combining(np.subtract, any_order=False, on_floats=True), linear=range),
)(np.subtract)


@elementwise(
    "multiply",
    "bool integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.multiply,
    integer=np.multiply,
    boolean=np.logical_and,
    traits=OpTraits(combining=Combining(np.multiply, np.logical_and, on_floats=True), is_bilinear=True),
)
def multiply(x, y):
    """Product; of booleans, and."""
    return np.multiply(_forward(x), _forward(y)) if x.dtype.kind == "c" else np.multiply(x, y)


elementwise(
    "divide",
    "integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.divide,
    integer=whole_division.divide,
    doc="Quotient; of integers truncated, by zero all bits set (as XLA), and the smallest by -1 itself.",
    traits=OpTraits(linear=first_operand),
)(np.divide)


elementwise(
    "remainder",
    "integer float",
    accuracy=EXACT,
    operands=2,
    direct=arithmetic.remainder,
    integer=whole_division.remainder,
    doc="Remainder of truncated division, with the sign of the dividend; of integers by zero, the dividend (as XLA).",
)(np.fmod)


elementwise(
    "negate",
    "integer float complex",
    accuracy=EXACT,
    direct=arithmetic.negate,
    is_native=True,
    doc="The operand with its sign flipped, of NaN and zero too; of integers, the two's complement.",
    traits=OpTraits(linear=first_operand),
)(np.negative)


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
