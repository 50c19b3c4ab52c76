"""The table of fault models: faults known from backends, the likeliest first.

Each is a record: an identifier, a sentence, and a function that computes the same wrong results. Tables of causes and
reports refer to a fault by its identifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..oracle.case import OpCase, Operands
from ..oracle.exact import COMPARISONS, FUNCTIONS, OPS, evaluate
from ..oracle.expected import as_exact, convert
from ..oracle.formats import FORMATS, INTEGERS, MINIFLOATS, Format, code_dtype
from ..oracle.rounding import AWAY, DOWN, TIES_TO_ODD, TIES_TOWARD_ZERO, TOWARD_ZERO, UP, Exact, encode
from . import fault_models as models
from .record import MANY, Codes, Compute, Fault

#: How code that knows only signed formats reads the format that has exponents alone.
_SIGNED = Format("a format with a sign, 7 bits of exponent with bias 128, and 0x80 for NaN", 7, 0, 128, "sign")


def mistaken_formats(case: OpCase) -> Iterator[Fault]:
    """The faults of reading each minifloat of a case as another format of its width."""
    if case.op in (*FUNCTIONS, "type"):  # functions take long, and the other ops show as much
        return
    for name in dict.fromkeys((*case.operands, case.result)):
        if name in MINIFLOATS:
            yield from (MISTAKEN[name, other.name] for other in _others(name))


def _others(name: str) -> list[Format]:
    fmt = FORMATS[name]
    if not fmt.is_signed:
        return [_SIGNED]
    return [f for f in FORMATS.values() if f.bits == fmt.bits and f.name != name and f.is_signed]


def _read_as(name: str, other: Format, case: OpCase, operands: Operands) -> Codes | None:
    def meant(element: str) -> Format | None:
        return other if element == name else FORMATS.get(element)

    formats = [meant(t) for t in case.operands]
    if case.op == "convert" and formats[0] is None:
        target = meant(case.result)
        return None if target is None else encode(target, as_exact(operands[0], case.operands[0]))[0]
    numbers = [f.decode(x) for f, x in zip(formats, operands, strict=True) if f is not None]
    return _compute_as(case, numbers, meant(case.result)) if len(numbers) == len(operands) else None


def _compute_as(case: OpCase, numbers: list[np.ndarray], target: Format | None) -> Codes | None:
    if case.op == "compare":
        direction, kind = (v for _, v in case.attributes)
        return COMPARISONS[direction](*numbers) if kind == "FLOAT" else None
    if case.op == "is_finite":
        return np.isfinite(numbers[0])
    if case.op == "convert" and case.result in INTEGERS:
        whole = np.where(np.abs(numbers[0]) < 2.0**62, np.trunc(numbers[0]), 0.0).astype(np.int64)
        mask = np.uint64((1 << INTEGERS[case.result][0]) - 1)
        return (whole.view(np.uint64) & mask).astype(code_dtype(case.result))
    if target is None:
        return None
    if case.op == "convert":
        return encode(target, Exact.of(numbers[0]))[0]
    return evaluate(case.op, target, *numbers)[0] if case.op in OPS else None


def _fault(name: str, other: Format) -> Fault:
    named = other.name if other.name in FORMATS else "signed"
    return Fault(f"{name}-as-{named}", f"{name} is taken for {other.name}", partial(_read_as, name, other), MANY)


#: By the name of the format and of the one it is read as.
MISTAKEN: dict[tuple[str, str], Fault] = {(n, other.name): _fault(n, other) for n in MINIFLOATS for other in _others(n)}


def _applies(case: OpCase) -> bool:
    return case.op == "convert" and case.result in INTEGERS and case.operands[0] in FORMATS


def _limits(element: str) -> tuple[int, int]:
    width, is_signed = INTEGERS[element]
    return (-1 << (width - 1), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)


def round_with(to_integer: Callable[[np.ndarray], np.ndarray], case: OpCase, operands: Operands) -> Codes | None:
    """Conversions that round instead of truncating; results beyond the type lose their upper bits."""
    if not _applies(case):
        return None
    numbers = FORMATS[case.operands[0]].decode(operands[0])
    low, high = _limits(case.result)
    fits = (numbers > low - 1) & (numbers < high + 1.0)
    mask = np.uint64((1 << INTEGERS[case.result][0]) - 1)
    codes = np.where(fits, to_integer(numbers), 0.0).astype(np.int64).view(np.uint64) & mask
    converted_ = convert(operands[0], case.operands[0], case.result).codes
    return np.where(fits, codes.astype(converted_.dtype), converted_)


def wrap_through(bits: int, case: OpCase, operands: Operands) -> Codes | None:
    """Conversions that pass through an integer type of the given number of bits."""
    if not _applies(case):
        return None
    whole = np.trunc(FORMATS[case.operands[0]].decode(operands[0]))
    limit = 2.0 ** (bits - 1)
    fits = np.abs(np.nan_to_num(whole, nan=np.inf)) < limit
    number = np.where(fits, whole, -limit).astype(np.int64)
    mask = (1 << INTEGERS[case.result][0]) - 1
    return (number & mask if mask < 1 << 63 else number).astype(np.uint64).astype(code_dtype(case.result))


def limits_in_format(case: OpCase, operands: Operands) -> Codes | None:
    """Comparison of the number with the integer type's limits rounded to the format."""
    if not _applies(case):
        return None
    fmt, width = FORMATS[case.operands[0]], INTEGERS[case.result][0]
    low, high = _limits(case.result)
    lowest, highest = fmt.decode(encode(fmt, Exact.of(np.array([float(low), float(high)])))[0])
    x = fmt.decode(operands[0])
    codes = convert(operands[0], case.operands[0], case.result).codes
    mask = (1 << width) - 1
    codes = np.where(x >= highest, np.array(high, codes.dtype), codes)
    return np.where((x <= lowest) & (x < 0), np.array(low & mask, codes.dtype), codes)


