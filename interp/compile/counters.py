"""Bounds the integers that a loop carries, by its condition and by what each iteration adds to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ...ops.types import Kind, TensorType
from ..program import Operation, Region, Value
from .source.intervals import Range, known_range, range_of

#: By the place of what is carried: its range before each turn and after the last one, and its range within turns.
Carried = dict[int, tuple[Range, Range]]


def carried_ranges(operation: Operation, constants: Mapping[Value, Any], before: Callable[[Value], Range]) -> Carried:
    """What is known of the integers that a while loop carries; `before` gives the range of one before the loop."""
    condition, turn = operation.regions
    made = {r: o for o in turn.operations for r in o.results}
    starts: dict[int, Range] = {}
    steps: dict[int, int] = {}
    for i, (argument, returned, operand) in enumerate(
        zip(turn.arguments, turn.returns, operation.operands, strict=True)
    ):
        t = argument.type
        if not isinstance(t, TensorType) or t.shape != () or not t.element.is_integer:
            continue
        constant = _integer(operand, constants)
        starts[i] = (constant, constant) if constant is not None else before(operand)
        step = 0 if returned is argument else _added(argument, made.get(returned), constants)
        if step is not None:
            steps[i] = step
    turns, found = math.inf, dict[int, tuple[Range, Range]]()
    limits = {condition.arguments.index(v): n for v, n in _limits(condition, constants)}
    for i, most in limits.items():
        step, (low, high) = steps.get(i, 0), starts.get(i, (-math.inf, math.inf))
        if step > 0 and low > -math.inf:
            turns = min(turns, max((most - low) // step + 1, 0))
            _note(found, turn.arguments[i], i, (low, max(high, most + step)), (low, max(most, low)))
    for i, step in steps.items():
        low, high = starts[i]
        if i in found or (turns == math.inf and step):
            continue
        last, least = ((step * n if step else 0) for n in (turns, max(turns - 1, 0)))
        whole = low + min(last, 0), high + max(last, 0)
        _note(found, turn.arguments[i], i, whole, (low + min(least, 0), high + max(least, 0)))
    return found


def _note(found: Carried, argument: Value, place: int, whole: Range, within: Range) -> None:
    """Take note of ranges that the type of what is carried can hold."""
    assert isinstance(argument.type, TensorType)
    low, high = range_of(argument.type.element)
    if low <= whole[0] and whole[1] <= high:
        found[place] = whole, within


def _integer(value: Value, constants: Mapping[Value, Any]) -> int | None:
    array = constants.get(value)
    if array is None or known_range(value.type)[0] == -math.inf:
        return None
    array = np.asarray(array)
    return int(array) if array.ndim == 0 else None


def _added(argument: Value, made: Operation | None, constants: Mapping[Value, Any]) -> int | None:
    """What a turn adds to an integer; None where it does something else."""
    if made is None or len(made.operands) != 2 or made.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    x, y = made.operands
    if made.name == "stablehlo.add" and y is argument:
        x, y = y, x
    step = _integer(y, constants)
    if x is not argument or step is None:
        return None
    return step if made.name == "stablehlo.add" else -step


def _limits(condition: Region, constants: Mapping[Value, Any]) -> Iterator[tuple[Value, int]]:
    """The arguments of a condition that are at most some integer where it is true."""
    made = {r: o for o in condition.operations for r in o.results}
    wanted = [condition.returns[0]]
    while wanted:
        operation = made.get(wanted.pop())
        if operation is None:
            continue
        if operation.name in ("stablehlo.and", "stablehlo.convert"):
            wanted += [v for v in operation.operands if v.type.element.kind is Kind.BOOL]  # type: ignore[union-attr]
        elif operation.name == "stablehlo.compare":
            direction, (x, y) = operation.attributes.get("comparison_direction"), operation.operands
            if direction in ("GT", "GE"):
                direction, x, y = {"GT": "LT", "GE": "LE"}[direction], y, x
            most = _integer(y, constants)
            if direction == "NE" and most == 0 and x.type.element.kind is Kind.BOOL:  # type: ignore[union-attr]
                wanted.append(x)
            elif direction in ("LT", "LE") and most is not None and x in condition.arguments:
                yield x, most - (direction == "LT")
