"""A program to a plan: every op bound once, and each function and region turned into one Python function.

The generated functions are plain assignments of kernel calls, so running costs what the kernels cost, and the line
of a traceback tells the op. Values are dropped after their last use. Names in generated code are ours alone: nothing
of the program's text is in it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..ops.policy import Policy
from ..ops.random_stream import RandomStream
from ..ops.registry import Body, Call, Callee, OpError, lookup
from ..ops.types import TensorType, Type
from . import late, memory
from .errors import InputError, ProgramError, ResourceError
from .expand import expansion
from .parallel import one_at_a_time, printer, with_mesh
from .program import Function, Operation, Program, Region, Value
from .writer import Sources, Writer

#: Results of ops on constants are computed once, up to this many bytes.
_FOLD_LIMIT = 1 << 20

Listener = Callable[[Operation, tuple[Any, ...]], None]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A function of a program, ready to run. `entry` takes and returns tuples of values."""

    function: Function
    policy: Policy
    entry: Callable[..., tuple[Any, ...]]
    random: RandomStream
    sources: Sources

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
            raise InputError(f"{program.file}: no function @{name} ({_listed(functions)})")
        return functions[name]
    if "main" in functions:
        return functions["main"]
    public = [f for f in functions.values() if f.is_public] or list(functions.values())
    if len(public) != 1:
        raise InputError(f"{program.file}: no function @main; name one ({_listed(functions)})")
    return public[0]


def _listed(functions: Iterable[str]) -> str:
    return "there is " + (", ".join(f"@{f}" for f in functions) or "no function at all")


def plan(
    program: Program, function: str | None = None, policy: Policy | None = None, listener: Listener | None = None
) -> Plan:
    """Bind all that `function` can reach. With a `listener` nothing is folded, and it is called after each op.

    Raises ProgramError, with the place, for an op that is not supported or not valid; InputError where there is no such
    function; ResourceError for a tensor that cannot be held.
    """
    return _Planner(program, policy or Policy(), listener).plan(find_function(program, function))


