"""Causes of XLA's CPU compiler: it computes in f16 and f32, flushes subnormals, and clamps in the format."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from minihlo.ops.minifloat.formats import Nan

from .cases import Case
from .causes import (
    E8M0,
    F16,
    F32,
    F64,
    FUNCTIONS,
    NO_NAN,
    cause,
    codes_of,
    convert,
    direct,
    is_nan,
    rounded_twice,
    value,
)
from .peers import Codes
from .registry import ACCURACY, ERROR, OPEN


@cause(
    "functions through f16",
    "xla",
    ACCURACY,
    "Functions are rounded to f16 first, then to the format",
    "XLA computes the 8-bit types in f16 (f8E8M0FNU in f32). The correctly rounded result of f16 can be a tie of "
    "the narrow format while the exact value is not.",
)
def _functions_through_f16(case: Case, operands: Sequence[Codes]) -> Codes | None:
    return rounded_twice(case, F16, operands) if case.op in FUNCTIONS and _is_in_f16(case) else None


@cause(
    "square roots through f16",
    "xla",
    ERROR,
    "sqrt is rounded to f16 first, then to the format",
    "IEEE 754, which StableHLO names for it, wants the square root correctly rounded.",
)
def _square_roots_through_f16(case: Case, operands: Sequence[Codes]) -> Codes | None:
    return rounded_twice(case, F16, operands) if case.op == "sqrt" and _is_in_f16(case) else None


def _is_in_f16(case: Case) -> bool:
    return case.operand_type == F16 or (case.operand_type.bits <= 8 and case.operand_type != E8M0)


@cause(
    "steps in f16",
    "xla",
    ACCURACY,
    "logistic and exponential_minus_one are made of steps, each rounded to f16",
    "logistic is 1 / (1 + exp(-x)) and exponential_minus_one here is exp(x) - 1. In f16 exp(12) is infinite, so that "
    "logistic(-12) is 0 where f8E5M2FNUZ has a number near the true value.",
)
def _steps_in_f16(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op not in ("logistic", "exponential_minus_one") or not _is_in_f16(case):
        return None
    x = convert(operands[0], case.operand_type, F16)
    one = np.full_like(x, 0x3C00)
    if case.op == "logistic":
        power = direct(case, [direct(case, [x], "negate", F16)], "exponential", F16)
        found = direct(case, [one, direct(case, [one, power], "add", F16)], "divide", F16)
    else:
        found = direct(case, [direct(case, [x], "exponential", F16), one], "subtract", F16)
    return convert(found, F16, case.result_type)


@cause(
    "subnormals flushed",
    "xla",
    ERROR,
    "The number 2^-127 of f8E8M0FNU counts as zero, and as a result is NaN",
    "XLA computes this type in f32 and treats subnormal operands and results as zero; 2^-127 is subnormal in f32. The "
    "format has no zero, so a result that is flushed is NaN.",
)
def _flushed(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.operand_type != E8M0 or (case.op == "convert" and case.result != "i1"):
        return None
    flushed = [_flush(convert(x, E8M0, F32)) for x in operands]
    if case.op == "convert":
        return (flushed[0] & 0x7FFFFFFF) != 0
    found = direct(case, flushed, t=F32)
    return found if case.result == "i1" else convert(_flush(found), F32, E8M0)


def _flush(codes: Codes) -> Codes:
    return np.where(codes & 0x7FFFFFFF < 0x00800000, codes & 0x80000000, codes).astype(np.uint32)


@cause(
    "powers of 2^-127",
    "xla",
    ERROR,
    "power takes the base 2^-127 of f8E8M0FNU for about 2^-150",
    "The base is subnormal in f32, and its logarithm comes out wrong: every power of it is that of 2^-150, so that the "
    "root of 2^-127 is 2^-75 and not 2^-64.",
)
def _powers_of_subnormals(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op != "power" or case.operand_type != E8M0:
        return None
    x, y = (value(o, E8M0) for o in operands)
    return codes_of(np.where(operands[0] == 0, np.exp2(-150 * y), np.power(x, y)), E8M0)


@cause(
    "small f64 to f8E8M0FNU",
    "xla",
    OPEN,
    "f64 below 2^-127 converts to NaN in f8E8M0FNU",
    "What is below the smallest number counts as zero, which the format lacks. From f32 XLA gives 2^-127 instead, as "
    "minihlo and ml_dtypes do down to 2^-150.",
)
def _small_f64(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op != "convert" or case.operand_type != F64 or case.result_type != E8M0:
        return None
    return np.where(value(operands[0], F64) < 2.0**-127, np.uint8(0xFF), direct(case, operands))


@cause(
    "clamped in the format",
    "xla",
    ERROR,
    "The largest number of f4E2M1FN, 6, converts to the largest integer, and -6 to the smallest",
    "Whether a number is beyond the integer type is decided by comparing it with the type's limits converted to "
    "f4E2M1FN. Those saturate to 6 and -6, so 6 becomes 127 in i8 and 2147483647 in i32.",
)
def _clamped_in_the_format(case: Case, operands: Sequence[Codes]) -> Codes | None:
    t, target = case.operand_type, case.result_type
    if case.op != "convert" or not target.is_integer or not t.is_float:
        return None
    info = ml_dtypes.iinfo(target.dtype)
    low, high = value(codes_of(np.array([info.min, info.max], np.float64), t), t)
    x, found = value(operands[0], t), direct(case, operands).view(target.dtype)
    found = np.where(x >= high, info.max, np.where((x <= low) & (x < 0), info.min, found))
    return found.astype(target.dtype).view(f"u{target.dtype.itemsize}")


@cause(
    "NaN to f4E2M1FN",
    "xla",
    OPEN,
    "NaN converts to -0 in f4E2M1FN, whatever its sign",
    "The format has no NaN. minihlo and ml_dtypes give -0 for NaN and +0 for NaN with its sign set.",
)
def _nan_to_f4(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op != "convert" or case.result not in NO_NAN or not case.operand_type.is_float:
        return None
    return np.where(is_nan(operands[0], case.operand_type), np.uint8(0x8), np.uint8(255))


@cause(
    "FNUZ NaN is negative",
    "xla",
    OPEN,
    "In the total order the NaN of the FNUZ formats comes first",
    "Its code, 0x80, has the sign bit set. IEEE 754 puts negative NaN first and positive NaN last; whether the only "
    "NaN of these formats is either the format does not say. minihlo puts it last.",
)
def _negative_nan(case: Case, operands: Sequence[Codes]) -> Codes | None:
    t = case.operand_type
    if not case.op.endswith("TOTALORDER") or t.format.nan is not Nan.NEGATIVE_ZERO:
        return None
    keys = [np.where(is_nan(x, t), -np.inf, value(x, t)) for x in operands]
    return getattr(operator, case.op.split()[1].lower())(*keys)
