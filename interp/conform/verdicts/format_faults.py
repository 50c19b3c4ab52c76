"""Formats that are taken for others: as `faults`, for the ops whose operands and results are read and written so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cases.cases import Case
from ..cases.data import Operands
from ..cases.exact import COMPARISONS, FUNCTIONS, OPS, evaluate
from ..cases.expected import as_exact
from ..cases.formats import FORMATS, INTEGERS, Format, code_dtype
from ..cases.rounding import Exact, encode
from .faults import Codes, Compute

#: What a format of exponents alone becomes in code that knows only such as have a sign.
_SIGNED = Format("a format with a sign, 7 bits of exponent with bias 128, and 0x80 for NaN", 7, 0, 128, "sign")


def mistaken(case: Case) -> Iterator[tuple[str, Compute]]:
    """For each minifloat of a case the others of its width that it may be taken for, in words, and what comes of it."""
    if case.op in (*FUNCTIONS, "type"):  # whose results take long, and tell no more than those of the others
        return
    for name in dict.fromkeys((*case.operands, case.result)):
        if name not in FORMATS or not FORMATS[name].is_minifloat:
            continue
        fmt = FORMATS[name]
        others = [f for f in FORMATS.values() if f.bits == fmt.bits and f.name != name and f.is_signed]
        for other in others if fmt.is_signed else [_SIGNED]:
            yield f"{name} is taken for {other.name}", _taken(name, other)


def _taken(name: str, other: Format) -> Compute:
    def compute(case: Case, operands: Operands) -> Codes | None:
        def meant(element: str) -> Format | None:
            return other if element == name else FORMATS.get(element)

        formats = [meant(t) for t in case.operands]
        if case.op == "convert" and formats[0] is None:
            target = meant(case.result)
            return None if target is None else encode(target, as_exact(operands[0], case.operands[0]))[0]
        numbers = [f.decode(x) for f, x in zip(formats, operands, strict=True) if f is not None]
        if len(numbers) < len(operands):
            return None
        return _computed(case, numbers, meant(case.result))

    return compute


def _computed(case: Case, numbers: list[np.ndarray], target: Format | None) -> Codes | None:
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
