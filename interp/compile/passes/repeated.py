"""The pass that moves broadcasts of single numbers, in loops, behind the ops that compute with them.

The rule. An elementwise operation on integers or booleans all of whose operands are numbers that have been repeated, or
constants of one number, becomes an operation on these numbers and a repetition of its result. In loops numbers are
Python's own (`scalars.py`): JAX's vectorised loops repeat the number of the turn before they compute with it.

Measured with numpy alone on a busy machine, `betainc` of 1,000 numbers: 38 ms without, 17 with.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.kernel import Regions
from ....ops.registry import lookup
from ....ops.types import Kind, QuantizedType, TensorType, Type
from ...program import Operation, Region, Value
from .rewriting import with_operations, with_regions

_BROADCAST = "stablehlo.broadcast_in_dim"


def numbers_before_repeating(region: Region, constants: dict[Value, Any]) -> Region:
    """A region in whose loops numbers are repeated as late as possible; the same object where nothing changes.

    The new operations are not bound yet; `constants` gets those that they need.
    """
    return _Pass(constants).region(region, {}, False)


class _Pass:
    def __init__(self, constants: dict[Value, Any]) -> None:
        self._constants = constants
        self._single: dict[Value, Value | None] = {}  # constants of one number

    def region(self, region: Region, numbers: dict[Value, Value], in_loop: bool) -> Region:
        """`numbers` are those that have been repeated, by the tensors, around the region."""
        numbers, operations = dict(numbers), list[Operation]()
        for operation in region.operations:
            record = lookup(operation.name)
            inner = in_loop or (record is not None and record.facts.regions is Regions.LOOP)
            if record is not None and record.facts.regions in (Regions.LOOP, Regions.ONE):
                operation = with_regions(operation, [self.region(r, numbers, inner) for r in operation.regions])
            if operation.name == _BROADCAST and operation.operands[0].shape == ():
                numbers[operation.results[0]] = operation.operands[0]
            operations += (self._instead(operation, numbers) if in_loop else None) or [operation]
        return with_operations(region, operations)

    def _instead(self, operation: Operation, numbers: dict[Value, Value]) -> list[Operation] | None:
        """An operation on numbers and a repetition; None where the operation stays."""
        record = lookup(operation.name)
        if record is None or not record.is_elementwise or operation.regions or len(operation.results) != 1:
            return None
        (result,) = operation.results
        t, operands = result.type, operation.operands
        if result in self._constants or not _is_tensor(t) or not all(_is_whole(v.type) for v in operands):
            return None
        singles = [numbers.get(v) or (v if v.shape == () else self._of_constant(v)) for v in operands]
        if not any(v in numbers for v in operands) or any(v is None for v in singles):
            return None
        number = Value(TensorType((), t.element))  # type: ignore[union-attr]
        numbers[result] = number
        source = operation.origin or operation
        made = dataclasses.replace(operation, operands=tuple(singles), results=(number,), origin=source)  # type: ignore[arg-type]
        attributes = {"broadcast_dimensions": np.zeros(0, np.int64)}
        # Without an origin, as it has a kernel of its own.
        return [made, Operation(_BROADCAST, (number,), (result,), attributes, (), operation.location)]

    def _of_constant(self, value: Value) -> Value | None:
        """The number that a constant repeats."""
        if value not in self._single:
            self._single[value] = None
            array = None if value not in self._constants else np.asarray(self._constants[value])
            if array is not None and 0 < array.size <= tuning().repeated_constant and (array == array.flat[0]).all():
                number = self._single[value] = Value(TensorType((), value.type.element))  # type: ignore[union-attr]
                self._constants[number] = array.reshape(-1)[0, ...].copy()
        return self._single[value]


def _is_tensor(t: Type) -> bool:
    """Whether a type is that of tensors with elements, none of which are quantized or complex."""
    if not isinstance(t, TensorType) or not t.is_static or not t.shape or t.size == 0:
        return False
    return not isinstance(t.element, QuantizedType) and not t.element.is_complex


def _is_whole(t: Type) -> bool:
    if not isinstance(t, TensorType) or isinstance(t.element, QuantizedType):
        return False
    return t.element.is_integer or t.element.kind is Kind.BOOL
