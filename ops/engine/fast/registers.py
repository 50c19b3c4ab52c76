"""What the registers of the machine hold, and which of them the values of a program get."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from ...types import ELEMENT_TYPES, ElementType
from ..blocks import LINE
from . import opcodes as op

_F32, _F16, _I8 = (ELEMENT_TYPES[name] for name in ("f32", "f16", "i8"))

#: An op, its result, the registers that it takes, and other numbers, the leaf first where it loads one.
Line = tuple[int, int, tuple[int, ...], tuple[int, ...]]


#: How many numbers an op is for the machine: the op, the result and up to five more, then for the result and three
#: operands whether they have a register for each piece of a row.
WIDTH = 11


#: How many elements a register has beyond those of a piece of a block.
GAP = 16


class _Room(threading.local):
    """Memory for the registers, one for each thread, kept from call to call."""

    words = np.empty(0, np.float32)

    def of(self, count: int) -> np.ndarray:
        """So many elements, or more."""
        if self.words.size < count:
            words = np.empty(count + LINE // 4, np.float32)
            self.words = words[-words.ctypes.data % LINE // 4 :]
        return self.words


room = _Room().of


class Unknown(Exception):
    """The machine does not know something."""


LOADS = {
    **dict.fromkeys(("f32", "ui32", "i32"), op.LOAD_32),
    "bf16": op.LOAD_16,
    "f16": op.LOAD_F16,
    "i1": op.LOAD_BOOL,
    **dict.fromkeys(("ui8", "i8"), op.LOAD_8),
}
STORES = {
    **dict.fromkeys(("f32", "ui32", "i32"), op.STORE_32),
    "bf16": op.STORE_16,
    "f16": op.STORE_F16,
    "i1": op.STORE_BOOL,
    **dict.fromkeys(("ui8", "i8"), op.STORE_8),
}


def of(ops: Mapping[str, int], element: ElementType) -> int:
    if element.is_float and element.is_minifloat:
        return op.LOAD_8 if ops is LOADS else op.STORE_8
    if element.name not in ops:
        raise Unknown
    return ops[element.name]


def word(array: np.ndarray, element: ElementType) -> int:
    """A constant as a register holds it."""
    if element == _F16:
        array, element = array.astype(np.float32), _F32
    code = int(array) % (1 << 32) if element == _I8 else int.from_bytes(array.tobytes(), "little")
    load = of(LOADS, element)
    return code << 16 if load == op.LOAD_16 else 0xFFFFFFFF * code if load == op.LOAD_BOOL else code


def assigned(code: Sequence[Line], kept: Sequence[int]) -> tuple[np.ndarray, int]:
    """The rows of the program and how many registers it needs; some values are kept in the first ones.

    A result never takes the place of an operand, so that a loop over both can be made of vector instructions.
    """
    last = {r: i for i, (_, _, registers, _) in enumerate(code) for r in registers}
    place = {value: i for i, value in enumerate(kept)}
    free: list[int] = []
    count, rows = len(kept), np.zeros((len(code), WIDTH), np.int64)
    for i, (kind, result, registers, numbers) in enumerate(code):
        operands = [place[r] for r in registers]
        if not op.STORE_32 <= kind <= op.STORE_F16:
            if result not in place:
                if not free:
                    free.append(count)
                    count += 1
                place[result] = free.pop()
                if result not in last:
                    free.append(place[result])
            result = place[result]
        free += [place[r] for r in dict.fromkeys(registers) if last[r] == i and place[r] >= len(kept)]
        row = (kind, result, *operands, *numbers)
        rows[i, : len(row)] = row
    return rows, count
