"""Parts of a program as programs: what a backend gives for one, beside what is allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.types import type_of_dtype
from .. import transport
from ..backends import Backend, BackendError
from ..diff.examiner import receive
from ..diff.source import Source, captures, is_movable_type
from ..enclose import Allowed, Enclosure, enclose
from ..enclose.evaluate import Evaluator
from ..errors import Error, UnsupportedError
from ..parse import parser
from ..program import CONSTANT, Operation, Value
from .verdicts import WRONG, Finding, compare


@dataclasses.dataclass
class Trace:
    """A program with the interpreter's values for some inputs.

    Attributes:
        source: The program, without calls at its top level.
        values: The interpreter's value of each value of its body.
        enclosures: What is allowed for its results.
    """

    source: Source
    values: dict[Value, Any]
    enclosures: list[Enclosure]

    @classmethod
    def of(cls, source: Source, arrays: Sequence[np.ndarray], allowed: Allowed) -> Trace:
        """Evaluate a program. Raises ProgramError, and UnsupportedError for values that are no tensors."""
        body = source.function.body
        assert body is not None
        for v in (*body.arguments, *body.returns):
            if not is_movable_type(v.type):
                raise UnsupportedError(f"{source.function.location}: expected tensors of known sizes, got {v.type}")
        evaluator = Evaluator(source.program, allowed)
        given = [evaluator.exactly(v.type, x) for v, x in zip(body.arguments, arrays, strict=True)]
        results = evaluator.region(body, given)
        known = {v: x.value for v, x in evaluator.values.items() if isinstance(x, Enclosure)}
        return cls(source, known, results)

    @property
    def operations(self) -> list[Operation]:
        """The operations of the body, without constants."""
        body = self.source.function.body
        assert body is not None
        return [o for o in body.operations if o.name != CONSTANT]


def run(backend: Backend, source: Source, wanted: Sequence[Value], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return what a backend gives for values of a program. Raises BackendError."""
    packed = [p for x in arrays for p in transport.pack(x, type_of_dtype(x.dtype))]
    return receive(backend.evaluate(source.instrument(wanted), packed), [v.type for v in wanted], backend.name)


class Judge:
    """Judges parts of one program on a backend."""

    def __init__(self, trace: Trace, backend: Backend, allowed: Allowed) -> None:
        self.trace, self.backend, self.allowed = trace, backend, allowed
        self._known: dict[tuple[Any, ...], tuple[int, Finding] | None] = {}

    def frontier(self, operations: Sequence[Operation]) -> list[Value]:
        """Return the results of operations that none of them uses."""
        used = {v for o in operations for v in (*o.operands, *_captured(o))}
        found = [v for o in operations for v in o.results if v not in used]
        return [v for v in found if is_movable_type(v.type) and v in self.trace.values]

    def wrong(self, operations: Sequence[Operation], wanted: Sequence[Value] | None = None) -> Finding | None:
        """Return what is wrong with a part, given the interpreter's values; None where nothing is.

        Args:
            operations: The operations of the part, in order.
            wanted: The values that it gives; those of the frontier by default.
        """
        wanted = self.frontier(operations) if wanted is None else wanted
        key = (tuple(operations), tuple(wanted))
        if not wanted:
            return None
        if key not in self._known:
            self._known[key] = self._judge(operations, wanted)
        found = self._known[key]
        return None if found is None else found[1]

    def first_wrong(self, operations: Sequence[Operation]) -> Value | None:
        """Return the first value of a part's frontier that is wrong."""
        wanted = self.frontier(operations)
        if self.wrong(operations) is None:
            return None
        found = self._known[(tuple(operations), tuple(wanted))]
        return None if found is None else wanted[found[0]]

    def text(self, operations: Sequence[Operation], wanted: Sequence[Value]) -> tuple[str, list[Value]]:
        """Return a part as a program, and the values that are its arguments."""
        return self.trace.source.part(operations, wanted, packed=False)

    def _judge(self, operations: Sequence[Operation], wanted: Sequence[Value]) -> tuple[int, Finding] | None:
        try:
            text, inputs = self.text(operations, wanted)
            if not all(is_movable_type(v.type) for v in inputs):
                return None
            arrays = [self.trace.values[v] for v in inputs]
            return judge_text(text, arrays, self.backend, self.allowed)
        except (Error, BackendError, KeyError):
            return None


def judge_text(
    text: str, arrays: Sequence[np.ndarray], backend: Backend, allowed: Allowed
) -> tuple[int, Finding] | None:
    """Return the first result of a program that is wrong on a backend, with what is wrong; None where none is.

    Raises BackendError, and ProgramError for a program that is not valid.
    """
    source = Source.of_text(text, "part.mlir")
    body = source.function.body
    assert body is not None
    theirs = run(backend, source, body.returns, arrays)
    for i, (x, got) in enumerate(zip(enclose(parser.parse(text), arrays, allowed), theirs, strict=True)):
        found = compare(x, got)
        if found.verdict == WRONG:
            return i, found
    return None


def _captured(operation: Operation) -> list[Value]:
    return list(captures(operation))