class _Planner:
    def __init__(self, program: Program, policy: Policy, listener: Listener | None) -> None:
        self._program, self._policy, self._listener = program, policy, listener
        self._random = RandomStream()
        self._functions: dict[str, _Deferred] = {}
        self._constants: dict[Value, Any] = {}
        self._sources: Sources = {}
        self._pending: list[Function] = []

    def plan(self, function: Function) -> Plan:
        entry = self._function(function.name, function)
        while self._pending:  # a work list, so that a long chain of calls does not nest here
            body = self._pending.pop()
            assert body.body is not None
            self._functions[body.name].target = self._compile(body.body, (), f"@{body.name}")
        return Plan(function, self._policy, entry.target, self._random, self._sources)

    def _function(self, name: str, called_by: Function | Operation) -> _Deferred:
        if name not in self._functions:
            function = self._program.functions.get(name)
            if function is None or function.body is None:
                what = "there is no such function" if function is None else "it has no body"
                raise ProgramError(f"{called_by.location}: cannot call @{name}: {what}")
            self._functions[name] = _Deferred()
            self._pending.append(function)
        return self._functions[name]

    # -- one function or region --------------------------------------------------------------------------------------

    def _compile(self, region: Region, captures: tuple[Value, ...], label: str) -> Callable[..., tuple[Any, ...]]:
        """The Python function of a region; its captured values are its first parameters."""
        writer = Writer(self._constants)
        for value in (*captures, *region.arguments):
            writer.define(value)
        last_use = _last_uses(region)
        for index, operation in enumerate(region.operations):
            self._operation(operation, writer)
            writer.drop(last_use[index], operation)
        return writer.function(region.returns, len(captures) + len(region.arguments), label, self._sources)

    def _operation(self, operation: Operation, writer: Writer) -> None:
        for result in operation.results:
            _check_size(result.type, operation)
        if operation.name == "interpreter.print":
            return writer.call(printer(operation), operation, operation.operands, no_results=True)
        record = lookup(operation.name)
        if record is None or not record.takes(v.type for v in operation.operands):
            function = expansion(operation)
            if function is not None:
                writer.call(self._expansion(function), operation, operation.operands, always_tuple=True)
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
        )
        try:
            kernel = late.bind(record, call)
        except OpError as error:
            raise ProgramError(f"{operation.location}: {operation.name}: {error}") from error
        if not record.has_effects and self._fold(operation, kernel):
            return None
        regions = []
        for region in operation.regions:
            captures = tuple(v for v in _captures(region) if v not in self._constants)
            regions.append((self._compile(region, captures, operation.name), captures))
        writer.call(kernel, operation, operation.operands, regions=regions)
        return self._listen(operation, writer)

    def _callees(self, operation: Operation, attributes: Iterable[str]) -> dict[str, Callee]:
        """The functions that attributes of an op name."""
        callees: dict[str, Callee] = {}
        for name in _names([operation.attributes.get(a) for a in attributes]):
            run, function = self._function(name, operation), self._program.functions[name]
            assert function.body is not None
            body = self._body(function.body)
            callees[name] = Callee(function.argument_types, function.result_types, run, body)
        return callees

    def _expansion(self, function: Function) -> Callable[..., tuple[Any, ...]]:
        assert function.body is not None
        return self._compile(function.body, (), function.name)

    def _listen(self, operation: Operation, writer: Writer) -> None:
        if self._listener is not None:
            listener = one_at_a_time(self._listener)
            writer.call(lambda *values: listener(operation, values), operation, operation.results, no_results=True)

    def _fold(self, operation: Operation, kernel: Callable[..., Any]) -> bool:
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
        if self._listener is not None or operation.regions or not operation.results:
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
        return Body(
            tuple(v.type for v in region.arguments),
            tuple(v.type for v in region.returns),
            sole.name if sole else None,
            sole.attributes if sole else {},
            self._vectorised(region),
        )

    def _vectorised(self, region: Region) -> Callable[..., tuple[Any, ...]] | None:
        """The region over arrays; see `Body.vectorised`."""
        values = [*region.arguments, *(r for o in region.operations for r in o.results)]
        if not all(isinstance(v.type, TensorType) and v.type.shape == () for v in values):
            return None
        if not all(v in self._constants for v in _captures(region)):
            return None
        writer = Writer(self._constants.copy())
        for value in region.arguments:
            writer.define(value)
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
                writer.call(record.kernel(call), operation, operation.operands)
            except OpError:
                return None  # the region itself is bound too, and tells what is wrong
        return writer.function(region.returns, len(region.arguments), "vectorised", self._sources)


class _Deferred:
    """A function that can be called by others before it is compiled itself, as recursion needs."""

    target: Callable[..., tuple[Any, ...]]

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return self.target(*values)


def _captures(region: Region) -> tuple[Value, ...]:
    """The values a region uses and does not define, in the order of use."""
    defined: set[Value] = set()
    used: dict[Value, None] = {}

    def visit(r: Region) -> None:
        defined.update(r.arguments)
        for operation in r.operations:
            used.update(dict.fromkeys(operation.operands))
            for inner in operation.regions:
                visit(inner)
            defined.update(operation.results)
        used.update(dict.fromkeys(r.returns))

    visit(region)
    return tuple(v for v in used if v not in defined)


def _last_uses(region: Region) -> list[list[Value]]:
    """For each op of a region, the values it is the last to use, or that it makes for nobody."""
    last: dict[Value, int] = {}
    for index, operation in enumerate(region.operations):
        inner = [v for r in operation.regions for v in _captures(r)]
        last.update(dict.fromkeys((*operation.operands, *operation.results, *inner), index))
    for value in region.returns:
        last.pop(value, None)
    result: list[list[Value]] = [[] for _ in region.operations]
    for value, index in last.items():
        result[index].append(value)
    return result


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
