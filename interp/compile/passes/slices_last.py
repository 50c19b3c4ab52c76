"""The pass that computes with a small tensor as a whole before it is sliced, in loops.

The rule. Elementwise operations that are the same but for the slices of one tensor that they read become one operation
on that tensor, and slices of its result. Gates of a recurrent cell are an example: three slices of one product go
through `1 / (1 + exp(-x))`, which takes four calls then in the place of twelve. A call of numpy on few elements takes
as long as one on hundreds, so some elements may be computed that nothing needs: how many is in `tuning`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.op import lookup
from ....ops.traits import RegionSemantics
from ....ops.types import TensorType
from ...program import Operation, Region, Value
from ..group import Attributes
from .fusible import element_of, is_fusible, only, shape_of
from .rewriting import with_operations, with_regions

_SLICE, _BROADCAST = "stablehlo.slice", "stablehlo.broadcast_in_dim"


def slices_last(region: Region, constants: dict[Value, Any], in_loop: bool = False) -> Region:
    """The region, in whose loops slices are taken as late as possible; the same object where nothing changes.

    The new operations are not bound yet; `constants` gets those that they need.
    """
    operations = []
    for operation in region.operations:
        record = lookup(operation.name)
        if record is not None and record.traits.regions in (RegionSemantics.LOOP, RegionSemantics.ONE):
            inner = in_loop or record.traits.regions is RegionSemantics.LOOP
            operation = with_regions(operation, [slices_last(r, constants, inner) for r in operation.regions])
        operations.append(operation)
    region = with_operations(region, operations)
    for _ in range(tuning().slices_rounds if in_loop else 0):
        changed = _Slices(region, constants).result()
        if changed is region:
            break
        region = changed
    return region


class _Slices:
    """One operation further for all slices of a region."""

    def __init__(self, region: Region, constants: dict[Value, Any]) -> None:
        self._region, self._constants = region, constants
        self._slices = {o.results[0]: o for o in region.operations if o.name == _SLICE and _is_small(o.operands[0])}
        self._repeats = {o.results[0]: o for o in region.operations if o.name == _BROADCAST and not o.operands[0].shape}

    def result(self) -> Region:
        families: dict[Hashable, list[tuple[Operation, Operation]]] = {}
        for operation in self._region.operations if len(self._slices) > 1 else ():
            found = self._family(operation)
            if found is not None:
                families.setdefault(found[0], []).append((operation, found[1]))
        instead: dict[Operation, list[Operation]] = {}
        for family in families.values():
            if _pays([s for _, s in family]):
                whole, operations = self._as_a_whole(*family[0])
                for operation, source in family:
                    instead[operation] = [_copy(source, (whole,), operation.results[0])]
                instead[family[0][0]][:0] = operations
        return with_operations(self._region, [new for o in self._region.operations for new in instead.get(o, [o])])

    def _family(self, operation: Operation) -> tuple[Hashable, Operation] | None:
        """What an operation has in common with others, and the slice that it reads; None where it stays."""
        record = lookup(operation.name)
        if record is None or operation.regions or not is_fusible(operation, record):
            return None
        if any(element_of(v).is_minifloat or v in self._constants for v in operation.results):
            return None
        slices = {v: self._slices[v] for v in operation.operands if v in self._slices}
        if len(slices) != 1:
            return None
        (source,) = slices.values()
        others = [None if v in slices else self._number(v) for v in operation.operands]
        if any(o is None and v not in slices for o, v in zip(others, operation.operands, strict=True)):
            return None
        key = operation.name, Attributes(operation.attributes), source.operands[0], tuple(others)
        return (*key, element_of(operation.results[0])), source

    def _number(self, value: Value) -> Hashable | None:
        """What tells a single number, which may be repeated, from others; None of other values."""
        if value in self._constants:
            array = np.asarray(self._constants[value])
            number = only(array) if array.size <= tuning().repeated_constant else None
            return None if number is None else (element_of(value), number.tobytes())
        if value in self._repeats:
            return self._repeats[value].operands[0], True
        return None if value.shape else value

    def _as_a_whole(self, operation: Operation, source: Operation) -> tuple[Value, list[Operation]]:
        """An operation on what is sliced, and its result."""
        (x,), operands, operations = source.operands, list[Value](), list[Operation]()
        shape = shape_of(x)
        for value in operation.operands:
            if value in self._slices:
                operands.append(x)
                continue
            if not value.shape:
                operands.append(value)
                continue
            new = Value(TensorType(shape, element_of(value)))
            if value in self._constants:
                array = np.asarray(self._constants[value])
                self._constants[new] = np.full(shape, array.flat[0], array.dtype)
            else:
                repeat = self._repeats[value]
                operations.append(_copy(repeat, repeat.operands, new))
            operands.append(new)
        whole = Value(TensorType(shape, element_of(operation.results[0])))
        return whole, [*operations, _copy(operation, operands, whole)]


def _copy(operation: Operation, operands: Iterable[Value], result: Value) -> Operation:
    """The operation on other values, with a kernel of its own."""
    return Operation(operation.name, tuple(operands), (result,), operation.attributes, (), operation.location)


def _is_small(value: Value) -> bool:
    t = value.type
    return isinstance(t, TensorType) and t.is_static and 0 < t.size <= tuning().slices_most


def _pays(slices: list[Operation]) -> bool:
    """Whether computing with all that is sliced takes less time than with one slice after the other."""
    different = {Attributes(s.attributes): s.results[0].type.size for s in slices}  # type: ignore[union-attr]
    wasted = slices[0].operands[0].type.size - sum(different.values())  # type: ignore[union-attr]
    return len(different) > 1 and wasted <= tuning().slices_wasted * (len(different) - 1)
