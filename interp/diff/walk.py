"""Runs a program op by op on a backend: each op by itself, on the values that the backend has computed before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...ops.op import call_attribute, traits_of
from ...ops.traits import RegionSemantics
from ..errors import Error, ProgramError
from ..judging.record import UNSUPPORTED
from ..program import Function, Operation, Region, Value
from .examiner import Examiner, evaluate
from .source import Source, inputs, is_movable

Values = dict[Value, Any]


class Executor(Protocol):
    """Computes the ops of a walk. Values are arrays, or behave like one in a condition."""

    source: Source
    calls: list[Operation]  #: the calls of the functions that are running

    def run(self, operation: Operation, values: Sequence[Any]) -> list[Any]:
        """The results of an op, given its `inputs`."""
        ...

    def here(self, operation: Operation, values: Sequence[Any]) -> list[Any]:
        """The results of an op that computes nothing, or whose values cannot be passed to a backend."""
        ...

    def rest(self, operation: Operation, values: Sequence[Any], iterations: int) -> list[Any]:
        """The results of a loop, continued from its state after `iterations`, the most that a walk enters."""
        ...


#: Ops that compute nothing: their results are the same everywhere.
_GIVEN = ("constant", "const_shape", "tuple", "get_tuple_element", "create_token", "after_all", "optimization_barrier")


def gives_nothing_new(operation: Operation) -> bool:
    """Whether an op computes nothing, or only checks."""
    return operation.name.rpartition(".")[2] in _GIVEN or operation.name.startswith("check.")


class Walk:
    """Enters loops, branches and calls, so that each op in them is examined each time it is executed."""

    def __init__(self, executor: Executor, iterations: int) -> None:
        """After this many `iterations` the rest of a loop is left to the executor."""
        self._executor, self._iterations = executor, iterations

    def run(self, function: Function, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function, as the executor computes them. Raises ProgramError if it has no body."""
        if function.body is None:
            raise ProgramError(f"{function.location}: @{function.name} has no body")
        return self._region(function.body, {}, arguments)

    def _region(self, region: Region, values: Values, arguments: Sequence[Any]) -> list[Any]:
        values.update(zip(region.arguments, arguments, strict=True))
        for operation in region.operations:
            values.update(zip(operation.results, self._operation(operation, values), strict=True))
        return [values[v] for v in region.returns]

    def _operation(self, operation: Operation, values: Values) -> list[Any]:
        attribute = call_attribute(operation.name)
        if attribute is not None:
            return self._call(operation, str(operation.attributes.get(attribute)), values)
        match traits_of(operation.name).regions:
            case RegionSemantics.LOOP:
                return self._while(operation, values)
            case RegionSemantics.ONE:
                return self._branch(operation, values)
        return self._step(operation, values)

    def _step(self, operation: Operation, values: Values) -> list[Any]:
        if operation.name.startswith("check."):
            return []
        given = [values[v] for v in inputs(operation)]
        if gives_nothing_new(operation) or not is_movable(operation):
            return self._executor.here(operation, given)
        return self._executor.run(operation, given)

    # -- control flow --------------------------------------------------------------------------------------------------

    def _while(self, operation: Operation, values: Values) -> list[Any]:
        condition, body = operation.regions
        state = [values[v] for v in operation.operands]
        for _ in range(self._iterations):
            if not self._region(condition, values, state)[0]:
                return state
            state = self._region(body, values, state)
        given = {**values, **dict(zip(operation.operands, state, strict=True))}
        return self._executor.rest(operation, [given[v] for v in inputs(operation)], self._iterations)

    def _branch(self, operation: Operation, values: Values) -> list[Any]:
        """For `if` the first branch if the operand is true, for `case` that of its index; else the last."""
        chosen, last = values[operation.operands[0]], len(operation.regions) - 1
        index = int(chosen) if chosen.dtype != bool else int(not chosen)
        return self._region(operation.regions[index if 0 <= index <= last else last], values, ())

    def _call(self, operation: Operation, name: str, values: Values) -> list[Any]:
        function = self._executor.source.program.functions.get(name)
        if function is None:
            raise ProgramError(f"{operation.location}: cannot call @{name}: there is no such function")
        self._executor.calls.append(operation)
        try:
            return self.run(function, [values[v] for v in operation.operands])
        finally:
            self._executor.calls.pop()


def run(examiner: Examiner, arguments: Sequence[Any]) -> list[Any]:
    """Examines a program with inlined calls; returns the backend's results. Raises BackendError, ProgramError."""
    source = examiner.source
    body = source.function.body
    assert body is not None
    values: dict[Value, Any] = dict(zip(body.arguments, arguments, strict=True))
    asked = [o for o in body.operations if _is_asked(o)]
    wanted = [v for o in asked for v in o.results]
    theirs = evaluate(examiner.backend, source.instrument(wanted), arguments, wanted)
    values.update(zip(wanted, theirs, strict=True))
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
