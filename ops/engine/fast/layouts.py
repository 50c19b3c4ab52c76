"""How the leaves of a group lie in memory: which of them compiled code reads where they are.

A slice of a matrix, or what is repeated along some dimensions, has rows that lie together with something between them.
The machine finds each row by the place where it begins, so such a leaf need not be copied. What has gaps between the
elements of a row is copied, and so is all that has gaps where rows would be short.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..blocks import in_order
from ..speed import tuning

#: Of each dimension of a group, from one element of a leaf to the next: in elements, 0 where it is repeated.
Steps = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the elements of leaves are: the sizes of a group, the last being that of a row, and the steps of each leaf.

    copied: the leaves that are copied first.
    is_own: whether it is that of leaves that do not all lie in order.
    """

    sizes: tuple[int, ...]
    steps: tuple[Steps, ...]
    copied: tuple[bool, ...]
    is_own: bool = False

    def starts(self) -> np.ndarray:
        """Where each row begins in each leaf."""
        grids = np.indices(self.sizes[:-1], sparse=True) if len(self.sizes) > 1 else ()
        rows = math.prod(self.sizes[:-1])
        starts = np.zeros((max(len(self.steps), 1), rows), np.int64)
        for place, steps in zip(starts, self.steps, strict=False):
            grid = np.zeros(self.sizes[:-1], np.int64)
            for at, step in zip(grids, steps, strict=False):
                grid += at * step
            place[:] = grid.reshape(-1)
        return starts


class Layouts:
    """The layouts of leaves that do not all lie in order, by their strides.

    Args:
        shape: The group's.
        lays: What gives each leaf all of the group's dimensions, of size 1 where it is repeated; they give views.
        first: The first dimension of those that lie along a row; None where rows may be as long as they can.
    """

    def __init__(
        self, shape: Sequence[int], lays: Sequence[Callable[[np.ndarray], np.ndarray]], first: int | None
    ) -> None:
        self._shape, self._lays, self._first = tuple(shape), lays, first
        self._found: dict[tuple[tuple[int, ...], ...], Layout] = {}

    def of(self, values: Sequence[np.ndarray]) -> tuple[Layout, Sequence[np.ndarray]]:
        """The layout of some leaves, and the leaves that lie so."""
        key = tuple([x.strides for x in values])
        layout = self._found.get(key)
        if layout is None:
            layout = self._found[key] = layout_of(self._shape, self._laid(values), self._first)
        return layout, [
            in_order(lay(x)) if is_copied else x if type(x) is np.ndarray else np.asarray(x)
            for lay, x, is_copied in zip(self._lays, values, layout.copied, strict=True)
        ]

    def grids(self, layout: Layout, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Leaves that `of` has given with this layout, as large as the group."""
        whole = zip(self._lays, values, layout.copied, strict=True)
        return [np.broadcast_to(x if is_copied else lay(x), self._shape) for lay, x, is_copied in whole]

    def _laid(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [lay(np.asarray(x)) for lay, x in zip(self._lays, values, strict=True)]


def layout_of(shape: tuple[int, ...], leaves: Sequence[np.ndarray], first: int | None) -> Layout:
    """The layout of leaves that have as many dimensions as the group, of size 1 where they are repeated."""
    own, ordered = [_steps(shape, x) for x in leaves], [_in_order(shape, x) for x in leaves]
    copied = [steps is None or not _is_row(shape, steps, first) for steps in own]
    steps = [o if c or s is None else s for s, o, c in zip(own, ordered, copied, strict=True)]
    begin = _first_of_row(shape, steps) if first is None else first
    if math.prod(shape[begin:]) < tuning().strided_columns:
        copied = [s != o for s, o in zip(own, ordered, strict=True)]
        steps = ordered
        begin = _first_of_row(shape, steps) if first is None else first
    sizes = (*shape[:begin], math.prod(shape[begin:]))
    joined = tuple([(*s[:begin], int(any(s[begin:]))) for s in steps])
    return Layout(sizes, joined, tuple(copied), True)


def _steps(shape: tuple[int, ...], x: np.ndarray) -> Steps | None:
    """The steps of a leaf where it is; None where they are not whole elements forward."""
    if any(stride % x.itemsize or stride < 0 for stride in x.strides):
        return None
    return tuple([s // x.itemsize if n > 1 and m > 1 else 0 for n, m, s in zip(shape, x.shape, x.strides, strict=True)])


def _in_order(shape: tuple[int, ...], x: np.ndarray) -> Steps:
    """The steps of a copy of a leaf."""
    after = [math.prod(x.shape[d + 1 :]) for d in range(x.ndim)]
    return tuple([step if n > 1 and m > 1 else 0 for n, m, step in zip(shape, x.shape, after, strict=True)])


def _first_of_row(shape: tuple[int, ...], steps: Sequence[Steps]) -> int:
    """The first of the last dimensions that can be taken as one, of all leaves."""
    begin = len(shape)
    while begin > 0 and all(_is_row(shape, s, begin - 1) for s in steps):
        begin -= 1
    return min(begin, len(shape) - 1)


def _is_row(shape: tuple[int, ...], steps: Steps, first: int | None) -> bool:
    """Whether the dimensions from `first` on lie together, or are repeated together; the last one where it is None."""
    wide = [(n, s) for n, s in zip(shape, steps, strict=True)][len(shape) - 1 if first is None else first :]
    wide = [(n, s) for n, s in wide if n > 1]
    if not wide or all(s == 0 for _, s in wide):
        return True
    return wide[-1][1] == 1 and all(s == m * t for (_, s), (m, t) in itertools.pairwise(wide))
