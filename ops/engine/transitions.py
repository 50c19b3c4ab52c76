"""Transition tables: an accumulator of one byte and an element of one byte give the next accumulator.

Reductions of minifloats and scans over them follow such a table, row by row, for all columns at a time. The table has
an entry for each of the 65,536 pairs of codes, so it serves any body.

A long run of few columns is cut into pieces that run side by side, each from a guess of its first accumulator. Each
piece then runs again from the result of the piece before it, until no accumulators change any more. A moving average,
for example, soon forgets its past; a sum does not. If the pieces do not converge in time, the run is repeated as a
whole, and the next ones are not cut: about twice as many after each failure.

`Tuning` says what was measured.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator

import numpy as np

from ..types import ElementType
from .amortised import Amortised
from .blocks import apart, blocks, for_each
from .compiled import Kernels, kernels
from .lookup import all_of
from .speed import tuning

#: Gives the next accumulators for arrays of accumulators and of elements.
Step = Callable[[np.ndarray, np.ndarray], np.ndarray]


class TransitionTable:
    """The results of a step for each pair of codes of two types of up to 8 bits.

    Args:
        step: gives the next accumulators for arrays of accumulators and of elements, of one shape.
        total: the type of the accumulators.
        element: the type of the elements.
    """

    def __init__(self, step: Step, total: ElementType, element: ElementType) -> None:
        self._step, self._total, self._element = step, total, element
        self._table = Amortised(self._entries, lambda: tuning().transition_worth, nbytes=lambda table: table.nbytes)
        # How many runs that could be cut into pieces are not, after one that did not pay; and how many have not been.
        self._rests = self._rested = 0

    def is_worth(self, steps: int, columns: int) -> bool:
        """Whether there is a table, or it pays to make it for so many steps and those that were asked for before."""
        now = tuning()
        cost = now.transition_few_cost if columns <= now.transition_few else 1
        return self._table.get(steps * columns * cost) is not None

    @property
    def entries(self) -> np.ndarray:
        """The next accumulator's code for each code of an accumulator, times 256, and code of an element."""
        return self._table.made()

    def _entries(self) -> np.ndarray:
        return of_all_pairs(self._step, self._total, self._element).view(np.uint8)

    @functools.cached_property
    def _rows(self) -> list[bytes]:
        return [row.tobytes() for row in self.entries.reshape(256, 256)]

    @functools.cached_property
    def _shifted(self) -> np.ndarray:
        """The accumulators shifted to their place in the index of a pair, in numpy's index type."""
        return self.entries.astype(np.intp) << 8

    def along(self, starts: np.ndarray, rows: np.ndarray, kept: np.ndarray | None = None) -> np.ndarray:
        """The last accumulators of runs along the rows.

        Args:
            starts: the first accumulators, uint8 codes of shape (columns,).
            rows: the elements, uint8 codes of shape (steps, columns).
            kept: a contiguous uint8 array of shape (steps, columns) that gets the accumulators after each step.

        Returns:
            uint8 codes of shape (columns,).
        """
        compiled = kernels(rows.size)
        if compiled is not None:
            return self._along_compiled(compiled, starts, rows, kept)
        step = max(tuning().piece_elements // max(len(starts), 1), 1)
        for first in range(0, len(rows), step):
            here = slice(first, first + step)
            starts = self._some(starts, rows[here], None if kept is None else kept[here])
        return starts

    def _some(self, starts: np.ndarray, rows: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
        """`along`, for no more elements than may be copied at a time."""
        count = _pieces(*rows.shape)
        if not count:
            return self._whole(starts, rows, kept)
        if self._rested < self._rests:
            self._rested += 1
            return self._whole(starts, rows, kept)
        result, has_paid = self._in_pieces(starts, rows, kept, count)
        self._rested, self._rests = 0, 0 if has_paid else 2 * self._rests + 1
        return self._whole(starts, rows, kept) if result is None else result

    def _whole(self, starts: np.ndarray, rows: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
        now = tuning()
        if len(starts) <= now.transition_few:
            return self.one_by_one(starts, rows, kept)
        if kept is None and len(starts) >= now.transition_many:
            return self._joined(starts, rows)
        return self.together(starts, rows, kept)

    def _along_compiled(
        self, compiled: Kernels, starts: np.ndarray, rows: np.ndarray, kept: np.ndarray | None
    ) -> np.ndarray:
        """`along` by compiled code; threads take different accumulators."""
        now = tuning()
        totals, count = starts.copy(), max(now.transition_block // now.transition_columns, 1)

        def work(part: tuple[slice, ...]) -> None:
            for first in range(0, len(rows), count):
                here = slice(first, first + count), *part
                compiled.transitions(totals[part], rows[here], self.entries, None if kept is None else kept[here])

        for_each(list(blocks(totals.shape, now.transition_columns)), work, rows.size)
        return totals

    def _in_pieces(
        self, starts: np.ndarray, rows: np.ndarray, kept: np.ndarray | None, count: int
    ) -> tuple[np.ndarray | None, bool]:
        """The same for so many pieces side by side, None if they do not run together; and whether that was quicker."""
        columns, length, now = len(starts), len(rows) // count, tuning()
        before = len(rows) - count * length
        starts = self.together(starts, rows[:before], None if kept is None else kept[:before])
        laid = np.moveaxis(rows[before:].reshape(count, length, columns), 0, 1).reshape(length, -1)
        path = np.empty_like(laid)
        ends = self.together(np.tile(starts, count), laid, path)
        totals = np.concatenate([starts, ends[:-columns]])
        for first in range(0, length, now.piece_look):
            here = slice(first, first + now.piece_look)
            last = path[here][-1].copy()
            totals = self.together(totals, laid[here], path[here])
            if np.array_equal(totals, last):
                # All have come back to their first paths, so these end where they did. The first piece began where it
                # should; so it ended where the second was to begin, and did the second time. And so on to the last.
                if kept is not None:
                    paths = np.moveaxis(path.reshape(length, count, columns), 1, 0)
                    kept[before:].reshape(count, length, columns)[...] = paths
                time = (length + first + now.piece_look) * (now.piece_row_cost + count * columns)
                return ends[-columns:], time < len(rows) * (now.piece_row_cost + columns)
        return None, False

    def one_by_one(self, starts: np.ndarray, rows: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
        """`along` for few accumulators: each runs by itself, in Python."""
        table, totals = self._rows, bytearray(starts.tobytes())
        for i, code in enumerate(totals):
            path = bytearray() if kept is None else bytearray(len(rows))
            for step, element in enumerate(rows[:, i].tobytes()):
                code = table[code][element]
                if kept is not None:
                    path[step] = code
            if kept is not None:
                kept[:, i] = np.frombuffer(path, np.uint8)
            totals[i] = code
        return np.frombuffer(totals, np.uint8)

    def together(self, starts: np.ndarray, rows: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
        """`along` for some accumulators, step by step: an index is the byte of an accumulator and of an element."""
        table, index = self.entries, np.zeros(len(starts), np.intp)
        octets = index.view(np.uint8).reshape(-1, index.itemsize)
        element, total = (octets[:, p] for p in ((0, 1) if sys.byteorder == "little" else (-1, -2)))
        total[...] = starts
        if kept is None:
            for row in _in_order(rows, np.uint8):
                element[...] = row
                total[...] = table[index]
            return total.copy()
        for row, result in zip(_in_order(rows, np.uint8), kept, strict=True):
            element[...] = row
            result[...] = table[index]
            total[...] = result
        return total.copy()

    def _joined(self, starts: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The same with indices that are joined by ops."""
        table, totals = self._shifted, starts.astype(np.intp) << 8
        for pairs in _in_order(rows, np.intp):
            pairs |= totals
            table.take(pairs, None, totals, "wrap")
        return (totals >> 8).astype(np.uint8)


def _pieces(steps: int, columns: int) -> int:
    """The number of pieces into which to cut a run; 0 where that does not pay."""
    now = tuning()
    count = min(now.piece_columns // max(columns, 1), steps // now.piece_rows)
    return count if count >= now.pieces and count * columns >= now.pieces_columns else 0


def _in_order(rows: np.ndarray, dtype: type) -> Iterator[np.ndarray]:
    """The rows one after the other, each by itself in memory; of another type they are copies."""
    count = max(tuning().transition_indices // rows.shape[1], 1)
    for first in range(0, len(rows), count):
        yield from apart(rows[first : first + count]).astype(dtype, order="C", copy=False)


def of_all_pairs(step: Step, total: ElementType, element: ElementType) -> np.ndarray:
    """The results of a step, at 256 times the code of the accumulator plus the code of the element."""
    pair = np.repeat(all_of(total, 8), 256), np.tile(all_of(element, 8), 256)
    return np.broadcast_to(step(*pair), 1 << 16).copy()
