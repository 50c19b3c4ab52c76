"""Scatters: windows of a tensor, at computed places, combined with updates by a body."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..batch import Batch, Batched, shifted
from ..cast import cast
from ..engine.speed import tuning
from ..movement.gather import Places, integers, interleaving, row_major
from ..op import BY_BODY, Call, Run, op
from ..require import require, require_dimensions
from ..traits import OpTraits
from .folds import body_elements
from .scatter_update import Arrays, ScatterUpdate, Step, overwrite, scatter_update

Shape = tuple[int, ...]


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
        if math.prod(self.grid) == 1:
            one = functools.partial(self._one, apply, in_place)
            return self._put(one, in_place) if apply is overwrite else one
        # Windows of size 1 wherever they move are apart or the same, and can be updated whole.
        whole = all(self.sizes[d] == 1 for d in self.places.mapped)
        return self._rows(apply, in_place) if whole else functools.partial(self._elements, apply, in_place)

    def _put(self, otherwise: Run, in_place: bool) -> Run:
        """A single window in the place of a slice, where all of it is inside."""
        sizes, mapped = self.sizes, self.places.mapped
        whole, last = [slice(0, n) for n in sizes], [self.shape[d] - sizes[d] for d in mapped]

        def kernel(region: Step, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> Arrays:
            at = whole.copy()
            for d, start, most in zip(mapped, indices.reshape(-1).tolist(), last, strict=True):
                if not 0 <= start <= most:
                    return otherwise(region, tensors, indices, updates)
                at[d] = slice(start, start + sizes[d])
            results, window = tuple([np.array(x, order="C", copy=None if in_place else True) for x in tensors]), (*at,)
            for result, update in zip(results, updates, strict=True):
                result[window] = update.reshape(sizes)
            return results

        return kernel

    def _one(
        self, apply: ScatterUpdate, in_place: bool, region: Step, tensors: Arrays, indices: np.ndarray, updates: Arrays
    ) -> Arrays:
        """A single window is a slice."""
        starts = dict(zip(self.places.mapped, indices.reshape(-1).tolist(), strict=True))
        inside, covered = [], []
        for d, (n, size) in enumerate(zip(self.shape, self.sizes, strict=True)):
            start = int(starts.get(d, 0))
            low = min(max(start, 0), n)
            high = max(min(start + size, n), low)
            inside.append(slice(low, high))
            covered.append(slice(low - start, high - start))
        results = tuple(np.array(x, order="C", copy=None if in_place else True) for x in tensors)
        blocks = [r[(*inside, ...)] for r in results]
        rows = tuple(np.ascontiguousarray(b).reshape(1, -1) for b in blocks)
        parts = tuple(u.reshape(self.sizes)[(*covered, ...)].reshape(1, -1) for u in updates)
        apply(region, rows, np.zeros(1, np.int64), parts)
        for block, row in zip(blocks, rows, strict=True):
            block[...] = row.reshape(block.shape)
        return results

    def _rows(self, apply: ScatterUpdate, in_place: bool) -> Run:
        """The tensor as a matrix with a row for each place a window can be at."""
        places, rank = self.places, len(self.shape)
        moving = sorted({*places.mapped, *places.batching, *places.dropped})
        others = [d for d in range(rank) if d not in moving]
        stride = dict(zip(moving, row_major(tuple(self.shape[d] for d in moving)), strict=True))
        width, inner = math.prod(self.sizes[d] for d in others), np.argsort(self.order)
        height, count = math.prod(self.shape[d] for d in moving), math.prod(self.grid)
        of_rows = (height, width) if width != 1 else (height,)
        of_parts = (count, width) if width != 1 else (count,)
        fixed = sum((at * stride[d] for d, at in zip(places.batching, self.along, strict=True)), np.zeros((), np.int64))
        moved = [(self.shape[d], stride[d]) for d in places.mapped]
        reach = tuple(slice(None) if d in moving else slice(0, n) for d, n in enumerate(self.sizes))

        def kernel(region: Step, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> Arrays:
            targets, inside = fixed, None
            for at, (size, step) in zip(places.coordinates(indices), moved, strict=True):
                targets = targets + (at if step == 1 else at * step)
                if at.size and at.view(np.uint64).max() >= size:  # what is negative is large there
                    is_inside = (at >= 0) & (at < size)
                    inside = is_inside if inside is None else inside & is_inside
            if targets.shape != self.grid:
                targets = np.broadcast_to(targets, self.grid)
            targets = targets.reshape(-1)
            parts = tuple([u.transpose(inner).reshape(of_parts) for u in updates])
            if inside is not None:
                chosen = np.flatnonzero(np.broadcast_to(inside, self.grid))
                targets, parts = targets[chosen], tuple([u.take(chosen, axis=0) for u in parts])
            results = tuple([np.array(x, order="C", copy=None if in_place else True) for x in tensors])
            blocks = [r[(*reach, ...)].transpose(*moving, *others) for r in results]
            rows = tuple([np.ascontiguousarray(b).reshape(of_rows) for b in blocks])
            apply(region, rows, targets, parts)
            for block, row in zip(blocks, rows, strict=True):
                if not np.may_share_memory(block, row):
                    block[...] = row.reshape(block.shape)
            return results

        return kernel

    def _elements(
        self, apply: ScatterUpdate, in_place: bool, region: Step, tensors: Arrays, indices: np.ndarray, updates: Arrays
    ) -> Arrays:
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
        inside = np.broadcast_to(inside, targets.shape)
        targets, inside = (v.transpose(self.order).reshape(-1) for v in (targets, inside))
        results = tuple(np.array(x, order="C", copy=None if in_place else True) for x in tensors)
        rows = tuple(r.reshape(-1) for r in results)
        apply(region, rows, *_inside(targets, inside, tuple(u.reshape(-1) for u in updates)))
        return results

    def _starts(self, indices: np.ndarray) -> dict[int, np.ndarray]:
        """For each dimension where it varies, the start of every window."""
        starts = dict(zip(self.places.mapped, self.places.coordinates(indices), strict=True))
        return starts | dict(zip(self.places.batching, self.along, strict=True))

    def _is_inside(self, at: np.ndarray, d: int) -> np.ndarray | bool:
        """Whether coordinates are in bounds; all of them are, mostly. One that wrapped around is not."""
        n = self.shape[d]
        return not at.size or (at.min() >= 0 and at.max() < n) or ((at >= 0) & (at < n))


def _inside(targets: np.ndarray, inside: np.ndarray, updates: Arrays) -> tuple[np.ndarray, Arrays]:
    """The targets that are in bounds, and their updates."""
    if inside.all():
        return targets, updates
    chosen = np.flatnonzero(inside)
    return targets[chosen], tuple(u.take(chosen, axis=0) for u in updates)


def _places_of(numbers: Mapping[str, Any]) -> Places:
    return Places(
        mapped=integers(numbers, "scatter_dims_to_operand_dims"),
        dropped=integers(numbers, "inserted_window_dims"),
        batching=integers(numbers, "input_batching_dims"),
        of_indices=integers(numbers, "scatter_indices_batching_dims"),
        vector=int(numbers.get("index_vector_dim", 0)),
    )


def targets(numbers: Mapping[str, Any], shape: Shape, indices: np.ndarray, updates: Shape) -> np.ndarray:
    """For each update, in row-major order, the flat index of the element that it goes to; -1 where out of bounds.

    `numbers` are the scatter_dimension_numbers, `shape` and `updates` the shapes of the tensor and of the updates.
    """
    places = np.full(math.prod(updates), -1)

    def record(_: Step, rows: Arrays, at: np.ndarray, parts: Arrays) -> None:
        places[parts[0].reshape(-1)] = rows[0][at].reshape(-1)

    axes = integers(numbers, "update_window_dims")
    apply = _Windows.of(_places_of(numbers), axes, shape, indices.shape, updates).kernel(record)
    tensor, ids = (np.arange(math.prod(s)).reshape(s) for s in (shape, updates))
    apply(lambda *x: x, (tensor,), indices, (ids,))
    return places


def _batched(batch: Batch) -> Batched:
    """Many at once: each has a tensor of its own, along a batching dimension or one that windows have all of."""
    numbers, count = dict(batch.attributes["scatter_dimension_numbers"]), len(batch.operands) // 2
    lists = {name: list(integers(numbers, name)) for name in (*_OF_INPUT, "scatter_indices_batching_dims")}
    for name in _OF_INPUT:
        lists[name] = shifted(lists[name])
    if batch.is_stacked[count]:
        numbers["index_vector_dim"] = int(numbers.get("index_vector_dim", 0)) + 1
        lists["input_batching_dims"].insert(0, 0)
        lists["scatter_indices_batching_dims"] = [0, *shifted(lists["scatter_indices_batching_dims"])]
        return Batched({"scatter_dimension_numbers": {**numbers, **lists}})
    lists["update_window_dims"].insert(0, 0)
    return Batched({"scatter_dimension_numbers": {**numbers, **lists}}, frozenset([count]))


_OF_INPUT = ("inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims", "update_window_dims")


#: The operands are inputs, the indices, and as many updates.
_FACTS = OpTraits(
    is_pure=True,
    overwrites=0,
    batch=_batched,
    folds=True,
    linear=lambda count: [i for i in range(count) if i != (count - 1) // 2],
    body_runs=lambda operands, *_: math.prod(operands[-1]),
)


@op("scatter", values="regions", accuracy=BY_BODY, traits=_FACTS)
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
    require(
        count and len(call.operands) == 2 * count + 1,
        f"expected inputs, indices and as many updates, got {len(call.operands)} operands",
    )
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
    places = _places_of(numbers)
    places.check(len(inputs[0].shape), len(indices.shape))
    axes = integers(numbers, "update_window_dims")
    require_dimensions("update_window_dims", axes, len(updates[0].shape))
    require(list(axes) == sorted(axes), f"expected update_window_dims in order, got {list(axes)}")
    apply, in_place = scatter_update(call, call.bodies[0]), 0 in call.spare and count == 1
    windows = functools.lru_cache(tuning().shapes)(
        lambda *shapes: _Windows.of(places, axes, *shapes).kernel(apply, in_place)
    )
    if inputs[0].is_static and indices.is_static and updates[0].is_static:
        windows(inputs[0].shape, indices.shape, updates[0].shape)
    sources = [t.element for t in inputs]
    is_known = inputs[0].is_static and indices.is_static and updates[0].is_static and 0 not in updates[0].shape
    if count == 1 and sources == elements and is_known:
        put_one = windows(inputs[0].shape, indices.shape, updates[0].shape)
        return lambda regions, tensor, where, part: put_one(regions[0], (tensor,), where, (part,))[0]

    def kernel(regions: tuple[Step, ...], *values: np.ndarray) -> np.ndarray | Arrays:
        tensors, where, parts = values[:count], values[count], values[count + 1 :]
        if sources != elements:
            tensors, parts = (
                tuple(cast(x, s, e, call.policy) for x, s, e in zip(v, sources, elements, strict=True))
                for v in (tensors, parts)
            )
        put_all = windows(tensors[0].shape, where.shape, parts[0].shape)
        is_empty = not parts[0].size  # however large the windows are
        results = tuple(map(np.array, tensors)) if is_empty else put_all(regions[0], tensors, where, parts)
        return results[0] if count == 1 else results

    return kernel
