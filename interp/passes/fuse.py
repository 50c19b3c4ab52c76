"""The pass that fuses elementwise operations into lookup tables.

The rule. A value that depends on 16 bits in all (one or two inputs of 8 bits, whatever lies between: constants, wider
types, comparisons) is one lookup in a table. Where more inputs meet, the operands themselves become the inputs of a
table if they have 16 bits together. A group of operations is fused if that saves a lookup. A value that is needed twice
is part of several tables. Nothing is computed that nothing needs.

GELU in FP8 becomes one lookup: some fifteen operations, each of which would go over the array.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from typing import Any

import numpy as np

from ...ops.op import lookup, traits_of
from ...ops.tables import MOST_BITS, index_bits
from ...ops.traits import RegionSemantics
from ...ops.types import ElementType, QuantizedType, TensorType
from ..program import CONSTANT, Operation, Region, Value
from .rewriting import used_values, with_operations, with_regions

#: The operation that stands for a fused group: its operands are the inputs, its region computes an element.
TABLE = "minihlo.table"
#: The most operations of a group: a limit of the time of planning.
LONGEST = 256

_BROADCAST = "stablehlo.broadcast_in_dim"


def fuse(region: Region) -> Region:
    """Return a valid region in which operations `TABLE` stand in place of groups of elementwise operations."""
    return _Fuser(ChainMap()).region(region)


@dataclasses.dataclass(frozen=True)
class _Member:
    """An operation that can be part of a table: the inputs of its group, and how many operations the group has."""

    operation: Operation
    inputs: tuple[Value, ...]
    size: int


class _Fuser:
    """Fuses the operations of a region; `uniform` has the numbers of tensors that have one number everywhere."""

    def __init__(self, uniform: ChainMap[Value, np.ndarray]) -> None:
        self._uniform = uniform
        self._members: dict[Value, _Member] = {}

    def region(self, region: Region) -> Region:
        for operation in region.operations:
            self._note(operation)
        needed, operations = set(region.returns), []
        for operation in reversed(region.operations):
            member = self._members.get(operation.results[0]) if operation.results else None
            if member is None:
                if traits_of(operation.name).regions is not RegionSemantics.ELEMENTS:
                    regions = [_Fuser(self._uniform.new_child()).region(r) for r in operation.regions]
                    operation = with_regions(operation, regions)
            elif needed.isdisjoint(operation.results):
                continue
            else:
                group = self._group(member)
                operation = operation if group is None else group
            needed.update(used_values(operation))
            operations.append(operation)
        return with_operations(region, operations[::-1])

    def _note(self, operation: Operation) -> None:
        """Note a number that a tensor has everywhere, or the group that an operation can be part of."""
        if operation.name == CONSTANT:
            number = _only_number(operation.attributes.get("value"))
            if number is not None:
                self._uniform[operation.results[0]] = number
        elif operation.name == _BROADCAST and operation.operands[0] in self._uniform:
            self._uniform[operation.results[0]] = self._uniform[operation.operands[0]]
        elif _is_fusible(operation):
            operands = [v for v in dict.fromkeys(operation.operands) if v not in self._uniform]
            shape = operation.results[0].shape
            if not operands or any(v.shape != shape for v in operands):
                return
            joined: list[Value] = []
            size = 1
            for value in operands:
                member = self._members.get(value)
                joined += [value] if member is None else member.inputs
                size += 0 if member is None else member.size
            inputs = tuple(dict.fromkeys(joined))
            if sum(map(_width, inputs)) > MOST_BITS or size > LONGEST:
                inputs, size = tuple(operands), 1
            if sum(map(_width, inputs)) <= MOST_BITS:
                self._members[operation.results[0]] = _Member(operation, inputs, size)

    def _group(self, member: _Member) -> Operation | None:
        """Return the table of a group; None where it does not pay."""
        found: dict[Operation, None] = {}

        def collect(value: Value) -> None:
            if value in member.inputs or value in self._uniform:
                return
            inner = self._members[value].operation
            if inner in found:
                return
            for operand in inner.operands:
                collect(operand)
            found[inner] = None

        for operand in member.operation.operands:
            collect(operand)
        found[member.operation] = None
        if not _pays(found):
            return None
        last = member.operation
        return Operation(
            TABLE, member.inputs, last.results, {}, (self._body(member, found),), last.location, last.origin or last
        )

    def _body(self, member: _Member, operations: dict[Operation, None]) -> Region:
        """Return the region of single numbers that computes an element of a group."""
        numbers: dict[Value, Value] = {}
        body: list[Operation] = []

        def scalar(value: Value) -> Value:
            if value not in numbers:
                numbers[value] = Value(TensorType((), _element(value)))
                if value in self._uniform:
                    constant = {"value": self._uniform[value]}
                    body.append(Operation(CONSTANT, (), (numbers[value],), constant, (), member.operation.location))
            return numbers[value]

        arguments = tuple([scalar(v) for v in member.inputs])
        for operation in operations:
            operands = tuple([scalar(v) for v in operation.operands])
            results = tuple([scalar(v) for v in operation.results])
            origin = operation.origin or operation
            body.append(
                Operation(operation.name, operands, results, operation.attributes, (), operation.location, origin)
            )
        return Region(arguments, body, (scalar(member.operation.results[0]),))


def _is_fusible(operation: Operation) -> bool:
    """Return whether an op gives each element of a tensor by itself, the same bits wherever it stands."""
    record = lookup(operation.name)
    if record is None or not (record.is_elementwise or record.traits.keeps_bits) or len(operation.results) != 1:
        return False
    types = [v.type for v in (*operation.operands, *operation.results)]
    if not operation.operands or not all(_is_plain(t) for t in types) or not operation.results[0].shape:
        return False
    if not record.takes(v.type for v in operation.operands):
        return False  # it runs as its expansion
    if record.traits.keeps_bits:
        return _element(operation.operands[0]).bits == _element(operation.results[0]).bits
    # The host's functions of f64 can depend on what stands beside an element.
    return not (record.accuracy.is_near and any(_element(v).name == "f64" for v in operation.operands))


def _is_plain(t: Any) -> bool:
    if not isinstance(t, TensorType) or not t.is_static or 0 in t.shape:
        return False
    return not t.element.is_complex and not isinstance(t.element, QuantizedType)


def _element(value: Value) -> ElementType:
    assert isinstance(value.type, TensorType)
    return value.type.element


def _width(value: Value) -> int:
    """Return how many bits of an element index a table; more than any table has for a wide one."""
    return index_bits(_element(value))


def _pays(operations: dict[Operation, None]) -> bool:
    """Return whether one lookup takes less time than the operations of a group: of several, and not of integers alone.

    numpy computes with integers in less time than it looks up.
    """
    computed = [o for o in operations if not traits_of(o.name).keeps_bits]
    values = [v for o in computed for v in (*o.operands, *o.results)]
    return len(computed) > 1 and any(_element(v).is_float for v in values)


def _only_number(value: Any) -> np.ndarray | None:
    """Return the element that an array has everywhere, as an array of rank 0; None of others."""
    if not isinstance(value, np.ndarray) or value.size == 0 or value.itemsize > 8:
        return None
    if any(n > 1 and step for n, step in zip(value.shape, value.strides, strict=True)):
        codes = np.ascontiguousarray(value).view(f"u{value.itemsize}")
        if not (codes == codes[(0,) * value.ndim]).all():
            return None
    return value[(*(0,) * value.ndim, ...)]
