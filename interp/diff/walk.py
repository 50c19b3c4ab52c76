"""A program run op by op on a backend: each op by itself, on the values that the backend has computed before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.kernel import Regions
from ...ops.registry import call_attribute, facts_of
from ..backends import BackendError
from ..errors import ProgramError
from ..program import Function, Operation, Region, Value
from .examiner import Examiner
from .source import inputs, is_movable

Values = dict[Value, Any]

#: Ops that compute nothing: what they give is the same everywhere.
_GIVEN = ("constant", "const_shape", "tuple", "get_tuple_element", "create_token", "after_all", "optimization_barrier")


class Walk:
    """Enters loops, branches and calls, so that each op in them is examined, every time that it is executed."""

    def __init__(self, examiner: Examiner, turns: int) -> None:
        """After so many `turns` the rest of a loop runs as a whole."""
        self._examiner, self._turns = examiner, turns

    def run(self, function: Function, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function, as the backend computes them. Raises ProgramError where it has no body."""
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
        match facts_of(operation.name).regions:
            case Regions.LOOP:
                return self._while(operation, values)
            case Regions.ONE:
                return self._branch(operation, values)
        return self._step(operation, values)

    def _step(self, operation: Operation, values: Values) -> list[Any]:
        if operation.name.startswith("check."):
            return []
        given = [values[v] for v in inputs(operation)]
        if operation.name.rpartition(".")[2] in _GIVEN or not is_movable(operation):
            return self._examiner.here(operation, given)
        return self._examiner.run(operation, given)

    # -- what is entered -----------------------------------------------------------------------------------------------

    def _while(self, operation: Operation, values: Values) -> list[Any]:
        condition, body = operation.regions
        state = [values[v] for v in operation.operands]
        for _ in range(self._turns):
            if not self._region(condition, values, state)[0]:
                return state
            state = self._region(body, values, state)
        return self._rest(operation, values, state)

    def _rest(self, operation: Operation, values: Values, state: Sequence[Any]) -> list[Any]:
        """What the backend makes of the rest of a loop."""
        given = {**values, **dict(zip(operation.operands, state, strict=True))}
        report = self._examiner.report(operation)
        note = f"examined for {self._turns} turns; what it does after that, as a whole, is not"
        if note not in report.notes:
            report.notes.append(note)
        arguments = [given[v] for v in inputs(operation)]
        if len(set(operation.operands)) == len(operation.operands) and is_movable(operation):
            try:
                return list(self._examiner.there(operation, arguments))
            except BackendError:
                pass
        return list(self._examiner.here(operation, arguments))

    def _branch(self, operation: Operation, values: Values) -> list[Any]:
        """Of `if` the first branch where the operand is true, of `case` that of its index; else the last."""
        chosen, last = values[operation.operands[0]], len(operation.regions) - 1
        index = int(chosen) if chosen.dtype != bool else int(not chosen)
        return self._region(operation.regions[index if 0 <= index <= last else last], values, ())

    def _call(self, operation: Operation, name: str, values: Values) -> list[Any]:
        function = self._examiner.source.program.functions.get(name)
        if function is None:
            raise ProgramError(f"{operation.location}: cannot call @{name}: there is no such function")
        self._examiner.calls.append(operation.location)
        try:
            return self.run(function, [values[v] for v in operation.operands])
        finally:
            self._examiner.calls.pop()
