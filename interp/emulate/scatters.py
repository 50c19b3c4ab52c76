"""Scatters: updates are combined one after the other, in the order of `ops.reductions.scatter`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.movement.gather import Places, integers, interleaving, row_major
from ...ops.op import OpError
from ..program import Operation
from .folds import Combiner, to_elements
from .loops import loop
from .rewrite import Emulation
from .rules import emulates
from .tensor import I1, I64, Tensor, constant, iota, where


@dataclasses.dataclass(frozen=True)
class Windows:
    """Where the windows of one scatter go; `sizes` are those of a window, for each dimension of the tensor."""

    places: Places
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]

    @classmethod
    def of(cls, operation: Operation, shape: tuple[int, ...], updates: tuple[int, ...]) -> Windows:
        """Return the windows of a scatter of tensors of these shapes."""
        numbers = operation.attributes["scatter_dimension_numbers"]
        fields = "scatter_dims_to_operand_dims", "inserted_window_dims", "input_batching_dims"
        places = Places.of(numbers, *fields, "scatter_indices_batching_dims")
        axes, sizes = integers(numbers, "update_window_dims"), [1] * len(shape)
        for d, axis in zip(places.window(len(shape)), axes, strict=True):
            sizes[d] = updates[axis]
        return cls(places, shape, tuple(sizes), axes)

    @property
    def moving(self) -> list[int]:
        """The dimensions in which windows are at different places."""
        places = self.places
        return sorted({*places.mapped, *places.batching, *places.dropped})

    @property
    def can_cross(self) -> bool:
        """Whether XLA leaves out all of a window of which a part is out of bounds, or refuses several for a scalar."""
        return not self.shape or any(self.sizes[d] > 1 for d in self.places.mapped)

    def targets(self, indices: Tensor, dimensions: Sequence[int]) -> Tensor:
        """Return the flat index of each window, or each element of one, in some dimensions; -1 where out of bounds."""
        wide, places = indices.to(I64), self.places
        wide = wide.reshape((*wide.shape, 1)) if places.vector == len(wide.shape) else wide
        grid, starts = places.grid(wide.shape), {}
        for i, d in enumerate(places.mapped):
            starts[d] = wide.slice(places.vector, i, i + 1).reshape(grid)
        for d, i in zip(places.batching, places.of_indices, strict=True):
            starts[d] = iota(I64, grid, i - (i > places.vector))
        held = [d for d in places.window(len(self.shape)) if d in dimensions]
        full = (*grid, *(self.sizes[d] for d in held))
        found, inside = constant(0, I64, full), constant(True, I1, full)
        strides = row_major(tuple([self.shape[d] for d in dimensions]))
        for d, stride in zip(dimensions, strides, strict=True):
            at = starts[d].broadcast(full, range(len(grid))) if d in starts else constant(0, I64, full)
            at = at + iota(I64, full, len(grid) + held.index(d)) if d in held else at
            found = found + at * stride
            inside = inside & (at >= 0) & (at < self.shape[d])
        return where(inside, found, -1)


@emulates("scatter")
def scatter(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Rows or elements updated in order; by the device where updates overwrite, or select by integers."""
    count = len(operands) // 2
    combiner = Combiner.of(e, operation.regions[0], count)
    elements, types = combiner.elements, [v.type for v in operation.operands]
    inputs = to_elements(e, operands[:count], types[:count], elements)
    updates = to_elements(e, operands[count + 1 :], types[count + 1 :], elements)
    indices, order = operands[count], combiner.order
    overwrites = combiner.body.passed_on == tuple(range(count, 2 * count))
    if not any(t.is_minifloat for t in elements):
        return e.rewritten(operation, [*inputs, indices, *updates], combiner.region)
    if not updates[0].size:
        return inputs
    windows = Windows.of(operation, inputs[0].shape, updates[0].shape)
    shape, rank, update_rank = windows.shape, len(windows.shape), len(updates[0].shape)
    if not windows.can_cross and overwrites:
        return e.rewritten(operation, [*inputs, indices, *updates], combiner.region)
    if not windows.can_cross and order is not None and order.is_complete:
        rows, parts = (order.keys(x, ()) for x in (inputs[0], updates[0]))
        return [order.codes(e, x) for x in e.rewritten(operation, [rows, indices, parts], order.choice(rows)[0])]
    is_whole = all(n == (1 if d in windows.moving else shape[d]) for d, n in enumerate(windows.sizes))
    if is_whole:  # rows
        moving, others = windows.moving, [d for d in range(rank) if d not in windows.moving]
        targets = windows.targets(indices, moving)
        first = [*(d for d in range(update_rank) if d not in windows.axes), *windows.axes]
    else:  # elements, in the order of the updates
        moving, others, first = [*range(rank)], [], range(update_rank)
        targets = windows.targets(indices, moving).transpose(interleaving(windows.axes, update_rank))
    order_of_rows, width = [*moving, *others], [math.prod(shape[d] for d in others)] if others else []
    rows = [x.transpose(order_of_rows).reshape((math.prod(shape[d] for d in moving), *width)) for x in inputs]
    parts = [u.transpose(first).reshape((targets.size, *width)) for u in updates]
    found = update_rows(combiner, rows, targets.reshape((targets.size,)), parts)
    return [x.reshape([shape[d] for d in order_of_rows]).transpose(np.argsort(order_of_rows).tolist()) for x in found]


def update_rows(combiner: Combiner, rows: Sequence[Tensor], targets: Tensor, updates: Sequence[Tensor]) -> list[Tensor]:
    """Return rows with updates combined one after the other; the row of each is in `targets`, -1 for none."""
    if combiner.is_drawn:
        raise OpError("expected no stochastic rounding, whose draws depend on how often indices repeat, got it")

    def body(index: Tensor, *state: Tensor) -> list[Tensor]:
        target = targets.row(index)
        at = target.at_least(0)
        old = [x.row(at) for x in state]
        new = combiner.step(*old, *(u.row(index) for u in updates))
        valid = target >= 0
        return [x.with_row(where(valid.broadcast(o.shape), n, o), at) for x, n, o in zip(state, new, old, strict=True)]

    return loop(targets.size, body, rows)
