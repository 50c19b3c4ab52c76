"""Divisions of whole numbers of 32 bits as lines of a program: shifts, products with 1 / d, or quotients in f64."""

from __future__ import annotations

from collections.abc import Sequence

from . import opcodes as op
from .lines import Lines

#: The attribute of `divide` and `remainder` of integers that asks for the floored quotient, or the remainder with the
#: sign of the divisor. A pass sets it (`interp/compile/passes/floored.py`); it is within our dialect.
FLOORED = "minihlo.floored"
_SIGN, _ALL = 1 << 31, 1 << 32


def divided(lines: Lines, gives_rest: bool, is_signed: bool, is_floored: bool, values: Sequence[int]) -> int:
    """The register of a quotient or remainder, which is truncated or floored.

    By zero a truncated quotient is all ones, and a remainder the dividend; floored quotients are by positive numbers.
    """
    d = lines.constant_of(values[1])
    if d is not None and 0 < d < (_SIGN if is_signed else _ALL):
        return _by_constant(lines, gives_rest, is_signed, is_floored, values, d)
    kind = (op.REMAINDER_SIGNED if gives_rest else op.DIVIDE_SIGNED) + (not is_signed)
    result = lines.emit(kind, values)
    if not (is_floored and is_signed):
        return result
    rest = result if gives_rest else lines.emit(op.REMAINDER_SIGNED, values)
    differ = lines.emit(op.LT_SIGNED, [lines.emit(op.XOR, [rest, values[1]]), lines.constant(0)])
    is_off = lines.emit(op.AND, [differ, lines.emit(op.TRUTH, [rest])])  # -1 there
    return lines.emit(op.ADD_WORDS, [result, lines.emit(op.AND, [values[1], is_off]) if gives_rest else is_off])


def _by_constant(
    lines: Lines, gives_rest: bool, is_signed: bool, is_floored: bool, values: Sequence[int], d: int
) -> int:
    """By a positive number."""
    number, power = values[0], d.bit_length() - 1 if d & (d - 1) == 0 else None
    if is_signed and not is_floored:  # what has the truncated quotient as its floored one
        sign = lines.emit(op.SHIFT_ARITHMETIC, [number, lines.constant(31)])
        number = lines.emit(op.ADD_WORDS, [number, lines.emit(op.AND, [sign, lines.constant(d - 1)])])
    if power is None:
        quotient = lines.emit(op.FLOOR_SIGNED + (not is_signed), [number, values[1]])
    elif gives_rest and number == values[0]:
        return lines.emit(op.AND, [number, lines.constant(d - 1)])
    else:
        quotient = lines.emit(op.SHIFT_ARITHMETIC if is_signed else op.SHIFT_LOGICAL, [number, lines.constant(power)])
    if not gives_rest:
        return quotient
    return lines.emit(op.SUBTRACT_WORDS, [values[0], lines.emit(op.MULTIPLY_WORDS, [quotient, values[1]])])
