"""Wrong ways to compute: in reading operands, in the operation, or in writing the result. `table` names them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from ..oracle.case import OpCase, Operands
from ..oracle.exact import COMPARISONS, FUNCTIONS, OPS, compare, estimate, evaluate
from ..oracle.expected import as_exact, convert, logistic_by_steps
from ..oracle.formats import FORMATS, INTEGERS, Format, integers
from ..oracle.rounding import EVEN, Exact, encode
from .record import Codes, Compute

Read = Callable[[Format, Codes], np.ndarray]


def decode(fmt: Format, codes: Codes) -> np.ndarray:
    """Decodes operands as they are."""
    return fmt.decode(codes)


def compute_case(
    case: OpCase, operands: Operands, read: Read = decode, rounding: str = EVEN, through: str = ""
) -> Codes | None:
    """The op with operands read by `read`, rounded as given, to the format `through` first."""
    if case.op not in (*OPS, "convert", "compare", "is_finite"):
        return None
    if any(t not in FORMATS for t in case.operands):
        return _convert(case, operands, rounding, through)
    numbers = [read(FORMATS[t], x) for t, x in zip(case.operands, operands, strict=True)]
    if case.op == "is_finite":
        return np.isfinite(numbers[0])
    if case.op == "compare":
        direction, kind = (v for _, v in case.attributes)
        return COMPARISONS[direction](*numbers) if kind == "FLOAT" else None
    if case.result not in FORMATS:
        return None
    target = FORMATS[case.result]
    if not through:
        return evaluate(case.op, target, *numbers, rounding=rounding)[0]
    wide = FORMATS[through]
    codes = evaluate(case.op, wide, *numbers)[0]
    return encode(target, Exact.of(wide.decode(codes)), rounding)[0]


def with_rounding_twice(wide: str, case: OpCase, operands: Operands) -> Codes | None:
    """The op rounded to a wider format first, unless a conversion's operands are of it or f64 has the function."""
    if (wide in case.operands and case.op == "convert") or (wide == "f64" and case.op in FUNCTIONS):
        return None
    return compute_case(case, operands, through=wide)


def _convert(case: OpCase, operands: Operands, rounding: str, through: str) -> Codes | None:
    if case.op != "convert" or case.result not in FORMATS:
        return None
    if not through:
        return convert(operands[0], case.operands[0], case.result, rounding).codes
    wide = FORMATS[through]
    codes = encode(wide, as_exact(operands[0], case.operands[0]))[0]
    return encode(FORMATS[case.result], Exact.of(wide.decode(codes)), rounding)[0]


def flush_read(fmt: Format, codes: Codes) -> np.ndarray:
    """Reads subnormal operands as zeros of the same sign."""
    numbers = fmt.decode(codes)
    return np.where(fmt.is_subnormal(codes), np.copysign(0.0, numbers), numbers)


def flush_results(fmt: Format, codes: Codes) -> Codes:
    """Flushes subnormal results to zeros of the same sign."""
    zero = encode(fmt, Exact.of(np.copysign(0.0, fmt.decode(codes))))[0]
    return np.where(fmt.is_subnormal(codes), zero, codes)


def flush(read: Read, results: bool, case: OpCase, operands: Operands, through: str = "") -> Codes | None:
    """The op with operands read by `read`, and subnormal results flushed if `results`; to `through` first."""
    codes = compute_case(case, operands, read, through=through)
    if codes is None or not results:
        return codes
    return flush_results(FORMATS[case.result], codes) if case.result in FORMATS else None


def flush_in_f32(case: OpCase, operands: Operands) -> Codes | None:
    """The op computed in f32, with operands and results flushed that are subnormal there."""

    def read(fmt: Format, codes: Codes) -> np.ndarray:
        numbers = fmt.decode(codes)
        return np.where(np.abs(numbers) < 2.0**-126, np.copysign(0.0, numbers), numbers)

    result = compute_case(case, operands, read)
    numbers = in_f64(case, operands, read)
    if result is None or numbers is None or case.result not in FORMATS:
        return result
    zeros = encode(FORMATS[case.result], Exact.of(np.copysign(0.0, numbers)))[0]
    return np.where(np.abs(numbers) < 2.0**-126, zeros, result)


