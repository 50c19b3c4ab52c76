"""Binds the operations of a program to their declarations: their kernels, and what these may know of regions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ...ops.engine.speed import Speed
from ...ops.op import Body, Call, Callee, Op, OpError, UnsupportedOpError, lookup
from ...ops.policy import Policy
from ...ops.random_stream import RandomStream
from ...ops.traits import Kernel, RegionSemantics
from ...ops.types import TensorType, Type
from ..errors import ProgramError, ResourceError, UnsupportedError
from ..program import CONSTANT, PRINT, Function, Operation, Program, Region, Value
from ..system import heap, memory
from . import selection, specialize
from .expand import expansion
from .generate import generate
from .group import Lookup, Origin, Step
from .kernels import Kernels
from .passes.inline import BODY, inlined
from .processes import with_mesh
from .reductions import sole_operation
from .uses import captures, needed
from .vectorise import function_of
from .writer import Sources

#: Gives what runs a function of the program that some op names.
FunctionOf = Callable[[str, Operation], Callable[..., tuple[Any, ...]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """An op and its kernel."""

    record: Op
    call: Call
    kernel: Kernel

    def with_spare(self, spare: frozenset[int]) -> Bound:
        """The same where nothing needs some operands afterwards."""
        call = dataclasses.replace(self.call, spare=spare)
        return Bound(self.record, call, specialize.bind(self.record, call))


class Binder:
    """Binds the operations of one plan. `calls` becomes true where one of them names a function.

    `run_of` gives what runs a function of the program that an op names; it raises ProgramError where there is none.
    """

    def __init__(
        self, program: Program, policy: Policy, speed: Speed, random: RandomStream, sources: Sources, run_of: FunctionOf
    ) -> None:
        self._program, self._policy, self._speed, self._random = program, policy, speed, random
        self._sources, self._run_of = sources, run_of
        self._bound: dict[Operation, Bound | Function] = {}
        self._literals: dict[Value, Any] = {}
        self.kernels = Kernels(policy, random)
        self.calls = False

    def bind(self, region: Region, constants: Mapping[Value, Any]) -> None:
        """Bind all operations of a region and of the regions in it, those too whose values nothing needs.

        Raises ProgramError for an op that is not supported or not valid, and ResourceError for a tensor that cannot be
        held, with the place.
        """
        for operation in region.operations:
            value = operation.attributes.get("value")
            if (operation.origin or operation).name == CONSTANT and isinstance(value, np.ndarray | np.generic):
                self._literals[operation.results[0]] = value
            if operation.results and operation.results[0] in constants and not operation.regions:
                continue  # it was bound to be computed
            if operation.origin is not None and lookup(operation.name) is None:  # of a pass; its source is bound
                for inner in operation.regions:
                    self.bind_new(inner, constants)
                continue
            self._make_room(operation)
            if operation.name == PRINT:
                continue
            self._bound[operation.origin or operation] = self._bind(operation, constants)
            for inner in operation.regions:
                self.bind(inner, constants)

    def bind_new(self, region: Region, constants: Mapping[Value, Any]) -> None:
        """Bind the operations that a pass has put in; an operation with an origin is bound as that is."""
        for operation in region.operations:
            if operation.origin is None and operation not in self._bound:
                self.bind(Region((), [operation], ()), constants)
            else:
                for inner in operation.regions:
                    self.bind_new(inner, constants)

    def kernel(self, operation: Operation) -> Kernel | None:
        """The kernel of an op without regions; None where it is not declared for the op's types.

        Raises ProgramError and ResourceError as `bind` does.
        """
        self._make_room(operation)
        record = lookup(operation.name)
        if record is None or not record.takes(v.type for v in operation.operands):
            return None
        return self._use(operation, record, {}).kernel

    def find(self, operation: Operation) -> Bound | Function | None:
        """What an op was bound to, or the one that it stands in the place of: an op, or the function it expands to."""
        return self._bound.get(operation.origin or operation)

    def _make_room(self, operation: Operation) -> None:
        """Raise ResourceError where there is not enough memory for the results of an op."""
        for result in operation.results:
            check_size(result.type, operation)
            if self._speed.heap and _is_large(result.type):
                heap.keep()

    def _bind(self, operation: Operation, constants: Mapping[Value, Any]) -> Bound | Function:
        record = lookup(operation.name)
        if record is None or not record.takes(v.type for v in operation.operands):
            function = expansion(operation)
            if function is not None:
                return function
        if record is None:
            raise UnsupportedError(f"{operation.location}: {operation.name}: this op is not supported")
        return self._use(operation, record, constants)

    def _use(self, operation: Operation, record: Op, constants: Mapping[Value, Any]) -> Bound:
        operands, results = (tuple([v.type for v in values]) for values in (operation.operands, operation.results))
        try:
            if record.is_elementwise and len(results) == 1 and not record.calls and _are_static((*operands, *results)):
                # Many are alike: each is bound once.
                return Bound(record, _NO_CALL, self.kernels.of_operation(operation))
            call = Call(
                operation.name,
                operands,
                results,
                with_mesh(operation.attributes, self._program),
                tuple([self._body(self._applied(r, record), constants) for r in operation.regions]),
                self._policy,
                self._random,
                self._callees(operation, record.calls, constants),
                functools.partial(check_size, operation=operation),
            )
            return Bound(record, call, specialize.bind(record, call))
        except OpError as error:
            kind = UnsupportedError if isinstance(error, UnsupportedOpError) else ProgramError
            raise kind(f"{operation.location}: {operation.name}: {error}") from error

    def _callees(
        self, operation: Operation, attributes: Iterable[str], constants: Mapping[Value, Any]
    ) -> dict[str, Callee]:
        """The functions that attributes of an op name."""
        callees: dict[str, Callee] = {}
        for name in _names([operation.attributes.get(a) for a in attributes]):
            self.calls = True
            run, function = self._run_of(name, operation), self._program.functions[name]
            assert function.body is not None
            body = self._body(function.body, constants)
            callees[name] = Callee(function.argument_types, function.result_types, run, body)
        return callees

    def _applied(self, region: Region, record: Op) -> Region:
        """A region as it is applied to elements, without calls; one that is control flow stays as it is."""
        is_flow = record.traits.regions in (RegionSemantics.LOOP, RegionSemantics.ONE)
        return region if is_flow else inlined(self._program, region, limits=BODY)

    def _body(self, region: Region, constants: Mapping[Value, Any]) -> Body:
        """What an op may know of its region."""
        sole = sole_operation(region)
        arguments, read = {v: i for i, v in enumerate(region.arguments)}, needed(region)
        vectorised = self._vectorised(region, constants)
        parts = selection.parts(region) if vectorised is not None else []
        return Body(
            tuple([v.type for v in region.arguments]),
            tuple([v.type for v in region.returns]),
            sole.name if sole else None,
            sole.attributes if sole else {},
            vectorised,
            tuple([arguments.get(v) for v in region.returns]),
            frozenset([i for v, i in arguments.items() if v in read]),
            vectorised is not None and selection.is_selection(region),
            vectorised is not None and self._are_literals(captures(region)) and _ops(region) > 1,
            tuple([self._body(part, constants) for part in parts]),
        )

    def _are_literals(self, values: Iterable[Value]) -> bool:
        """Whether values are constants as they stand in the program, none that was computed from others."""
        return all(value in self._literals for value in values)

    def _vectorised(self, region: Region, constants: Mapping[Value, Any]) -> Callable[..., tuple[Any, ...]] | None:
        """The region over arrays; see `Body.vectorised`."""
        known = {v: self._literals[v] for v in captures(region) if v in self._literals}
        function_and_origins = function_of(region, {**constants, **known} if known else constants)
        if function_and_origins is None:
            return None
        function, origins = function_and_origins

        def kernel_of(step: Step | Lookup, _: Origin) -> Kernel:
            assert isinstance(step, Step)
            return self.kernels.of_step(step, (None,))

        try:
            return generate(function, origins, kernel_of, "vectorised", self._sources)
        except OpError:
            return None  # the region itself is bound too, and that error says what is wrong


_NO_CALL = Call("", (), (), {})


def _ops(region: Region) -> int:
    """How many ops of a region depend on its arguments."""
    dependent, count = set(region.arguments), 0
    for operation in region.operations:
        if not dependent.isdisjoint(operation.operands):
            dependent.update(operation.results)
            count += 1
    return count


def check_size(t: Type, operation: Operation) -> None:
    """Raise ResourceError, with the place of an op, where there is no room for a value."""
    if isinstance(t, TensorType) and t.is_static:
        try:
            memory.check(t.nbytes, t)
        except ResourceError as error:
            raise ResourceError(f"{operation.location}: {operation.name}: {error}") from None


def _names(value: Any) -> list[str]:
    """The strings in nested lists."""
    if isinstance(value, tuple | list):
        return [name for v in value for name in _names(v)]
    return [value] if isinstance(value, str) else []


def _are_static(types: Iterable[Type]) -> bool:
    return all(isinstance(t, TensorType) and t.is_static for t in types)


def _is_large(t: Type) -> bool:
    return isinstance(t, TensorType) and t.is_static and t.nbytes >= heap.LARGE