#: Other roundings than to nearest even, by the identifier of the fault, with its sentence.
ROUNDINGS = {
    f"rounded-{w.removeprefix('with ').replace(' ', '-')}":
        (rounding, f"results are rounded {w}, and not to nearest even")
    for rounding, w in (
        (TOWARD_ZERO, "toward zero"), (AWAY, "with ties away from zero"), (TIES_TOWARD_ZERO, "with ties toward zero"),
        (TIES_TO_ODD, "with ties to odd"), (UP, "up"), (DOWN, "down"),
    )
}  # fmt: skip
_TO_INTEGERS = (
    ("to-even", np.rint, "to the nearest integer, ties to even"),
    ("ties-away", lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "to the nearest integer, ties away from zero"),
    ("down", np.floor, "down"),
    ("up", np.ceil, "up"),
    ("toward-zero", np.trunc, "toward zero"),
)


def _biases() -> Iterator[Fault]:
    for by, size in ((-1, "smaller"), (1, "larger")):
        for reads, writes, when in ((True, True, ""), (True, False, "read"), (False, True, "written")):
            where = f" where it is {when}" if when else ""
            sentence = f"the format's exponent bias is taken for one {size} than it is{where}: a factor of two"
            name = f"bias-{size}" + (f"-when-{when}" if when else "")
            yield Fault(name, sentence, partial(models.shift_bias, by, reads, writes), MANY)


def _reciprocals() -> Iterator[Fault]:
    for wide in ("", "f16", "bf16", "f32"):
        sentence = f"multiplied by the reciprocal, rounded to {wide or '{result}'}, and not divided"
        named = f"reciprocal-{wide or 'result'}"
        yield Fault(named, sentence, partial(models.reciprocal, wide, False))
        yield Fault(f"{named}-product", sentence, partial(models.reciprocal, wide, True))


def _case_with(**how: Any) -> Compute:
    """The op with another reading or rounding (`fault_models.compute_case`)."""
    return partial(models.compute_case, **how)


