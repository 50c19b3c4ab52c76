"""Runs a program and shows each operation, with its operands and results, to a function, at any depth.

The program runs unchanged: results are the same, and so are random bits and exchanges between devices. The arguments of
a region or function are made visible by an `optimization_barrier` in front of its operations.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.op import call_attribute, traits_of
from ...ops.policy import Policy
from ...ops.traits import RegionSemantics
from ...ops.types import TensorType
from .. import machine
from ..errors import InputError
from ..machine import Plan, plan
from ..passes.rewriting import all_operations, used_values
from ..program import BARRIER, Function, Location, Operation, Program, Region, Value

#: Called with an op, its operands (None for unknown ones) and its results.
Observer = Callable[[Operation, Sequence[Any], Sequence[Any]], None]


class ObservedProgram:
    """A program whose operations are shown to a function when it runs."""

    def __init__(self, program: Program, function: Function, policy: Policy, observer: Observer) -> None:
        """Raises InputError if functions call each other in a circle, ProgramError for unsupported ops."""
        self._observer = observer
        self.operations: list[Operation] = []  #: the ops that are shown, in the order of the text
        self.calls: dict[Operation, list[Location]] = {}  #: the calls of the functions that contain an op
        self._dies: dict[Operation, list[Value]] = {}
        self._used: set[Value] = set()
        self._shown: set[Operation] = set()
        functions = dict(program.functions)
        self._enter(program, function, [], functions)
        self._plan: Plan = plan(dataclasses.replace(program, functions=functions), function.name, policy, self._listen)
        self._values: dict[int, dict[Value, Any]] = {}
        self._root = 0

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Runs the program, showing each op. Raises the errors of `machine.run`."""
        self._values.clear()
        self._root = 0
        try:
            return machine.run(self._plan, arrays)
        finally:
            self._values.clear()

    # -- before it runs ------------------------------------------------------------------------------------------------

    def _enter(
        self, program: Program, function: Function, calls: list[Location], functions: dict[str, Function], *over: str
    ) -> None:
        """Makes a function, and those that it calls, visible."""
        if function.name in over:
            raise InputError(f"{function.location}: @{function.name} calls itself, which cannot be profiled")
        if function.body is None or functions.get(function.name) is not program.functions[function.name]:
            return
        functions[function.name] = dataclasses.replace(function, body=self._visible(function.body, calls))
        for operation in all_operations(function.body):
            attribute = call_attribute(operation.name)
            callee = program.functions.get(str(operation.attributes.get(attribute))) if attribute else None
            if callee is not None:
                place = [operation.location] if operation.location.line else []
                self._enter(program, callee, [*place, *calls], functions, *over, function.name)

    def _visible(self, region: Region, calls: list[Location]) -> Region:
        """A region that shows its arguments."""
        taken = tuple(Value(v.type) if isinstance(v.type, TensorType) else v for v in region.arguments)
        pairs = [(t, v) for t, v in zip(taken, region.arguments, strict=True) if t is not v]
        made: list[Operation] = []
        if pairs:
            sources, values = zip(*pairs, strict=True)
            at = region.operations[0].location if region.operations else Location()
            made.append(Operation(BARRIER, sources, values, {}, (), at))
            self._shown.add(made[0])
        last: dict[Value, Operation] = {}
        defined = set(region.arguments)
        for operation in region.operations:
            for value in used_values(operation):
                last[value] = operation
            defined.update(operation.results)
            self._shown.add(operation)
            self.operations.append(operation)
            self.calls[operation] = calls
            inner = operation.regions
            if inner and traits_of(operation.name).regions is not RegionSemantics.ELEMENTS:
                inner = tuple(self._visible(r, calls) for r in inner)
            made.append(operation if inner == operation.regions else _with(operation, inner))
        for value, operation in last.items():
            self._used.add(value)
            if value in defined:
                self._dies.setdefault(operation, []).append(value)
        return Region(taken, made, region.returns)

    # -- while it runs -------------------------------------------------------------------------------------------------

    def _listen(self, operation: Operation, results: tuple[Any, ...]) -> None:
        if operation not in self._shown:
            return
        results = tuple([np.asarray(x) if isinstance(x, np.generic) else x for x in results])  # numpy's scalars
        thread = threading.get_ident()
        self._root = self._root or thread
        mine = self._values.setdefault(thread, {})
        outer = self._values[self._root]
        if operation.name != BARRIER or operation in self.calls:
            operands = [mine.get(v, outer.get(v)) for v in operation.operands]
            self._observer(operation, operands, results)
        for value in self._dies.get(operation, ()):
            mine.pop(value, None)
        for value, array in zip(operation.results, results, strict=True):
            if value in self._used:
                mine[value] = array


def _with(operation: Operation, regions: tuple[Region, ...]) -> Operation:
    """An op with other regions, which is shown as the original."""
    return dataclasses.replace(operation, regions=regions, origin=operation)
