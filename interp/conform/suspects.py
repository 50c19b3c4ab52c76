"""Faults that backends are known to have, each as a way to compute the wrong results that it gives.

A suspect takes a case and its operands and gives the codes that the fault would, or None where it cannot be it. The
sentence says what the backend does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from .cases import Case
from .data import Operands
from .exact import COMPARISONS, FUNCTIONS, OPS, compare, estimate, evaluate
from .expected import as_exact, converted
from .formats import FORMATS, INTEGERS, Format, code_dtype
from .rounding import AWAY, DOWN, EVEN, TOWARD_ZERO, UP, Exact, encode

Codes = np.ndarray
Compute = Callable[[Case, Operands], "Codes | None"]


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A fault: a sentence on what the backend does, and what comes of it."""

    sentence: str
    compute: Compute


# -- a way to compute: how operands are read, what is done, how the result is written ----------------------------------

Read = Callable[[Format, Codes], np.ndarray]
Write = Callable[[Format, np.ndarray], Codes]


def _read(fmt: Format, codes: Codes) -> np.ndarray:
    return fmt.decode(codes)


def _computed(
    case: Case, operands: Operands, read: Read = _read, rounding: str = EVEN, through: str = ""
) -> Codes | None:
    """The op on operands as they are read, rounded in some way, by way of another format."""
    if case.op not in (*OPS, "convert", "compare", "is_finite"):
        return None
    if any(t not in FORMATS for t in case.operands):
        return _converted(case, operands, rounding, through)
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


def _converted(case: Case, operands: Operands, rounding: str, through: str) -> Codes | None:
    if case.op != "convert" or case.result not in FORMATS:
        return None
    if not through:
        return converted(operands[0], case.operands[0], case.result, rounding).codes
    wide = FORMATS[through]
    codes = encode(wide, as_exact(operands[0], case.operands[0]))[0]
    return encode(FORMATS[case.result], Exact.of(wide.decode(codes)), rounding)[0]


# -- the faults --------------------------------------------------------------------------------------------------------


def _flush_read(fmt: Format, codes: Codes) -> np.ndarray:
    numbers = fmt.decode(codes)
    return np.where(fmt.is_subnormal(codes), np.copysign(0.0, numbers), numbers)


def _flush_read_unsigned(fmt: Format, codes: Codes) -> np.ndarray:
    return np.where(fmt.is_subnormal(codes), 0.0, fmt.decode(codes))


def _flushed(fmt: Format, codes: Codes) -> Codes:
    """Results that are subnormal as zero, with the sign they have."""
    zero = encode(fmt, Exact.of(np.copysign(0.0, fmt.decode(codes))))[0]
    return np.where(fmt.is_subnormal(codes), zero, codes)


def _flush(read: Read, results: bool, through: str = "") -> Compute:
    def compute(case: Case, operands: Operands) -> Codes | None:
        found = _computed(case, operands, read, through=through)
        if found is None or not results:
            return found
        return _flushed(FORMATS[case.result], found) if case.result in FORMATS else None

    return compute


def _flush_in_f32(case: Case, operands: Operands) -> Codes | None:
    """Operands and results that are subnormal in f32, in which the op is computed."""

    def read(fmt: Format, codes: Codes) -> np.ndarray:
        numbers = fmt.decode(codes)
        return np.where(np.abs(numbers) < 2.0**-126, np.copysign(0.0, numbers), numbers)

    found = _computed(case, operands, read)
    numbers = _in_f64(case, operands, read)
    if found is None or numbers is None or case.result not in FORMATS:
        return found
    zeros = encode(FORMATS[case.result], Exact.of(np.copysign(0.0, numbers)))[0]
    return np.where(np.abs(numbers) < 2.0**-126, zeros, found)


def _smallest_up(case: Case, operands: Operands) -> Codes | None:
    """What lies between the two smallest numbers is rounded up."""
    numbers, found = _in_f64(case, operands), _computed(case, operands)
    if case.result not in FORMATS or numbers is None or found is None:
        return None
    first, second = FORMATS[case.result].decode(np.array([0, 1]))
    return np.where((numbers > first) & (numbers < second), np.array(1, found.dtype), found)


def _nan_as(number: float) -> Read:
    def read(fmt: Format, codes: Codes) -> np.ndarray:
        return np.where(fmt.is_nan(codes), number, fmt.decode(codes))

    return read


