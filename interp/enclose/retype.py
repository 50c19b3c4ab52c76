"""The same operation on another element type."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...ops.types import ElementType, TensorType, Type
from ..program import Operation, Region, Value
from .values import F64, to_f64


def element_of(t: Type) -> ElementType:
    """Return the element type of a tensor type; f64 of others."""
    return t.element if isinstance(t, TensorType) else F64


def retype(operation: Operation, element: ElementType, at: Sequence[int]) -> Operation:
    """Return an operation whose operands `at` and results, and region values of their types, have another type."""
    old = {element_of(operation.operands[i].type) for i in at}
    old |= {
        t.element
        for v in operation.results
        if isinstance(t := v.type, TensorType) and (t.element.is_float or t.element.is_complex)
    }
    values: dict[Value, Value] = {}

    def again(v: Value) -> Value:
        if v not in values:
            t = v.type
            values[v] = v
            if isinstance(t, TensorType) and t.element in old:
                values[v] = Value(dataclasses.replace(t, element=element.part if t.element.is_float else element))
        return values[v]

    def region(r: Region) -> Region:
        return Region(tuple(map(again, r.arguments)), list(map(inner, r.operations)), tuple(map(again, r.returns)))

    def inner(o: Operation) -> Operation:
        attributes = o.attributes
        value = attributes.get("value")
        if isinstance(value, np.ndarray) and o.results and again(o.results[0]) is not o.results[0]:
            attributes = {**attributes, "value": to_f64(value, element_of(o.results[0].type)).astype(element.dtype)}
        return dataclasses.replace(
            o, operands=tuple(map(again, o.operands)), results=tuple(map(again, o.results)), attributes=attributes,
            regions=tuple(map(region, o.regions)),
        )  # fmt: skip

    # A value that is an operand twice becomes two, since each has numbers of its own here.
    operands = tuple([Value(again(v).type if i in at else v.type) for i, v in enumerate(operation.operands)])
    made = inner(operation)
    return dataclasses.replace(made, operands=operands)
