"""Parts of a program as programs: what a backend gives for one, beside what is allowed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.op import traits_of
from ..backends import Backend, BackendError
from ..diff.examiner import evaluate
from ..diff.source import Source, captures, is_movable_type
from ..enclose import Allowed, Enclosure, enclose
from ..enclose.combining import combination
from ..enclose.evaluate import Evaluator
from ..enclose.findings import CRASH, WRONG, Finding, compare
from ..enclose.regions import chosen_branch
from ..errors import Error, UnsupportedError
from ..judging.equality import equal_values
from ..parse import parser
from ..program import CONSTANT, Operation, Region, Value

#: The most iterations of a loop whose regions are judged.
_MOST_ITERATIONS = 32
#: How a backend fails, in its error.
_HOW = re.compile(r"raised \w+|gave no answer|died \(\w+\)|ended with exit status \d+|gave results of other types")


@dataclasses.dataclass
class Trace:
    """A program, or a region of one of its operations, with the interpreter's values for some inputs.

    Attributes:
        source: The program, without calls at its top level.
        values: The interpreter's value of each value.
        enclosures: The enclosures of the program's results; none of a region.
        operations: The operations of the body, without constants.
        returns: The values that the body returns.
    """

    source: Source
    values: dict[Value, Any]
    enclosures: list[Enclosure]
    operations: list[Operation]
    returns: Sequence[Value]

    @classmethod
    def of(cls, source: Source, arrays: Sequence[np.ndarray], allowed: Allowed) -> Trace:
        """Evaluate a program. Raises ProgramError, and UnsupportedError for values that are no tensors."""
        body = source.function.body
        assert body is not None
        for v in (*body.arguments, *body.returns):
            if not is_movable_type(v.type):
                raise UnsupportedError(f"{source.function.location}: expected tensors of known sizes, got {v.type}")
        evaluator = Evaluator(source.program, allowed)
        return cls(source, {}, evaluator.start(body, arrays), _operations(body), body.returns)._with_values(evaluator)

    def enter(self, operation: Operation, allowed: Allowed) -> Iterator[Trace]:
        """Yield the regions that control flow runs: the chosen branch, or the condition and body of each iteration."""
        evaluator, name = Evaluator(self.source.program, allowed), operation.name
        evaluator.values = {v: evaluator.exactly(v.type, x) for v, x in self.values.items()}
        if name in ("stablehlo.if", "stablehlo.case"):
            yield self._region(evaluator, chosen_branch(operation, self.values[operation.operands[0]]), [])
        elif name == "stablehlo.while":
            state = [self.values[v] for v in operation.operands]
            condition, body = operation.regions
            for _ in range(_MOST_ITERATIONS):
                yield self._region(evaluator, condition, state)
                if not evaluator.values[condition.returns[0]].value:
                    break
                yield self._region(evaluator, body, state)
                state = [evaluator.values[v].value for v in body.returns]

    def _region(self, evaluator: Evaluator, region: Region, state: Sequence[Any]) -> Trace:
        evaluator.start(region, state)
        return Trace(self.source, {}, [], _operations(region), region.returns)._with_values(evaluator)

    def _with_values(self, evaluator: Evaluator) -> Trace:
        known = {v: x.value for v, x in evaluator.values.items() if isinstance(x, Enclosure)}
        return dataclasses.replace(self, values=known)


def _operations(region: Region) -> list[Operation]:
    return [o for o in region.operations if o.name != CONSTANT]


class Judge:
    """Judges parts of one program on a backend.

    Attributes:
        trace: The program with its values.
        fault: The verdict that is looked for: WRONG or CRASH.
        tries: How often a part runs, of a backend whose results change from run to run.
    """

    def __init__(self, trace: Trace, backend: Backend, allowed: Allowed, fault: str = WRONG, tries: int = 1) -> None:
        self.trace, self.backend, self.allowed, self.fault, self.tries = trace, backend, allowed, fault, tries
        self._known: dict[tuple[Any, ...], tuple[int, Finding] | None] = {}

    def enter(self, operation: Operation) -> Iterator[Judge]:
        """Yield judges of the regions that an operation runs."""
        for trace in self.trace.enter(operation, self.allowed):
            yield Judge(trace, self.backend, self.allowed, self.fault, self.tries)

    def judge(self, text: str, arrays: Sequence[np.ndarray]) -> tuple[int, Finding] | None:
        """Return the first result of a program that has the fault, with what is said of it; None where none has.

        Raises BackendError, and ProgramError for a program that is not valid.
        """
        source = Source.of_text(text, "part.mlir")
        body = source.function.body
        assert body is not None
        enclosures = enclose(parser.parse(text), arrays, self.allowed)
        for _ in range(self.tries):
            try:
                theirs = evaluate(self.backend, source.instrument(body.returns), arrays, body.returns)
            except BackendError as error:
                if self.fault != CRASH or error.how == "refused":
                    raise
                how = _HOW.search(str(error))
                return 0, Finding(CRASH, sentences=(str(error),), kind=how[0] if how else "no results")
            found = ((i, compare(x, got)) for i, (x, got) in enumerate(zip(enclosures, theirs, strict=True)))
            wrong = next(((i, f) for i, f in found if f.verdict == self.fault), None)
            if wrong is not None:
                return wrong
        return None

    def frontier(self, operations: Sequence[Operation]) -> list[Value]:
        """Return the results of operations that none of them uses, and those that the whole returns."""
        used = {v for o in operations for v in (*o.operands, *captures(o))}
        found = [v for o in operations for v in o.results if v not in used or v in self.trace.returns]
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

    def text(self, operations: Sequence[Operation], wanted: Sequence[Value]) -> tuple[str, list[Value]]:
        """Return a part as a program, and the values that are its arguments."""
        return self.trace.source.part(operations, wanted, packed=False)

    def _judge(self, operations: Sequence[Operation], wanted: Sequence[Value]) -> tuple[int, Finding] | None:
        try:
            text, inputs = self.text(operations, wanted)
            if not all(is_movable_type(v.type) for v in inputs):
                return None
            arrays = [self.trace.values[v] for v in inputs]
            return self.judge(text, arrays)
        except (Error, BackendError, ArithmeticError, LookupError, TypeError, ValueError):
            return None


@np.errstate(all="ignore")
def starts_elsewhere(operation: Operation, values: Mapping[Value, Any]) -> bool:
    """Return whether a reduction has an init that is no identity, which implementations use more than once or never."""
    if operation.name not in ("stablehlo.reduce", "stablehlo.reduce_window") or len(operation.results) != 1:
        return False
    sole, (x, init) = combination(operation.regions[0]), (values.get(v) for v in operation.operands)
    combining = None if sole is None else traits_of(sole.name).combining
    if combining is None or x is None or init is None:
        return False
    ufunc = combining.of_booleans if x.dtype == bool and combining.of_booleans else combining.ufunc
    return not equal_values(np.asarray(ufunc(x, init), x.dtype), x).all()
