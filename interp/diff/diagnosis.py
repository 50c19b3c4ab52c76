"""Finds the known fault that explains the results of an op, in one sentence.

A fault is named only if it reproduces the results of the backend, right and wrong ones. No diagnosis is better than a
wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...ops.cast import cast
from ...ops.op import lookup
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, type_of_dtype
from ..backends.codes import codes
from ..judging.diagnosis import Results, by_faults, of_array
from ..judging.equality import GradedResult, equal_values
from ..judging.faults import faults_of
from ..judging.record import SAME, WRONG, Diagnosis
from ..judging.sums.exact_sums import spread
from ..judging.table import cause
from ..judging.wide import in_f64
from ..oracle.case import OpCase
from ..oracle.formats import FORMATS
from ..program import Operation, Value
from .operations import case_of

_F64 = ELEMENT_TYPES["f64"]
_PLAIN = Policy()
#: Number of wrong elements examined, and of right ones.
_SAMPLE = 2048


def diagnose(
    operation: Operation, operands: Sequence[np.ndarray], theirs: np.ndarray, ours: np.ndarray, graded: GradedResult
) -> list[Diagnosis]:
    """The first of the fault models (`judging.faults`) that reproduces all results of an elementwise op, or none.

    A fault need not reproduce inexact results that are near enough, or left open.
    """
    case = _case(operation)
    wrong = graded.grades == WRONG
    if case is None or not wrong.any() or any(x.shape not in ((), theirs.shape) for x in operands):
        return []
    at = [spread(np.flatnonzero(where), _SAMPLE) for where in (wrong, graded.grades == SAME)]
    flat = np.concatenate(at)
    given = tuple(
        codes(np.broadcast_to(x, theirs.shape).reshape(-1)[flat], name)
        for x, name in zip(operands, case.operands, strict=True)
    )
    got = codes(theirs.reshape(-1)[flat], case.result)
    failing, others = np.arange(len(at[0])), np.arange(len(at[0]), len(flat))
    results = Results(case, given, got, codes(ours.reshape(-1)[flat], case.result), np.zeros(len(flat), np.uint8))
    why = by_faults(faults_of(case), results, failing, others, whole=True)
    found = why or of_array(wrong)
    return [found] if found else []


def _case(operation: Operation) -> OpCase | None:
    """The op as a case for which there are fault models; None if there are none."""
    case = case_of(operation)
    if case is None or case.op == "dot_general":
        return None
    # f64 does not contain all results of f64.
    is_wide = any(n in FORMATS and FORMATS[n].bits > 32 for n in (*case.operands, case.result))
    is_of_floats = all(n in FORMATS for n in case.operands)
    return case if case.op == "convert" or (is_of_floats and not is_wide) else None


def explain_unrounded(
    operation: Operation,
    operands: Sequence[np.ndarray],
    theirs: np.ndarray,
    makers: Mapping[Value, Operation],
    values: Mapping[Value, np.ndarray],
) -> list[Diagnosis]:
    """Whether an operand was used before it was rounded: in a program whose ops are compiled together."""
    element = type_of_dtype(theirs.dtype)
    if not element.is_float:
        return []
    for i, value in enumerate(operation.operands):
        maker = makers.get(value)
        record = lookup(maker.name) if maker is not None else None
        if maker is None or record is None or not record.is_elementwise:
            continue
        exact = in_f64(maker, [values[v] for v in maker.operands])
        for through in ("f64", "f32", "f16"):
            if exact is None or exact[0].dtype != np.float64:
                break
            held = cast(cast(exact[0], _F64, ELEMENT_TYPES[through], _PLAIN), ELEMENT_TYPES[through], _F64, _PLAIN)
            wide = in_f64(operation, [held if j == i else x for j, x in enumerate(operands)])
            if wide is None or wide[0].shape != theirs.shape:
                continue
            if equal_values(theirs, cast(wide[0], _F64, element, _PLAIN)).all():
                return [cause("operand-not-rounded", name=maker.name, where=maker.location)]
    return []
