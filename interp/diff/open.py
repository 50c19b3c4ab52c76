"""Differences that nobody can be blamed for: what a format leaves open (`ops.minifloat.open_points`), or an op."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...ops.minifloat.formats import Format, Nan
from ...ops.types import Kind, TensorType, type_of_dtype
from ..program import Operation
from .grades import OPEN, Graded, ulps
from .wide import in_f64, widened

#: What no table of formats has, as it is the op that leaves it open.
ZEROS = "which of +0 and -0 is the larger"
BEYOND = "the integer that NaN, or a number beyond the type's range, is converted to"
BY_ZERO = "integer division by zero, and of the smallest integer by -1"

#: Questions of `OPEN_POINTS`, by what they are about.
INVALID = "an invalid operation (0/0) in a format without NaN"
FROM_NAN = "NaN converted to a format without NaN"
FROM_NEGATIVE_NAN = "NaN with its sign set, converted to a format without NaN"
INFINITE = "an infinite result (1/0) in a format without infinity and NaN"
NAN_SIGN = "the sign of the NaN of an FNUZ format, whose code is that of -0"
ZERO = "zero in a format without zero"
NEGATIVE = "a negative number in a format without sign"
SMALL = "a positive result below the smallest number, in a format without zero (2**-127 / 2)"
VANISHED = "a positive result so small that it vanishes in f32 too (up to 2**-150), in a format without zero"
TIE = "ties in a format of one significant bit, whose significands are all odd (3 lies between 2 and 4)"

_EXTREMES = ("maximum", "minimum", "clamp", "reduce", "reduce_window", "select_and_scatter", "scatter")

Arrays = Sequence[np.ndarray]


def forgive(operation: Operation, operands: Arrays, theirs: np.ndarray, ours: np.ndarray, graded: Graded) -> None:
    """Grade those elements of the first result as open that are."""
    name = operation.name.removeprefix("stablehlo.")
    element = type_of_dtype(theirs.dtype)
    if element.is_integer and name == "convert":
        graded.set(~_fits(operands[0], operation), OPEN, BEYOND)
    elif element.is_integer and name in ("divide", "remainder"):
        x, y = (v.astype(np.int64 if element.kind is Kind.SIGNED else np.uint64) for v in operands)
        least = -(1 << (element.bits - 1)) if element.kind is Kind.SIGNED else 1  # which no x // -1 is about
        overflows = (y == -1) & (x == least) if least < 0 else np.zeros(y.shape, bool)
        graded.set(np.broadcast_to((y == 0) | overflows, graded.grades.shape), OPEN, BY_ZERO)
    elif name == "compare" and operation.attributes.get("compare_type") == "TOTALORDER":
        t = operation.operands[0].type
        if isinstance(t, TensorType) and t.element.is_float and t.element.format.nan is Nan.NEGATIVE_ZERO:
            graded.set(np.logical_or(*(np.isnan(x.astype(np.float32)) for x in operands)), OPEN, NAN_SIGN)
    elif element.is_float:
        if name in _EXTREMES:
            graded.set((theirs == 0) & (ours == 0), OPEN, ZEROS)
        if element.is_minifloat:
            _of_format(operation, operands, theirs, ours, element.format, graded)


def _fits(x: np.ndarray, operation: Operation) -> np.ndarray:
    """Which numbers are within the range of the integer type they are converted to."""
    source, target = operation.operands[0].type, operation.results[0].type
    assert isinstance(target, TensorType)
    if not isinstance(source, TensorType) or not source.element.is_float:
        return np.ones(x.shape, bool)
    bits, signed = target.element.bits, target.element.kind is Kind.SIGNED
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    whole = np.trunc(widened(x, source))
    return np.asarray((whole >= low) & (whole < high))


def _of_format(
    operation: Operation, operands: Arrays, theirs: np.ndarray, ours: np.ndarray, fmt: Format, graded: Graded
) -> None:
    if fmt.nan is not Nan.NONE and fmt.has_zero:
        return
    exact = in_f64(operation, operands)
    if exact is None or exact[0].shape != graded.grades.shape:
        return
    for where, question in _questions(operation.name == "stablehlo.convert", exact[0], fmt):
        if question == TIE:
            where = where & (ulps(theirs, ours) == 1)
        graded.set(where, OPEN, question)


def _questions(is_conversion: bool, exact: np.ndarray, fmt: Format) -> Iterator[tuple[np.ndarray, str]]:
    """The questions that numbers raise in a format."""
    is_nan = np.isnan(exact)
    if fmt.nan is Nan.NONE:
        if is_conversion:
            yield is_nan & ~np.signbit(exact), FROM_NAN
            yield is_nan & np.signbit(exact), FROM_NEGATIVE_NAN
        yield is_nan, INVALID
        yield np.isinf(exact), INFINITE
    if not fmt.has_zero:
        smallest = 2.0**-127
        yield exact == 0, ZERO
        yield exact < 0, NEGATIVE
        yield (exact > 0) & (exact <= 2.0**-150), VANISHED
        yield (exact > 0) & (exact < smallest), SMALL
        yield (exact > smallest) & (np.frexp(exact)[0] == 0.75), TIE
