"""Scatters: windows of a tensor, at computed places, combined with updates by a body."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..cast import cast
from ..movement.gather import Places, integers, interleaving, row_major
from ..op import Call, Run, op
from ..require import require, require_dimensions, unpack
from ..traits import OpTraits
from .folds import Step, body_elements
from .scatter_update import Arrays, ScatterUpdate, scatter_update

Shape = tuple[int, ...]
#: A ScatterUpdate with its region.
Apply = Callable[[Arrays, np.ndarray, Arrays], None]


@dataclasses.dataclass(frozen=True)
class _Windows:
    """Where the windows of one scatter go: all that depends on shapes alone."""

    places: Places
    shape: Shape
    sizes: Shape  #: of windows, for each dimension
    grid: Shape
    order: Shape  #: from the axes of grid and window to those of the updates
    along: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, places: Places, window_axes: Shape, shape: Shape, indices: Shape, updates: Shape) -> _Windows:
        """Raises OpError where the shapes do not fit."""
        places.check_shapes(shape, indices)
        window, grid = places.window(len(shape)), places.grid(indices)
        wanted = f"update_window_dims {list(window_axes)} must be {len(window)}, the dimensions windows have"
        require(len(window_axes) == len(window), wanted)
        require(len(updates) == len(grid) + len(window), f"updates have {len(updates)} dimensions")
        sizes = [1] * len(shape)
        for d, axis in zip(window, window_axes, strict=True):
            sizes[d] = updates[axis]
            require(sizes[d] <= shape[d], f"updates have size {sizes[d]} in dimension {axis} (at most {shape[d]})")
        order = interleaving(window_axes, len(updates))
        inner = grid + tuple(sizes[d] for d in window)
        expected = tuple(inner[axis] for axis in order)
        require(updates == expected, f"updates have shape {list(updates)} (expected {list(expected)})")
        return cls(places, shape, tuple(sizes), grid, order, tuple(places.along(indices)))

    def kernel(self, apply: ScatterUpdate, in_place: bool = False) -> Run:
        """Takes the region, the tensors (as tuples), the indices and the updates, and gives new tensors.

        `in_place` says that it may write over the tensors.
        """
        moving = sorted({*self.places.mapped, *self.places.batching, *self.places.dropped})
        leading = len(moving)
        if math.prod(self.grid) == 1:
            update = self._update_slice
        elif moving == [*range(leading)] and self.sizes == (1,) * leading + self.shape[leading:]:
            update = functools.partial(self._update_rows, leading)
        else:
            update = self._update_elements

        def kernel(region: Step, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> Arrays:
            results = tuple([np.array(x, order="C", copy=None if in_place else True) for x in tensors])
            update(functools.partial(apply, region), results, indices, updates)
            return results

        return kernel

    def _update_slice(self, apply: Apply, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> None:
        """A single window."""
        starts = dict(zip(self.places.mapped, indices.reshape(-1).tolist(), strict=True))
        inside, covered = [], []
        for d, (n, size) in enumerate(zip(self.shape, self.sizes, strict=True)):
            start = int(starts.get(d, 0))
            low = min(max(start, 0), n)
            high = max(min(start + size, n), low)
            inside.append(slice(low, high))
            covered.append(slice(low - start, high - start))
        windows = [x[(*inside, ...)] for x in tensors]
        rows = tuple([np.array(w).reshape(1, -1) for w in windows])
        parts = tuple([u.reshape(self.sizes)[(*covered, ...)].reshape(1, -1) for u in updates])
        apply(rows, np.zeros(1, np.int64), parts)
        for window, row in zip(windows, rows, strict=True):
            window[...] = row.reshape(window.shape)

    def _update_rows(self, leading: int, apply: Apply, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> None:
        """Windows that are whole rows of a matrix, whose rows are the places in so many leading dimensions."""
        strides = row_major(self.shape[:leading])
        targets, inside = np.zeros(self.grid, np.int64), np.ones((), bool)
        for d, at in self._starts(indices).items():
            targets = targets + at * strides[d]
            inside = inside & self._is_inside(at, d)
        width = math.prod(self.shape[leading:])
        row, inner = (width,) if width != 1 else (), np.argsort(self.order)  # elements are not rows, but a vector
        parts = tuple([u.transpose(inner).reshape(targets.size, *row) for u in updates])
        targets, parts = _select_inside(targets, inside, parts)
        apply(tuple([x.reshape(math.prod(self.shape[:leading]), *row) for x in tensors]), targets, parts)

    def _update_elements(self, apply: Apply, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> None:
        """Every element of the updates by itself, in row-major order."""
        starts, rank = self._starts(indices), len(self.shape)
        window = self.places.window(rank)
        targets, inside = np.zeros((), np.int64), np.ones((), bool)
        for d, stride in enumerate(row_major(self.shape)):
            at = starts.get(d, np.zeros((), np.int64))
            at = np.broadcast_to(at, self.grid).reshape(self.grid + (1,) * len(window))
            if d in window:
                at = at + np.arange(self.sizes[d]).reshape([-1 if w == d else 1 for w in window])
            targets = targets + at * stride
            if d in starts:
                inside = inside & self._is_inside(at, d)
        targets, inside = (v.transpose(self.order) for v in (targets, np.broadcast_to(inside, targets.shape)))
        targets, parts = _select_inside(targets, inside, tuple([u.reshape(-1) for u in updates]))
        apply(tuple([x.reshape(-1) for x in tensors]), targets, parts)

    def _starts(self, indices: np.ndarray) -> dict[int, np.ndarray]:
        """For each dimension where it varies, the start of every window."""
        starts = dict(zip(self.places.mapped, self.places.coordinates(indices), strict=True))
        return starts | dict(zip(self.places.batching, self.along, strict=True))

    def _is_inside(self, at: np.ndarray, d: int) -> np.ndarray | bool:
        """Whether coordinates are in bounds; all of them are, mostly. One that wrapped around is not."""
        n = self.shape[d]
        return not at.size or (at.min() >= 0 and at.max() < n) or ((at >= 0) & (at < n))


def _select_inside(targets: np.ndarray, inside: np.ndarray, updates: Arrays) -> tuple[np.ndarray, Arrays]:
    """The targets that are in bounds, one after the other, and their updates."""
    if inside.all():
        return targets.reshape(-1), updates
    chosen = np.flatnonzero(np.broadcast_to(inside, targets.shape))
    return targets.reshape(-1)[chosen], tuple([u.take(chosen, axis=0) for u in updates])


_PLACES = (
    "scatter_dims_to_operand_dims",
    "inserted_window_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)


def targets(numbers: Mapping[str, Any], shape: Shape, indices: np.ndarray, updates: Shape) -> np.ndarray:
    """For each update, in row-major order, the flat index of the element that it goes to; -1 where out of bounds.

    `numbers` are the scatter_dimension_numbers, `shape` and `updates` the shapes of the tensor and of the updates.
    """
    places = np.full(math.prod(updates), -1)

    def record(_: Step, rows: Arrays, at: np.ndarray, parts: Arrays) -> None:
        places[parts[0].reshape(-1)] = rows[0][at].reshape(-1)

    axes = integers(numbers, "update_window_dims")
    apply = _Windows.of(Places.of(numbers, *_PLACES), axes, shape, indices.shape, updates).kernel(record)
    tensor, ids = (np.arange(math.prod(s)).reshape(s) for s in (shape, updates))
    apply(lambda *x: x, (tensor,), indices, (ids,))
    return places


#: The operands are inputs, the indices, and as many updates.
_TRAITS = OpTraits(
    is_pure=True,
    overwrites=0,
    folds=True,
    linear=lambda count: [i for i in range(count) if i != (count - 1) // 2],
    body_runs=lambda operands, *_: math.prod(operands[-1]),
)


@op("scatter", values="regions", traits=_TRAITS)
def scatter(call: Call) -> Run:
    """The operand with updates combined by a body into windows at computed indices. What is out of bounds is skipped.

    Updates of the same element are combined in the order of the updates (row-major), whatever `unique_indices` and
    `indices_are_sorted` promise. Bounds hold for each element of a window by itself.

    (C1, C3) One shape for all inputs and one for all updates. (C2, C4) The dimensions of inputs, windows and updates
    agree. (C5) As many updates as inputs. (C6) of the same element types. (C7, C8) update_window_dims are distinct, in
    order and the updates'. (C9 to C13) Dimensions without window are distinct, in order and the inputs'. (C14 to C18)
    Batching dimensions come in pairs of one size. (C19 to C22) Index vectors fit the indices and their map. (C23) The
    body takes and gives scalars. (C24, C25) The results have the inputs' shape and the body's element types.
    """
    count = len(call.operands) // 2
    fits = count and len(call.operands) == 2 * count + 1
    require(fits, f"expected inputs, indices and as many updates, got {len(call.operands)} operands")
    inputs, updates = ([call.tensor(i + first) for i in range(count)] for first in (0, count + 1))
    indices, results = call.tensor(count), [call.result(i) for i in range(len(call.results))]
    require(indices.element.is_integer, f"scatter_indices is {indices} (expected integers)")
    require(len(call.bodies) == 1, f"expected a body, got {len(call.bodies)}")
    elements = body_elements(call.bodies[0], count)
    require([t.element for t in results] == elements, f"results are {results}")
    for x, u, r in zip(inputs, updates, results, strict=True):
        fits = x.shape == inputs[0].shape and r.admits(x.shape)
        require(fits, f"{x}, {inputs[0]} and {r} differ in shape")
        require(u.shape == updates[0].shape, f"updates {u} and {updates[0]} differ in shape")
        require(u.element == x.element, f"updates {u} for {x} (expected of the same element type)")
    numbers = call.attribute("scatter_dimension_numbers")
    places = Places.of(numbers, *_PLACES)
    places.check(len(inputs[0].shape), len(indices.shape))
    axes = integers(numbers, "update_window_dims")
    require_dimensions("update_window_dims", axes, len(updates[0].shape))
    require(list(axes) == sorted(axes), f"expected update_window_dims in order, got {list(axes)}")
    apply, in_place = scatter_update(call, call.bodies[0]), 0 in call.spare and count == 1
    windows = functools.lru_cache(lambda *shapes: _Windows.of(places, axes, *shapes).kernel(apply, in_place))
    if inputs[0].is_static and indices.is_static and updates[0].is_static:
        windows(inputs[0].shape, indices.shape, updates[0].shape)
    sources = [t.element for t in inputs]

    def kernel(regions: tuple[Step, ...], *values: np.ndarray) -> np.ndarray | Arrays:
        operands = zip((*values[:count], *values[count + 1 :]), sources * 2, elements * 2, strict=True)
        arrays = tuple([np.asarray(cast(x, s, e, call.policy)) for x, s, e in operands])
        tensors, where, parts = arrays[:count], np.asarray(values[count]), arrays[count:]
        run = windows(tensors[0].shape, where.shape, parts[0].shape)
        is_empty = not parts[0].size  # however large the windows are
        return unpack(tuple(map(np.array, tensors)) if is_empty else run(regions[0], tensors, where, parts))

    return kernel
