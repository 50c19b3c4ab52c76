"""Arithmetic: sums, products, quotients, signs, and numbers rounded to whole ones."""

from __future__ import annotations

import numpy as np

from ..engine.fast import opcodes
from ..engine.speed import tuning
from ..minifloat import arithmetic
from ..op import CORRECTLY_ROUNDED, EXACT
from ..traits import Combining, OpTraits, Packed, Scalar, first_operand
from . import whole_division
from .elementwise import elementwise
from .float_remainder import float_remainder
from .half_words import negated


def _forward(x: np.ndarray) -> np.ndarray:
    """Complex numbers that lie forward in memory: numpy rounds products of such that lie backwards in other ways."""
    return x.copy() if min(x.strides, default=0) < 0 else x


@elementwise(
    "add",
    "bool integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.add,
    boolean=np.logical_or,
    has_out=True,
    traits=OpTraits(
        combining=Combining(np.add, np.logical_or, on_floats=True),
        linear=range,
        scalar=Scalar("{0} + {1}", True, "{0} or {1}", "{0} + {1}"),
        packed=Packed("{0} + {1}", needs_room=True),
        compiled=opcodes.ADD,
        compiled_words=(opcodes.ADD_WORDS, opcodes.ADD_WORDS),
        compiled_fold=opcodes.FOLD_ADD,
    ),
)
def add(x, y, out=None):
    """Sum; of booleans, or."""
    return np.add(x, y, out)


@elementwise(
    "subtract",
    "integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.subtract,
    has_out=True,
    traits=OpTraits(
        combining=Combining(np.subtract, any_order=False, on_floats=True),
        linear=range,
        scalar=Scalar("{0} - {1}", True, floating="{0} - {1}"),
        packed=Packed("{0} + {R} - {1}", needs_room=True),
        compiled=opcodes.SUBTRACT,
        compiled_words=(opcodes.SUBTRACT_WORDS, opcodes.SUBTRACT_WORDS),
    ),
)
def subtract(x, y, out=None):
    """Difference."""
    return np.subtract(x, y, out)


@elementwise(
    "multiply",
    "bool integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.multiply,
    boolean=np.logical_and,
    has_out=True,
    traits=OpTraits(
        combining=Combining(np.multiply, np.logical_and, on_floats=True),
        is_bilinear=True,
        scalar=Scalar("{0} * {1}", True, "{0} and {1}", "{0} * {1}"),
        packed=Packed("{0} * {1}", needs_room=True, most=(1 << 32) - 1),
        compiled=opcodes.MULTIPLY,
        compiled_words=(opcodes.MULTIPLY_WORDS, opcodes.MULTIPLY_WORDS),
    ),
)
def multiply(x, y, out=None):
    """Product; of booleans, and."""
    if x.dtype.kind == "c":
        return np.multiply(_forward(x), _forward(y), out)
    return np.multiply(x, y, out)


@elementwise(
    "divide",
    "integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.divide,
    has_out=True,
    integer=whole_division.divide,
    floored=whole_division.floor_divide,
    traits=OpTraits(
        scalar=Scalar(
            "(({0} // {1} if ({0} < 0) == ({1} < 0) else -(-{0} // {1})) if {1} else -1)",
            True,
            floating="{0} / {1}",
            by_positive="({0} // {1} if {0} >= 0 else -(-{0} // {1}))",
            floored="{0} // {1}",
        ),
        compiled=opcodes.DIVIDE,
        linear=first_operand,
    ),
)
def divide(x, y, out=None):
    """Quotient; of integers truncated, by zero all bits set (as XLA), and the smallest by -1 itself."""
    return np.divide(x, y, out)


@elementwise(
    "remainder",
    "integer float",
    accuracy=EXACT,
    operands=2,
    direct=arithmetic.remainder,
    integer=whole_division.remainder,
    floored=whole_division.floor_remainder,
    traits=OpTraits(
        scalar=Scalar(
            "(({0} % {1} if ({0} < 0) == ({1} < 0) else {0} % -{1}) if {1} else {0})",
            by_positive="({0} % {1} if {0} >= 0 else -(-{0} % {1}))",
            floored="({0} % {1} if {1} else {0})",
        ),
        compiled=opcodes.REMAINDER,
        many_passes=True,
    ),
)
def remainder(x, y):
    """Remainder of truncated division, with the sign of the dividend; of integers by zero, the dividend (as XLA)."""
    found = float_remainder(x, y) if x.size >= tuning().remainder_many and x.dtype.kind == "f" else None
    return np.fmod(x, y) if found is None else found


@elementwise(
    "negate",
    "integer float complex",
    accuracy=EXACT,
    direct=arithmetic.negate,
    words=negated,
    traits=OpTraits(
        scalar=Scalar("-{0}", True, floating="-{0}"), compiled=opcodes.NEGATE, order_based=True, linear=first_operand
    ),
)
def negate(x):
    """The operand with its sign flipped, of NaN and zero too; of integers, the two's complement."""
    return np.negative(x)


@elementwise(
    "sign",
    "signed float complex",
    accuracy=EXACT,
    direct=arithmetic.sign,
    traits=OpTraits(scalar=Scalar("({0} > 0) - ({0} < 0)"), compiled=opcodes.SIGN, many_passes=True),
)
def sign(x):
    """-1, 0 (with its sign) or 1, NaN of NaN; of a complex number, the number over its absolute value."""
    if np.iscomplexobj(x):
        x = _forward(x)
        size = np.abs(x)
        return np.where(np.isnan(x), complex(np.nan, np.nan), np.where(size == 0, 0, x / np.where(size == 0, 1, size)))
    result = np.sign(x)
    if x.dtype.kind == "f":  # numpy gives NaN as it is, and of either zero +0
        bits = np.asarray(result).view(f"u{x.itemsize}")
        bits |= x.view(bits.dtype) & bits.dtype.type(1 << (8 * x.itemsize - 1))
        return bits.view(x.dtype)
    return result


@elementwise("floor", "float", accuracy=EXACT, direct=arithmetic.floor, traits=OpTraits(compiled=opcodes.FLOOR))
def floor(x):
    """The largest integer not above the operand."""
    return np.floor(x)


@elementwise("ceil", "float", accuracy=EXACT, direct=arithmetic.ceil, traits=OpTraits(compiled=opcodes.CEIL))
def ceil(x):
    """The smallest integer not below the operand."""
    return np.ceil(x)


@elementwise(
    "round_nearest_even",
    "float",
    accuracy=EXACT,
    direct=arithmetic.round_nearest_even,
    traits=OpTraits(compiled=opcodes.ROUND),
)
def round_nearest_even(x):
    """The nearest integer, ties to even."""
    return np.rint(x)


@elementwise(
    "round_nearest_afz",
    "float",
    accuracy=EXACT,
    direct=arithmetic.round_nearest_afz,
    traits=OpTraits(compiled=opcodes.ROUND_AWAY, many_passes=True),
)
def round_nearest_afz(x):
    """The nearest integer, ties away from zero."""
    size = np.abs(x)
    whole = np.trunc(size)
    return np.copysign(whole + (size - whole >= 0.5), x)
