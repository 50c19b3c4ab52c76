"""A program to a plan: every op bound once, and each function and region turned into one Python function.

The generated functions are plain assignments of kernel calls, so running costs what the kernels cost, and the line
of a traceback tells the op. Values are dropped after their last use. Names in generated code are ours alone: nothing
of the program's text is in it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ...ops.engine.speed import DEFAULT, NONE, VARIABLE, Speed
from ...ops.kernel import Kernel
from ...ops.policy import Policy
from ...ops.random_stream import RandomStream
from ...ops.registry import Body, Call, Callee, OpError, lookup
from ...ops.types import TensorType, Type
from ..errors import InputError, ProgramError, ResourceError, shown
from ..program import Function, Operation, Program, Region, Value
from ..steps import Steps
from ..system import depth, heap, host_floats, memory
from . import flow, indexing, late, scalars, selection
from .expand import expansion
from .fusion import Fusion
from .inline import CALLS, inlined
from .parallel import one_at_a_time, printer, with_mesh
from .writer import Sources, Writer

#: Results of ops on constants are computed once, up to this many bytes.
_FOLD_LIMIT = 1 << 20

Listener = Callable[[Operation, tuple[Any, ...]], None]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A function of a program, ready to run. `entry` takes and returns tuples of values."""

    function: Function
    policy: Policy
    speed: Speed
    entry: Callable[..., tuple[Any, ...]]
    random: RandomStream
    sources: Sources
    steps: Steps | None  #: the limit of steps, if there is one
    nests: bool  #: whether it calls functions, or regions within regions, so that it may take many frames

    @functools.cached_property
    def accepted(self) -> list[tuple[np.dtype, tuple[int | None, ...]] | None]:
        """For each argument the dtype and shape that need no further look, None where there is more to see to."""
        return [
            (t.element.dtype, t.shape)
            if isinstance(t, TensorType) and t.is_static and not (t.element.is_float and t.element.bits < 8)
            else None
            for t in self.argument_types
        ]

    @property
    def argument_types(self) -> tuple[Type, ...]:
        return self.function.argument_types

    @property
    def result_types(self) -> tuple[Type, ...]:
        return self.function.result_types


def find_function(program: Program, name: str | None = None) -> Function:
    """The function of that name, or `@main`, or the only public one. Raises InputError where there is no such one."""
    functions = program.functions
    if name is not None:
        name = name.removeprefix("@")
        if name not in functions:
            raise InputError(f"{_start(program)}: no function @{shown(name)} ({_listed(functions)})")
        return functions[name]
    if "main" in functions:
        return functions["main"]
    public = [f for f in functions.values() if f.is_public] or list(functions.values())
    if len(public) != 1:
        raise InputError(f"{_start(program)}: no function @main; name one ({_listed(functions)})")
    return public[0]


def _listed(functions: Iterable[str]) -> str:
    return "there is " + (", ".join(f"@{shown(f)}" for f in functions) or "no function at all")


def _start(program: Program) -> str:
    """The place of a program's first function, or its file."""
    return str(next((f.location for f in program.functions.values()), program.file))


@host_floats.in_default  # constants are folded
def plan(
    program: Program,
    function: str | None = None,
    policy: Policy | None = None,
    listener: Listener | None = None,
    speed: Speed | None = None,
    most_steps: int | None = None,
) -> Plan:
    """Bind all that `function` can reach. With a `listener` nothing is folded or fused: it is called after each op.
    Nor is it with `most_steps`, ops that run and regions that are entered, after which a run raises LimitError.

    Raises ProgramError, with the place, for an op that is not supported or not valid; InputError where there is no such
    function; ResourceError for a tensor that cannot be held.
    """
    speed = NONE if listener is not None or most_steps is not None else speed or default_speed()
    steps = None if most_steps is None else Steps(most_steps)
    found = find_function(program, function)
    try:
        with depth.room():
            return _Planner(program, policy or Policy(), speed, listener, steps).plan(found)
    except RecursionError:
        raise ProgramError(f"{found.location}: @{shown(found.name)} has regions nested too deeply") from None


