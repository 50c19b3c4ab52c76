"""Dynamic slices and scatters of tensors of a few elements: positions as expressions of numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from ....ops.reductions.scatter import targets
from ...program import Operation
from ..leaf import Shape
from ..passes.fusible import element_of, shape_of


def place_of(shape: Shape, window: Shape) -> tuple[str, list[int], list[int]]:
    """The position of a dynamic slice in the flattened tensor, clamped so that the window fits.

    Returns:
        An expression of the start indices, the dimensions whose start indices it takes, and for each element of the
        window its offset from that position.
    """
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    terms, used = [], []
    for d, (n, size) in enumerate(zip(shape, window, strict=True)):
        if n != size:
            x, most = f"{{{len(used)}}}", n - size
            terms.append(f"({x} if 0 <= {x} <= {most} else 0 if {x} < 0 else {most}) * {strides[d]}")
            used.append(d)
    offsets = [sum(i * k for i, k in zip(at, strides, strict=True)) for at in np.ndindex(*window)]
    return " + ".join(terms), used, offsets


@dataclasses.dataclass(frozen=True)
class Window:
    """The window of a scatter.

    text: an expression of the indices that gives the number of the place, -1 where the window is out of bounds.
    targets: for each update and each place, the position of the element that it changes.
    sizes: how many places there are in each dimension of the indices.
    """

    text: str
    targets: Sequence[Sequence[int]]
    sizes: Sequence[int]

    def place(self, indices: Sequence[int]) -> int:
        """The number of the place of some indices, -1 where the window is out of bounds."""
        is_inside = all(0 <= i < n for i, n in zip(indices, self.sizes, strict=True))
        return int(np.ravel_multi_index(tuple(indices), tuple(self.sizes))) if is_inside else -1


def element_window(operation: Operation) -> Window | None:
    """The window of a valid scatter that has a single one.

    None where there are several, or where a part of a window can be out of bounds.
    """
    if len(operation.operands) != 3 or len({element_of(v) for v in (*operation.regions[0].arguments,)}) != 1:
        return None
    shape, indices, updates = map(shape_of, operation.operands)
    numbers = operation.attributes["scatter_dimension_numbers"]
    mapped = np.ravel(numbers.get("scatter_dims_to_operand_dims", ())).astype(int).tolist()
    if (
        not mapped
        or math.prod(indices) != len(mapped)
        or element_of(operation.operands[0]) != element_of(operation.results[0])
    ):
        return None

    def placed(at: Sequence[int]) -> list[int]:
        return targets(numbers, shape, np.array(at, np.int64).reshape(indices), updates).tolist()

    sizes, terms = [shape[d] for d in mapped], [f"{{{i}}}" for i in range(len(mapped))]
    for i, n in enumerate(sizes):
        inside = [0] * len(sizes)
        for outside in (-1, n):
            if set(placed([*inside[:i], outside, *inside[i + 1 :]])) != {-1}:
                return None  # a part of such a window is inside
    places = [placed(at) for at in itertools.product(*map(range, sizes))]
    columns = [list(column) for column in zip(*places, strict=True)]
    if any(-1 in column or len({*column}) < len(column) for column in columns):
        return None
    tests = " and ".join(f"0 <= {x} < {n}" for x, n in zip(terms, sizes, strict=True))
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    text = " + ".join(f"{x} * {k}" for x, k in zip(terms, strides, strict=True))
    return Window(f"{text} if {tests} else -1", columns, sizes)
