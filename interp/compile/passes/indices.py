"""The pass that computes iotas, and the integers made from them, in 32 bits and in one dimension where it can.

The rule. An `iota` of several dimensions is one of a single dimension, laid along the others. A 64-bit integer that
comes of indices and constants and is known to fit ui32, as JAX's counters of random numbers do, is computed in ui32
where it is converted to that: the machine's words, and half the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.types import ELEMENT_TYPES, TensorType
from ...program import Operation, Region, Value
from ..uses import needed
from .fusible import Uniform, spread_of
from .rewriting import with_regions

_U32, _LIMIT = ELEMENT_TYPES["ui32"], 1 << 32
_WIDE = (ELEMENT_TYPES["ui64"], ELEMENT_TYPES["i64"])
_IOTA, _CONVERT = "stablehlo.iota", "stablehlo.convert"


def small_indices(region: Region, constants: dict[Value, Any]) -> Region:
    """A region with its constants known, not bound yet, in which indices are small; `constants` gets new ones."""
    if not any(o.name == _IOTA or o.regions for o in region.operations):
        return region
    return _Indices(region, constants).region()


class _Indices:
    def __init__(self, region: Region, constants: dict[Value, Any]) -> None:
        self._region, self._constants = region, constants
        self._number = Uniform(region, constants).number
        self._made = {o.results[0]: o for o in region.operations if len(o.results) == 1}
        self._ranges: dict[Value, tuple[int, int] | None] = {}
        self._twins: dict[Value, Value] = {}
        self._operations: list[Operation] = []

    def region(self) -> Region:
        """The new region; the same one where nothing is to be done."""
        is_new = False
        for operation in self._region.operations:
            before = len(self._operations)
            if operation.name == _IOTA and _is_large(operation):
                self._put_iota(operation.results[0], operation)
            elif operation.name == _CONVERT and self._range(operation.operands[0]) is not None:
                if not self._is_ui32(operation.results[0]):
                    self._operations.append(operation)
                    continue
                operand = self._twin(operation.operands[0], operation)
                self._put(operation.name, (operand,), operation.results[0], operation.attributes, operation)
            elif operation.regions:
                new = with_regions(operation, [small_indices(r, self._constants) for r in operation.regions])
                self._operations.append(new)
                is_new |= new is not operation
                continue
            else:
                self._operations.append(operation)
                continue
            is_new |= len(self._operations) > before
        if not is_new:
            return self._region
        region = Region(self._region.arguments, self._operations, self._region.returns)
        values = needed(region)
        region.operations = [o for o in self._operations if o.name != _IOTA or o.results[0] in values]
        return region

    def _put(
        self, name: str, operands: Iterable[Value], result: Value, attributes: dict[str, Any], like: Operation
    ) -> Value:
        self._operations.append(Operation(name, tuple(operands), (result,), attributes, (), like.location))
        return result

    def _put_iota(self, result: Value, like: Operation) -> Value:
        """An iota, laid along its dimension if it has several."""
        t, dimension = result.type, int(like.attributes["iota_dimension"])
        assert isinstance(t, TensorType)
        if len(t.shape) == 1:
            return self._put(_IOTA, (), result, like.attributes, like)
        line = Value(TensorType((t.shape[dimension],), t.element))
        self._put(_IOTA, (), line, {"iota_dimension": 0}, like)
        attributes = {"broadcast_dimensions": np.array([dimension], np.int64)}
        return self._put("stablehlo.broadcast_in_dim", (line,), result, attributes, like)

    # -- 64-bit integers that fit 32 bits ------------------------------------------------------------------------------

    @staticmethod
    def _is_ui32(value: Value) -> bool:
        return isinstance(value.type, TensorType) and value.type.element == _U32

    def _range(self, value: Value) -> tuple[int, int] | None:
        """The least and the largest number that a value may have, if it is a 64-bit integer known to fit ui32."""
        if value not in self._ranges:
            self._ranges[value] = None
            t = value.type
            if isinstance(t, TensorType) and t.is_static and t.element in _WIDE and t.size:
                found = self._found(value)
                self._ranges[value] = found if found is not None and 0 <= found[0] <= found[1] < _LIMIT else None
        return self._ranges[value]

    def _found(self, value: Value) -> tuple[int, int] | None:
        number, made = self._number(value), self._made.get(value)
        if number is not None:
            return int(number), int(number)
        if made is None:
            return None
        if made.name == _IOTA:
            return 0, value.type.shape[int(made.attributes["iota_dimension"])] - 1  # type: ignore[union-attr]
        if spread_of(made) is not None:
            return self._range(made.operands[0])
        ranges = [self._range(v) for v in made.operands]
        if len(ranges) != 2 or ranges[0] is None or ranges[1] is None:
            return None
        (low, high), (least, most) = ranges[0], ranges[1]
        if made.name == "stablehlo.add":
            return low + least, high + most
        if made.name == "stablehlo.multiply":
            return low * least, high * most
        if made.name == "stablehlo.shift_right_logical" and most < 64:
            return low >> most, high >> least
        return None

    def _twin(self, value: Value, like: Operation) -> Value:
        """The same numbers as ui32."""
        if value not in self._twins:
            self._twins[value] = self._made_twin(value, like)
        return self._twins[value]

    def _made_twin(self, value: Value, like: Operation) -> Value:
        found, made, t = self._range(value), self._made.get(value), value.type
        assert found is not None
        assert isinstance(t, TensorType)
        twin = Value(TensorType(t.shape, _U32))
        if found[0] == found[1]:
            number = Value(TensorType((), _U32))
            self._constants[number] = np.array(found[0], np.uint32)
            self._put("stablehlo.constant", (), number, {"value": self._constants[number]}, like)
            attributes = {"broadcast_dimensions": np.zeros(0, np.int64)}
            return self._put("stablehlo.broadcast_in_dim", (number,), twin, attributes, like)
        assert made is not None
        if made.name == _IOTA:
            return self._put_iota(twin, made)
        return self._put(made.name, [self._twin(v, like) for v in made.operands], twin, made.attributes, made)


def _is_large(operation: Operation) -> bool:
    t = operation.results[0].type
    large = tuning().fuse_many
    return isinstance(t, TensorType) and t.is_static and len(t.shape) > 1 and (t.size or 0) >= large
