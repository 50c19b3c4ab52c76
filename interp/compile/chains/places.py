"""Where the operands of operations lie along rows: which operations have a place in a chain over some rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....ops.op import lookup
from ....ops.policy import Policy
from ....ops.types import TensorType
from ...program import Operation, Region, Value
from ..group import GROUP, RANK, SPREAD, UNRANK, Reduction
from ..leaf import Axes, Leaf, Shape
from ..passes.fusible import Uniform, along, identity, is_fusible, shape_of, spread_of
from ..reductions import reduction_of
from .chain import Space, Term


class Places:
    """The operations of a region as those over rows see them."""

    def __init__(self, region: Region, constants: Mapping[Value, Any], policy: Policy) -> None:
        self._is_nearest = policy.rounding == "nearest_even"
        self.number = Uniform(region, constants).number
        self.spreads = {o.results[0]: o for o in region.operations if o.name == SPREAD}
        self._sources: dict[Value, Term] = {
            value: (o.operands[0], o.attributes["axes"]) for value, o in self.spreads.items()
        }

    def reduced(self, operation: Operation) -> Space | None:
        """The rows that an operation reduces, if it is a reduction that row programs have."""
        if operation.name == RANK:
            shape = shape_of(operation.operands[0])
            return _space(shape, operation.attributes["dimensions"])
        reduction, shape = self.reduction(operation)
        if reduction is None or self.number(operation.operands[-1]) is None:
            return None
        record = lookup(reduction.name)
        if record is None or record.traits.compiled_fold is None or record.traits.combining is None:
            return None
        if reduction.element.name not in ("f32", "bf16", "f16"):
            return None
        if reduction.element.bits < 32 and record.traits.combining.largest is None and not self._is_nearest:
            return None  # its steps are rounded in another way
        return _space(shape, reduction.dimensions)

    def reduction(self, operation: Operation) -> tuple[Reduction | None, Shape]:
        """The reduction that an operation makes, if it is one of a single tensor, and the shape of what it takes."""
        if operation.name == GROUP:
            return operation.attributes["reduction"], operation.attributes["group"].shape
        if operation.name != "stablehlo.reduce" or len(operation.operands) != 2:
            return None, ()
        return reduction_of(operation), shape_or_none(operation.operands[0])

    def terms(self, operation: Operation, space: Space) -> list[Term] | None:
        """The operands of an operation in a space; None where it has no place there."""
        reduced = self.reduced(operation)
        if reduced is not None:
            if reduced != space:
                return None
            if operation.name != GROUP:
                return self._found([(operation.operands[0], identity(operation.operands[0]))], space)
        if operation.name == GROUP:
            group = operation.attributes["group"]
            if (operation.attributes["reduction"] is None) == (reduced is None) and _fits(group.shape, space):
                return self._found(
                    [(v, leaf.axes) for v, leaf in zip(operation.operands, group.leaves, strict=False)], space
                )
            return None
        if not _is_plain(operation) or not _fits(shape_of(operation.results[0]), space):
            return None
        return self._found([(v, identity(v)) for v in operation.operands if self.number(v) is None], space)

    def _found(self, terms: Iterable[Term], space: Space) -> list[Term] | None:
        """The sources of terms; None where one of them lies along a part of a row."""
        found = [self.source(*term) for term in terms]
        shape, kept = space
        for value, axes in found:
            inner = Leaf(value.type, axes).spread(len(shape))[kept:]  # type: ignore[arg-type]
            if any(n != 1 for n in inner) and tuple(inner) != shape[kept:]:
                return None
        return found

    def source(self, value: Value, axes: Axes) -> Term:
        """What a value that only lays another one along more dimensions comes from, and where that lies."""
        while value in self._sources:
            value, inner = self._sources[value]
            axes = along(inner, axes)
        return value, axes

    def root(self, value: Value) -> Value:
        """The value that comes first of these."""
        while value in self._sources:
            value, _ = self._sources[value]
        return value


def _space(shape: Shape, dimensions: Sequence[int]) -> Space | None:
    """The rows that a reduction of some dimensions gives a number for each; None where these are not the last."""
    kept = len(shape) - len(dimensions)
    return (shape, kept) if kept > 0 and [*sorted(dimensions)] == [*range(kept, len(shape))] else None


def _fits(shape: Shape, space: Space) -> bool:
    """Whether values of a shape lie along all of a space, or are one for each row."""
    whole, kept = space
    return shape == whole or (shape[:kept] == whole[:kept] and all(n == 1 for n in shape[kept:]))


def shape_or_none(value: Value) -> Shape:
    """The shape of a tensor of known sizes, and that of a single number for all else."""
    return value.type.shape if isinstance(value.type, TensorType) and value.type.is_static else ()  # type: ignore[return-value]


def _is_plain(operation: Operation) -> bool:
    """Whether an operation that is in no group is one that could be."""
    if operation.name == UNRANK:
        return True
    record = lookup(operation.name)
    if record is None or not shape_or_none(operation.results[0]) or spread_of(operation) is not None:
        return False
    return is_fusible(operation, record) and record.takes(v.type for v in operation.operands)