#: Faults of any elementwise op. Mistaken formats come between these and the last.
_FIRST: tuple[Fault, ...] = (
    Fault("subnormal-operands-flushed", "operands that are subnormal are flushed to zero",
          partial(models.flush, models.flush_read, False)),
    Fault("subnormal-results-flushed", "results that are subnormal are flushed to zero",
          partial(models.flush, models.decode, True)),
    Fault("subnormals-flushed", "subnormal operands and results are flushed to zero",
          partial(models.flush, models.flush_read, True)),
    Fault("subnormals-flushed-to-plus-zero", "subnormal operands and results are flushed to +0",
          partial(models.flush, lambda fmt, x: np.where(fmt.is_subnormal(x), 0.0, fmt.decode(x)), True)),
    Fault("f32-subnormals-flushed", "numbers that are subnormal in f32 are flushed to zero", models.flush_in_f32),
    Fault("between-smallest-up", "numbers between the two smallest are rounded up", models.smallest_up),
    Fault("smallest-normal-lost", "subnormal results that round up to the smallest normal number become zero",
          models.lose_smallest_normal),
    *_biases(),
    Fault("fnuz-nan-as-minus-zero", "0x80, which is NaN, is read as -0", models.fnuz_nan_as_zero),
    Fault("nan-as-infinity", "NaN is read as infinity", _case_with(read=partial(models.nan_as, np.inf))),
    Fault("negative-nan-as-number", "NaN with its sign set is read as a number, the one beyond the largest",
          _case_with(read=models.beyond_the_largest)),
    Fault("nan-as-zero", "NaN is read as zero", _case_with(read=partial(models.nan_as, 0.0))),
    *(Fault(f"rounded-twice-{wide}", f"the result is rounded twice, to {wide} first",
            partial(models.with_rounding_twice, wide)) for wide in ("f32", "f16", "bf16", "f64")),
    *_reciprocals(),
    *(Fault(name, words, _case_with(rounding=rounding)) for name, (rounding, words) in ROUNDINGS.items()),
    Fault("saturated", "results beyond the largest number become the largest number",
          partial(models.saturate, (-1, 1))),
    Fault("saturated-below", "results below the lowest number become the lowest number",
          partial(models.saturate, (-1,))),
    Fault("saturated-above", "results above the largest number become the largest number",
          partial(models.saturate, (1,))),
    Fault("zeros-lose-sign", "the sign of results that are zero is lost", models.unsigned_zeros),
    Fault("total-order-ignored",
          "TOTALORDER is ignored: compared as FLOAT, by which NaN is unordered and -0 equals +0", models.as_float),
    Fault("sign-in-exponent", "the sign of the result is put into the exponent's first bit", models.sign_in_exponent),
    Fault("sign-dropped", "the sign is dropped, and the format has none", models.without_sign),
    *(Fault(f"sign-dropped-and-{name}", f"the sign is dropped, as the format has none, and the rest {words}",
            partial(models.of_magnitude, compute)) for name, compute, words in (
        ("rounded-toward-zero", _case_with(rounding=TOWARD_ZERO), "is rounded toward zero"),
        ("rounded-twice-f32", _case_with(through="f32"), "is rounded twice, to f32 first"),
        ("between-smallest-up", models.smallest_up, "is rounded up between the two smallest numbers"),
    )),
    Fault("integer-limits-in-format",
          "the limits of the integer type are rounded to the format before the number is compared with them",
          limits_in_format),
    *(Fault(f"integers-{name}", f"rounded {words}, and not {{to_integers}}", partial(round_with, to_integer))
      for name, to_integer, words in _TO_INTEGERS),
    Fault("by-32-bit-integer", "converted through a 32-bit integer", partial(wrap_through, 32)),
    Fault("logistic-in-steps", "1 / (1 + exp(-x)) with each step rounded to the format", partial(models.logistic, "")),
    Fault("logistic-in-steps-f16", "1 / (1 + exp(-x)) with each step rounded to f16", partial(models.logistic, "f16")),
    Fault("integral-by-addition",
          "rounded by adding 2^(mantissa bits) and subtracting it, which the format cannot hold",
          models.integral_by_addition),
)  # fmt: skip
_LAST: tuple[Fault, ...] = (
    Fault("first-operand", "the first operand is the result", partial(models.operand, 0)),
    Fault("second-operand", "the second operand is the result", partial(models.operand, 1)),
    Fault("operands-swapped", "the operands are swapped", models.swap_operands),
)

#: Every fault by its identifier.
FAULTS: dict[str, Fault] = {f.identifier: f for f in (*_FIRST, *MISTAKEN.values(), *_LAST)}


def faults_of(case: OpCase) -> Iterator[Fault]:
    """The faults that may explain a case, the likeliest first."""
    yield from _FIRST
    yield from mistaken_formats(case)
    yield from _LAST
