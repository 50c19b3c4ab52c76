"""Slices: cut out at fixed places, cut out at computed places, and written over."""

from __future__ import annotations

import numpy as np

from ..op import Call, Run, op
from ..require import require, require_element, require_shape
from ..traits import PURE_LINEAR, OpTraits


@op("slice", operands=1, traits=PURE_LINEAR)
def slice_(call: Call) -> Run:
    """The elements between fixed bounds, with a stride, in each dimension.

    (C1) One element type. (C2) A start, limit and stride for each dimension. (C3) Starts do not exceed limits, nor
    limits the size. (C4) Strides are positive. (C5) The result's shape is what that leaves.
    """
    require_element(call)
    t = call.tensor()
    starts, limits, strides = (call.integers(name) for name in ("start_indices", "limit_indices", "strides"))
    for amounts in (starts, limits, strides):
        require(len(amounts) == len(t.shape), f"{list(amounts)} must have one for each dimension of {t}")
    for start, limit, stride, size in zip(starts, limits, strides, t.shape, strict=True):
        fits = 0 <= start <= limit and (size is None or limit <= size)
        require(fits, f"cannot take {start} to {limit} of {size} (expected 0 <= start <= limit <= size)")
        require(stride > 0, f"expected positive strides, got {stride}")
    index = tuple(slice(*bounds) for bounds in zip(starts, limits, strides, strict=True))
    require_shape(call, tuple(len(range(s.start, s.stop, s.step)) for s in index))
    return lambda x: x[index]


def _require_starts(call: Call, first: int) -> None:
    rank = len(call.tensor().shape)
    count = len(call.operands) - first
    require(count == rank, f"expected a start index for each of {rank} dimensions, got {count}")
    for i in range(first, len(call.operands)):
        t = call.tensor(i)
        require(t.shape == () and t.element.is_integer, f"expected a scalar integer as each start index, got {t}")
        require(t == call.tensor(first), f"start indices of types {call.tensor(first)} and {t} (expected the same)")


def _window(starts: tuple[np.ndarray | int, ...], sizes: tuple[int, ...], room: tuple[int, ...]) -> tuple[slice, ...]:
    """The window of these sizes, its start moved into where it fits."""
    lows = (min(max(int(start), 0), most) for start, most in zip(starts, room, strict=True))
    return tuple(slice(low, low + size) for low, size in zip(lows, sizes, strict=True))


@op("dynamic_slice", traits=PURE_LINEAR)
def dynamic_slice(call: Call) -> Run:
    """A window of fixed size that starts at a computed index, or at the nearest one where it fits.

    (C1) One element type. (C2) A start and a size for each dimension. (C3) The starts have one type. (C4) The window
    fits the operand. (C5) The result has the window's shape.
    """
    require_element(call)
    shape, sizes = call.operand_shape(), call.integers("slice_sizes")
    _require_starts(call, 1)
    fits = len(sizes) == len(shape) and all(0 <= s <= n for s, n in zip(sizes, shape, strict=True))
    require(fits, f"expected slice_sizes that fit {call.tensor()}, got {list(sizes)}")
    require_shape(call, sizes)
    room = tuple(n - s for s, n in zip(sizes, shape, strict=True))
    return lambda x, *starts: x[_window(starts, sizes, room)]


@op("dynamic_update_slice", traits=OpTraits(is_pure=True, overwrites=0, linear=lambda _: (0, 1)))
def dynamic_update_slice(call: Call) -> Run:
    """The operand with a window replaced that starts at a computed index, or at the nearest one where it fits.

    (C1) The result has the operand's type. (C2) One element type. (C3) One rank. (C4) A start for each dimension.
    (C5) The starts have one type. (C6) The update fits the operand.
    """
    update = call.tensor(1)
    require_element(call, update)
    _require_starts(call, 2)
    shape, sizes = call.operand_shape(), call.operand_shape(1)
    fits = len(sizes) == len(shape) and all(s <= n for s, n in zip(sizes, shape, strict=True))
    require(fits, f"expected an update that fits {call.tensor()}, got {update}")
    require_shape(call, shape)
    room = tuple(n - s for s, n in zip(sizes, shape, strict=True))
    if not any(room):
        return lambda _, update, *_starts: update

    in_place = 0 in call.spare

    def kernel(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        result = x if in_place else x.copy()
        result[_window(starts, sizes, room)] = update
        return result

    return kernel
