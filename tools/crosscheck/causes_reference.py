"""Causes of StableHLO's reference interpreter, which computes with LLVM's APFloat and, for functions, in f64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .cases import Case
from .causes import E8M0, F64, FUNCTIONS, NO_NAN, cause, codes_of, direct, in_f64, is_nan, value
from .peers import Codes
from .registry import ACCURACY, ERROR, OPEN


@cause(
    "no total order",
    "reference",
    ERROR,
    "compare ignores the comparison type TOTALORDER",
    "It compares as FLOAT does: NaN is equal to and ordered with nothing, and -0 equals +0.",
)
def _no_total_order(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if not case.op.endswith("TOTALORDER"):
        return None
    return direct(case, operands, case.op.removesuffix(" TOTALORDER"))


@cause(
    "rounding to integers overflows",
    "reference",
    ERROR,
    "floor, ceil and both roundings fail where the format cannot hold 2 to the number of its mantissa bits",
    "To round to an integer, APFloat adds that power of two and takes it away again. In f8E3M4 it is 16, beyond the "
    "largest number 15.5: the sum is infinite and the result NaN. In f6E2M3FN it is 8, beyond 7.5: the result is zero. "
    "In f8E8M0FNU it is 1, and 0.5 + 1 rounds to 2.",
)
def _rounding_overflows(case: Case, operands: Sequence[Codes]) -> Codes | None:
    t = case.operand_type
    if case.op not in ("floor", "ceil", "round_nearest_even", "round_nearest_afz"):
        return None
    sign = operands[0] & t.format.sign_bit
    magic = codes_of(np.full(sign.shape, 2.0**t.format.mantissa_bits), t) | sign
    found = direct(case, [direct(case, [operands[0], magic], "add"), magic], "subtract")
    return found & np.uint8(0xFF & ~t.format.sign_bit) | sign


@cause(
    "logistic overflows",
    "reference",
    ERROR,
    "logistic of a negative number that is large is NaN",
    "It is computed as 1 / (1 + exp(-x)), each step rounded to the format, and in formats without infinity exp "
    "overflows to NaN; the result is 0.",
)
def _logistic_overflows(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op != "logistic":
        return None
    found, exact = _stepwise_logistic(case, operands), direct(case, operands)
    return np.where(is_nan(found, case.result_type) & ~is_nan(exact, case.result_type), found, exact)


@cause(
    "logistic in steps",
    "reference",
    ACCURACY,
    "logistic is rounded to the format after each step",
    "It is computed as 1 / (1 + exp(-x)) with three roundings to the format.",
)
def _logistic_in_steps(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.op != "logistic":
        return None
    exact = direct(case, operands)
    return np.where(is_nan(exact, case.result_type), exact, _stepwise_logistic(case, operands))


def _stepwise_logistic(case: Case, operands: Sequence[Codes]) -> Codes:
    t = case.operand_type
    with np.errstate(all="ignore"):
        power = codes_of(np.exp(-value(operands[0], t)), t)
    one = np.full_like(operands[0], codes_of(np.array([1.0]), t)[0])
    return direct(case, [one, direct(case, [one, power], "add")], "divide")


@cause(
    "infinity becomes zero",
    "reference",
    OPEN,
    "In formats without infinity and NaN, infinity becomes zero with its sign",
    "So 1/0 and log(0) are zeros, and so is an infinity that is converted. minihlo, ml_dtypes and XLA give the largest "
    "number.",
)
def _infinity_becomes_zero(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.result not in NO_NAN:
        return None
    exact = in_f64(case, operands)
    zero = np.signbit(exact) * np.uint8(case.result_type.format.sign_bit)
    return np.where(np.isinf(exact), zero, np.uint8(255)).astype(np.uint8)


@cause(
    "NaN becomes zero",
    "reference",
    OPEN,
    "In formats without NaN, NaN becomes zero with NaN's sign",
    "So 0/0 and log(-1) are +0. minihlo and ml_dtypes convert NaN to -0 and -NaN to +0.",
)
def _nan_becomes_zero(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.result not in NO_NAN:
        return None
    exact = in_f64(case, operands)
    negative = np.signbit(exact) if case.op == "convert" else np.zeros(exact.shape, bool)
    zero = negative * np.uint8(case.result_type.format.sign_bit)
    return np.where(np.isnan(exact), zero, np.uint8(255)).astype(np.uint8)


# -- f8E8M0FNU: three causes that can meet in one case ----------------------------------------------------------------


def _as_read(codes: Codes, case: Case) -> np.ndarray:
    """The operands of functions and conversions: NaN is read as infinity."""
    numbers = value(codes, case.operand_type)
    through_f64 = case.op in (*FUNCTIONS, "convert")
    return np.where(np.isnan(numbers), np.inf, numbers) if case.operand_type == E8M0 and through_f64 else numbers


def _exact(case: Case, operands: Sequence[Codes]) -> np.ndarray:
    read = [_as_read(x, case).view(np.uint64) for x in operands]
    return value(read[0] if case.op == "convert" else direct(case, read, t=F64), F64)


def _encoded(exact: np.ndarray) -> Codes:
    """What is below 2^-127 gets its code; the sign of a number, but for zero, gets the bit that is the exponent's."""
    size = np.abs(exact)
    codes = np.where(size < 2.0**-127, np.uint8(0), codes_of(size, E8M0))
    negative = np.signbit(exact) & (size > 2.0**-128) & ~np.isnan(exact)
    return np.where(negative, codes | 0x80, codes).astype(np.uint8)


@cause(
    "sign in the exponent",
    "reference",
    ERROR,
    "Negative results in f8E8M0FNU set the top bit of the exponent",
    "The format has no sign, and the bit that holds it elsewhere is the exponent's first: -0.5 (0x7E without its sign) "
    "becomes 0xFE = 2^127. Results of 2 or more in size lose their sign only. minihlo, ml_dtypes and XLA give NaN.",
)
def _sign_in_the_exponent(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.result_type != E8M0:
        return None
    exact = _exact(case, operands)
    negative = np.signbit(exact) & (np.abs(exact) > 2.0**-128)
    return np.where(negative, _encoded(exact), direct(case, operands))


@cause(
    "zero is the smallest number",
    "reference",
    OPEN,
    "Zero and results that vanish become 2^-127 in f8E8M0FNU",
    "The format has no zero. minihlo, ml_dtypes and XLA give NaN for zero; minihlo and ml_dtypes also for results "
    "up to 2^-150, which are zero in f32.",
)
def _zero_is_smallest(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.result_type != E8M0 or case.op == "logistic":
        return None
    numbers = [value(x, case.operand_type) for x in operands]
    plain = np.logical_or.reduce([np.isnan(n) for n in numbers])
    return np.where(plain, direct(case, operands), _encoded(_exact(case, operands)))


@cause(
    "NaN read as infinity",
    "reference",
    ERROR,
    "The NaN of f8E8M0FNU is read as infinity by functions and conversions",
    "Functions are computed in f64, and 0xFF arrives there as infinity: its conversion to f32 is infinite, its tanh 1, "
    "its rsqrt the zero that becomes 2^-127.",
)
def _nan_as_infinity(case: Case, operands: Sequence[Codes]) -> Codes | None:
    if case.operand_type != E8M0:
        return None
    if case.result_type == E8M0:
        return _encoded(_exact(case, operands))
    return codes_of(_exact(case, operands), case.result_type) if case.op == "convert" else None
