"""The leaves of groups: the tensors that a group reads, and which of its dimensions theirs lie along."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.engine.blocks import repeated
from ...ops.types import ElementType, Kind, TensorType

Compute = Callable[..., tuple[np.ndarray, ...]]
Shape = tuple[int, ...]
#: For each dimension of a tensor the one of another that it lies along, None where it has size 1.
Axes = tuple[int | None, ...]

#: The most bits of all leaves for which there are tables: a limit of memory, as each bit more doubles a table.
MOST_BITS = 16


@dataclasses.dataclass(frozen=True)
class Leaf:
    """The type of a leaf, and for each of its dimensions which one of the group's it lies along, None if of size 1."""

    type: TensorType
    axes: Axes

    def spread(self, rank: int) -> list[int]:
        """Its shape among the group's dimensions, 1 where it has none."""
        sizes = [1] * rank
        for axis, n in zip(self.axes, self.type.shape, strict=True):
            if axis is not None:
                assert n is not None
                sizes[axis] = n
        return sizes

    @property
    def is_turned(self) -> bool:
        """Whether its dimensions lie along the group's in another order."""
        kept = [axis for axis in self.axes if axis is not None]
        return kept != sorted(kept)

    def view(self, shape: Shape) -> Callable[[np.ndarray], np.ndarray] | None:
        """What lays a leaf along a shape; None where it does so already."""
        sizes = self.spread(len(shape))
        kept = [i for i, axis in enumerate(self.axes) if axis is not None]
        ordered = sorted(kept, key=lambda i: self.axes[i] or 0)
        if self.type.shape == shape and ordered == kept:
            return None
        if kept == ordered:
            return lambda x: x.reshape(sizes)
        order = [i for i, axis in enumerate(self.axes) if axis is None] + ordered
        return lambda x: x.transpose(order).reshape(sizes)


def laid(leaf: Leaf, shape: Shape) -> Callable[[np.ndarray], np.ndarray]:
    """The kernel that lays a leaf along a shape, repeated where it is smaller."""
    view, sizes = leaf.view(shape), leaf.spread(len(shape))
    if tuple(sizes) == shape:
        return view or (lambda x: x)
    kept = [axis for axis in leaf.axes if axis is not None]
    if kept == sorted(kept):
        return lambda x: repeated(x.reshape(sizes), shape)
    assert view is not None
    return lambda x: repeated(view(x), shape)


def width(element: ElementType) -> int | None:
    """How many bits of an element index a table; None where they are too many."""
    if element.is_complex or element.bits > MOST_BITS:
        return None
    # Integers below eight bits may have any bits beside their own in the byte that stores them.
    return element.bits if element.is_float or element.kind is Kind.BOOL else max(element.bits, 8)


def cut(part: tuple[slice, ...], spreads: Sequence[list[int]]) -> list[tuple[slice, ...]]:
    """A part of a shape in leaves that have size 1 where they are repeated."""
    everything = slice(None)
    return [tuple([everything if n == 1 else p for n, p in zip(s, part, strict=True)]) for s in spreads]


def filled(results: Sequence[np.ndarray], shape: Shape) -> Any:
    """The results of a kernel: what depends on few leaves may have few elements, which are repeated."""
    if len(results) == 1:
        return results[0] if results[0].shape == shape else repeated(results[0], shape)
    return tuple([r if r.shape == shape else repeated(r, shape) for r in results])


def alone(leaves: Sequence[Leaf], shape: Shape) -> tuple[int, list[tuple[int, ...]]] | None:
    """The leaf of 8 bits that alone has all of a shape, and how the others are spread; None where there is none."""
    spreads = [tuple(leaf.spread(len(shape))) for leaf in leaves]
    full = [i for i, s in enumerate(spreads) if s == shape]
    if len(full) != 1 or (width(leaves[full[0]].type.element) or 99) > 8:
        return None
    return full[0], [s for i, s in enumerate(spreads) if i != full[0]]
