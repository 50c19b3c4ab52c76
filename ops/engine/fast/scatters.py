"""Updates of rows one after the other, compiled: sums of f16 and bf16, each rounded, and extremes of f32.

It is imported only where numba is in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .instructions import HAS_HALVES, numba, shift
from .loops import of_f16, to_bf16, to_f16

_at = np.uintp
_u16, _u32, _f32 = np.uint16, np.uint32, np.float32
_REST, _NAN = 0x7FFFFFFF, 0x7F800001


def add_halves(rows, targets, updates, is_f16):
    """Add each row of `updates`, codes of f16 or bf16, to the row whose number `targets` has for it."""
    for i in range(updates.shape[0]):
        target = _at(targets[_at(i)])
        for j in range(updates.shape[1]):
            x, y = _u32(rows[target, _at(j)]), _u32(updates[_at(i), _at(j)])
            if is_f16:
                total = _f32(_u32(of_f16(x)).view(_f32) + _u32(of_f16(y)).view(_f32))
                rows[target, _at(j)] = _u16(to_f16(total.view(_u32)))
            else:
                total = _f32(_u32(x << _u32(16)).view(_f32) + _u32(y << _u32(16)).view(_f32))
                rows[target, _at(j)] = _u16(shift(to_bf16(total.view(_u32)), _u32(16)))


def put_extremes(rows, targets, updates, is_largest):
    """Put the larger or smaller of f32, given as words, in their rows; False, and nothing, where one is NaN."""
    nan = 0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            nan += (rows[_at(i), _at(j)] & _REST) >= _NAN
    for i in range(updates.shape[0]):
        for j in range(updates.shape[1]):
            nan += (updates[_at(i), _at(j)] & _REST) >= _NAN
    if nan:
        return False
    for i in range(updates.shape[0]):
        target = _at(targets[_at(i)])
        for j in range(updates.shape[1]):
            x, y = np.int32(rows[target, _at(j)]), np.int32(updates[_at(i), _at(j)])
            # As integers they are in order where those below zero are turned round.
            x_key, y_key = x ^ ((x >> 31) & _REST), y ^ ((y >> 31) & _REST)
            if (y_key > x_key) == is_largest:
                rows[target, _at(j)] = y
    return True


def signatures() -> tuple[Any, Any]:
    """The types of what both take. Raises RuntimeError where processors do not convert f16."""
    if not HAS_HALVES:
        raise RuntimeError("the processor does not convert f16")
    t = numba.types
    places = t.Array(t.int64, 1, "C", readonly=True)

    def of(kind: Any, result: Any) -> Any:
        return result(t.Array(kind, 2, "C"), places, t.Array(kind, 2, "C", readonly=True), t.boolean)

    return of(t.uint16, t.void), of(t.int32, t.boolean)
