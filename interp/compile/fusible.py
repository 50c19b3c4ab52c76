"""Which ops can be part of a group, what their results hang on, and what they cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from ...ops.engine.speed import Speed
from ...ops.kernel import Kernel
from ...ops.registry import Op
from ...ops.types import ElementType, QuantizedType, TensorType
from ..program import Operation, Region, Value
from .grouped.leaf import Shape, width
from .writer import Sources

Axes = tuple[int | None, ...]
#: A tensor that a value hangs on, and where its dimensions lie in the value's.
Root = tuple[Value, Axes]

#: Ops that only lay a value along other dimensions.
_SPREADS = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")

#: What an element costs, in nanoseconds: a lookup, an op on floats, one that is computed in f64 and rounded, one on
#: integers.
LOOKUP, _FLOAT, _NEAR, _INTEGER = 0.5, 0.15, 6.0, 0.1


@dataclasses.dataclass(eq=False, slots=True)
class Node:
    """An op that is put off."""

    operation: Operation
    kernel: Kernel
    shape: Shape
    spread: Axes | None  #: for each dimension of the operand the one of the result, of an op that does only that
    roots: tuple[Root, ...] | None  #: None where they have too many bits for a table
    own: float  #: what an element costs, without what it is computed from
    members: frozenset[Value] = frozenset()  #: all that is put off and that it is computed from, itself among them
    cost: float = 0.0  #: of an element, computed from the roots
    count: int = 0  #: of ops that cost something


class PutOff(Protocol):
    """The ops that are put off, as those who ask about them see them."""

    speed: Speed
    settings: Hashable
    sources: Sources
    pending: dict[Value, Node]
    nodes: dict[Value, Node]  #: these, and those that are written

    def scalar(self, value: Value) -> np.ndarray | None:
        """The only element of a constant that has but one, as an array of rank 0."""
        ...

    def is_table(self, node: Node) -> bool:
        """Whether a value is to be looked up in a table."""
        ...


def is_fusible(operation: Operation, record: Op) -> bool:
    """Whether an op gives each element of a tensor of known shape by itself, the same bits wherever it stands."""
    types = [v.type for v in (*operation.operands, *operation.results)]
    if not operation.operands or len(operation.results) != 1 or not all(_is_plain(t) for t in types):
        return False
    tensors: list[TensorType] = [t for t in types if isinstance(t, TensorType)]
    shape = tensors[-1].shape
    if not shape or 0 in shape or any(t.shape not in (shape, ()) for t in tensors):
        return False
    elements = [t.element for t in tensors]
    if operation.name == "stablehlo.bitcast_convert":
        return elements[0].bits == elements[1].bits
    if not record.is_elementwise:
        return False
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
    if operation.name not in _SPREADS:
        return None
    old, new = operation.operands[0].type, operation.results[0].type
    if not (_is_plain(old) and _is_plain(new)) or old.size == 0 or new.size == 0:  # type: ignore[union-attr]
        return None
    if operation.name == _SPREADS[0]:
        places = np.ravel(operation.attributes["broadcast_dimensions"]).tolist()
        return tuple(None if n == 1 else d for n, d in zip(old.shape, places, strict=True))  # type: ignore[union-attr]
    long = [[d for d, n in enumerate(t.shape) if n != 1] for t in (old, new)]  # type: ignore[union-attr]
    if [old.shape[d] for d in long[0]] != [new.shape[d] for d in long[1]]:  # type: ignore[union-attr]
        return None
    places = dict(zip(*long, strict=True))
    return tuple(places.get(d) for d in range(len(old.shape)))  # type: ignore[union-attr]


def identity(value: Value) -> Axes:
    """A value's own dimensions; those of size 1 lie nowhere."""
    return tuple(None if n == 1 else d for d, n in enumerate(shape_of(value)))


def along(first: Axes, second: Axes) -> Axes:
    """Where dimensions lie that lie along others."""
    return tuple(None if d is None else second[d] for d in first)


def bits_of(roots: Iterable[Root]) -> int:
    return sum(width(v.type.element) or 99 for v, _ in roots)  # type: ignore[union-attr]


def cost_of(operation: Operation, record: Op) -> float:
    """What an op costs for an element, in nanoseconds."""
    elements: list[ElementType] = [v.type.element for v in (*operation.operands, *operation.results)]  # type: ignore[union-attr]
    if operation.name == "stablehlo.bitcast_convert":
        return 0.0
    if any(e.is_float and e.bits <= 16 for e in elements):
        return LOOKUP
    if any(e.is_float for e in elements):
        return _NEAR if record.accuracy.is_near else _FLOAT
    return _INTEGER


def shape_of(value: Value) -> Shape:
    assert isinstance(value.type, TensorType)
    return value.type.shape  # type: ignore[return-value]


def element_of(value: Value) -> ElementType:
    assert isinstance(value.type, TensorType)
    return value.type.element


def uses_of(region: Region) -> dict[Value, list[Operation | None]]:
    """The ops that use each value, themselves or in their regions; None where the region returns it."""
    uses: dict[Value, list[Operation | None]] = {}

    def visit(operation: Operation, user: Operation) -> None:
        for value in dict.fromkeys(operation.operands):
            uses.setdefault(value, []).append(user)
        for region in operation.regions:
            for inner in region.operations:
                visit(inner, user)
            for value in region.returns:
                uses.setdefault(value, []).append(user)

    for operation in region.operations:
        visit(operation, operation)
    for value in region.returns:
        uses.setdefault(value, []).append(None)
    return uses


def frozen(value: Any) -> Hashable:
    """An attribute as something that can be compared."""
    if isinstance(value, Mapping):
        return tuple((k, frozen(v)) for k, v in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(map(frozen, value))
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype), value.shape, value.tobytes()
    return type(value).__name__, repr(value)


def only(array: np.ndarray) -> np.ndarray | None:
    """The element of an array that is the same everywhere, as an array of rank 0; None of others."""
    if array.size == 0 or array.itemsize > 8:
        return None
    if any(n > 1 and step for n, step in zip(array.shape, array.strides, strict=True)):
        codes = array.view(f"u{array.itemsize}")
        if not (codes == codes[(0,) * array.ndim]).all():
            return None
    return array[(*(0,) * array.ndim, ...)]
