"""Scatters: windows of a tensor, at computed places, combined with updates by a body."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .gather import Places, integers, interleaving, row_major
from .minifloat.cast import cast
from .reduce import body_elements, fold_of
from .registry import BY_BODY, Body, Call, Kernel, op
from .shape import require, require_dimensions
from .types import ElementType, Kind

Shape = tuple[int, ...]
Arrays = tuple[np.ndarray, ...]
Step = Callable[..., Arrays]

#: Puts updates into rows, in place: takes the region, for each operand a contiguous array of rows (or of elements), the
#: row of each update, all in bounds, and for each operand the updates: as many rows (or elements) as there are numbers.
Putter = Callable[[Step, Arrays, np.ndarray, Arrays], None]

#: How many shapes a use of an op remembers the index arithmetic of. A static program has one.
_SHAPES = 16

#: Where updates of the same row go on in so few rows, each row's are folded by themselves.
_FEW_ROWS = 48

#: Ops that numpy can do in place, one update after the other.
_IN_PLACE = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.xor": np.bitwise_xor,
}


# -- combining updates with what is there --------------------------------------------------------------------------


def putter(call: Call, body: Body) -> Putter:
    """How the updates of a body are put: as if one after the other, in their order."""
    elements = [t.element for t in body.results]  # type: ignore[union-attr]
    if body.vectorised is not None and _returns_updates(body.vectorised, len(elements)):
        return _overwrite
    step = body.vectorised if call.policy.rounding != "stochastic" else None
    ufunc = _in_place(call, body, elements)
    fold = fold_of(call, body)

    def put(region: Step, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
        if not updates[0].size:
            return
        if ufunc is not None and rows[0].ndim == 1:
            ufunc.at(rows[0], targets, updates[0])
            return
        if step is not None and _is_unique(targets, len(rows[0])):
            _put_step(step, rows, targets, updates)
            return
        order, groups, firsts, counts = _grouped(targets, len(rows[0]))
        done, active = 0, len(groups)
        while step is not None and active > _FEW_ROWS:  # the next update of every row that has one
            chosen = order[firsts[:active] + done]
            _put_step(step, rows, groups[:active], tuple(u.take(chosen, axis=0) for u in updates))
            done += 1
            active = int(np.searchsorted(-counts, -done))
        for row, first, count in zip(*(v[:active].tolist() for v in (groups, firsts, counts)), strict=True):
            chosen = order[first + done : first + count]
            starts = [r[row : row + 1].reshape(-1) for r in rows]
            results = fold(region, starts, [u.take(chosen, axis=0).reshape(len(chosen), -1) for u in updates])
            for r, result in zip(rows, results, strict=True):
                r[row : row + 1] = result

    return put


def _put_step(step: Step, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
    """One update for each of some rows, all different."""
    results = step(*(r.take(targets, axis=0) for r in rows), *updates)
    for r, result in zip(rows, results, strict=True):
        r[targets] = result


def _overwrite(_: Any, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
    for r, u in zip(rows, updates, strict=True):
        r[targets] = u  # numpy, too, keeps the last one


def _returns_updates(step: Step, count: int) -> bool:
    """Whether a body returns its updates as they are: it then does so with things that no kernel can take."""
    things = [_Thing() for _ in range(2 * count)]
    try:
        results = step(*things)
    except (TypeError, AttributeError):
        return False
    return all(result is thing for result, thing in zip(results, things[count:], strict=True))


class _Thing:
    """Not an array, nor what numpy or Python can compute with."""

    __array_ufunc__ = None

    def __bool__(self) -> bool:
        raise TypeError("no truth value")


def _in_place(call: Call, body: Body, elements: Sequence[ElementType]) -> np.ufunc | None:
    """The ufunc that is the body, bit for bit, and as quick one by one as on arrays."""
    if len(elements) != 1 or body.sole_op not in _IN_PLACE:
        return None
    element, ufunc = elements[0], _IN_PLACE[body.sole_op]
    if element.kind is Kind.BOOL:
        return {
            np.add: np.bitwise_or,
            np.maximum: np.bitwise_or,
            np.multiply: np.bitwise_and,
            np.minimum: np.bitwise_and,
        }.get(ufunc, ufunc)
    if element.is_integer:
        return ufunc if element.bits >= 8 else None
    if element.is_complex:
        return ufunc if ufunc is np.add or ufunc is np.subtract else None
    is_host = not element.is_minifloat and (element.bits >= 32 or call.policy.rounding == "nearest_even")
    return ufunc if is_host and ufunc in (np.add, np.subtract, np.multiply) else None


def _is_unique(targets: np.ndarray, size: int) -> bool:
    if len(targets) == 1:
        return True
    if size > 16 * len(targets) + 4096:
        ordered = np.sort(targets)
        return not (ordered[1:] == ordered[:-1]).any()
    last = np.empty(size, np.int64)
    numbers = np.arange(len(targets))
    last[targets] = numbers
    return np.array_equal(last[targets], numbers)


def _grouped(targets: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The numbers of the updates, those of one target together and in order; the targets, those with most updates
    first; and for each the place of its first update, and how many there are."""
    bits = max(len(targets) - 1, 1).bit_length()
    if size.bit_length() + bits < 63:  # sorting numbers is quicker than a stable sort that tells the order
        keys = np.sort((targets << bits) | np.arange(len(targets)))
        order, ordered = keys & ((1 << bits) - 1), keys >> bits
    else:
        order = np.argsort(targets, kind="stable")
        ordered = targets[order]
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(firsts, append=len(ordered))
    most = counts.max()
    small = np.uint16 if most < 1 << 16 else np.int64  # numpy sorts small integers by their digits
    by_count = np.argsort((most - counts).astype(small), kind="stable")
    return order, ordered[firsts][by_count], firsts[by_count], counts[by_count]


