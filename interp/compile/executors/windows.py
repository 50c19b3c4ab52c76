"""States of recurrences over integers that wrap, found window by window from the lowest bits on.

Where a turn is affine in windows of bits (`bit_windows.py`), all states are known up to some bit, at first up to none.
What a turn makes of what is known is taken for all turns at once. What is not known yet is multiplied by a factor then,
modulo two to the end of the next window: a recurrence that powers of the factor solve (`ops/engine/powers.py`). Of the
last window only the last state is found, if no other is asked for. Many turns are composed in blocks.

Measured with numpy alone, 10**4 turns of `((y * 3) + i) ^ 1` for the last state: 1.3 ms as Python, 0.04 so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.engine.powers import OwnFactors, Powers
from ....ops.engine.speed import tuning
from ..affine_turns import Step
from ..bit_windows import Extent, are_few, windows

#: For each window that ends a factor that does not vary, with the powers of it, are kept; so many of them.
_KEPT = 16


class Windows:
    """Composes turns of a recurrence; `turn` gives the new state from states and rows, as the first of a tuple."""

    def __init__(self, step: Step, bits: int, turn: Any) -> None:
        self._step, self._bits, self._turn = step, bits, turn
        self._narrow = sorted({p.row for p in step.patterns if p.row is not None})
        self._powers: dict[Any, Powers] = {}
        self._word = np.dtype(f"u{bits // 8}")

    def __call__(
        self, start: np.ndarray, rows: Sequence[np.ndarray], count: int, keeps: bool
    ) -> tuple[np.ndarray | None, np.ndarray] | None:
        """The start and the states after each turn, if it keeps them, and the last one.

        None where there would be too many windows.
        """
        extents = tuple([(row, _extent(rows[row])) for row in self._narrow])
        ends = windows(self._step.patterns, self._bits, extents)
        if not are_few(ends, self._step.varies):
            return None
        word, block = np.dtype(f"u{start.itemsize}"), tuning().composed_block
        kept = np.empty(count + 1, word) if keeps else None
        state = int(start.view(word))
        for first in range(0, count, block):
            last = min(first + block, count)
            part = _Block(self, start.dtype, [row[first:last] for row in rows], last - first, extents, state)
            if kept is None:
                state = part.last(ends)
            else:
                kept[first : last + 1] = part.states(ends)
                state = int(kept[last])
        end = np.array(state, word).view(start.dtype)
        return (None if kept is None else kept.view(start.dtype)), end

    @property
    def varies(self) -> bool:
        """Whether the factor is one of each turn."""
        return self._step.varies

    @property
    def bits(self) -> int:
        """The bits of a state."""
        return self._bits

    def after(self, before: np.ndarray, rows: Sequence[np.ndarray]) -> np.ndarray:
        """What one turn makes of states, as unsigned integers."""
        after = self._turn(before, *rows)[0]
        if after.shape != before.shape:  # it does not depend on them
            after = np.broadcast_to(after, before.shape)
        return after.view(self._word)

    def powers(self, dtype: np.dtype, rows: Sequence[np.ndarray], first: int, end: int, extents: Any) -> Powers:
        """The factor of a window, in which it does not vary, with its powers."""
        found = self._powers.get((first, end, extents))
        if found is None:
            before = np.array([0, 1 << first], self._word).view(dtype)
            zero, one = self.after(before, [np.repeat(row[:1], 2) for row in rows]).tolist()
            if len(self._powers) >= _KEPT:
                self._powers.clear()
            factor = (one - zero >> first) % (1 << end - first)
            found = self._powers[first, end, extents] = Powers(factor, self._word)
        return found


class _Block:
    """Some turns, one after the other, from a state on."""

    def __init__(
        self, whole: Windows, dtype: np.dtype, rows: Sequence[np.ndarray], count: int, extents: Any, start: int
    ) -> None:
        self._whole, self._dtype, self._rows, self._count = whole, dtype, rows, count
        self._extents, self._start, self._word = extents, start, np.dtype(f"u{dtype.itemsize}")

    def states(self, ends: Sequence[int]) -> np.ndarray:
        """The start and the states after each turn, up to the end of the last window."""
        known, first = None, 0
        for end in ends:
            if end == first + 1 and not self._whole.varies and self._powers(first, end).factor:
                known = self._flipped(known, first)
            else:
                known = self._wider(known, first, end)
            first = end
        assert known is not None
        return known

    def _wider(self, known: np.ndarray | None, first: int, end: int) -> np.ndarray:
        """The states up to the end of one more window."""
        steps, added = self._steps(known, first, end)
        found = steps.after(_part(self._start, first, end), added)
        if known is not None:
            found += known
        if end < self._whole.bits:
            found &= self._word.type((1 << end) - 1)
        return found

    def _flipped(self, known: np.ndarray | None, first: int) -> np.ndarray:
        """The same where the window is one bit, which turns keep or flip."""
        found, bit = np.zeros(self._count + 1, self._word), self._word.type(1 << first)
        np.bitwise_xor.accumulate(self._after(known), out=found[1:])
        found &= bit
        if self._start & int(bit):
            found ^= bit
        if known is not None:
            found |= known
        return found

    def last(self, ends: Sequence[int]) -> int:
        """The state after the last turn, up to the end of the last window."""
        *lower, end = ends
        first = lower[-1] if lower else 0
        if self._count == 1 or self._is_dropped(first, end):
            return self._after_last(lower) % (1 << end)
        known = self.states(lower) if lower else None
        steps, added = self._steps(known, first, end)
        found = steps.last(_part(self._start, first, end), added)
        return (found + (0 if known is None else int(known[-1]))) % (1 << end)

    def _is_dropped(self, first: int, end: int) -> bool:
        """Whether a turn makes nothing of what it is given in a window."""
        return not self._whole.varies and self._powers(first, end).factor == 0

    def _after_last(self, lower: Sequence[int]) -> int:
        """What the last turn makes of the state before, of which the lower windows matter."""
        state = self._start
        if self._count > 1 and lower:
            rows = [row[:-1] for row in self._rows]
            before = _Block(self._whole, self._dtype, rows, self._count - 1, self._extents, state)
            state = before.last(lower)
        one = np.array([state], self._word).view(self._dtype)
        return int(self._whole.after(one, [row[-1:] for row in self._rows])[0])

    def _steps(self, known: np.ndarray | None, first: int, end: int) -> tuple[Powers | OwnFactors, np.ndarray]:
        """How what is not known goes on from turn to turn, and what each turn adds."""
        added = after = self._after(known)
        if known is not None:
            added = after - known[1:]
        if not self._whole.varies:
            return self._powers(first, end), added
        return OwnFactors(self._after(known, 1 << first) - after >> self._word.type(first)), added

    def _after(self, known: np.ndarray | None, more: int = 0) -> np.ndarray:
        """What turns make of what is known of the states before them and something more, all at once."""
        if known is None:
            before = np.full(self._count, more, self._word) if more else np.zeros(self._count, self._word)
        else:
            before = known[:-1] + self._word.type(more) if more else known[:-1]
        return self._whole.after(before.view(self._dtype), self._rows)

    def _powers(self, first: int, end: int) -> Powers:
        return self._whole.powers(self._dtype, self._rows, first, end, self._extents)


def _part(number: int, first: int, end: int) -> int:
    """The bits of a number in a window."""
    return number % (1 << end) >> first << first


def _extent(row: np.ndarray) -> Extent:
    """Which bits of the numbers of a row may differ, and what the bits above are."""
    signed = row.view(f"i{row.itemsize}")
    least, most = int(signed.min()), int(signed.max())
    if least < 0 <= most:
        return 8 * row.itemsize, 0
    return (most.bit_length(), 0) if most >= 0 else ((~least).bit_length(), -1)
