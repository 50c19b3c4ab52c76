"""Which operations can be part of a group, and what values are made of, as the passes ask it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ....ops.op import Op, traits_of
from ....ops.types import ElementType, QuantizedType, TensorType
from ...program import Operation, Region, Value
from ..leaf import Axes, Shape, width

#: A tensor that a value depends on, and where its dimensions lie in the value's.
Root = tuple[Value, Axes]


def is_fusible(operation: Operation, record: Op) -> bool:
    """Whether an op gives each element of a tensor of known shape by itself, the same bits wherever it stands."""
    if not (record.is_elementwise or record.traits.keeps_bits):
        return False
    types = [v.type for v in (*operation.operands, *operation.results)]
    if not operation.operands or len(operation.results) != 1 or not all(_is_plain(t) for t in types):
        return False
    tensors: list[TensorType] = [t for t in types if isinstance(t, TensorType)]
    shape = tensors[-1].shape
    if not shape or 0 in shape or any(t.shape not in (shape, ()) for t in tensors):
        return False
    elements = [t.element for t in tensors]
    if record.traits.keeps_bits:
        return elements[0].bits == elements[1].bits
    if operation.name.endswith(".select") and not tensors[0].shape:
        return False  # it takes the one or the other as a whole
    # The host's functions of f64 can depend on what stands beside an element.
    return not (record.accuracy.is_near and any(e.name == "f64" for e in elements))


def _is_plain(t: Any) -> bool:
    return (
        isinstance(t, TensorType)
        and t.is_static
        and not t.element.is_complex
        and not isinstance(t.element, QuantizedType)
    )


def spread_of(operation: Operation) -> Axes | None:
    """Where each dimension of the operand goes, of an op that only adds and repeats dimensions; None of others."""
    spread = traits_of(operation.name).spread
    if spread is None:
        return None
    old, new = operation.operands[0].type, operation.results[0].type
    if not (_is_plain(old) and _is_plain(new)) or old.size == 0 or new.size == 0:  # type: ignore[union-attr]
        return None
    return spread(old.shape, new.shape, operation.attributes)  # type: ignore[union-attr]


def identity(value: Value) -> Axes:
    """A value's own dimensions; those of size 1 lie nowhere."""
    return tuple(None if n == 1 else d for d, n in enumerate(shape_of(value)))


def along(first: Axes, second: Axes) -> Axes:
    """Where dimensions lie that lie along others."""
    return tuple(None if d is None else second[d] for d in first)


def bits_of(roots: Iterable[Root]) -> int:
    """The bits of all tensors that a value depends on; 99 for one that no table can have."""
    return sum(width(v.type.element) or 99 for v, _ in roots)  # type: ignore[union-attr]


def shape_of(value: Value) -> Shape:
    """The shape of a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.shape  # type: ignore[return-value]


def element_of(value: Value) -> ElementType:
    """The element type of a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.element


def elements_of(operation: Operation) -> tuple[ElementType, ...]:
    """The element types of an op's operands and results."""
    return tuple([element_of(v) for v in (*operation.operands, *operation.results)])


class Uniform:
    """The numbers of the tensors of a region that have the same one everywhere: of constants, spread or not."""

    def __init__(self, region: Region, constants: Mapping[Value, Any]) -> None:
        self._constants = constants
        self._spreads = {o.results[0]: o for o in region.operations if traits_of(o.name).spread is not None}
        self._numbers: dict[Value, np.ndarray | None] = {}

    def number(self, value: Value) -> np.ndarray | None:
        """The only element of a constant that has but one, as an array of rank 0; None of other values."""
        if value not in self._numbers:
            self._numbers[value] = self._number(value)
        return self._numbers[value]

    def _number(self, value: Value) -> np.ndarray | None:
        array = self._constants.get(value)
        if array is not None:
            return only(np.asarray(array)) if isinstance(value.type, TensorType) else None
        spread = self._spreads.get(value)
        return None if spread is None or spread_of(spread) is None else self.number(spread.operands[0])


def only(array: np.ndarray) -> np.ndarray | None:
    """The element of an array that is the same everywhere, as an array of rank 0; None of others."""
    if array.size == 0 or array.itemsize > 8:
        return None
    if any(n > 1 and step for n, step in zip(array.shape, array.strides, strict=True)):
        codes = array.view(f"u{array.itemsize}")
        if not (codes == codes[(0,) * array.ndim]).all():
            return None
    return array[(*(0,) * array.ndim, ...)]