def smallest_up(case: OpCase, operands: Operands) -> Codes | None:
    """Rounds values between the two smallest numbers up."""
    numbers, codes = in_f64(case, operands), compute_case(case, operands)
    if case.result not in FORMATS or numbers is None or codes is None:
        return None
    first, second = FORMATS[case.result].decode(np.array([0, 1]))
    return np.where((numbers > first) & (numbers < second), np.array(1, codes.dtype), codes)


def beyond_the_largest(fmt: Format, codes: Codes) -> np.ndarray:
    """Reads a NaN whose sign is set as the number its code would be without NaN."""
    numbers = fmt.decode(codes)
    step = fmt.max - fmt.decode(np.array([fmt.max_code - 1]))[0]
    return np.where(fmt.is_nan(codes) & (codes & fmt.sign_bit != 0), -fmt.max - step, numbers)


def lose_smallest_normal(case: OpCase, operands: Operands) -> Codes | None:
    """Flushes results that round up from the subnormal range to the smallest normal number."""
    numbers, codes = in_f64(case, operands), compute_case(case, operands)
    if case.result not in FORMATS or numbers is None or codes is None:
        return None
    fmt = FORMATS[case.result]
    up = ((codes & fmt.ones) == 1 << fmt.mantissa_bits) & (np.abs(numbers) < 2.0**fmt.min_exponent)
    return np.where(up, flush_results(fmt, np.where(up, codes & fmt.sign_bit | 1, codes).astype(codes.dtype)), codes)


def nan_as(number: float, fmt: Format, codes: Codes) -> np.ndarray:
    """Reads NaN as a number."""
    return np.where(fmt.is_nan(codes), number, fmt.decode(codes))


def fnuz_nan_as_zero(case: OpCase, operands: Operands) -> Codes | None:
    """Reads 0x80 of the FNUZ formats, which is NaN, as -0."""
    if not any(FORMATS[t].nan == "sign" for t in case.operands if t in FORMATS):
        return None
    return compute_case(case, operands, functools.partial(nan_as, -0.0))


def shift_bias(by: int, operands_too: bool, results_too: bool, case: OpCase, operands: Operands) -> Codes | None:
    """An exponent bias that is wrong by `by`, in reading, in writing, or in both."""
    factor = 2.0**-by

    def read(fmt: Format, codes: Codes) -> np.ndarray:
        return fmt.decode(codes) * (factor if fmt.is_minifloat and operands_too else 1.0)

    if case.result not in FORMATS or not FORMATS[case.result].is_minifloat or not results_too:
        return compute_case(case, operands, read)
    fmt = FORMATS[case.result]
    shifted = dataclasses.replace(fmt, bias=fmt.bias + by)
    if case.op not in (*OPS, "convert"):
        return None
    if case.operands[0] not in FORMATS:
        return encode(shifted, as_exact(operands[0], case.operands[0]))[0]
    numbers = [read(FORMATS[t], x) for t, x in zip(case.operands, operands, strict=True)]
    return evaluate(case.op, shifted, *numbers)[0]


def reciprocal(through: str, of_product: bool, case: OpCase, operands: Operands) -> Codes | None:
    """x times the reciprocal of y, both steps rounded."""
    if case.op != "divide":
        return None
    fmt = FORMATS[case.result]
    x, y = (fmt.decode(c) for c in operands)
    wide = FORMATS[through or case.result]
    inverse = wide.decode(evaluate("divide", wide, np.ones_like(y), y)[0])
    if not of_product:
        return evaluate("multiply", fmt, x, inverse)[0]
    product = wide.decode(evaluate("multiply", wide, x, inverse)[0])
    return encode(fmt, Exact.of(product))[0]


def as_float(case: OpCase, operands: Operands) -> Codes | None:
    """A comparison in total order computed as one of floats."""
    if case.op != "compare" or case.attributes[1][1] != "TOTALORDER":
        return None
    return compare(case.attributes[0][1], "FLOAT", case.operands[0], *operands)


def operand(which: int, case: OpCase, operands: Operands) -> Codes | None:
    """The operand of that index instead of the result."""
    return operands[which] if len(operands) > which and case.operands[which] == case.result else None


def swap_operands(case: OpCase, operands: Operands) -> Codes | None:
    """The two operands exchanged, where that makes a difference."""
    fits = len(operands) == 2 and case.op in ("subtract", "divide", "remainder", "power", "atan2", "compare")
    return compute_case(case, operands[::-1]) if fits else None


