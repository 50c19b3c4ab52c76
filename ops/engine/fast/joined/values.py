"""The values of a program of the machine: which op gives each, and which may be a NaN that signals.

Processors' conversions of f16 make a NaN that signals one that does not, as their arithmetic does; the machine keeps
its bits. Where no such NaN can come, or arithmetic follows in any case, the conversion is all that is needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from .. import opcodes as op
from ..registers import Unknown
from .ops import MADE, SIZES

_COMPARISONS = range(op.EQ, op.LE + 1)
#: What gives no NaN that signals, whatever it takes.
_QUIETING = {
    *range(op.ADD, op.MAXIMUM),
    *(op.SQRT, op.FLOOR, op.CEIL, op.ROUND, op.ROUND_AWAY, op.TO_BF16, op.OF_SIGNED, op.OF_UNSIGNED),
    *op.FUNCTIONS,
}
#: What gives one only if it takes one.
_KEEPING = (op.MAXIMUM, op.MINIMUM, op.NEGATE, op.ABS, op.SIGN, op.SELECT, op.ROUND_F16)


@dataclasses.dataclass(frozen=True)
class Line:
    """An op on values, which are numbered as they are made; constants have negative numbers."""

    kind: int
    result: int
    operands: tuple[int, ...]
    number: int  # the leaf, the output, or what the op has beside its operands

    @property
    def is_load(self) -> bool:
        return self.kind < op.STORE_32

    @property
    def is_store(self) -> bool:
        return op.STORE_32 <= self.kind < op.ADD


def lines_of(code: np.ndarray, constants: int) -> list[Line]:
    """The rows of a program, with a number for each value instead of registers that are used again. Raises Unknown."""
    held = {i: -1 - i for i in range(constants)}
    lines: list[Line] = []
    for i, row in enumerate(code.tolist()):
        kind, to = row[:2]
        if kind < op.ADD and kind not in SIZES:
            raise Unknown
        if kind < op.STORE_32:
            lines.append(Line(kind, i, (), row[2]))
        elif kind < op.ADD:
            lines.append(Line(kind, -1, (held[row[2]],), to))
            continue
        elif kind in MADE or kind in op.FUNCTIONS:
            count = op.OPERANDS.get(kind, 1)
            lines.append(Line(kind, i, tuple([held[r] for r in row[2 : 2 + count]]), row[2 + count]))
        else:
            raise Unknown
        held[to] = i
    return lines


def signalling(lines: Sequence[Line], constants: np.ndarray) -> set[int]:
    """The values that may be a NaN that signals, of which the machine keeps the bits."""
    kept = {r for line in lines if line.kind not in _QUIETING and line.kind not in _COMPARISONS for r in line.operands}
    found = {-1 - i for i, c in enumerate(constants.tolist()) if c & 0x7FFFFFFF > 0x7F800000 and not c & 0x400000}
    for line in lines:
        if line.is_load and line.kind == op.LOAD_F16:
            is_quiet = line.result not in kept
        elif line.kind in _KEEPING:
            is_quiet = found.isdisjoint(line.operands[line.kind == op.SELECT :])
        else:
            is_quiet = line.kind in _QUIETING
        if not is_quiet and not line.is_store:
            found.add(line.result)
    return found
