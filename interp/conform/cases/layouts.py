"""Operands of several dimensions, and operands stored in another order: transposed, reversed, broadcast.

Codes are in the order of the results. A program makes an operand from the stored array by one op; a library gets a
view of the stored array with strides.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ...backends.programs import Builder, tensor

#: Rows of one element more than a vector of 16, and a number of rows that no power of two divides.
_ROWS, _COLUMNS = 9, 17


@dataclasses.dataclass(frozen=True)
class Layout:
    """The storage of an operand of some shape, and the view of it."""

    shape: tuple[int, ...]
    #: From the operand's codes to the stored array.
    store: Callable[[np.ndarray], np.ndarray] = lambda x: x
    #: From the stored array to the operand, as a view.
    view: Callable[[np.ndarray], np.ndarray] = lambda x: x
    #: The op that makes the operand, with a placeholder for the stored array.
    op: str = ""

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_of_one(self) -> bool:
        """Whether one operand at a time is stored in this layout."""
        return bool(self.op)


def _take_strided(x: np.ndarray) -> np.ndarray:
    """Every second row from the second on, and every second column from the third, of a larger stored array."""
    larger = np.resize(x[::-1, ::-1], (2 * _ROWS + 2, 2 * _COLUMNS + 3))
    larger[1 : 2 * _ROWS : 2, 2 : 2 * _COLUMNS + 1 : 2] = x
    return larger


_MATRIX = (_ROWS, _COLUMNS)
LAYOUTS: dict[str, Layout] = {
    "rank-0": Layout(()),
    "rank-2": Layout(_MATRIX),
    "rank-3": Layout((3, 5, _COLUMNS)),
    "transposed": Layout(_MATRIX, lambda x: x.T, lambda x: x.T, "transpose {}, dims = [1, 0]"),
    "reversed": Layout(_MATRIX, lambda x: x[::-1, ::-1], lambda x: x[::-1, ::-1], "reverse {}, dims = [0, 1]"),
    "sliced": Layout(
        _MATRIX,
        _take_strided,
        lambda x: x[1 : 2 * _ROWS : 2, 2 : 2 * _COLUMNS + 1 : 2],
        f"slice {{}} [1:{2 * _ROWS}:2, 2:{2 * _COLUMNS + 1}:2]",
    ),
    "rows": Layout(_MATRIX, lambda x: x[0], lambda x: np.broadcast_to(x, _MATRIX), "broadcast_in_dim {}, dims = [1]"),
    "columns": Layout(
        _MATRIX, lambda x: x[:, 0], lambda x: np.broadcast_to(x[:, None], _MATRIX), "broadcast_in_dim {}, dims = [0]"
    ),
}


def stored_array(form: str, codes: np.ndarray) -> np.ndarray:
    """The array stored for an operand, contiguous."""
    layout = LAYOUTS[form]
    return np.array(layout.store(codes.reshape(layout.shape)), order="C")


def arrange(form: str, codes: np.ndarray) -> np.ndarray:
    """The codes of an operand in a layout, in the order of the results; a broadcast repeats codes."""
    layout = LAYOUTS[form]
    return np.array(layout.view(stored_array(form, np.resize(codes, layout.size))), order="C").reshape(-1)


def view(form: str, codes: np.ndarray) -> np.ndarray:
    """An operand with the strides of its layout."""
    return LAYOUTS[form].view(stored_array(form, codes))


def emit(builder: Builder, form: str, codes: np.ndarray, element: str) -> str:
    """Adds an operand to a program; returns the name of its value."""
    layout, kept = LAYOUTS[form], stored_array(form, codes)
    value = builder.input(kept, element)
    if not layout.op:
        return value
    return builder.op(
        f"stablehlo.{layout.op.format(value)} : ({tensor(kept.shape, element)}) -> {tensor(layout.shape, element)}"
    )
