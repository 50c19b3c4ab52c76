"""Mistaken formats: operands and results that are read and written as another format."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...oracle.case import OpCase, Operands
from ...oracle.exact import COMPARISONS, FUNCTIONS, OPS, evaluate
from ...oracle.expected import as_exact
from ...oracle.formats import FORMATS, INTEGERS, MINIFLOATS, Format, code_dtype
from ...oracle.rounding import Exact, encode
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
