"""Runs a program as a whole on a backend, with the result of every op as an additional result of the program.

This shows faults of ops that are compiled together, such as a value kept in a wider type between two ops. Loops,
branches and composites are examined as wholes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.op import call_attribute
from ...ops.types import TensorType, type_of_dtype
from ..backends import BackendError
from ..comparison.equality import equal_values
from ..conform.result import ACCURACY, CRASH, FAIL, PASS, UNSUPPORTED, worst
from ..errors import Error
from ..program import Operation, Value
from ..testing.failures import format_element
from ..values import transport
from .examiner import NOTE as _NOTE
from .examiner import Examiner, receive
from .judge import Kind, kind_of, rounds
from .report import OpReport
from .source import Source, inputs, is_movable, is_movable_type


def run(examiner: Examiner, arguments: Sequence[Any]) -> list[Any]:
    """Examines a program with inlined calls; returns the backend's results. Raises BackendError, ProgramError."""
    source = examiner.source
    body = source.function.body
    assert body is not None
    values: dict[Value, Any] = dict(zip(body.arguments, arguments, strict=True))
    asked = [o for o in body.operations if _is_asked(o)]
    wanted = [v for o in asked for v in o.results]
    arrays = [a for x in arguments for a in transport.pack(x, type_of_dtype(x.dtype))]
    outputs = examiner.backend.evaluate(source.instrument(wanted), arrays)
    values.update(zip(wanted, receive(outputs, [v.type for v in wanted], examiner.backend.name), strict=True))
    examiner.values, examiner.makers = values, {v: o for o in asked for v in o.results}
    for operation in body.operations:
        if operation.name.startswith("check."):
            continue
        given = [values[v] for v in inputs(operation)]
        try:
            ours = examiner.here(operation, given)
        except Error as error:
            if not _is_asked(operation):
                raise
            report = examiner.report(operation)
            report.verdict = UNSUPPORTED
            report.notes.append(f"minihlo gives no result: {error}")
            continue
        if _is_asked(operation):
            examiner.compare(operation, given, [values[v] for v in operation.results], ours)
        else:
            values.update(zip(operation.results, ours, strict=True))
    return [values[v] for v in body.returns]


def examine_outputs(examiner: Examiner, arguments: Sequence[Any], stepwise: Sequence[Any]) -> OpReport | None:
    """Compares the outputs of the program as it stands, without changes; None where a backend cannot give them.

    An output is wrong where it differs from ours and from the backend's own, op by op, although no op on the way to it
    rounds. Where ops round, a compiler may contract them; then a difference is a matter of accuracy.

    Args:
        examiner: The examiner of the ops, which have been examined.
        arguments: The arguments of the program.
        stepwise: The backend's results, op by op.
    """
    source, function = examiner.source, examiner.source.function
    assert function.body is not None
    returns = function.body.returns
    types = [v.type for v in returns]
    if (
        len(examiner.reports) < 2
        or not returns
        or not all(isinstance(t, TensorType) and is_movable_type(t) for t in (*types, *function.argument_types))
    ):
        return None
    report = OpReport("program", function.location, ", ".join(map(str, types)))
    arrays = [a for x in arguments for a in transport.pack(x, type_of_dtype(x.dtype))]
    try:
        theirs = receive(examiner.backend.evaluate(source.instrument(returns), arrays), types, examiner.backend.name)
        ours = examiner.all_here(arguments)
    except BackendError as error:
        if error.how == "absent":
            raise
        report.verdict = UNSUPPORTED if error.how == "refused" else CRASH
        report.notes.append(textwrap.shorten(str(error), _NOTE, placeholder=" …"))
        return report
    except Error:  # the report of an op has it
        return None
    is_open = any(r.verdict not in (PASS, FAIL) for r in examiner.reports.values())
    for i, (value, got, own, right) in enumerate(zip(returns, theirs, stepwise, ours, strict=True)):
        report.elements += got.size
        if got.shape != right.shape or got.dtype != right.dtype:
            report.verdict = FAIL
            report.notes.append(
                f"output {i}: expected {right.dtype}{list(right.shape)}, got {got.dtype}{list(got.shape)}"
            )
            continue
        differs = ~equal_values(got, right) & ~equal_values(got, np.asarray(own))
        if not differs.any():
            continue
        verdict = ACCURACY if is_open or _rounds_before(source, value) else FAIL
        report.verdict = worst([report.verdict, verdict])
        report.verdicts[verdict] += int(differs.sum())
        at = tuple(int(k) for k in np.argwhere(differs)[0])
        element = type_of_dtype(got.dtype)
        texts = " and not ".join(format_element(x[at], element) for x in (got, right))
        count = f"{int(differs.sum())} of {got.size} elements"
        report.notes.append(f"output {i} differs in {count}, at {list(at)}: {texts}")
    if report.verdict == ACCURACY:
        report.notes.append("not judged: operations that round may be contracted, or have results that are left open")
    elif report.verdict == FAIL:
        report.notes.append("no operation on the way to it rounds, and each by itself gives another result")
    return report


def _rounds_before(source: Source, value: Value) -> bool:
    """Whether an op that a value depends on rounds, or is a call, whose ops are not looked at."""
    assert source.function.body is not None
    makers = {r: o for o in source.function.body.operations for r in o.results}
    pending, seen = [value], set()
    while pending:
        maker = makers.get(pending.pop())
        if maker is None or maker in seen:
            continue
        seen.add(maker)
        if call_attribute(maker.name) is not None or kind_of(maker) is not Kind.EXACT or rounds(maker):
            return True
        pending += inputs(maker)
    return False


def _is_asked(operation: Operation) -> bool:
    return is_movable(operation) and operation.name != "stablehlo.constant"
