"""Mistaken formats: operands and results that are read and written as another format."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..oracle.case import OpCase, Operands
from ..oracle.exact import COMPARISONS, FUNCTIONS, OPS, evaluate
from ..oracle.expected import as_exact, convert
from ..oracle.formats import FORMATS, INTEGERS, MINIFLOATS, Format, code_dtype
from ..oracle.rounding import Exact, encode
from .record import MANY, Codes, Compute, Fault

#: How code that knows only signed formats reads the format that has exponents alone.
_SIGNED = Format("a format with a sign, 7 bits of exponent with bias 128, and 0x80 for NaN", 7, 0, 128, "sign")


def mistaken_formats(case: OpCase) -> Iterator[Fault]:
    """The faults of reading each minifloat of a case as another format of its width."""
    if case.op in (*FUNCTIONS, "type"):  # functions take long, and the other ops show as much
        return
    for name in dict.fromkeys((*case.operands, case.result)):
        if name in MINIFLOATS:
            yield from (TABLE[name, other.name] for other in _others(name))


def _others(name: str) -> list[Format]:
    fmt = FORMATS[name]
    if not fmt.is_signed:
        return [_SIGNED]
    return [f for f in FORMATS.values() if f.bits == fmt.bits and f.name != name and f.is_signed]


def _read_as(name: str, other: Format) -> Compute:
    def compute(case: OpCase, operands: Operands) -> Codes | None:
        def meant(element: str) -> Format | None:
            return other if element == name else FORMATS.get(element)

        formats = [meant(t) for t in case.operands]
        if case.op == "convert" and formats[0] is None:
            target = meant(case.result)
            return None if target is None else encode(target, as_exact(operands[0], case.operands[0]))[0]
        numbers = [f.decode(x) for f, x in zip(formats, operands, strict=True) if f is not None]
        if len(numbers) < len(operands):
            return None
        return _compute_as(case, numbers, meant(case.result))

    return compute


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
    return Fault(f"{name}-as-{named}", f"{name} is taken for {other.name}", _read_as(name, other), MANY)


#: By the name of the format and of the one it is read as.
TABLE: dict[tuple[str, str], Fault] = {(n, other.name): _fault(n, other) for n in MINIFLOATS for other in _others(n)}


def _applies(case: OpCase) -> bool:
    return case.op == "convert" and case.result in INTEGERS and case.operands[0] in FORMATS


def _limits(element: str) -> tuple[int, int]:
    width, is_signed = INTEGERS[element]
    return (-1 << (width - 1), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)


def round_with(to_integer: Callable[[np.ndarray], np.ndarray]) -> Compute:
    """Conversions that round instead of truncating; results beyond the type lose their upper bits."""

    def compute(case: OpCase, operands: Operands) -> Codes | None:
        if not _applies(case):
            return None
        numbers = FORMATS[case.operands[0]].decode(operands[0])
        low, high = _limits(case.result)
        fits = (numbers > low - 1) & (numbers < high + 1.0)
        mask = np.uint64((1 << INTEGERS[case.result][0]) - 1)
        codes = np.where(fits, to_integer(numbers), 0.0).astype(np.int64).view(np.uint64) & mask
        converted_ = convert(operands[0], case.operands[0], case.result).codes
        return np.where(fits, codes.astype(converted_.dtype), converted_)

    return compute


def wrap_through(bits: int) -> Compute:
    """Conversions that pass through an integer type of the given number of bits."""

    def compute(case: OpCase, operands: Operands) -> Codes | None:
        if not _applies(case):
            return None
        whole = np.trunc(FORMATS[case.operands[0]].decode(operands[0]))
        limit = 2.0 ** (bits - 1)
        fits = np.abs(np.nan_to_num(whole, nan=np.inf)) < limit
        number = np.where(fits, whole, -limit).astype(np.int64)
        mask = (1 << INTEGERS[case.result][0]) - 1
        return (number & mask if mask < 1 << 63 else number).astype(np.uint64).astype(code_dtype(case.result))

    return compute


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
