"""Facts of a program that are counted before it runs: operations and bytes, memory, and calls of Python functions.

Costs are counted op by op, as XLA does before it fuses: an elementwise op takes one operation for each element, or one
transcendental if it is a function such as exp. A product takes two operations for each term. An op reads its operands
and writes its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from ...ops.op import lookup, traits_of
from ...ops.traits import Effects, RegionSemantics
from ...ops.types import TensorType
from ..program import CONSTANT, PRINT, Function, Operation, Program, Region, Value
from .host_callbacks import TARGET

Count = TypeVar("Count")


class Costs(NamedTuple):
    """What a run takes: operations, transcendentals, bytes read or written, and evaluations of ops."""

    flops: float = 0.0
    transcendentals: float = 0.0
    accessed: float = 0.0
    evaluations: float = 0.0

    def times(self, n: float) -> Costs:
        """Return the costs of n runs."""
        return Costs(*(n * x for x in self))


class Analysis:
    """The facts of a function and of all that it calls.

    Attributes:
        costs: The costs of a run. A loop of unknown length counts as one iteration.
        has_known_length: Whether the number of iterations of each loop is known.
        calls_python: Whether it calls Python functions of the user, or reads from or writes to the outside.
        largest: The bytes of the largest value.
    """

    def __init__(self, program: Program, function: Function) -> None:
        self._program, self._function = program, function
        operations = list(self._reachable_operations())
        self._constants = {o.results[0]: o.attributes.get("value") for o in operations if o.name == CONSTANT}
        self.calls_python = any(
            o.attributes.get("call_target_name") == TARGET
            or o.name == PRINT
            or traits_of(o.name).effects is Effects.OUTSIDE
            for o in operations
        )
        self.largest = max((_bytes((v,)) for o in operations for v in o.results), default=0)
        self.has_known_length = True
        self.costs = self._of_functions(self._costs_of_region, Costs())(function.name)

    def temporaries(self) -> int:
        """Return the most bytes that values other than arguments and results take at any time.

        Each value is freed after its last use.
        """
        return self._of_functions(self._temporaries_of_region, 0)(self._function.name)

    def _of_functions(
        self, of_region: Callable[[Region, Callable[[str], Count]], Count], nothing: Count
    ) -> Callable[[str], Count]:
        """What is counted of a function by its name; nothing of one that calls itself."""
        known: dict[str, Count] = {}

        def of_function(name: str) -> Count:
            if name not in known:
                known[name] = nothing
                body = self._program.functions[name].body
                known[name] = of_region(body, of_function) if body is not None else nothing
            return known[name]

        return of_function

    def _costs_of_region(self, region: Region, of_function: Callable[[str], Costs]) -> Costs:
        return _sum(self._costs_of(o, of_function) for o in region.operations)

    def _costs_of(self, operation: Operation, of_function: Callable[[str], Costs]) -> Costs:
        bodies = [self._costs_of_region(r, of_function) for r in operation.regions]
        semantics = traits_of(operation.name).regions
        if semantics is RegionSemantics.LOOP:
            iterations = self._iterations(operation)
            self.has_known_length = self.has_known_length and iterations is not None
            return _sum(bodies).times(1 if iterations is None else iterations)
        if semantics is RegionSemantics.ONE:
            return max(bodies, default=Costs())
        called = _sum(of_function(name) for name in self._called(operation))
        if semantics is RegionSemantics.ALL:
            return _sum((called, *bodies))
        # A body works on registers: its operations count, for each time it runs, and its reads and writes do not.
        steps = _sum(bodies).times(_runs_of_body(operation)) if bodies else Costs()
        return _sum((called, steps._replace(accessed=0.0, evaluations=0.0), _costs_of_one(operation)))

    def _iterations(self, loop: Operation) -> float | None:
        """The number of iterations of a loop that counts up from zero to a constant; None of another loop."""
        compare = [o for o in loop.regions[0].operations if o.name != CONSTANT]
        if [(o.name, o.attributes.get("comparison_direction")) for o in compare] == [("stablehlo.compare", "LT")]:
            counter, end = compare[0].operands
            bound = self._constants.get(end)
            if counter in loop.regions[0].arguments and isinstance(bound, np.ndarray) and bound.size == 1:
                return max(float(bound.reshape(())), 0.0)
        return None

    def _temporaries_of_region(self, region: Region, of_function: Callable[[str], int]) -> int:
        last = {value: i for i, o in enumerate(region.operations) for value in _read(o)}
        returned = set(region.returns)
        freed: dict[int, int] = {}
        live = most = 0
        for i, operation in enumerate(region.operations):
            for value in operation.results:
                if value not in returned:
                    live += _bytes((value,))
                    end = last.get(value, i)
                    freed[end] = freed.get(end, 0) + _bytes((value,))
            called = [of_function(name) for name in self._called(operation)]
            called += [self._temporaries_of_region(r, of_function) for r in operation.regions]
            most = max(most, live + max(called, default=0))
            live -= freed.get(i, 0)
        return most

    def _called(self, operation: Operation) -> list[str]:
        """The names of the functions that an op calls."""
        return [name for name in _strings(operation.attributes.values()) if name in self._program.functions]

    def _reachable_operations(self) -> Iterator[Operation]:
        """The ops of the function and of all that it calls, those of inner regions too."""
        reached, functions = {self._function.name}, [self._function.name]
        while functions:
            body = self._program.functions[functions.pop()].body
            regions = [] if body is None else [body]
            while regions:
                for operation in regions.pop().operations:
                    yield operation
                    regions.extend(operation.regions)
                    new = set(self._called(operation)) - reached
                    functions.extend(new)
                    reached |= new


def _sum(costs: Iterable[Costs]) -> Costs:
    return Costs(*map(sum, zip(*costs, strict=True)))


def _costs_of_one(operation: Operation) -> Costs:
    """The costs of an op without what it calls."""
    traits = traits_of(operation.name)
    if operation.name == CONSTANT or traits.is_call:
        return Costs()  # it reads and writes nothing by itself
    accessed = _bytes((*operation.operands, *operation.results))
    record = lookup(operation.name)
    results = sum(map(_count, operation.results))
    if record is not None and record.is_elementwise:
        return Costs(0, results, accessed, 1) if record.accuracy.is_near else Costs(results, 0, accessed, 1)
    terms = traits.terms and traits.terms([_shape(v) for v in operation.operands], operation.attributes)
    return Costs(2 * (terms or 0) * results, 0, accessed, 1)


def _runs_of_body(operation: Operation) -> float:
    """How often an op runs its body."""
    body_runs = traits_of(operation.name).body_runs
    operands, results = ([_shape(v) for v in values] for values in (operation.operands, operation.results))
    if body_runs is not None:
        return body_runs(operands, results, operation.attributes)
    return max(sum(map(_count, values)) for values in (operation.operands, operation.results))


def _read(operation: Operation) -> Iterator[Value]:
    """The values that an op and its regions read."""
    yield from operation.operands
    for region in operation.regions:
        yield from region.returns
        for inner in region.operations:
            yield from _read(inner)


def _shape(value: Value) -> list[int]:
    """The sizes of a tensor, 1 for those that are not known; empty for other values."""
    return [n or 1 for n in value.type.shape] if isinstance(value.type, TensorType) else []


def _count(value: Value) -> int:
    """The number of elements; 0 of a value that is no tensor."""
    return math.prod(_shape(value)) if isinstance(value.type, TensorType) else 0


def _bytes(values: Iterable[Value]) -> int:
    """The bytes of tensors of known sizes."""
    return sum(v.type.nbytes for v in values if isinstance(v.type, TensorType) and v.type.is_static)


def _strings(values: object) -> Iterator[str]:
    """The strings among values, and in lists among them."""
    if isinstance(values, str):
        yield values
    elif hasattr(values, "__iter__") and not isinstance(values, np.ndarray | bytes | dict):
        for value in values:  # type: ignore[attr-defined]
            yield from _strings(value)
