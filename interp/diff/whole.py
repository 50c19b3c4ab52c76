"""Runs a program as a whole on a backend, with the result of every op as an additional result of the program.

This shows faults of ops that are compiled together, such as a value kept in a wider type between two ops. Loops,
branches and composites are examined as wholes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.types import type_of_dtype
from ..conform.result import UNSUPPORTED
from ..errors import Error
from ..program import Operation, Value
from ..values import transport
from .examiner import Examiner, receive
from .source import inputs, is_movable


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


def _is_asked(operation: Operation) -> bool:
    return is_movable(operation) and operation.name != "stablehlo.constant"
