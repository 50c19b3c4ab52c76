"""Judges the outputs of a program as it stands: a compiler may be right in each op and wrong in rewriting several."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends import BackendError
from ..enclose.findings import WRONG, compare
from ..errors import Error
from ..judging.equality import equal_values
from ..judging.record import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED, worst
from ..program import Operation, Region, Value, all_operations
from .examiner import NOTE, Examiner, evaluate
from .report import FLUSHED, OpReport
from .source import inputs, is_movable_type
from .walk import gives_nothing_new


def examine_outputs(examiner: Examiner, arguments: Sequence[Any], stepwise: Sequence[Any]) -> OpReport | None:
    """Compares the outputs of the program as it stands, without changes; None where a backend cannot give them.

    An output that differs from ours and from the backend's own, op by op, is wrong outside of its enclosure
    (`interp.enclose`), unless an op has results that are not decided by themselves. Others are a matter of accuracy.

    Args:
        examiner: The examiner of the ops, which have been examined.
        arguments: The arguments of the program.
        stepwise: The backend's results, op by op.
    """
    source, function = examiner.source, examiner.source.function
    assert function.body is not None
    returns = function.body.returns
    types = [v.type for v in returns]
    computed = [o for o in function.body.operations if not gives_nothing_new(o)]
    is_compared = len(computed) == 1 and computed[0] in examiner.reports
    if is_compared or not computed or not returns or not all(map(is_movable_type, (*types, *function.argument_types))):
        return None
    report = OpReport("program", function.location, ", ".join(map(str, types)))
    try:
        theirs = evaluate(examiner.backend, source.instrument(returns), arguments, returns)
        ours = examiner.all_here(arguments)
    except BackendError as error:
        if error.how == "absent":
            raise
        report.verdict = UNSUPPORTED if error.is_lack else CRASH
        report.notes.append(textwrap.shorten(str(error), NOTE, placeholder=" …"))
        return report
    except Error:  # the report of an op has it
        return None
    results = enumerate(zip(theirs, stepwise, ours, strict=True))
    differing = [i for i, (got, own, right) in results if not _is_one_of(got, right, np.asarray(own))]
    if differing:
        _judge(report, examiner, arguments, {i: theirs[i] for i in differing})
    return report


def _is_one_of(got: np.ndarray, right: np.ndarray, own: np.ndarray) -> bool:
    """Whether each element is ours, or the backend's own."""
    is_alike = got.shape == right.shape and got.dtype == right.dtype
    return is_alike and bool((equal_values(got, right) | equal_values(got, own)).all())


def _judge(report: OpReport, examiner: Examiner, arguments: Sequence[Any], differing: dict[int, np.ndarray]) -> None:
    """Judges the outputs that differ, by their indices."""
    body = examiner.source.function.body
    assert body is not None
    try:
        enclosures = examiner.enclose(arguments)
    except (Error, ArithmeticError, LookupError, TypeError, ValueError) as error:
        report.verdict = ACCURACY
        report.notes.append(f"outputs {list(differing)} differ, and are not judged: minihlo has no enclosure: {error}")
        return
    for i, got in differing.items():
        finding = compare(enclosures[i], got)
        is_open = any(map(_is_open, (examiner.reports.get(o) for o in _way_to(body.returns[i], body))))
        is_wrong = finding.verdict == WRONG and (not is_open or got.shape != enclosures[i].value.shape)
        report.verdict = worst([report.verdict, FAIL if is_wrong else ACCURACY])
        count = f"{finding.differing:,} of {finding.size:,} elements"
        report.notes.append(f"output {i} differs in {count}: {'; '.join(finding.sentences)}")
        if finding.verdict == WRONG and not is_wrong:
            report.notes.append("not judged: operations on the way to it have results that are not decided")
    if report.verdict == FAIL and examiner.reports and not any(r.failed for r in examiner.reports.values()):
        report.notes.append("each operation by itself is right, and minihlo judge finds the part that is wrong")


def _is_open(report: OpReport | None) -> bool:
    """Whether an op has results that its enclosure does not hold: accuracy and flushing it does."""
    if report is None or report.verdict in (PASS, FAIL, ACCURACY):
        return False
    return report.verdict != DIVERGENT or report.causes != [FLUSHED.identifier]


def _way_to(value: Value, body: Region) -> list[Operation]:
    """The ops that a value depends on, those of their regions among them."""
    makers = {v: o for o in body.operations for v in o.results}
    found, waiting = dict[Operation, None](), [value]
    while waiting:
        operation = makers.get(waiting.pop())
        if operation is not None and operation not in found:
            found[operation] = None
            waiting += inputs(operation)
    return [*found, *(inner for o in found for r in o.regions for inner in all_operations(r))]