def _biased(by: int, operands_too: bool, results_too: bool) -> Compute:
    """With the bias of a format off by so much: of what is read, of what is written, or of both."""

    def compute(case: Case, operands: Operands) -> Codes | None:
        factor = 2.0**-by

        def read(fmt: Format, codes: Codes) -> np.ndarray:
            return fmt.decode(codes) * (factor if fmt.is_minifloat and operands_too else 1.0)

        if case.result not in FORMATS or not FORMATS[case.result].is_minifloat or not results_too:
            return _computed(case, operands, read)
        fmt = FORMATS[case.result]
        shifted = dataclasses.replace(fmt, bias=fmt.bias + by)
        if case.op not in (*OPS, "convert"):
            return None
        if case.operands[0] not in FORMATS:
            return encode(shifted, as_exact(operands[0], case.operands[0]))[0]
        numbers = [read(FORMATS[t], x) for t, x in zip(case.operands, operands, strict=True)]
        return evaluate(case.op, shifted, *numbers)[0]

    return compute


def _reciprocal(through: str, of_product: bool) -> Compute:
    """x times the reciprocal of y, which is rounded, and so is the product."""

    def compute(case: Case, operands: Operands) -> Codes | None:
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

    return compute


def _as_float(case: Case, operands: Operands) -> Codes | None:
    if case.op != "compare" or case.attributes[1][1] != "TOTALORDER":
        return None
    return compare(case.attributes[0][1], "FLOAT", case.operands[0], *operands)


def _operand(which: int) -> Compute:
    def compute(case: Case, operands: Operands) -> Codes | None:
        fits = len(operands) > which and case.operands[which] == case.result
        return operands[which] if fits else None

    return compute


def _swapped(case: Case, operands: Operands) -> Codes | None:
    fits = len(operands) == 2 and case.op in ("subtract", "divide", "remainder", "power", "atan2", "compare")
    return _computed(case, operands[::-1]) if fits else None


def _without_sign(case: Case, operands: Operands) -> Codes | None:
    if case.result not in FORMATS or FORMATS[case.result].is_signed:
        return None
    numbers = _in_f64(case, operands)
    return None if numbers is None else encode(FORMATS[case.result], Exact.of(np.abs(numbers)))[0]


def _sign_in_exponent(case: Case, operands: Operands) -> Codes | None:
    found = _without_sign(case, operands)
    numbers = _in_f64(case, operands)
    if found is None or numbers is None:
        return None
    return np.where(np.signbit(numbers), found | 0x80, found).astype(found.dtype)


def _in_f64(case: Case, operands: Operands, read: Read = _read) -> np.ndarray | None:
    if any(t not in FORMATS for t in case.operands):
        return as_exact(operands[0], case.operands[0]).value if case.op == "convert" else None
    if case.op not in OPS and case.op != "convert":
        return None
    return estimate(case.op, *(read(FORMATS[t], x) for t, x in zip(case.operands, operands, strict=True)))


def _wrapped(bits: int) -> Compute:
    """Conversions to integers by way of one of so many bits."""

    def compute(case: Case, operands: Operands) -> Codes | None:
        if case.op != "convert" or case.result not in INTEGERS or case.operands[0] not in FORMATS:
            return None
        whole = np.trunc(FORMATS[case.operands[0]].decode(operands[0]))
        limit = 2.0 ** (bits - 1)
        fits = np.abs(np.nan_to_num(whole, nan=np.inf)) < limit
        number = np.where(fits, whole, -limit).astype(np.int64)
        mask = (1 << INTEGERS[case.result][0]) - 1
        return (number & mask if mask < 1 << 63 else number).astype(np.uint64).astype(code_dtype(case.result))

    return compute


