"""Scatters that keep the largest or the smallest float, by integers in the order of the numbers.

numpy finds the extremes of integers at given places 20 times as fast as those of bf16, round after round: 10**6 updates
of 1,000 elements take 4 ms and 90. Elements that have to do with NaN are left to others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine.compiled import kernels
from ..op import Body
from ..ordering import is_nan, of_total_keys, total_keys
from ..types import ElementType
from .host_folds import combining_of


class ScatterExtremes:
    """Puts the extremes of elements and of their updates in the place of the elements."""

    def __init__(self, ufunc: np.ufunc, element: ElementType) -> None:
        self._ufunc, self._element = ufunc, element

    def compiled(self, rows: np.ndarray, targets: np.ndarray, updates: np.ndarray) -> bool:
        """Do so for rows of f32 by compiled code; False, and nothing, where there is none, or any number is NaN."""
        if self._element.name != "f32" or (code := kernels(updates.size)) is None or code.scatters is None:
            return False
        words = [x.view(np.int32).reshape(len(x), -1) for x in (rows, np.ascontiguousarray(updates))]
        return code.scatters[1](words[0], np.ascontiguousarray(targets), words[1], self._ufunc is np.maximum)

    def __call__(self, row: np.ndarray, targets: np.ndarray, updates: np.ndarray) -> np.ndarray:
        """Apply updates to elements, in place.

        Args:
            row: the elements, one-dimensional.
            targets: the place of each update.
            updates: as many numbers.

        Returns:
            Which updates are NaN, and have not been applied. The others of the same elements do not matter.
        """
        keys = total_keys(row, self._element)
        self._ufunc.at(keys, targets, total_keys(updates, self._element))
        nan_here, nan_there = is_nan(row, self._element), is_nan(updates, self._element)
        nan_here[targets[nan_there]] = True
        if not nan_here.any():
            row[...] = of_total_keys(keys, self._element)
        else:
            certain = ~nan_here
            row[certain] = of_total_keys(keys[certain], self._element)
        return nan_there


def scatter_extremes(body: Body, elements: Sequence[ElementType]) -> ScatterExtremes | None:
    """What applies the updates of a body that is the maximum or minimum of floats; None of other bodies."""
    combining = combining_of(body.sole_op)
    if combining is None or combining.largest is None or len(elements) != 1 or not elements[0].is_float:
        return None
    return ScatterExtremes(np.maximum if combining.largest else np.minimum, elements[0])