# -- where updates go ------------------------------------------------------------------------------------------------


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
        told = f"update_window_dims {list(window_axes)} must be {len(window)}, the dimensions windows have"
        require(len(window_axes) == len(window), told)
        require(len(updates) == len(grid) + len(window), f"updates have {len(updates)} dimensions")
        sizes = [1] * len(shape)
        for d, axis in zip(window, window_axes, strict=True):
            sizes[d] = updates[axis]
            require(sizes[d] <= shape[d], f"updates have size {sizes[d]} in dimension {axis} (at most {shape[d]})")
        order = interleaving(window_axes, len(updates))
        inner = grid + tuple(sizes[d] for d in window)
        expected = tuple(inner[axis] for axis in order)
        require(updates == expected, f"updates have shape {list(updates)} (should be {list(expected)})")
        return cls(places, shape, tuple(sizes), grid, order, tuple(places.along(indices)))

    def starts(self, indices: np.ndarray) -> dict[int, np.ndarray]:
        """For each dimension where it varies, the start of every window; those out of bounds only just so."""
        found = {}
        for d, coordinate in zip(self.places.mapped, self.places.coordinates(indices), strict=True):
            found[d] = np.clip(coordinate, -self.sizes[d], self.shape[d])
        return found | dict(zip(self.places.batching, self.along, strict=True))

    def kernel(self, put: Putter) -> Kernel:
        """Takes the region, the tensors (as tuples), the indices and the updates, and gives new tensors."""
        if math.prod(self.grid) == 1:
            return functools.partial(self._one, put)
        # Windows of size 1 wherever they move are apart or the same, and can be put whole.
        whole = all(self.sizes[d] == 1 for d in self.places.mapped)
        return functools.partial(self._rows if whole else self._elements, put)

    def _one(self, put: Putter, region: Step, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> Arrays:
        """A single window is a slice."""
        starts = dict(zip(self.places.mapped, indices.reshape(-1).tolist(), strict=True))
        inside, covered = [], []
        for d, (n, size) in enumerate(zip(self.shape, self.sizes, strict=True)):
            start = int(starts.get(d, 0))
            low = min(max(start, 0), n)
            high = max(min(start + size, n), low)
            inside.append(slice(low, high))
            covered.append(slice(low - start, high - start))
        results = tuple(np.array(x, order="C") for x in tensors)
        blocks = [r[(*inside, ...)] for r in results]
        rows = tuple(np.ascontiguousarray(b).reshape(1, -1) for b in blocks)
        parts = tuple(u.reshape(self.sizes)[(*covered, ...)].reshape(1, -1) for u in updates)
        put(region, rows, np.zeros(1, np.int64), parts)
        for block, row in zip(blocks, rows, strict=True):
            block[...] = row.reshape(block.shape)
        return results

    def _rows(self, put: Putter, region: Step, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> Arrays:
        """The tensor as a matrix with a row for each place a window can be at."""
        starts, rank = self._starts(indices), len(self.shape)
        moving = sorted({*starts, *self.places.dropped})
        height = math.prod(self.shape[d] for d in moving)
        width = math.prod(n for d, n in enumerate(self.sizes) if d not in moving)
        targets, inside = np.zeros((), np.int64), np.ones((), bool)
        for d, stride in zip(moving, row_major(tuple(self.shape[d] for d in moving)), strict=True):
            if d in starts:
                targets = targets + (starts[d] if stride == 1 else starts[d] * stride)
                inside = inside & self._is_inside(starts[d], d)
        targets = np.broadcast_to(targets, self.grid).reshape(-1)
        count, inner = targets.size, np.argsort(self.order)
        parts = tuple(u.transpose(inner).reshape((count, width) if width > 1 else count) for u in updates)
        results = tuple(np.array(x, order="C") for x in tensors)
        reach = tuple(slice(None) if d in moving else slice(0, n) for d, n in enumerate(self.sizes))
        blocks = [r[(*reach, ...)].transpose(*moving, *(d for d in range(rank) if d not in moving)) for r in results]
        rows = tuple(np.ascontiguousarray(b).reshape((height, width) if width > 1 else height) for b in blocks)
        put(region, rows, *_inside(targets, np.broadcast_to(inside, self.grid).reshape(-1), parts))
        for block, row in zip(blocks, rows, strict=True):
            if not np.may_share_memory(block, row):
                block[...] = row.reshape(block.shape)
        return results

    def _elements(self, put: Putter, region: Step, tensors: Arrays, indices: np.ndarray, updates: Arrays) -> Arrays:
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
        results = tuple(np.array(x, order="C") for x in tensors)
        rows = tuple(r.reshape(-1) for r in results)
        put(region, rows, *_inside(targets, inside, tuple(u.reshape(-1) for u in updates)))
        return results

    def _starts(self, indices: np.ndarray) -> dict[int, np.ndarray]:
        """For each dimension where it varies, the start of every window."""
        found = dict(zip(self.places.mapped, self.places.coordinates(indices), strict=True))
        return found | dict(zip(self.places.batching, self.along, strict=True))

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


@op("scatter", values="regions", accuracy=BY_BODY)
def scatter(call: Call) -> Kernel:
    """The operand with updates combined, by a body, into windows at computed places; what is out of bounds is left out.

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
        f"takes inputs, indices and as many updates, not {len(call.operands)} operands",
    )
    inputs, updates = ([call.tensor(i + first) for i in range(count)] for first in (0, count + 1))
    indices, results = call.tensor(count), [call.result(i) for i in range(len(call.results))]
    require(indices.element.is_integer, f"scatter_indices is {indices} (should be integers)")
    require(len(call.bodies) == 1, f"takes a body, not {len(call.bodies)}")
    elements = body_elements(call.bodies[0], count)
    require([t.element for t in results] == elements, f"results are {results}")
    for x, u, r in zip(inputs, updates, results, strict=True):
        require(x.shape == inputs[0].shape == r.shape, f"{x}, {inputs[0]} and {r} differ in shape (should be the same)")
        require(u.shape == updates[0].shape, f"updates {u} and {updates[0]} differ in shape (should be the same)")
        require(u.element == x.element, f"updates {u} for {x} (should be of the same element type)")
    numbers = call.attribute("scatter_dimension_numbers")
    places = Places(
        mapped=integers(numbers, "scatter_dims_to_operand_dims"),
        dropped=integers(numbers, "inserted_window_dims"),
        batching=integers(numbers, "input_batching_dims"),
        of_indices=integers(numbers, "scatter_indices_batching_dims"),
        vector=int(numbers.get("index_vector_dim", 0)),
    )
    places.check(len(inputs[0].shape), len(indices.shape))
    axes = integers(numbers, "update_window_dims")
    require_dimensions("update_window_dims", axes, len(updates[0].shape))
    require(list(axes) == sorted(axes), f"update_window_dims {list(axes)} must be in order")
    put = putter(call, call.bodies[0])
    windows = functools.lru_cache(_SHAPES)(lambda *shapes: _Windows.of(places, axes, *shapes).kernel(put))
    if inputs[0].is_static and indices.is_static and updates[0].is_static:
        windows(inputs[0].shape, indices.shape, updates[0].shape)
    sources = [t.element for t in inputs]

    def kernel(regions: tuple[Step, ...], *values: np.ndarray) -> np.ndarray | Arrays:
        tensors, where, parts = values[:count], values[count], values[count + 1 :]
        if sources != elements:
            tensors, parts = (
                tuple(cast(x, s, e, call.policy) for x, s, e in zip(v, sources, elements, strict=True))
                for v in (tensors, parts)
            )
        put_all = windows(tensors[0].shape, where.shape, parts[0].shape)
        found = put_all(regions[0], tensors, where, parts)
        return found[0] if count == 1 else found

    return kernel
