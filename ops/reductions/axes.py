"""The geometry of windows over a tensor, and views and copies of their elements."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Axis:
    """The windows along one dimension."""

    size: int  #: of the dimension
    window: int  #: elements of a window
    stride: int = 1
    low: int = 0  #: padding before the first element; negative padding removes elements
    high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1

    @functools.cached_property
    def count(self) -> int:
        """The number of windows."""
        dilated = (self.size - 1) * self.base_dilation + 1 if self.size else 0
        padded = self.low + dilated + self.high
        reach = (self.window - 1) * self.window_dilation + 1 if self.window else 0
        return 0 if padded <= 0 or reach > padded else (padded - reach) // self.stride + 1

    @functools.cached_property
    def layout(self) -> tuple[int, int, int, bool]:
        """How elements and padding are arranged along this dimension before windows are taken.

        Returns:
            Their number; the step from an element of a window to the next; the step from a window to the next; and
            whether they are in their own order, each once. Otherwise they are copied for each window, one window after
            the other, which takes less room where windows are far apart.
        """
        reach = (self.count - 1) * self.stride + (self.window - 1) * self.window_dilation + 1
        if reach <= self.count * self.window:
            return reach, self.window_dilation, self.stride, True
        return self.count * self.window, 1, self.window, False

    @functools.cached_property
    def padded_places(self) -> tuple[slice | np.ndarray, slice | np.ndarray]:
        """The places in the layout that are not padding, and the elements of the dimension that go there."""
        length, _, _, is_dense = self.layout
        if is_dense:
            first = -(min(self.low, 0) // self.base_dilation)  # of those not cut off
            start = first * self.base_dilation + self.low
            count = max(min(self.size - first, -((start - length) // self.base_dilation)), 0)
            stop = start + (count - 1) * self.base_dilation + 1 if count else start
            return slice(start, stop, self.base_dilation), slice(first, first + count)
        places = np.arange(self.count)[:, None] * self.stride + np.arange(self.window) * self.window_dilation - self.low
        source, rest = np.divmod(places.reshape(-1), self.base_dilation)
        inside = np.flatnonzero((rest == 0) & (source >= 0) & (source < self.size))
        return inside, source[inside]


Axes = Sequence[Axis]


def pad_windows(x: np.ndarray, fill: Any, axes: Sequence[Axis]) -> np.ndarray:
    """The elements and padding that windows touch, along each dimension as `Axis.layout` says. May be a view of `x`."""
    target, source = [a.padded_places[0] for a in axes], [a.padded_places[1] for a in axes]
    lengths = tuple([a.layout[0] for a in axes])
    if not all(a.layout[3] for a in axes):
        places = ((target, lengths), (source, x.shape))
        target, source = (np.ix_(*(np.arange(n)[i] for i, n in zip(v, sizes, strict=True))) for v, sizes in places)
    elements = x[tuple(source)]
    if elements.shape == lengths:
        return elements
    padded = np.full(lengths, fill, x.dtype)
    padded[tuple(target)] = elements
    return padded


def windows(x: np.ndarray, fill: Any, axes: Sequence[Axis]) -> np.ndarray:
    """All windows of an array as a read-only view: first the axes within a window, then those of the windows.

    It takes the memory of the padded array, or of the windows where that is less.
    """
    shape = tuple(a.window for a in axes) + tuple(a.count for a in axes)
    if 0 in shape:
        return np.empty(shape, x.dtype)
    padded = pad_windows(x, fill, axes)
    inner = [step * a.layout[1] for step, a in zip(padded.strides, axes, strict=True)]
    outer = [step * a.layout[2] for step, a in zip(padded.strides, axes, strict=True)]
    # `as_strided` knows numpy's own types only.
    bits = padded if x.dtype.isbuiltin == 1 else padded.view(f"u{x.dtype.itemsize}")
    return np.lib.stride_tricks.as_strided(bits, shape, inner + outer, writeable=False).view(x.dtype)
