"""Convolutions of f32 and f64 by the host's products, whose windows compiled code lays out.

The rule. The windows of the left operand are the rows of a matrix that the host multiplies by the kernels. They are
laid out part by part, straight from the operand, so that padding and dilation take no array of their own. A product of
more than 2**20 terms is cut, and its matrix may lie by columns; a smaller one is one product of a matrix that lies by
rows. Numpy lays the same parts out where there is no compiled code, so that BLAS makes the same calls.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..engine.blocks import Pace, for_each
from ..engine.compiled import Kernels
from ..engine.speed import tuning
from ..reductions.axes import Axis

Shape = tuple[int, ...]

#: The terms of the smallest product that the host is given, and the elements of the windows of a part, which stay in
#: the cache and are a part of what XLA keeps. No tuning: BLAS has another order of addition for smaller products, and
#: some (OpenBLAS for Haswell) sum a row in another order where it stands elsewhere among those of a part.
PART, BLOCK = 1 << 20, 1 << 16
#: A dimension of the matrix: its size, the step in the operand, and the steps along the two axes of windows.
_Dimension = tuple[int, int, int, int]


@dataclasses.dataclass(frozen=True)
class Patches:
    """How the windows of an operand are laid out: one plan for each combination of shapes.

    lhs: the operand's dimensions (batch, feature and one or two spatial ones) as places in its shape.
    least: the terms of the smallest product that the host is given.
    block: the elements of the windows of a part.
    """

    shape: Shape
    lhs: Shape
    axes: tuple[Axis, ...]
    reversal: Shape
    groups: tuple[int, int]  #: of features and of batches
    outputs: int  #: of a group
    least: int = PART
    block: int = BLOCK

    @property
    def is_known(self) -> bool:
        """Whether compiled code lays such windows out, in less time than numpy."""
        if not 1 <= len(self.axes) <= 2 or self.outputs < 2 or math.prod(self.shape) * self.rows * self.depth == 0:
            return False
        # What lies together in memory, but far apart in a matrix that must lie by rows, numpy moves in another order.
        now = tuning()
        apart = self._run(self._ordered(self._outer_order)) >= now.convolution_apart
        if apart and not self.is_large and self._run(self._inner) == 1:
            return False
        size, _, down, along = self._dims[5].tolist()  # of what is copied at a time
        if down or along:
            return down == 0 and along == 1 and int(self._space[1, 2]) == 1
        is_long = size >= now.convolution_long
        return is_long or (size >= now.convolution_short and self.size <= size * now.convolution_runs)

    @functools.cached_property
    def counts(self) -> Shape:
        """The batch of a group and the windows along each axis."""
        return (self.shape[self.lhs[0]] // self.groups[1], *(a.count for a in self.axes))

    @functools.cached_property
    def rows(self) -> int:
        """The windows of a group."""
        return math.prod(self.counts)

    @functools.cached_property
    def depth(self) -> int:
        """The elements of a window."""
        return self.shape[self.lhs[1]] // self.groups[0] * math.prod(a.window for a in self.axes)

    @functools.cached_property
    def size(self) -> int:
        """The elements of the matrices of all groups."""
        return math.prod(self.groups) * self.rows * self.depth

    @functools.cached_property
    def _steps(self) -> Shape:
        """The step in the operand along each of its dimensions, in the order of `lhs`."""
        return tuple([math.prod(self.shape[d + 1 :]) for d in self.lhs])

    @functools.cached_property
    def _outer(self) -> list[_Dimension]:
        """What numbers the windows: batch and axes."""
        last = len(self.axes) - 1
        moves = [(0, a.stride) if i == last else (a.stride, 0) for i, a in enumerate(self.axes)]
        return [
            (self.counts[0], self._steps[0], 0, 0),
            *((n, 0, *m) for n, m in zip(self.counts[1:], moves, strict=True)),
        ]

    @functools.cached_property
    def _inner(self) -> list[_Dimension]:
        """What numbers the elements of a window: its axes and the features."""
        dimensions: list[_Dimension] = []
        for i, (axis, is_reversed) in enumerate(zip(self.axes, self.reversal, strict=True)):
            step = -axis.window_dilation if is_reversed else axis.window_dilation
            is_last = i == len(self.axes) - 1
            dimensions.append((axis.window, 0, 0, step) if is_last else (axis.window, 0, step, 0))
        return [*dimensions, (self.shape[self.lhs[1]] // self.groups[0], self._steps[1], 0, 0)]

    @functools.cached_property
    def _space(self) -> np.ndarray:
        rows = []
        for axis, step, is_reversed in zip(self.axes, self._steps[2:], self.reversal, strict=True):
            first = (axis.window - 1) * axis.window_dilation if is_reversed else 0
            rows.append((axis.size, step, axis.base_dilation, first - axis.low))
        return np.array([(1, 0, 1, 0)] * (2 - len(rows)) + rows, np.int64)

    @functools.cached_property
    def _base(self) -> np.ndarray:
        features, batches = self.groups
        batch, feature = self._steps[:2]
        step = batch * self.counts[0] if batches > 1 else feature * (self.shape[self.lhs[1]] // features)
        return np.array([step, features * batches], np.int64)

    def _along(self, dimension: _Dimension) -> int:
        """The step in the operand along a dimension of the matrix."""
        _, step, down, along = dimension
        return abs(step + down * int(self._space[0, 1]) + along * int(self._space[1, 1]))

    @functools.cached_property
    def is_large(self) -> bool:
        return self.rows * self.depth * self.outputs > self.least

    @functools.cached_property
    def _outer_order(self) -> list[int]:
        """The dimensions of windows in the order of memory."""
        return sorted(range(len(self._outer)), key=lambda i: -self._along(self._outer[i]))

    def _ordered(self, order: Sequence[int]) -> list[_Dimension]:
        return [self._outer[i] for i in order]

    @functools.cached_property
    def _order(self) -> list[int] | None:
        """The order of the dimensions of windows where the matrix lies by columns; None where it lies by rows."""
        order = self._outer_order
        return order if self.is_large and self._run(self._ordered(order)) > self._run(self._inner) else None

    def _run(self, dimensions: Sequence[_Dimension]) -> int:
        """How many elements of the operand lie together along dimensions, the last of which varies first."""
        length = 1
        for dimension in reversed(dimensions):
            if dimension[0] > 1:
                if self._along(dimension) != length:
                    break
                length *= dimension[0]
        return length

    @functools.cached_property
    def _dims(self) -> np.ndarray:
        if self._order is None:
            return np.array([*_three(self._outer), *_three(self._inner)], np.int64)
        return np.array([*_three(self._inner), *_three(self._ordered(self._order))], np.int64)

    @property
    def _even(self) -> list[tuple[slice, ...]]:
        """The parts of the windows, in the order of the matrix."""
        counts = tuple([self.counts[i] for i in self._order or range(len(self.counts))])
        least = least_rows(math.prod(self.groups), self.depth, self.outputs, self.least, self.block)
        return list(even(counts, least))

    @functools.cached_property
    def _parts(self) -> list[slice]:
        """The rows of each part."""
        sizes = [math.prod(p.stop - p.start for p in part) for part in self._even]
        return [slice(*pair) for pair in itertools.pairwise(itertools.accumulate(sizes, initial=0))]

    @functools.cached_property
    def _pace(self) -> Pace:
        return Pace()

    @property
    def blocks(self) -> list[tuple[slice, ...]]:
        """The parts of the windows where numpy lays them out."""
        order = [*(self._order or range(len(self.counts)))]
        return [tuple([part[order.index(i)] for i in range(len(part))]) for part in self._even]

    def products(
        self, kernels: Kernels, x: np.ndarray, kernel: np.ndarray, multiply: Callable[[Any, Any], np.ndarray]
    ) -> np.ndarray:
        """The convolution as an array of group, batch, spatial and output feature; may be a view of another order.

        `x` lies in C's order, `kernel` has the shape (groups, depth, outputs).
        """
        groups, order = len(kernel), self._order
        sums = np.empty((groups, self.rows, self.outputs), x.dtype)
        source = x.view(f"u{x.itemsize}").reshape(-1)

        def work(part: slice) -> None:
            count = part.stop - part.start
            shape = (groups, count, self.depth) if order is None else (groups, self.depth, count)
            matrix = np.empty(shape, x.dtype)
            first, last = (part.start, 0), (part.stop, self.depth)
            if order is not None:
                first, last = (0, part.start), (self.depth, part.stop)
            kernels.lay_patches(source, matrix, self._dims, self._space, self._base, first, last)
            sums[:, part] = multiply(matrix if order is None else matrix.swapaxes(1, 2), kernel)

        terms = groups * self.rows * self.depth * self.outputs
        for_each(self._parts, work, terms // tuning().product_terms, self._pace)
        if order is None:
            return sums.reshape(groups, *self.counts, self.outputs)
        sums = sums.reshape(groups, *(self.counts[i] for i in order), self.outputs)
        return sums.transpose(0, *(1 + order.index(d) for d in range(len(order))), 1 + len(order))


def _three(dimensions: Sequence[_Dimension]) -> list[_Dimension]:
    """Three dimensions, of which the last has several elements if any has."""
    several = [d for d in dimensions if d[0] > 1]
    return [(1, 0, 0, 0)] * (3 - len(several)) + several


def least_rows(groups: int, depth: int, outputs: int, least: int = PART, block: int = BLOCK) -> int:
    """The windows of a part: as many as a block of elements has, and as make a product that may stand by itself."""
    return max(-(-least // (depth * outputs)), block // (groups * depth), 1)


def even(shape: Shape, least: int) -> Iterator[tuple[slice, ...]]:
    """Parts of an array of this shape, in row-major order, each of `least` elements or more, if it has as many."""
    split = next((d for d in range(len(shape)) if math.prod(shape[d + 1 :]) <= least), 0)
    step = -(-least // math.prod(shape[split + 1 :]))
    count = max(shape[split] // step, 1)
    ends = [shape[split] * i // count for i in range(count + 1)]
    whole = tuple(slice(0, n) for n in shape[split + 1 :])
    for outer in itertools.product(*(range(n) for n in shape[:split])):
        for part in itertools.pairwise(ends):
            yield (*(slice(i, i + 1) for i in outer), slice(*part), *whole)
