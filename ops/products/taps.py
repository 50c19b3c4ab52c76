"""Convolutions of one output feature, one place of the window after the other: sums of slices times a number.

Windows as the rows of a matrix take as much time to lay out as to multiply, where nothing else is made of them. An
image of 1000x1000 i32 and a kernel of 3x3: 24 ms by a matrix, and 3 so.
"""

from __future__ import annotations

import math

import numpy as np

from ..engine.blocks import blocks, empty, for_each
from ..engine.speed import tuning
from ..types import ElementType


def suits(lhs: ElementType, rhs: ElementType, result: ElementType, is_host: bool) -> bool:
    """Whether sums may be formed in the result's type: of integers modulo its range, of f32 and f64 where the host's
    own products are asked for."""
    elements = (lhs, rhs, result)
    if all(e.is_integer and e.bits >= 8 for e in elements):
        return True
    return is_host and lhs == rhs == result and result.is_float and result.bits >= 32


def sums(view: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """The sums of windows, each element times that of the kernel, from the first one on.

    Args:
        view: of shape (\\*counts, \\*window).
        kernel: of the same type, of shape window.

    Returns:
        An array of shape counts.
    """
    counts, places = view.shape[: view.ndim - kernel.ndim], list(np.ndindex(kernel.shape))
    result, numbers = empty(counts, view.dtype), kernel.reshape(-1)

    def work(block: tuple[slice, ...]) -> None:
        total, part = result[block], view[block]
        np.multiply(part[..., *places[0]], numbers[0], out=total)
        if total.dtype.kind == "f":
            total += 0  # a sum begins with zero, so that it is never -0
        product = np.empty_like(total)
        for place, number in zip(places[1:], numbers[1:], strict=True):
            np.multiply(part[..., *place], number, out=product)
            np.add(total, product, out=total)

    with np.errstate(all="ignore"):
        for_each(list(blocks(counts, tuning().taps_block)), work, math.prod(counts) * len(places) >> 3, "taps")
    return result
