"""What JAX reports of a compiled program: `cost_analysis()` and `memory_analysis()`.

Op by op, as XLA counts before it fuses: an elementwise op takes one operation an element, a function such as exp one
transcendental instead, a product two operations a term; an op reads its operands and writes its results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...ops.op import lookup, traits_of
from ...ops.traits import RegionSemantics
from ...ops.types import TensorType
from ..program import CONSTANT, Function, Operation, Program, Region, Value
from . import cost


def costs(program: Program, function: Function) -> dict[str, float]:
    """XLA's names of costs, and their sums over all that a function runs. A loop of unknown length counts once."""
    constants = cost.constants(program, function)
    known: dict[str, np.ndarray] = {}

    def of_function(name: str) -> np.ndarray:
        if name not in known:
            known[name] = np.zeros(3)  # of one that calls itself
            body = program.functions[name].body
            known[name] = of_region(body) if body is not None else np.zeros(3)
        return known[name]

    def of_region(region: Region) -> np.ndarray:
        return sum(map(of_operation, region.operations), np.zeros(3))

    def of_operation(operation: Operation) -> np.ndarray:
        bodies = [of_region(r) for r in operation.regions]
        runs = traits_of(operation.name).regions
        if runs is RegionSemantics.LOOP:
            turns = cost.turns(operation, constants)
            return sum(bodies, np.zeros(3)) * (turns if math.isfinite(turns) else 1)
        if runs is RegionSemantics.ONE:
            return max(bodies, key=lambda b: tuple(b), default=np.zeros(3))
        called = [of_function(n) for n in cost.names(operation.attributes.values()) if n in program.functions]
        total = sum(called, np.zeros(3))
        if runs is RegionSemantics.ALL:
            return sum(bodies, total)
        # A body works on registers: its operations count, for each time it runs, and what it reads and writes does not.
        steps = sum(bodies, np.zeros(3)) * _runs_of_body(operation)
        steps[2] = 0
        return total + steps + _of_one(operation)

    flops, transcendentals, accessed = of_function(function.name)
    return {"flops": float(flops), "transcendentals": float(transcendentals), "bytes accessed": float(accessed)}


def _of_one(operation: Operation) -> np.ndarray:
    """The operations, the transcendentals and the bytes of an op, but for what it calls."""
    if operation.name == CONSTANT or traits_of(operation.name).is_call:
        return np.zeros(3)  # it reads and writes nothing by itself
    values = (*operation.operands, *operation.results)
    accessed = sum(v.type.nbytes for v in values if isinstance(v.type, TensorType) and v.type.is_static)
    record = lookup(operation.name)
    results = sum(map(cost.count, operation.results))
    if record is not None and record.is_elementwise:
        return np.array([0, results, accessed] if record.accuracy.is_near else [results, 0, accessed], float)
    return np.array([2 * cost.terms(operation) * results, 0, accessed], float)


def _runs_of_body(operation: Operation) -> float:
    """How often an op runs its body."""
    body_runs = traits_of(operation.name).body_runs
    operands, results = ([cost.sizes(v) for v in values] for values in (operation.operands, operation.results))
    if body_runs is not None:
        return body_runs(operands, results, operation.attributes)
    return max(sum(map(cost.count, values)) for values in (operation.operands, operation.results))


def temporaries(program: Program, function: Function) -> int:
    """The most bytes that values between arguments and results take at any time, each freed after its last use."""
    known: dict[str, int] = {}

    def of_function(name: str) -> int:
        if name not in known:
            known[name] = 0  # of one that calls itself
            body = program.functions[name].body
            known[name] = of_region(body) if body is not None else 0
        return known[name]

    def of_region(region: Region) -> int:
        last = {value: i for i, o in enumerate(region.operations) for value in _read(o)}
        returned = set(region.returns)
        freed: dict[int, int] = {}
        live = most = 0
        for i, operation in enumerate(region.operations):
            for value in operation.results:
                if value not in returned and isinstance(value.type, TensorType) and value.type.is_static:
                    live += value.type.nbytes
                    end = last.get(value, i)
                    freed[end] = freed.get(end, 0) + value.type.nbytes
            called = (of_function(n) for n in cost.names(operation.attributes.values()) if n in program.functions)
            most = max(most, live + max((*called, *map(of_region, operation.regions)), default=0))
            live -= freed.get(i, 0)
        return most

    return of_function(function.name)


def _read(operation: Operation) -> Iterator[Value]:
    """The values that an op reads, and those that its regions do."""
    yield from operation.operands
    for region in operation.regions:
        yield from region.returns
        for inner in region.operations:
            yield from _read(inner)
