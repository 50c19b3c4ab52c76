"""Gathers: windows of a tensor at computed places. `Places` describes these for scatters too."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..op import Call, OpError, Run, op
from ..require import require, require_dimensions, require_element, require_shape, storage
from ..traits import PURE, PURE_LINEAR
from ..types import ElementType

Shape = tuple[int, ...]


def integers(attributes: Mapping[str, Any], name: str) -> Shape:
    """A list of integers in a structure; none where it is left out."""
    return tuple(int(v) for v in np.ravel(attributes.get(name, ())))


@dataclasses.dataclass(frozen=True)
class Places:
    """How index vectors say where windows are in a tensor.

    A window's size is 1 in the dimensions `dropped` and `batching`; the others, in order, are the window's own.
    """

    mapped: Shape  #: for each element of an index vector, the dimension it is a coordinate in
    dropped: Shape  #: dimensions a window does not have
    batching: Shape  #: dimensions in which the place is that of the index vector itself …
    of_indices: Shape  #: … in these dimensions of the indices
    vector: int  #: the dimension of the indices along which index vectors lie

    @classmethod
    def of(cls, numbers: Mapping[str, Any], *names: str) -> Places:
        """The places that a structure describes in fields of these names, in the order of the attributes here."""
        return cls(*[integers(numbers, name) for name in names], vector=int(numbers.get("index_vector_dim", 0)))

    def check(self, rank: int, indices_rank: int) -> None:
        """Raise OpError where the dimensions do not fit the ranks or each other."""
        fits = 0 <= self.vector <= indices_rank
        require(fits, f"expected index_vector_dim from 0 to {indices_rank}, got {self.vector}")
        require_dimensions("the index map", self.mapped, rank)
        require_dimensions("the dimensions without window", (*self.dropped, *self.batching), rank)
        require_dimensions("the batching dimensions of the indices", self.of_indices, indices_rank)
        require_dimensions("the index map and batching dimensions", (*self.mapped, *self.batching), rank)
        require(self.vector not in self.of_indices, "index_vector_dim must not be a batching dimension")
        for name, dims in (("dimensions without window", self.dropped), ("batching dimensions", self.batching)):
            require(list(dims) == sorted(dims), f"expected {name} in order, got {list(dims)}")
        pairs = f"{list(self.batching)} and {list(self.of_indices)}"
        require(len(self.batching) == len(self.of_indices), f"expected batching dimensions in pairs, got {pairs}")

    def check_shapes(self, shape: Shape, indices: Shape) -> None:
        """Raise OpError where index vectors or batching dimensions have the wrong size."""
        count = indices[self.vector] if self.vector < len(indices) else 1
        fits = count == len(self.mapped)
        require(fits, f"index vectors have {count} elements (expected {len(self.mapped)}, as mapped)")
        for d, s in zip(self.batching, self.of_indices, strict=True):
            fits = shape[d] == indices[s]
            require(fits, f"expected batching dimensions of one size, got {shape[d]} and {indices[s]}")

    def window(self, rank: int) -> Shape:
        """The dimensions a window has."""
        return tuple(d for d in range(rank) if d not in self.dropped and d not in self.batching)

    def grid(self, indices: Shape) -> Shape:
        """The shape of the indices without their vectors: one window for each element."""
        return tuple(n for d, n in enumerate(indices) if d != self.vector)

    def coordinates(self, indices: np.ndarray) -> list[np.ndarray]:
        """For each mapped dimension, the coordinate of every window, as int64; larger ones become int64's largest."""
        if indices.dtype == np.uint64:
            indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
        indices = indices.astype(np.int64, copy=False)
        if self.vector >= indices.ndim:
            return [indices]
        before = (slice(None),) * self.vector
        return [indices[(*before, i)] for i in range(indices.shape[self.vector])]

    def along(self, indices: Shape) -> list[np.ndarray]:
        """For each batching dimension, the coordinate of every window, in a shape that broadcasts to the grid."""
        grid = self.grid(indices)
        dimensions = [s - (s > self.vector) for s in self.of_indices]
        return [np.arange(grid[d]).reshape([-1 if i == d else 1 for i in range(len(grid))]) for d in dimensions]


def interleaving(window_axes: Sequence[int], rank: int) -> Shape:
    """The transposition of an array with a grid's axes first and then windows', so that those are at `window_axes`."""
    first = rank - len(window_axes)
    grid = iter(range(first))
    places = {axis: first + i for i, axis in enumerate(window_axes)}
    return tuple(places[axis] if axis in places else next(grid) for axis in range(rank))


