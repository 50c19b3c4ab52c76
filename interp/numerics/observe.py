"""Runs a program and shows each operation, with its operands and results, to a function, at any depth.

The program runs unchanged: results are the same, and so are random bits and exchanges between devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.op import call_attribute, traits_of
from ...ops.policy import Policy
from ...ops.traits import RegionSemantics
from .. import machine
from ..planner import plan
from ..program import Function, Location, Operation, Program, Region

#: Called with an op, its operands and its results.
Observer = Callable[[Operation, Sequence[Any], Sequence[Any]], None]


def reached_operations(program: Program, function: Function) -> dict[Operation, list[Location]]:
    """The ops that a function reaches, in the order of the text, with the calls of the functions that contain each.

    Ops that a kernel applies to elements, as in the body of `reduce`, are left out.
    """
    found: dict[Operation, list[Location]] = {}
    functions = {name: f for name, f in program.functions.items() if f is not function}  #: those not entered yet

    def visit(region: Region | None, calls: list[Location]) -> None:
        for operation in region.operations if region is not None else ():
            found[operation] = calls
            called = functions.pop(str(operation.attributes.get(call_attribute(operation.name) or "")), None)
            if called is not None:
                place = [operation.location] if operation.location.line else []
                visit(called.body, [*place, *calls])
            for inner in operation.regions if runs_operations(operation) else ():
                visit(inner, calls)

    visit(function.body, [])
    return found


def runs_operations(operation: Operation) -> bool:
    """Whether an op runs those of its regions, as loops and branches do."""
    return bool(operation.regions) and traits_of(operation.name).regions is not RegionSemantics.ELEMENTS


class ObservedProgram:
    """A program whose operations are shown to a function when it runs."""

    def __init__(self, program: Program, function: Function, policy: Policy, observer: Observer) -> None:
        """Raises ProgramError for unsupported ops."""
        self._observer = observer
        self.operations = reached_operations(program, function)  #: those that are shown, with the calls around them
        self._plan = plan(program, function.name, policy, self._listen)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Runs the program, showing each op. Raises the errors of `machine.run`."""
        return machine.run(self._plan, arrays)

    def _listen(self, operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        if operation in self.operations:
            arrays = ([np.asarray(x) if isinstance(x, np.generic) else x for x in xs] for xs in (operands, results))
            self._observer(operation, *arrays)
