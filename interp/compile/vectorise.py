"""Vectorizes a region on single numbers, so that reductions, sorts, scatters and scans apply it to whole arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ops.op import lookup
from ...ops.types import TensorType
from ..program import Operation, Region, Value
from .group import Attributes, Constant, Function, Origin, Step
from .passes.fusible import element_of
from .uses import captures


def function_of(region: Region, constants: Mapping[Value, Any]) -> tuple[Function, tuple[Origin, ...]] | None:
    """The function of a region's arguments, and where its steps come from.

    None where an argument or a value is not a single number, an op is not elementwise, or the region takes more from
    around it than constants.
    """
    values = [*region.arguments, *(r for o in region.operations for r in o.results)]
    if not all(isinstance(v.type, TensorType) and v.type.shape == () for v in values):
        return None
    captured = captures(region)
    if not all(v in constants for v in captured):
        return None
    names: dict[Value, int] = {v: i for i, v in enumerate(region.arguments)}
    numbers: list[Constant] = []
    steps: list[Operation] = []
    for value in captured:
        if not isinstance(value.type, TensorType) or value.type.shape != ():
            return None
        numbers.append(Constant.of(np.asarray(constants[value]), value.type.element))
        names[value] = len(names)
    for operation in region.operations:
        record = lookup(operation.name)
        if operation.name == "stablehlo.constant":
            (result,) = operation.results
            array = constants.get(result, operation.attributes.get("value"))
            if not isinstance(array, np.ndarray | np.generic) or array.dtype != element_of(result).dtype:
                return None
            numbers.append(Constant.of(np.asarray(array), element_of(result)))
            names[result] = len(names)
        elif record is not None and record.is_elementwise and record.takes(v.type for v in operation.operands):
            if len(operation.results) != 1:
                return None
            steps.append(operation)
        else:
            return None
    for operation in steps:
        names[operation.results[0]] = len(names)
    function = Function(
        tuple([element_of(v) for v in region.arguments]),
        tuple(numbers),
        tuple([_step(o, names) for o in steps]),
        tuple([names[v] for v in region.returns]),
    )
    return function, tuple([Origin(o.origin or o) for o in steps])


def _step(operation: Operation, names: Mapping[Value, int]) -> Step:
    types = tuple([TensorType((None,), element_of(v)) for v in (*operation.operands, *operation.results)])
    return Step(operation.name, Attributes(operation.attributes), tuple([names[v] for v in operation.operands]), types)
