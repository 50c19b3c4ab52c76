"""Binds the operations of a program: each is verified, and gets the kernel of its declaration."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from ..ops.op import Body, Call, Callee, Op, OpError, UnsupportedOpError, lookup
from ..ops.policy import Policy
from ..ops.random_stream import RandomStream
from ..ops.tables import Tabulated
from ..ops.traits import RegionSemantics, Run
from ..ops.types import TensorType, Type
from . import bodies, dynamic
from .errors import ProgramError, ResourceError, UnsupportedError
from .expansions import expansion
from .parse.sharding import with_meshes
from .passes.fuse import TABLE
from .passes.inline import inline
from .passes.keys import key_of_attributes, key_of_region
from .passes.rewriting import captures, needed_values
from .printer import print_operands
from .program import CONSTANT, PRINT, Function, Operation, Program, Region, Value
from .settings import Settings
from .system import memory

#: Gives what runs a function of the program that an operation names. It raises ProgramError where there is none.
FunctionOf = Callable[[str, Operation], Callable[..., tuple[Any, ...]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """An operation's kernel.

    Attributes:
        run: The kernel, a function of the operands; with regions, their functions come first as a tuple.
        in_place: The same, writing over the operand `OpTraits.overwrites`; None where there is no such operand.
        record: The declaration; None for an operation that a pass or the machine has.
    """

    run: Run
    record: Op | None = None
    in_place: Run | None = None


class Binder:
    """Binds the operations of one plan, each once.

    Attributes:
        has_calls: Whether an operation that was bound names a function.
    """

    def __init__(
        self, program: Program, policy: Policy, settings: Settings, random: RandomStream, run_of: FunctionOf
    ) -> None:
        self._program, self._policy, self._settings, self._random = program, policy, settings, random
        self._run_of = run_of
        self._bound: dict[Operation, Bound | Function] = {}
        self._constants: dict[Value, np.ndarray] = {}
        self._literals: set[Value] = set()  # the constants that the program states
        self._elementwise: dict[Hashable, Run] = {}
        self.has_calls = False

    def bind(self, region: Region) -> None:
        """Bind all operations of a region and of the regions in it.

        Raises ProgramError for an operation that is not supported or not valid, and ResourceError for a tensor that
        cannot be held, with the place.
        """
        for operation in region.operations:
            self.note(operation)
            if operation not in self._bound:
                self.reserve(operation)
                self._bound[operation] = self._bind(operation)
            for inner in operation.regions:
                if operation.name != TABLE:
                    self.bind(inner)

    def note(self, operation: Operation) -> None:
        """Note the value of a constant, which regions may use."""
        if operation.name == CONSTANT and isinstance(value := operation.attributes.get("value"), np.ndarray):
            self._constants[operation.results[0]] = value
            if (operation.origin or operation).name == CONSTANT:
                self._literals.add(operation.results[0])

    def constant_of(self, value: Value) -> np.ndarray | None:
        """Return the elements of a constant that was noted; None of other values."""
        return self._constants.get(value)

    def find(self, operation: Operation) -> Bound | Function:
        """Return what an operation was bound to: its kernel, or the function that it expands to."""
        return self._bound[operation]

    def kernel(self, operation: Operation) -> Run | None:
        """Return the kernel of an operation without regions; None where it is not declared for its types.

        Raises ProgramError and ResourceError as `bind` does.
        """
        self.reserve(operation)
        record = lookup(operation.name)
        if record is None or not record.takes(v.type for v in operation.operands):
            return None
        return self._use(operation, record).run

    def reserve(self, operation: Operation) -> None:
        """Raise ResourceError where there is not enough memory for the results of an operation."""
        for result in operation.results:
            check_size(result.type, operation)

    def _bind(self, operation: Operation) -> Bound | Function:
        if operation.name == TABLE:
            return Bound(self._table(operation))
        if operation.name == PRINT:
            return Bound(functools.partial(print_operands, operation))
        record = lookup(operation.name)
        if record is None or not record.takes(v.type for v in operation.operands):
            function = expansion(operation)
            if function is not None:
                return function
            if record is not None and record.is_elementwise and operation.operands[0].type != operation.results[0].type:
                types = operation.operands[0].type, operation.results[0].type
                place = f"{operation.location}: {operation.name}"
                raise ProgramError("{}: expected a result of {}, got {}".format(place, *types))
        if record is None:
            raise UnsupportedError(f"{operation.location}: {operation.name}: this op is not supported")
        return self._use(operation, record)

    def _use(self, operation: Operation, record: Op) -> Bound:
        """Return the kernel of a declared operation. Raises ProgramError, with the place."""
        try:
            types = [v.type for v in (*operation.operands, *operation.results)]
            if record.is_elementwise and len(operation.results) == 1 and dynamic.are_static(types):
                return Bound(self._elementwise_kernel(operation), record)
            call = self._call(operation, record)
            in_place, place = None, record.traits.overwrites
            if place is not None:
                in_place = dynamic.bind(record, dataclasses.replace(call, spare=frozenset({place})))
            return Bound(dynamic.bind(record, call), record, in_place)
        except OpError as error:
            kind = UnsupportedError if isinstance(error, UnsupportedOpError) else ProgramError
            raise kind(f"{operation.location}: {operation.name}: {error}") from error

    def _elementwise_kernel(self, operation: Operation) -> Run:
        """Return the kernel of an elementwise operation; many are alike, and each is bound once."""
        types = tuple([v.type for v in (*operation.operands, *operation.results)])
        key = operation.name, key_of_attributes(operation.attributes), types
        kernel = self._elementwise.get(key)
        if kernel is None:
            record = lookup(operation.name)
            assert record is not None
            call = Call(operation.name, types[:-1], types[-1:], operation.attributes, (), self._policy, self._random)
            kernel = self._elementwise[key] = record.function(dataclasses.replace(call, tables=self._settings.tables))
        return kernel

    def _call(self, operation: Operation, record: Op) -> Call:
        operands, results = (tuple([v.type for v in values]) for values in (operation.operands, operation.results))
        regions = operation.regions
        if record.traits.regions not in (RegionSemantics.LOOP, RegionSemantics.ONE):
            regions = [inline(self._program, r) for r in regions]  # which is applied to elements
        return Call(
            operation.name,
            operands,
            results,
            with_meshes(operation.attributes, self._program),
            tuple([self.body(r) for r in regions]),
            self._policy,
            self._random,
            self._callees(operation, record.calls),
            functools.partial(check_size, operation=operation),
            tables=self._settings.tables,
        )

    def _callees(self, operation: Operation, attributes: Iterable[str]) -> dict[str, Callee]:
        """Return the functions that attributes of an operation name."""
        callees: dict[str, Callee] = {}
        for name in _names([operation.attributes.get(a) for a in attributes]):
            self.has_calls = True
            run, function = self._run_of(name, operation), self._program.functions[name]
            assert function.body is not None
            callees[name] = Callee(run, self.body(function.body))
        return callees

    def body(self, region: Region) -> Body:
        """Return what an op may know of its region."""
        sole = bodies.sole_operation(region)
        arguments, needed = {v: i for i, v in enumerate(region.arguments)}, needed_values(region)
        vectorized = self._vectorize(region)
        parts = bodies.independent_parts(region) if vectorized is not None else []
        return Body(
            tuple([v.type for v in region.arguments]),
            tuple([v.type for v in region.returns]),
            sole.name if sole else None,
            sole.attributes if sole else {},
            vectorized,
            tuple([arguments.get(v) for v in region.returns]),
            frozenset([i for v, i in arguments.items() if v in needed]),
            vectorized is not None and bodies.is_selection(region),
            vectorized is not None
            and self._literals.issuperset(captures(region))
            and bodies.count_dependent(region) > 1,
            tuple([self.body(part) for part in parts]),
        )

    def _vectorize(self, region: Region, reinterprets: bool = False) -> Callable[..., tuple[Any, ...]] | None:
        """Return a region on single numbers as a function of arrays; None where it is none."""
        try:
            return bodies.vectorize(region, self._constants, self._elementwise_kernel, reinterprets)
        except OpError:
            return None  # the region itself is bound too, and that error says what is wrong

    def _table(self, operation: Operation) -> Run:
        """Return the lookup table of a fused group; groups of the same operations share it."""
        (region,), policy = operation.regions, self._policy.for_elements()
        elements = tuple([v.type.element for v in region.arguments if isinstance(v.type, TensorType)])
        compute = self._vectorize(region, reinterprets=True)
        (result,) = operation.results
        assert compute is not None
        assert isinstance(result.type, TensorType)
        return _shared_table(_Table(key_of_region(region), policy, elements, result.type.element.dtype, compute))


@dataclasses.dataclass(frozen=True)
class _Table:
    """What a table is made of: equal, and so shared, where the operations and the policy are."""

    key: Hashable
    policy: Policy
    elements: tuple[Any, ...]
    dtype: np.dtype
    compute: Callable[..., tuple[Any, ...]] = dataclasses.field(compare=False)


@functools.lru_cache(1024)
def _shared_table(table: _Table) -> Tabulated:
    return Tabulated(lambda *arrays: table.compute(*arrays)[0], table.elements, table.dtype)


def check_size(t: Type, operation: Operation) -> None:
    """Raise ResourceError, with the place of an operation, where there is no room for a value."""
    if isinstance(t, TensorType) and t.is_static:
        try:
            memory.check(t.nbytes, t)
        except ResourceError as error:
            raise ResourceError(f"{operation.location}: {operation.name}: {error}") from None


def _names(value: Any) -> list[str]:
    """Return the strings in nested lists."""
    if isinstance(value, tuple | list):
        return [name for v in value for name in _names(v)]
    return [value] if isinstance(value, str) else []
