"""Evaluates an op in f64 instead of its float types, for the numbers that results are rounded from.

Minifloats, f16, bf16 and f32 are numbers of f64, so that rational ops lose next to nothing there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from ...ops.cast import cast
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, TensorType, Type
from .. import machine
from ..errors import Error
from ..passes.rewriting import copy_operation, copy_value, used_values
from ..planner import Plan, plan
from ..program import CONSTANT, Function, Location, Operation, Program, Region, Value

_F64 = ELEMENT_TYPES["f64"]
_PLAIN = Policy()
#: The bodies of folds.
_BODIES = ("stablehlo.add", "stablehlo.multiply")
#: Attributes on types and accuracy, which f64 does not need.
_LEFT_OUT = ("algorithm", "precision_config", "result_accuracy")


def widen(x: np.ndarray, t: Type) -> np.ndarray:
    """Converts an operand of a float type to f64."""
    if not isinstance(t, TensorType) or not t.element.is_float or x.dtype == _F64.dtype:
        return x
    return cast(x, t.element, _F64, _PLAIN)


def in_f64(
    operation: Operation, operands: Sequence[np.ndarray], of: Callable[[np.ndarray], np.ndarray] | None = None
) -> list[np.ndarray] | None:
    """The results of an op on `operands`, floats in f64; None if they are unavailable.

    With `of`, the operands that are numbers are replaced by that function of them, real even for complex ones. A
    region has to be a sole add or multiply. The result of a conversion is its operand.
    """
    values = [widen(x, v.type) for x, v in zip(operands, operation.operands, strict=True)]
    if operation.name == "stablehlo.convert":
        return [np.real(values[0]).astype(np.float64)]
    if of is not None:
        pairs = zip(values, operation.operands, strict=True)
        values = [of(x) if _is_number(v.type, True) else x for x, v in pairs]
    made = _wide_plan(operation, of is not None)
    try:
        return None if made is None else machine.run(made, values)
    except Error:
        return None


@functools.lru_cache(maxsize=256)
def _wide_plan(operation: Operation, real: bool) -> Plan | None:
    """Plans an op with f64 instead of its float types, complex types included if `real`; None if that is impossible.

    Its arguments are the operands, converted by `widen`. A region has to be a sole add or multiply.
    """
    bodies = [sole_op_name(r) for r in operation.regions]
    if any(b not in _BODIES for b in bodies):
        return None
    try:
        return plan(program_of(operation, lambda t: _wide(t, real)))
    except Error:
        return None


def program_of(operation: Operation, of_type: Callable[[Type], Type] = lambda t: t) -> Program:
    """The program of one op, whose operands are arguments, with other types."""
    alone = dataclasses.replace(operation, operands=tuple(Value(v.type) for v in operation.operands))
    made = widened(alone, of_type)
    takes, gives = (tuple(v.type for v in vs) for vs in (made.operands, made.results))
    body = Region(made.operands, [made], made.results)
    return Program({"main": Function("main", True, takes, gives, body, operation.location)})


def plan_region(region: Region, location: Location) -> Plan:
    """Plans a region as a function. Raises ProgramError if it uses values from outside."""
    takes, gives = (tuple(v.type for v in vs) for vs in (region.arguments, region.returns))
    return plan(Program({"main": Function("main", True, takes, gives, region, location)}))


def widened(operation: Operation, wide: Callable[[Type], Type]) -> Operation:
    """A copy of an op with other types."""
    values: dict[Value, Value] = {}

    def copy(old: Operation) -> Operation:
        regions = []
        for r in old.regions:
            arguments = tuple(copy_value(v, values) for v in r.arguments)
            operations = list(map(copy, r.operations))
            regions.append(Region(arguments, operations, tuple(copy_value(v, values) for v in r.returns)))
        made = copy_operation(old, tuple(regions), values)
        made.attributes = {k: v for k, v in old.attributes.items() if k not in _LEFT_OUT}
        if old.name == CONSTANT:
            t, of = old.results[0].type, wide(old.results[0].type)
            if of != t and isinstance(t, TensorType) and isinstance(of, TensorType):
                made.attributes["value"] = cast(old.attributes["value"], t.element, of.element, _PLAIN)
        return made

    for v in used_values(operation):
        copy_value(v, values)
    made = copy(operation)
    for v in values.values():
        v.type = wide(v.type)
    return made


def with_body(operation: Operation, name: str) -> Operation:
    """A fold with another op as its body."""
    return dataclasses.replace(operation, regions=(_body(name, operation.results[0].type, operation),))


def _body(name: str, t: Type, operation: Operation) -> Region:
    assert isinstance(t, TensorType)
    first, second, result = (Value(TensorType((), t.element)) for _ in range(3))
    return Region((first, second), [Operation(name, (first, second), (result,), {}, (), operation.location)], (result,))


def sole_op_name(region: Region) -> str | None:
    """The name of the only op of a region, if it takes the first two arguments and its result is returned."""
    if len(region.operations) != 1 or len(region.arguments) < 2:
        return None
    (operation,) = region.operations
    fits = set(operation.operands) == set(region.arguments[:2]) and region.returns == operation.results
    return operation.name if fits and not operation.regions else None


def _is_number(t: Type, real: bool) -> bool:
    return isinstance(t, TensorType) and (t.element.is_float or (real and t.element.is_complex))


def _wide(t: Type, real: bool) -> Type:
    return TensorType(t.shape, _F64) if isinstance(t, TensorType) and _is_number(t, real) else t
