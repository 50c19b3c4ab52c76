"""Random dimension numbers of gather and scatter; the element each index means, by the specification's formulas."""

import dataclasses

import numpy as np

Shape = tuple[int, ...]


@dataclasses.dataclass
class Numbers:
    """How indices tell the windows of a tensor. `window_axes` are theirs in a gather's result, or in updates."""

    shape: Shape
    sizes: Shape  #: of windows, 1 in `dropped` and `batching`
    window_axes: Shape
    dropped: Shape
    batching: Shape
    of_indices: Shape
    mapped: Shape
    vector: int
    indices: Shape  #: the shape of the indices

    @property
    def grid(self) -> Shape:
        return tuple(n for d, n in enumerate(self.indices) if d != self.vector)

    @property
    def window(self) -> Shape:
        """The dimensions that windows have."""
        return tuple(d for d in range(len(self.shape)) if d not in self.dropped + self.batching)

    @property
    def whole(self) -> Shape:
        """The shape of a gather's result or a scatter's updates."""
        grid, sizes = iter(self.grid), iter([self.sizes[d] for d in self.window])
        rank = len(self.grid) + len(self.window)
        return tuple(next(sizes) if axis in self.window_axes else next(grid) for axis in range(rank))

    def element(self, index: Shape, indices: np.ndarray, clamp: bool) -> Shape:
        """Which element of the tensor an index into the whole means."""
        at = tuple(i for axis, i in enumerate(index) if axis not in self.window_axes)  # batch_index
        if self.vector < indices.ndim:
            start = [int(v) for v in indices[(*at[: self.vector], slice(None), *at[self.vector :])]]
        else:
            start = [int(indices[at])]
        result = [0] * len(self.shape)
        for d, low in zip(self.mapped, start, strict=True):
            result[d] = min(max(low, 0), self.shape[d] - self.sizes[d]) if clamp else low
        for d, s in zip(self.batching, self.of_indices, strict=True):
            result[d] += at[s - (0 if s < self.vector else 1)]
        for d, axis in zip(self.window, self.window_axes, strict=True):
            result[d] += index[axis]
        return tuple(result)


def random_numbers(rng: np.random.Generator, empty: bool = False) -> Numbers:
    """Any dimension numbers for a small tensor; with `empty`, sizes may be 0 too."""
    rank = int(rng.integers(0, 5))
    shape = tuple(int(n) for n in rng.integers(0 if empty else 1, 5, rank))
    roles = rng.choice(["window", "window", "dropped", "batching"], rank)
    dropped, batching = ([d for d in range(rank) if roles[d] == role] for role in ("dropped", "batching"))
    if empty:
        dropped = [d for d in dropped if shape[d]]
        batching = [d for d in batching if shape[d]]
    window = [d for d in range(rank) if d not in dropped + batching]
    mapped = [int(d) for d in rng.permutation([d for d in range(rank) if d not in batching]) if rng.random() < 0.7]
    sizes = tuple(
        1 if d not in window else n if rng.random() < 0.4 else int(rng.integers(0 if empty else 1, n + 1) if n else 0)
        for d, n in enumerate(shape)
    )
    extra = [int(n) for n in rng.integers(0 if empty else 1, 4, rng.integers(0, 3))]
    of_grid = [int(i) for i in rng.permutation(len(extra) + len(batching))[: len(batching)]]
    rest = iter(extra)
    grid = [
        shape[batching[of_grid.index(i)]] if i in of_grid else next(rest) for i in range(len(extra) + len(batching))
    ]
    vector = int(rng.integers(0, len(grid) + 1))
    indices = list(grid)
    if len(mapped) != 1 or rng.random() < 0.7:
        indices.insert(vector, len(mapped))
    else:
        vector = len(grid)
    whole = len(grid) + len(window)
    return Numbers(
        shape=shape,
        sizes=sizes,
        window_axes=tuple(sorted(int(i) for i in rng.permutation(whole)[: len(window)])),
        dropped=tuple(dropped),
        batching=tuple(batching),
        of_indices=tuple(i + (i >= vector) for i in of_grid),
        mapped=tuple(mapped),
        vector=vector,
        indices=tuple(indices),
    )


def listed(values: Shape) -> str:
    return f"[{', '.join(map(str, values))}]"


def dims(shape: Shape) -> str:
    return "".join(f"{n}x" for n in shape)


def padded(x: np.ndarray, value: np.ndarray, low: Shape, high: Shape, interior: Shape) -> np.ndarray:
    """By the specification's formula: element i goes to low + i * (interior + 1)."""
    shape = [n + a + max(n - 1, 0) * k + b for n, a, b, k in zip(x.shape, low, high, interior, strict=True)]
    result = np.empty(shape, x.dtype)
    result[...] = value
    for i in np.ndindex(x.shape):
        at = tuple(a + j * (k + 1) for a, j, k in zip(low, i, interior, strict=True))
        if all(0 <= p < n for p, n in zip(at, shape, strict=True)):
            result[at] = x[i]
    return result