def default_speed() -> Speed:
    """All optimizations but those that an environment variable lists. Raises InputError for an unknown name."""
    try:
        return DEFAULT.without(os.environ.get(VARIABLE, "")) if os.environ.get(VARIABLE) else DEFAULT
    except ValueError as error:
        raise InputError(f"{VARIABLE}: {error}") from None


def speed_without(names: str, what: str) -> Speed:
    """The default without some more means, which are named by `what`. Raises InputError for names that are none."""
    try:
        return default_speed().without(names)
    except ValueError as error:
        raise InputError(f"{what}: {error}") from None


class _Planner:
    def __init__(
        self, program: Program, policy: Policy, speed: Speed, listener: Listener | None, steps: Steps | None
    ) -> None:
        self._program, self._policy, self._speed, self._listener = program, policy, speed, listener
        self._steps = steps
        # Stochastic rounding draws bits in the order of the ops, so these stay as they are.
        self._fuses = (speed.tables or speed.blocks) and policy.rounding != "stochastic"
        self._random = RandomStream()
        self._functions: dict[str, _Deferred] = {}
        self._constants: dict[Value, Any] = {}
        self._sources: Sources = {}
        self._pending: list[Function] = []
        self._calls = False  # whether a function is called, be it the one that is run

    def plan(self, function: Function) -> Plan:
        entry = self._function(function.name, function)
        while self._pending:  # a work list, so that a long chain of calls does not nest here
            body = self._pending.pop()
            assert body.body is not None
            region = inlined(self._program, body.body) if self._fuses or self._speed.scalars else body.body
            self._functions[body.name].target = self._compile(region, (), f"@{body.name}")
        nests = self._calls or any(o.regions for o in _inner_operations(function))
        return Plan(function, self._policy, self._speed, entry.target, self._random, self._sources, self._steps, nests)

    def _function(self, name: str, called_by: Function | Operation) -> _Deferred:
        if name not in self._functions:
            function = self._program.functions.get(name)
            if function is None or function.body is None:
                what = "there is no such function" if function is None else "it has no body"
                raise ProgramError(f"{called_by.location}: cannot call @{shown(name)}: {what}")
            self._functions[name] = _Deferred()
            self._pending.append(function)
        return self._functions[name]

    # -- one function or region --------------------------------------------------------------------------------------

    def _compile(self, region: Region, captures: tuple[Value, ...], label: str) -> Callable[..., tuple[Any, ...]]:
        """The Python function of a region; its captured values are its first parameters."""
        writer = Writer(self._constants)
        parameters = [writer.define(v) for v in (*captures, *region.arguments)]
        self._write(region, writer)
        return writer.function(parameters, [writer.use(v) for v in region.returns], label, self._sources)

    def _write(self, region: Region, writer: Writer) -> None:
        """The ops of a region, in a function whose writer knows the region's arguments and what it captures."""
        fusion = None
        if self._steps is not None:
            writer.line(f"{writer.thing(self._steps.take)}()", None)
        if self._fuses:
            fusion = Fusion(region, self._constants, self._speed, self._policy, writer, self._sources)
        for operation in region.operations:
            self._operation(operation, writer, fusion)
        if fusion is not None:
            fusion.need(region.returns)

    def _operation(self, operation: Operation, writer: Writer, fusion: Fusion | None) -> None:
        for result in operation.results:
            _check_size(result.type, operation)
            if self._speed.heap and _is_large(result.type):
                heap.keep()
        if operation.name == "interpreter.print":
            if fusion is not None:
                fusion.need(operation.operands, operation)
            return writer.call(printer(operation), operation, operation.operands, ())
        record = lookup(operation.name)
        if record is None or not record.takes(v.type for v in operation.operands):
            function = expansion(operation)
            if function is not None:
                if fusion is not None:
                    fusion.need(operation.operands, operation)
                run = self._expansion(function)
                writer.call(run, operation, operation.operands, operation.results, always_tuple=True)
                return self._listen(operation, writer)
        if record is None:
            raise ProgramError(f"{operation.location}: {operation.name}: this op is not supported")
        call = Call(
            operation.name,
            tuple(v.type for v in operation.operands),
            tuple(v.type for v in operation.results),
            with_mesh(operation.attributes, self._program),
            tuple(self._body(region) for region in operation.regions),
            self._policy,
            self._random,
            self._callees(operation, record.calls),
            functools.partial(_check_size, operation=operation),
            spare=fusion.spare(operation)
            if fusion is not None and record.facts.overwrites is not None
            else frozenset(),
        )
        try:
            kernel = late.bind(record, call)
        except OpError as error:
            raise ProgramError(f"{operation.location}: {operation.name}: {error}") from error
        if not record.has_effects and self._fold(operation, kernel):
            return None
        if self._speed.scalars and self._plain(operation, kernel, writer):
            return None
        if fusion is not None:
            if fusion.defer(operation, record, kernel):
                return None
            if operation.name == "stablehlo.reduce" and fusion.reduce(operation, call):
                return None
        captured = [tuple(v for v in flow.captures(r) if v not in self._constants) for r in operation.regions]
        if fusion is not None:
            fusion.need([*operation.operands, *(v for captures in captured for v in captures)], operation)
        if self._speed.scalars:
            if flow.is_inline(operation, writer):
                body = functools.partial(self._write, writer=writer)
                vectorised = self._vectorised if self._fuses and self._speed.tables else None
                return flow.write(operation, writer, body, self._speed.compiled, vectorised)
            if indexing.write(operation, writer, 0 in call.spare):
                return None
        regions = [
            (self._compile(region, captures, operation.name), captures)
            for region, captures in zip(operation.regions, captured, strict=True)
        ]
        if operation.name in CALLS:
            (callee,) = call.functions
            writer.call_function(self._functions[callee], operation)
            return self._listen(operation, writer)
        takes_plain = record.facts.takes_numbers
        writer.call(
            kernel.call, operation, operation.operands, operation.results, regions=regions, takes_plain=takes_plain
        )
        return self._listen(operation, writer)

    def _plain(self, operation: Operation, kernel: Kernel, writer: Writer) -> bool:
        """Write an op on single numbers as an expression, if some of them are there as plain numbers."""
        if len(operation.results) != 1 or not any(writer.is_plain(v) for v in operation.operands):
            return False
        types = [v.type for v in (*operation.operands, *operation.results)]
        if not all(isinstance(t, TensorType) and scalars.form(t) for t in types):
            return False
        elements = [t.element for t in types if isinstance(t, TensorType)]
        names = [writer.use_plain(v) for v in operation.operands]
        use = scalars.Use(elements[:-1], elements[-1], names, operation.attributes, self._policy, kernel, writer.thing)
        found = scalars.expression(operation.name, use)
        if found is not None:
            writer.plain(found, operation, names)
        return found is not None

    def _callees(self, operation: Operation, attributes: Iterable[str]) -> dict[str, Callee]:
        """The functions that attributes of an op name."""
        callees: dict[str, Callee] = {}
        for name in _names([operation.attributes.get(a) for a in attributes]):
            self._calls = True
            run, function = self._function(name, operation).run, self._program.functions[name]
            assert function.body is not None
            body = self._body(function.body)
            callees[name] = Callee(function.argument_types, function.result_types, run, body)
        return callees

    def _expansion(self, function: Function) -> Callable[..., tuple[Any, ...]]:
        assert function.body is not None
        return self._compile(function.body, (), function.name)

    def _listen(self, operation: Operation, writer: Writer) -> None:
        if self._steps is not None:
            writer.call(self._steps.take, operation, (), ())
        if self._listener is not None:
            listener = one_at_a_time(self._listener)
            writer.call(lambda *values: listener(operation, values), operation, operation.results, ())

    def _fold(self, operation: Operation, kernel: Kernel) -> bool:
        """Compute an op on constants now. False where it has to be computed while running."""
        if not self._is_foldable(operation):
            return False
        try:
            with np.errstate(all="ignore"):
                values = kernel(*(self._constants[v] for v in operation.operands))
        except (OpError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
            return False  # it fails where it runs, if it runs
        values = (values,) if len(operation.results) == 1 else values
        self._constants.update(zip(operation.results, values, strict=True))
        return True

    def _is_foldable(self, operation: Operation) -> bool:
        if self._listener is not None or self._steps is not None or operation.regions or not operation.results:
            return False
        if operation.name == "stablehlo.constant":
            return True  # it costs nothing, whatever its size
        size = 0
        for result in operation.results:
            if not isinstance(result.type, TensorType) or not result.type.is_static:
                return False
            size += result.type.nbytes
        known = all(v in self._constants for v in operation.operands)
        return known and size <= _FOLD_LIMIT and self._policy.rounding != "stochastic"

    # -- what an op may know of its regions ----------------------------------------------------------------------------

    def _body(self, region: Region) -> Body:
        sole = region.operations[0] if len(region.operations) == 1 else None
        if sole is not None and not (
            len(region.arguments) >= 2
            and sole.operands == region.arguments[:2]
            and region.returns == sole.results
            and not sole.regions
        ):
            sole = None
        arguments, needed = {v: i for i, v in enumerate(region.arguments)}, flow.needed(region)
        vectorised = self._vectorised(region)
        return Body(
            tuple(v.type for v in region.arguments),
            tuple(v.type for v in region.returns),
            sole.name if sole else None,
            sole.attributes if sole else {},
            vectorised,
            tuple(arguments.get(v) for v in region.returns),
            frozenset(i for v, i in arguments.items() if v in needed),
            vectorised is not None and selection.is_selection(region),
            tuple(map(self._body, selection.parts(region))) if vectorised is not None else (),
        )

    def _vectorised(self, region: Region) -> Callable[..., tuple[Any, ...]] | None:
        """The region over arrays; see `Body.vectorised`."""
        values = [*region.arguments, *(r for o in region.operations for r in o.results)]
        if not all(isinstance(v.type, TensorType) and v.type.shape == () for v in values):
            return None
        if not all(v in self._constants for v in flow.captures(region)):
            return None
        writer = Writer(self._constants.copy())
        parameters = [writer.define(v) for v in region.arguments]
        for operation in region.operations:
            record = lookup(operation.name)
            if record is None or not (record.is_elementwise or operation.name == "stablehlo.constant"):
                return None
            if not record.takes(v.type for v in operation.operands):
                return None
            widen = _array_of if record.is_elementwise else lambda t: t
            operands = tuple(widen(v.type) for v in operation.operands)
            results = tuple(widen(v.type) for v in operation.results)
            call = Call(operation.name, operands, results, operation.attributes, (), self._policy, self._random)
            try:
                writer.call(record.function(call), operation, operation.operands, operation.results)
            except OpError:
                return None  # the region itself is bound too, and tells what is wrong
        return writer.function(parameters, [writer.use(v) for v in region.returns], "vectorised", self._sources)


class _Deferred:
    """A function that can be called by others before it is compiled itself, as recursion needs."""

    target: Callable[..., tuple[Any, ...]]

    def __init__(self) -> None:
        # Not a method __call__, which Python calls by way of C: a long chain of calls would take the C stack.
        def run(*values: Any) -> tuple[Any, ...]:
            return self.target(*values)

        self.run = run


def _inner_operations(function: Function) -> Iterator[Operation]:
    """The ops in the regions of a function's ops."""
    assert function.body is not None
    return (inner for o in function.body.operations for region in o.regions for inner in region.operations)


def _names(value: Any) -> list[str]:
    """The strings in nested lists."""
    if isinstance(value, tuple | list):
        return [name for v in value for name in _names(v)]
    return [value] if isinstance(value, str) else []


def _array_of(t: Type) -> Type:
    assert isinstance(t, TensorType)
    return TensorType((None,), t.element)


def _check_size(t: Type, operation: Operation) -> None:
    if isinstance(t, TensorType) and t.is_static:
        try:
            memory.check(t.nbytes, str(t))
        except ResourceError as error:
            raise ResourceError(f"{operation.location}: {operation.name}: {error}") from None


def _is_large(t: Type) -> bool:
    return isinstance(t, TensorType) and t.is_static and t.nbytes >= heap.LARGE