def of_magnitude(compute: Compute, case: OpCase, operands: Operands) -> Codes | None:
    """A fault of conversions that drop the sign first because the target has none."""
    if case.op != "convert" or case.result not in FORMATS or FORMATS[case.result].is_signed:
        return None
    codes, source = operands[0], case.operands[0]
    if source in FORMATS:
        fmt = FORMATS[source]
        codes = np.where(fmt.is_nan(codes), codes, codes & np.array(fmt.ones, codes.dtype))
    elif source in INTEGERS:
        width = INTEGERS[source][0]
        codes = np.where(integers(codes, source) < 0, (~codes + 1) & np.array((1 << width) - 1, codes.dtype), codes)
        return compute(dataclasses.replace(case, operands=(f"ui{width}",)), (codes,))
    return compute(case, (codes,))


def without_sign(case: OpCase, operands: Operands) -> Codes | None:
    """The magnitude of the result, in a format without sign."""
    if case.result not in FORMATS or FORMATS[case.result].is_signed:
        return None
    numbers = in_f64(case, operands)
    return None if numbers is None else encode(FORMATS[case.result], Exact.of(np.abs(numbers)))[0]


def sign_in_exponent(case: OpCase, operands: Operands) -> Codes | None:
    """The magnitude of the result, with its sign in the highest bit, which belongs to the exponent."""
    codes, numbers = without_sign(case, operands), in_f64(case, operands)
    if codes is None or numbers is None:
        return None
    return np.where(np.signbit(numbers), codes | 0x80, codes).astype(codes.dtype)


def in_f64(case: OpCase, operands: Operands, read: Read = decode) -> np.ndarray | None:
    """The results in f64 before rounding; None if f64 does not decide them."""
    if any(t not in FORMATS for t in case.operands):
        return as_exact(operands[0], case.operands[0]).value if case.op == "convert" else None
    if case.op not in OPS and case.op != "convert":
        return None
    return estimate(case.op, *(read(FORMATS[t], x) for t, x in zip(case.operands, operands, strict=True)))


def logistic(through: str, case: OpCase, operands: Operands) -> Codes | None:
    """1 / (1 + exp(-x)) with each step rounded."""
    if case.op != "logistic":
        return None
    fmt = FORMATS[through or case.result]
    codes = logistic_by_steps(fmt, FORMATS[case.operands[0]].decode(operands[0]))
    return encode(FORMATS[case.result], Exact.of(fmt.decode(codes)))[0]


def integral_by_addition(case: OpCase, operands: Operands) -> Codes | None:
    """Rounding to an integer by adding 2 to the number of mantissa bits and subtracting it again."""
    if case.op not in ("floor", "ceil", "round_nearest_even", "round_nearest_afz"):
        return None
    fmt = FORMATS[case.result]
    x = fmt.decode(operands[0])
    far = fmt.decode(encode(fmt, Exact.of(np.copysign(2.0**fmt.mantissa_bits, x)))[0])
    total = fmt.decode(evaluate("add", fmt, x, far)[0])
    size = np.abs(fmt.decode(evaluate("subtract", fmt, total, far)[0]))
    unchanged = (x == 0) | ~np.isfinite(x)
    return encode(fmt, Exact.of(np.where(unchanged, x, np.copysign(size, x))))[0]


def saturate(signs: tuple[int, ...], case: OpCase, operands: Operands) -> Codes | None:
    """Saturation of results beyond the largest number, for the given signs."""
    codes, numbers = compute_case(case, operands), in_f64(case, operands)
    if codes is None or numbers is None or case.result not in FORMATS:
        return None
    fmt = FORMATS[case.result]
    largest = np.where(np.signbit(numbers), np.uint64(fmt.max_code | fmt.sign_bit), np.uint64(fmt.max_code))
    beyond = (np.abs(numbers) > fmt.max) & np.isin(np.sign(numbers), signs)
    return np.where(beyond, largest.astype(codes.dtype), codes)


def unsigned_zeros(case: OpCase, operands: Operands) -> Codes | None:
    """Zero results as +0."""
    codes = compute_case(case, operands)
    if codes is None or case.result not in FORMATS or not FORMATS[case.result].has_zero:
        return None
    fmt = FORMATS[case.result]
    return np.where(fmt.decode(codes) == 0, np.array(0, codes.dtype), codes)
