"""Gathers: windows taken out of a tensor at computed places. Also where such windows stand, which scatter shares."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..batch import Batch, Batched, shifted
from ..engine.speed import tuning
from ..op import Call, OpError, Run, op
from ..require import require, require_dimensions, require_element, require_shape
from ..traits import PURE, PURE_LINEAR

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

    def check(self, rank: int, indices_rank: int) -> None:
        """Raise OpError where the dimensions do not fit the ranks or each other."""
        require(
            0 <= self.vector <= indices_rank, f"expected index_vector_dim from 0 to {indices_rank}, got {self.vector}"
        )
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
        require(
            count == len(self.mapped), f"index vectors have {count} elements (expected {len(self.mapped)}, as mapped)"
        )
        for d, s in zip(self.batching, self.of_indices, strict=True):
            require(
                shape[d] == indices[s], f"expected batching dimensions of one size, got {shape[d]} and {indices[s]}"
            )

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
        places = []
        for s in self.of_indices:
            d = s - (s > self.vector)
            places.append(np.arange(grid[d]).reshape([-1 if i == d else 1 for i in range(len(grid))]))
        return places


def interleaving(window_axes: Sequence[int], rank: int) -> Shape:
    """The transposition of an array with a grid's axes first and then windows', so that those are at `window_axes`."""
    first = rank - len(window_axes)
    grid = iter(range(first))
    places = {axis: first + i for i, axis in enumerate(window_axes)}
    return tuple(places[axis] if axis in places else next(grid) for axis in range(rank))


def row_major(shape: Shape) -> Shape:
    """How many elements apart neighbours are in each dimension."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


#: The shape of a gather's result, and its kernel.
Taker = tuple[Shape, Run]


def _taker(places: Places, offset_dims: Shape, shape: Shape, indices: Shape, sizes: Shape) -> Taker:
    """A gather from a tensor of this shape."""
    require(
        len(sizes) == len(shape), f"expected slice_sizes for {len(shape)} dimensions of the operand, got {list(sizes)}"
    )
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
        return result, lambda x, _: np.empty(result, x.dtype)
    if math.prod(grid) == 1:
        return result, _one_slice(places, shape, sizes, result)
    return result, _many_slices(places, shape, sizes, places.along(indices), inner, order)


