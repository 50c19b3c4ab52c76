"""Estimates from a program's text: time, memory, and whether it calls Python functions.

What is likely to take long runs while its caller goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from ...ops.op import lookup, traits_of
from ...ops.traits import Effects, RegionSemantics
from ...ops.types import TensorType
from ..program import PRINT, Function, Operation, Program, Region, Value
from .host_callbacks import TARGET

#: The seconds from which a program runs while its caller goes on; handing it to another thread takes some 0.1 ms.
LONG = 0.01
#: The estimate: seconds for an op, for an element of an operand or a result, and for a product that is summed; and how
#: many times as long the functions of floats take, and products of windows that are copied.
_OP, _ELEMENT, _PRODUCT, _HARD = 2e-6, 1e-9, 1e-10, 10


def calls_python(program: Program, function: Function) -> bool:
    """Whether a function calls Python functions of the user, or reads from or writes to the outside."""
    return any(
        o.attributes.get("call_target_name") == TARGET
        or o.name == PRINT
        or traits_of(o.name).effects is Effects.OUTSIDE
        for o in _reached_operations(program, function)
    )


def is_plain(program: Program, function: Function) -> bool:
    """Whether a function only computes on its arguments: no loops, random bits, other processes or custom calls."""
    return all(
        (record := lookup(operation.name)) is not None and record.is_pure
        for operation in _reached_operations(program, function)
    )


def largest(program: Program, function: Function) -> int:
    """The bytes of the largest value that a function computes."""
    sizes = (
        value.type.nbytes
        for operation in _reached_operations(program, function)
        for value in operation.results
        if isinstance(value.type, TensorType) and value.type.is_static
    )
    return max(sizes, default=0)


def estimate(program: Program, function: Function) -> float:
    """The seconds that a function is likely to run, roughly. Infinity where a loop says nothing of when it ends."""
    known_values = constants(program, function)
    known: dict[str, float] = {}
    op = _OP

    def of_function(name: str) -> float:
        if name not in known:
            known[name] = math.inf  # of one that calls itself
            body = program.functions[name].body
            known[name] = of_region(body) if body is not None else 0.0
        return known[name]

    def of_region(region: Region) -> float:
        return sum(map(of_operation, region.operations))

    def of_operation(operation: Operation) -> float:
        match traits_of(operation.name).regions:
            case RegionSemantics.LOOP:
                count = turns(operation, known_values)
                return count * (op + sum(map(of_region, operation.regions))) if count else op
            case RegionSemantics.ONE | RegionSemantics.ALL:
                return op + max(map(of_region, operation.regions), default=0.0)
        called = sum(of_function(name) for name in names(operation.attributes.values()) if name in program.functions)
        return called + _of_one(operation)

    return of_function(function.name)


def constants(program: Program, function: Function) -> dict[Value, object]:
    """The values of the constants of a function and of all that it calls."""
    return {
        o.results[0]: o.attributes.get("value")
        for o in _reached_operations(program, function)
        if o.name == "stablehlo.constant"
    }


def turns(loop: Operation, constants: Mapping[Value, object]) -> float:
    """How often a loop turns that counts up from zero to a constant; else infinity."""
    compare = [o for o in loop.regions[0].operations if o.name != "stablehlo.constant"]
    if [(o.name, o.attributes.get("comparison_direction")) for o in compare] == [("stablehlo.compare", "LT")]:
        counter, end = compare[0].operands
        bound = constants.get(end)
        if counter in loop.regions[0].arguments and isinstance(bound, np.ndarray) and bound.size == 1:
            return max(float(bound.reshape(())), 0.0)
    return math.inf


def _of_one(operation: Operation) -> float:
    """The seconds that an op takes, but for what it calls."""
    if operation.name == "stablehlo.constant":
        return 0.0
    results = sum(map(count, operation.results))
    elements = results + sum(map(count, operation.operands))
    products = terms(operation) * (_HARD if operation.name == "stablehlo.convolution" else 1)
    is_hard = operation.regions or operation.name == "stablehlo.custom_call"
    of_elements = elements * _ELEMENT * (_HARD if is_hard else 1)
    return _OP + of_elements + products * results * _PRODUCT


def terms(operation: Operation) -> int:
    """The products that are summed for an element of an op's result; 0 for an op that sums none."""
    count_terms = traits_of(operation.name).terms
    return 0 if count_terms is None else count_terms([sizes(v) for v in operation.operands], operation.attributes)


def sizes(value: Value) -> list[int]:
    """The sizes of a tensor, 1 for those that are not known; nothing of what is no tensor."""
    return [n or 1 for n in value.type.shape] if isinstance(value.type, TensorType) else []


def count(value: Value) -> int:
    """The number of elements; 0 of what is no tensor."""
    return math.prod(sizes(value)) if isinstance(value.type, TensorType) else 0


def _reached(program: Program, function: Function) -> dict[str, None]:
    """The names of a function and of all that it calls."""
    reached, todo = {function.name: None}, [function.name]
    while todo:
        for operation in _operations(program.functions[todo.pop()].body):
            for name in names(operation.attributes.values()):
                if name in program.functions and name not in reached:
                    reached[name] = None
                    todo.append(name)
    return reached


def _reached_operations(program: Program, function: Function) -> Iterator[Operation]:
    """The ops of a function and of all that it calls."""
    for name in _reached(program, function):
        yield from _operations(program.functions[name].body)


def _operations(region: Region | None) -> Iterator[Operation]:
    """The ops of a region and of those within."""
    todo = [region] if region is not None else []
    while todo:
        for operation in todo.pop().operations:
            yield operation
            todo.extend(operation.regions)


def names(values: object) -> Iterator[str]:
    """The strings among values, and in lists among them."""
    if isinstance(values, str):
        yield values
    elif hasattr(values, "__iter__") and not isinstance(values, np.ndarray | bytes | dict):
        for value in values:  # type: ignore[attr-defined]
            yield from names(value)