def _limits_in_format(case: Case, operands: Operands) -> Codes | None:
    """An integer type's limits, rounded to the format and compared there with the number."""
    if case.op != "convert" or case.result not in INTEGERS or case.operands[0] not in FORMATS:
        return None
    fmt, (width, is_signed) = FORMATS[case.operands[0]], INTEGERS[case.result]
    low, high = (-1 << (width - 1), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    lowest, highest = fmt.decode(encode(fmt, Exact.of(np.array([float(low), float(high)])))[0])
    x = fmt.decode(operands[0])
    found = converted(operands[0], case.operands[0], case.result).codes
    mask = (1 << width) - 1
    found = np.where(x >= highest, np.array(high, found.dtype), found)
    return np.where((x <= lowest) & (x < 0), np.array(low & mask, found.dtype), found)


def _logistic(through: str) -> Compute:
    """1 / (1 + exp(-x)), each step rounded."""

    def compute(case: Case, operands: Operands) -> Codes | None:
        if case.op != "logistic":
            return None
        fmt = FORMATS[through or case.result]
        power = evaluate("exponential", fmt, -FORMATS[case.operands[0]].decode(operands[0]))[0]
        below = evaluate("add", fmt, np.ones(len(power)), fmt.decode(power))[0]
        found = evaluate("divide", fmt, np.ones(len(power)), fmt.decode(below))[0]
        return encode(FORMATS[case.result], Exact.of(fmt.decode(found)))[0]

    return compute


def _integral_by_addition(case: Case, operands: Operands) -> Codes | None:
    """Roundings to integers that add 2 to the number of mantissa bits and take it away again."""
    if case.op not in ("floor", "ceil", "round_nearest_even", "round_nearest_afz"):
        return None
    fmt = FORMATS[case.result]
    x = fmt.decode(operands[0])
    far = fmt.decode(encode(fmt, Exact.of(np.copysign(2.0**fmt.mantissa_bits, x)))[0])
    total = fmt.decode(evaluate("add", fmt, x, far)[0])
    size = np.abs(fmt.decode(evaluate("subtract", fmt, total, far)[0]))
    unchanged = (x == 0) | ~np.isfinite(x)
    return encode(fmt, Exact.of(np.where(unchanged, x, np.copysign(size, x))))[0]


def _saturated(case: Case, operands: Operands) -> Codes | None:
    found = _computed(case, operands)
    if found is None or case.result not in FORMATS:
        return None
    fmt, numbers = FORMATS[case.result], _in_f64(case, operands)
    if numbers is None:
        return None
    largest = (fmt.max_code | np.where(np.signbit(numbers), fmt.sign_bit, 0)).astype(found.dtype)
    return np.where(np.abs(numbers) > fmt.max, largest, found)


def suspects(case: Case) -> Iterator[Suspect]:
    """The faults that a case may show, the likeliest first."""
    fnuz = any(FORMATS[t].nan == "sign" for t in case.operands if t in FORMATS)
    yield Suspect("operands that are subnormal are flushed to zero", _flush(_flush_read, False))
    yield Suspect("results that are subnormal are flushed to zero", _flush(_read, True))
    yield Suspect("subnormal operands and results are flushed to zero", _flush(_flush_read, True))
    yield Suspect("subnormal operands and results are flushed to +0", _flush(_flush_read_unsigned, True))
    yield Suspect("what is subnormal in f32 is flushed to zero", _flush_in_f32)
    yield Suspect("numbers between the two smallest are rounded up", _smallest_up)
    for by, what in ((-1, "smaller"), (1, "larger")):
        for reads, writes, where in (
            (True, True, ""),
            (True, False, " where it is read"),
            (False, True, " where it is written"),
        ):
            sentence = f"the format's exponent bias is taken for one {what} than it is{where}: a factor of two"
            yield Suspect(sentence, _biased(by, reads, writes))
    if fnuz:
        yield Suspect("0x80, which is NaN, is read as -0", lambda c, x: _computed(c, x, _nan_as(-0.0)))
    yield Suspect("NaN is read as infinity", lambda c, x: _computed(c, x, _nan_as(np.inf)))
    yield Suspect("NaN is read as zero", lambda c, x: _computed(c, x, _nan_as(0.0)))
    for wide in ("f32", "f16", "bf16", "f64"):
        if (wide not in case.operands or case.op != "convert") and (wide != "f64" or case.op not in FUNCTIONS):
            sentence = f"the result is rounded twice, to {wide} first"
            yield Suspect(sentence, lambda c, x, wide=wide: _computed(c, x, through=wide))
    for wide in ("", "f16", "bf16", "f32"):
        named = wide or case.result
        sentence = f"multiplied by the reciprocal, rounded to {named}, and not divided"
        yield Suspect(sentence, _reciprocal(wide, False))
        yield Suspect(sentence, _reciprocal(wide, True))
    for rounding, words in (
        (TOWARD_ZERO, "toward zero"),
        (AWAY, "with ties away from zero"),
        (UP, "up"),
        (DOWN, "down"),
    ):
        sentence = f"results are rounded {words}, and not to nearest even"
        yield Suspect(sentence, lambda c, x, rounding=rounding: _computed(c, x, rounding=rounding))
    yield Suspect("what is beyond the largest number becomes the largest number", _saturated)
    yield Suspect("TOTALORDER is ignored: compared as FLOAT, by which NaN is unordered and -0 equals +0", _as_float)
    yield Suspect("the sign of the result is put into the exponent's first bit", _sign_in_exponent)
    yield Suspect("the sign is dropped, and the format has none", _without_sign)
    yield Suspect(
        "the limits of the integer type are rounded to the format before the number is held to them", _limits_in_format
    )
    yield Suspect("converted by way of a 32-bit integer", _wrapped(32))
    yield Suspect("1 / (1 + exp(-x)) with each step rounded to the format", _logistic(""))
    yield Suspect("1 / (1 + exp(-x)) with each step rounded to f16", _logistic("f16"))
    added = "rounded by adding 2^(mantissa bits) and taking it away, which the format cannot hold"
    yield Suspect(added, _integral_by_addition)
    yield Suspect("the first operand is the result", _operand(0))
    yield Suspect("the second operand is the result", _operand(1))
    yield Suspect("the operands are swapped", _swapped)