def _one_slice(places: Places, shape: Shape, sizes: Shape, result: Shape) -> Run:
    mapped = [(d, sizes[d], shape[d] - sizes[d]) for d in places.mapped]

    def kernel(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        index = [slice(0, size) for size in sizes]
        starts = indices.reshape(-1).tolist()
        for (d, size, most), start in zip(mapped, starts, strict=True):
            low = min(max(int(start), 0), most)
            index[d] = slice(low, low + size)
        return x[tuple(index)].reshape(result)

    return kernel


def _many_slices(
    places: Places, shape: Shape, sizes: Shape, along: Sequence[np.ndarray], inner: Shape, order: Shape
) -> Run:
    """The operand as a matrix whose rows are the trailing dimensions that slices have whole; rows are taken."""
    lead = next((d + 1 for d in reversed(range(len(shape))) if sizes[d] < shape[d]), 0)
    unit = math.prod(shape[lead:])
    strides = row_major(shape[:lead])
    offsets = np.zeros((), np.int64)  # of a slice's rows from its first one
    for size, stride in zip(sizes[:lead], strides, strict=True):
        offsets = np.add.outer(offsets, np.arange(size) * stride)
    offsets = offsets.reshape(-1)
    fixed = None
    for coordinate, d in zip(along, places.batching, strict=True):
        if d < lead:
            fixed = coordinate * strides[d] if fixed is None else fixed + coordinate * strides[d]
    moved = [(i, shape[d] - sizes[d], strides[d]) for i, d in enumerate(places.mapped) if d < lead]
    grid = inner[: len(inner) - len(places.window(len(shape)))]
    is_plain, zero = order == tuple(range(len(order))), np.int64(0)
    is_rows = lead == 1 and len(places.mapped) == len(moved) == 1 and fixed is None and len(offsets) == 1

    def kernel(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        if is_rows and indices.dtype.kind == "i":  # numpy moves indices into range as well
            result = x.reshape(-1, unit).take(indices.reshape(-1), axis=0, mode="clip").reshape(inner)
            return result if is_plain else result.transpose(order)
        coordinates = places.coordinates(indices)
        base = fixed
        for i, most, stride in moved:
            start = np.minimum(np.maximum(coordinates[i], zero), most)
            start = start if stride == 1 else start * stride
            base = start if base is None else base + start
        if base is None or base.shape != grid:
            base = np.broadcast_to(0 if base is None else base, grid)
        base = base.reshape(-1)
        rows = base if len(offsets) == 1 else base[:, None] + offsets
        taken = x.reshape(-1).take(rows) if unit == 1 else x.reshape(-1, unit).take(rows, axis=0)
        result = taken.reshape(inner)
        return result if is_plain else result.transpose(order)

    return kernel


def _gather(call: Call, places: Places, offset_dims: Shape, sizes: Shape | None) -> Run:
    """The kernel of a gather; where `sizes` is None they are the third operand's."""
    operand, indices, result = call.tensor(0), call.tensor(1), call.result()
    require_element(call)
    require(indices.element.is_integer, f"start_indices is {indices} (expected integers)")
    require_dimensions("offset_dims", offset_dims, len(result.shape))
    require(list(offset_dims) == sorted(offset_dims), f"expected offset_dims in order, got {list(offset_dims)}")
    places.check(len(operand.shape), len(indices.shape))
    window = places.window(len(operand.shape))
    require(
        len(offset_dims) == len(window),
        f"expected {len(window)} offset_dims, one for each dimension of a slice, got {list(offset_dims)}",
    )
    rank = len(places.grid((0,) * len(indices.shape))) + len(window)
    require(len(result.shape) == rank, f"the result is {result} (expected of rank {rank})")
    taker = functools.lru_cache(tuning().shapes)(functools.partial(_taker, places, offset_dims))
    if sizes is not None and operand.is_static and indices.is_static:
        shape, kernel = taker(call.operand_shape(0), call.operand_shape(1), sizes)
        require_shape(call, shape)
        return kernel

    def dynamic(x: np.ndarray, indices: np.ndarray, slice_sizes: np.ndarray | None = None) -> np.ndarray:
        given = sizes if slice_sizes is None else tuple(slice_sizes.tolist())
        shape, kernel = taker(x.shape, indices.shape, given)
        require_shape(call, shape)
        return kernel(x, indices)

    return dynamic


def _places(numbers: Mapping[str, Any]) -> Places:
    return Places(
        mapped=integers(numbers, "start_index_map"),
        dropped=integers(numbers, "collapsed_slice_dims"),
        batching=integers(numbers, "operand_batching_dims"),
        of_indices=integers(numbers, "start_indices_batching_dims"),
        vector=int(numbers.get("index_vector_dim", 0)),
    )


def _batched(batch: Batch) -> Batched:
    """Many at once: tensors of their own are a batching dimension, or one that windows have all of."""
    numbers, (tensors, indices) = dict(batch.attributes["dimension_numbers"]), batch.is_stacked
    lists = {name: list(integers(numbers, name)) for name in _LISTS}
    for name in _OF_OPERAND if tensors else ():
        lists[name] = shifted(lists[name])
    lists["offset_dims"] = shifted(lists["offset_dims"])
    if indices:
        numbers["index_vector_dim"] = int(numbers.get("index_vector_dim", 0)) + 1
        lists["start_indices_batching_dims"] = shifted(lists["start_indices_batching_dims"])
    if tensors and indices:
        for name in ("operand_batching_dims", "start_indices_batching_dims"):
            lists[name] = [0, *lists[name]]
    elif tensors:
        lists["offset_dims"] = [0, *lists["offset_dims"]]
    sizes = np.ravel(batch.attributes["slice_sizes"]).astype(np.int64)
    attributes: dict[str, Any] = {"dimension_numbers": {**numbers, **lists}}
    if tensors:
        attributes["slice_sizes"] = np.append(1 if indices else batch.count, sizes)
    return Batched(attributes, frozenset(i for i, stacked in enumerate(batch.is_stacked) if not stacked))


_OF_OPERAND = ("collapsed_slice_dims", "start_index_map", "operand_batching_dims")
_LISTS = (*_OF_OPERAND, "offset_dims", "start_indices_batching_dims")


@op("gather", operands=2, traits=dataclasses.replace(PURE_LINEAR, batch=_batched))
def gather(call: Call) -> Run:
    """Slices of the operand that start at computed indices, or at the nearest ones where they fit.

    (C1, C21, C22) The dimensions of operand, slices and result agree. (C2, C3, C14) Index vectors fit the indices and
    their map. (C4, C5) offset_dims are distinct, in order and the result's. (C6 to C12) Dimensions without slice are
    distinct, in order, the operand's, and of slice size 1. (C13 to C17) Batching dimensions come in pairs of one size.
    (C18, C19) Mapped dimensions are distinct and the operand's. (C20) A slice size for each dimension. (C23) One
    element type.
    """
    numbers = call.attribute("dimension_numbers")
    return _gather(call, _places(numbers), integers(numbers, "offset_dims"), call.integers("slice_sizes"))


@op("dynamic_gather", operands=3, any_sizes=True)
def dynamic_gather(call: Call) -> Run:
    """Slices as of gather, whose size is an operand too.

    (C1 to C14) As gather's; those on slice_sizes hold when it runs. (I3) slice_sizes is a list of integers.
    """
    sizes = call.tensor(2)
    require(sizes.element.is_integer and len(sizes.shape) == 1, f"slice_sizes is {sizes} (expected a list of integers)")
    numbers = call.attribute("dimension_numbers")
    return _gather(call, _places(numbers), integers(numbers, "offset_dims"), None)


@op("torch_index_select", operands=2, traits=PURE, has_section=False)
def torch_index_select(call: Call) -> Run:
    """The slices of one dimension that the indices name, in their order; an index out of bounds takes the nearest.

    `dim` is replaced by the indices' dimensions, less the first `batch_dims`, which are the operand's too.
    """
    operand, index, dim, batch = (
        call.tensor(0),
        call.tensor(1),
        int(call.attribute("dim")),
        int(call.attribute("batch_dims")),
    )
    rank, more = len(operand.shape), len(index.shape) - 1
    require(0 <= dim < rank, f"expected dim to be a dimension of {operand}, got {dim}")
    require(
        0 <= batch <= min(dim, more + 1), f"expected batch_dims of at most dim and the rank of {index}, got {batch}"
    )
    batching = tuple(range(batch))
    places = Places(mapped=(dim,), dropped=(dim,), batching=batching, of_indices=batching, vector=more + 1)
    offset_dims = tuple(d if d < dim else d + more - batch for d in range(batch, rank) if d != dim)
    sizes = tuple(1 if d < batch or d == dim else n for d, n in enumerate(operand.shape))
    if None in sizes:
        raise OpError(f"expected an operand whose sizes are known, got {operand}")
    return _gather(call, places, offset_dims, sizes)  # type: ignore[arg-type]
