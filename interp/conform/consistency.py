"""Checks that the fields of a case fit together: a report may come from anyone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...ops.accumulators.record import DROPS, PLACES
from ..judging.record import VERDICTS
from ..oracle.exact import OPS, arity
from ..oracle.formats import FORMATS, bits
from .format_text import code_text

if TYPE_CHECKING:
    from .result import AccumulatorFacts, CaseResult, ErrorCurve, Failure

#: Maximum number of fraction bits of an accumulator that is drawn, more than products of f64 have.
_MOST_BITS = 4096
#: Ops whose failures may be of other types than the case's: of the checks of a program, and of scales.
_OF_OTHER_TYPES = ("test", "quantize")


def check(case: CaseResult) -> None:
    """Raises ValueError, KeyError, OverflowError or zlib.error if a case is inconsistent."""
    if case.verdict not in VERDICTS:
        raise ValueError(f"verdict: expected one of {', '.join(VERDICTS)}, got {case.verdict!r}")
    if not case.signature.isascii():
        raise ValueError(f"signature: expected ASCII, got {case.signature[:40]!r}")
    for part, kept in case.kept.items():
        if not re.fullmatch("[0-9]{1,6}", part) or kept.size < 0:
            raise ValueError(f"kept: expected the number of a part and its size, got {part[:40]!r}")
    if not case.operands:
        raise ValueError("operands: expected some, got none")
    for element in (*case.operands, case.result):
        if element not in FORMATS and not _is_integer(element):
            raise ValueError(f"expected element types, got {element[:40]!r}")
    if case.op in OPS and len(case.operands) != arity(case.op):
        raise ValueError(f"expected {arity(case.op)} operands of {case.op}, got {len(case.operands)}")
    for failure in case.failures:
        _check_failure(case, failure)
    if any(n <= 0 for n in case.histogram.values()):
        raise ValueError("histogram: expected numbers of results above 0")
    if case.map is not None:
        fmt = FORMATS.get(case.operands[0]) if case.operands else None
        if fmt is None or case.map.n != 1 << fmt.bits or len(case.operands) != 2:
            raise ValueError("map: expected two operands, and all codes of the first")
        case.map.array()
    if case.curve is not None:
        _check_curve(case, case.curve)
    if case.accumulator is not None:
        _check_accumulator(case, case.accumulator)


def _is_integer(element: str) -> bool:
    try:
        return bits(element) > 0
    except (KeyError, ValueError):
        return False


def _check_failure(case: CaseResult, failure: Failure) -> None:
    if not len(case.operands) == len(failure.operands) == len(failure.values):
        raise ValueError("failures: expected codes and values for each operand")
    for codes, values in zip(failure.operands, failure.values, strict=True):
        if len(codes) != len(values):
            raise ValueError("failures: expected a value for each code")
    pairs = zip(failure.operands, case.operands, strict=False)
    for code, element in [*((c, t) for codes, t in pairs for c in codes), (failure.expected, case.result)]:
        if not 0 <= code < 1 << (64 if case.op in _OF_OTHER_TYPES else max(bits(element), 8)):
            raise ValueError(f"failures: expected a code of {element}, got {code_text(code, element)[:40]}")
    if failure.got is not None and not 0 <= failure.got < 1 << 64:
        raise ValueError("failures: expected the code of a result")


def _check_curve(case: CaseResult, curve: ErrorCurve) -> None:
    if not len(curve.codes) == len(curve.values) == len(curve.errors):
        raise ValueError("curve: expected as many values and errors as codes")
    if any(not -128 <= e <= 127 for e in curve.errors):
        raise ValueError("curve: expected errors from -128 to 127")
    for value in curve.values:
        float(value)
    if curve.over == "values" and len(case.operands) != 1:
        raise ValueError("curve: expected one operand")


def _check_accumulator(case: CaseResult, a: AccumulatorFacts) -> None:
    if len(case.operands) < 2 or any(t not in FORMATS for t in case.operands[:2]):
        raise ValueError("accumulator: expected two operands of floating-point types")
    if a.drop not in DROPS or a.c not in PLACES:
        raise ValueError(f"accumulator: expected a known drop and c, got {a.drop[:40]!r} and {a.c[:40]!r}")
    if not (a.bits is None or 0 <= a.bits <= _MOST_BITS) or a.step < 0 or a.outer < 0:
        raise ValueError(f"accumulator: expected bits up to {_MOST_BITS}, and none that are negative")