def row_major(shape: Shape) -> Shape:
    """How many elements apart neighbours are in each dimension."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _bound(
    element: ElementType, places: Places, offset_dims: Shape, shape: Shape, indices: Shape, sizes: Shape
) -> tuple[Shape, Run]:
    """The shape of the result of a gather from a tensor of this shape, and the kernel."""
    fits = len(sizes) == len(shape)
    require(fits, f"expected slice_sizes for {len(shape)} dimensions of the operand, got {list(sizes)}")
    fits = all(0 <= size <= n for size, n in zip(sizes, shape, strict=True))
    require(fits, f"expected slice_sizes of at least 0 that fit {list(shape)}, got {list(sizes)}")
    places.check_shapes(shape, indices)
    window, grid = places.window(len(shape)), places.grid(indices)
    order = interleaving(offset_dims, len(grid) + len(window))
    inner = grid + tuple(sizes[d] for d in window)
    result = tuple(inner[axis] for axis in order)
    for d in (*places.dropped, *places.batching):
        one = sizes[d] == 1 or (sizes[d] == 0 and 0 in result)
        require(one, f"slice_sizes has {sizes[d]} for dimension {d}, which slices do not have (expected 1)")
    if 0 in result:
        return result, lambda *_: np.empty(result, element.dtype)
    cut = tuple(d for d in window if sizes[d] < shape[d])
    axes = {d: len(shape) + i for i, d in enumerate(cut)}  # of the windows along a dimension that they have a part of
    placed = [d for d in range(len(shape)) if d not in window or d in axes]
    fixed = dict(zip(places.batching, places.along(indices), strict=True))

    def kernel(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        starts = dict(fixed) | dict(zip(places.mapped, places.coordinates(indices), strict=True))
        windows = np.asarray(x).view(storage(element))
        windows = sliding_window_view(windows, tuple(sizes[d] for d in cut), cut) if cut else windows
        windows = windows.transpose([*placed, *(axes.get(d, d) for d in window)])
        at = [starts.get(d, 0) for d in placed]
        if len(at) == 1 and windows.flags.c_contiguous:
            taken = windows.take(at[0], axis=0, mode="clip")
        else:
            taken = windows[tuple(np.clip(i, 0, n - 1) for i, n in zip(at, windows.shape, strict=False))]
        taken = taken if taken.shape == inner else np.broadcast_to(taken, inner)
        return taken.transpose(order).view(element.dtype)

    return result, kernel


_PLACES = ("start_index_map", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims")


def _gather(call: Call, places: Places, offset_dims: Shape, sizes: Shape | None) -> Run:
    """The kernel of a gather; where `sizes` is None they are the third operand's."""
    operand, indices, result = call.tensor(0), call.tensor(1), call.result()
    require_element(call)
    require(indices.element.is_integer, f"start_indices is {indices} (expected integers)")
    require_dimensions("offset_dims", offset_dims, len(result.shape))
    require(list(offset_dims) == sorted(offset_dims), f"expected offset_dims in order, got {list(offset_dims)}")
    places.check(len(operand.shape), len(indices.shape))
    window = places.window(len(operand.shape))
    fits = len(offset_dims) == len(window)
    require(fits, f"expected {len(window)} offset_dims, one for each dimension of a slice, got {list(offset_dims)}")
    rank = len(places.grid((0,) * len(indices.shape))) + len(window)
    require(len(result.shape) == rank, f"the result is {result} (expected of rank {rank})")
    bound = functools.lru_cache(functools.partial(_bound, operand.element, places, offset_dims))
    if sizes is not None and operand.is_static and indices.is_static:
        shape, kernel = bound(call.operand_shape(0), call.operand_shape(1), sizes)
        require_shape(call, shape)
        return kernel

    def dynamic(x: np.ndarray, indices: np.ndarray, slice_sizes: np.ndarray | None = None) -> np.ndarray:
        given = sizes if slice_sizes is None else tuple(slice_sizes.tolist())
        shape, kernel = bound(x.shape, indices.shape, given)
        require_shape(call, shape)
        return kernel(x, indices)

    return dynamic


@op("gather", operands=2, traits=PURE_LINEAR)
def gather(call: Call) -> Run:
    """Slices of the operand that start at computed indices, or at the nearest ones where they fit.

    (C1, C21, C22) The dimensions of operand, slices and result agree. (C2, C3, C14) Index vectors fit the indices and
    their map. (C4, C5) offset_dims are distinct, in order and the result's. (C6 to C12) Dimensions without slice are
    distinct, in order, the operand's, and of slice size 1. (C13 to C17) Batching dimensions come in pairs of one size.
    (C18, C19) Mapped dimensions are distinct and the operand's. (C20) A slice size for each dimension. (C23) One
    element type.
    """
    numbers = call.attribute("dimension_numbers")
    return _gather(call, Places.of(numbers, *_PLACES), integers(numbers, "offset_dims"), call.integers("slice_sizes"))


@op("dynamic_gather", operands=3, any_sizes=True)
def dynamic_gather(call: Call) -> Run:
    """Slices as of gather, whose size is an operand too.

    (C1 to C14) As gather's; those on slice_sizes hold when it runs. (I3) slice_sizes is a list of integers.
    """
    sizes = call.tensor(2)
    require(sizes.element.is_integer and len(sizes.shape) == 1, f"slice_sizes is {sizes} (expected a list of integers)")
    numbers = call.attribute("dimension_numbers")
    return _gather(call, Places.of(numbers, *_PLACES), integers(numbers, "offset_dims"), None)


@op("torch_index_select", operands=2, traits=PURE, has_section=False)
def torch_index_select(call: Call) -> Run:
    """The slices of one dimension that the indices name, in their order; an index out of bounds takes the nearest.

    `dim` is replaced by the indices' dimensions, less the first `batch_dims`, which are the operand's too.
    """
    operand, index = call.tensor(0), call.tensor(1)
    dim, batch = (int(call.attribute(name)) for name in ("dim", "batch_dims"))
    rank, more = len(operand.shape), len(index.shape) - 1
    require(0 <= dim < rank, f"expected dim to be a dimension of {operand}, got {dim}")
    fits = 0 <= batch <= min(dim, more + 1)
    require(fits, f"expected batch_dims of at most dim and the rank of {index}, got {batch}")
    batching = tuple(range(batch))
    places = Places(mapped=(dim,), dropped=(dim,), batching=batching, of_indices=batching, vector=more + 1)
    offset_dims = tuple(d if d < dim else d + more - batch for d in range(batch, rank) if d != dim)
    sizes = tuple(1 if d < batch or d == dim else n for d, n in enumerate(operand.shape))
    if None in sizes:
        raise OpError(f"expected an operand whose sizes are known, got {operand}")
    return _gather(call, places, offset_dims, sizes)  # type: ignore[arg-type]
