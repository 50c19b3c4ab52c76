"""Causes of ml_dtypes and of our `upcast`, and those XLA shares with them: rounding twice, signs, wrapped integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .cases import Case
from .causes import E8M0, F32, FUNCTIONS, NO_NAN, cause, direct, in_f64, rounded_twice, value
from .peers import Codes
from .registry import ACCURACY, ERROR, OPEN


@cause(
    "zeros alike",
    "ml_dtypes",
    OPEN,
    "maximum and minimum do not tell +0 from -0",
    "Of operands that compare equal the second is the result. IEEE 754-2019's maximum and minimum, which StableHLO "
    "names, put -0 below +0; numpy's documentation does not say.",
)
def _zeros_alike(case: Case, operands: Sequence[Codes]) -> Codes | None:
    return operands[1] if case.op in ("maximum", "minimum") else None


@cause(
    "invalid operations are +0",
    "ml_dtypes",
    OPEN,
    "An invalid operation in a format without NaN is +0",
    "The processor's NaN for 0/0 or the root of -1 is negative on x86-64, and ml_dtypes converts -NaN to +0 (and NaN "
    "to -0, as minihlo does for every NaN that an operation makes).",
)
def _invalid_is_zero(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.result not in NO_NAN or case.op == "convert":
        return None
    return np.where(np.isnan(in_f64(case, operands)), np.uint8(0), np.uint8(255))


@cause(
    "code 0 is no zero",
    "ml_dtypes",
    ERROR,
    "sign of the smallest number of f8E8M0FNU is that number",
    "Its code is 0x00, which is zero in every other format; in this one it is 2^-127, whose sign is 1.",
)
def _sign_of_code_zero(case: Case, operands: Sequence[Codes]) -> Codes | None:
    return np.where(operands[0] == 0, np.uint8(0), direct(case, operands)) if case.op == "sign" else None


@cause(
    "integers wrap",
    "ml_dtypes",
    OPEN,
    "Numbers that an integer type cannot hold are cut to a 32-bit integer and wrapped",
    "The processor's conversion to a 32-bit integer (0x80000000 where it does not fit), and the low bits of that. The "
    "specification leaves it open; XLA and minihlo give the nearest integer there is.",
)
def _integers_wrap(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op != "convert" or not case.result_type.is_integer or not case.operand_type.is_float:
        return None
    whole = np.trunc(value(operands[0], case.operand_type))
    with np.errstate(invalid="ignore"):
        whole = np.where((np.abs(whole) < 2.0**31), whole, -(2.0**31)).astype(np.int64)
    target = case.result_type.dtype
    return whole.astype(target).view(f"u{target.itemsize}")


@cause(
    "subnormals to f8E8M0FNU",
    "ml_dtypes xla",
    ERROR,
    "Numbers between 2^-127 and 2^-126 become 2^-126 in f8E8M0FNU",
    "They are subnormal in f32, and each of them is rounded up, also those that are nearer to 2^-127, which the format "
    "has.",
)
def _subnormals_up(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op != "convert" or case.result_type != E8M0:
        return None
    numbers = value(operands[0], case.operand_type)
    return np.where((numbers > 2.0**-127) & (numbers < 2.0**-126), np.uint8(1), direct(case, operands))


@cause(
    "functions through f32",
    "upcast ml_dtypes",
    ACCURACY,
    "Functions are rounded to f32 first, then to the format",
    "A result of f32 that is a tie of the narrow format may come from an exact value to either side of it. Only atan2 "
    "has such values: far below 1 it nearly is the quotient, and the quotient is the tie.",
)
def _functions_through_f32(case: Case, operands: Sequence[Codes]) -> Codes | None:
    return rounded_twice(case, F32, operands) if case.op in FUNCTIONS else None


@cause(
    "conversions through f32",
    "ml_dtypes xla",
    ERROR,
    "Conversions from wider types are rounded to f32 first, then to the format",
    "Two roundings are not one: what lies just beside a tie of the format becomes the tie in f32, and the tie is then "
    "rounded the other way.",
)
def _conversions_through_f32(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op != "convert" or case.operand not in ("f64", "i32"):
        return None
    return rounded_twice(case, F32, operands)
