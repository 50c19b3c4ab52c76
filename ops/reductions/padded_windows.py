"""Windows that are almost all padding: long runs of padding are not folded step by step.

A window of 10^9 places over 10^5 elements has 10^5 elements, and the rest is padding. Windows that hold the same
elements differ only in the positions of these. All padding is the initial value, so each step of padding takes the
accumulators from one state to the next: a sum with zero does not change, a maximum changes once at most, and a sum of
bytes returns to its first value after 256 steps. Once a state repeats, all later states are known, and the results are
those of the whole fold, bit for bit. Where no state repeats, every step is made.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..engine.speed import tuning

#: The accumulators, or the initial values: arrays with a single element each.
Values = tuple[np.ndarray, ...]
#: Folds arrays of (steps, 1) into accumulators.
Fold = Callable[[Values, Sequence[np.ndarray]], Values]


@dataclasses.dataclass(frozen=True)
class _Line:
    """The elements of windows along one dimension. The arrays have an entry for each window."""

    first: np.ndarray  #: the first element
    count: np.ndarray  #: how many elements
    place: np.ndarray  #: the place of the first within the window
    step: int  #: the distance of neighbouring elements in the operand
    places: int  #: the distance of their places in the window
    window: int  #: the number of places of a window


def _line(size: int, window: int, stride: int, low: int, base: int, dilation: int, count: int) -> _Line:
    common = math.gcd(base, dilation)
    step, places = dilation // common, base // common
    # Place p of window w is element e where e * base = w * stride + p * dilation - low, if there is such an e.
    start = np.arange(count) * stride - low
    fits = start % common == 0
    inverse = pow(places, -1, step) if step > 1 else 0
    least = np.maximum(-(-start // base), 0)
    first = least + (start // common * inverse - least) % step
    place = (first * base - start) // dilation
    in_window = (window - 1 - place) // places + 1
    in_operand = (size - 1 - first) // step + 1
    inside = np.where(fits, np.maximum(np.minimum(in_window, in_operand), 0), 0)
    return _Line(np.where(inside, first, 0), inside, np.where(inside, place, 0), step, places, window)


@dataclasses.dataclass(frozen=True)
class _Padding:
    """The accumulators after each number of steps of padding, up to the first state that repeats, if one does."""

    states: list[Values]
    cycle: int | None  #: the length of the cycle that the last states form; None where there is none

    def after(self, counts: np.ndarray) -> np.ndarray:
        """The index of the state after each number of steps. There must be a cycle, or enough states."""
        number = len(self.states)
        begin = number - (self.cycle or 0)
        return np.where(counts < number, counts, begin + (counts - begin) % (self.cycle or 1)).astype(np.intp)


class PaddedWindows:
    """The fold of a body over windows with much padding. `fold` must give the same for the same values each time."""

    def __init__(self, fold: Fold, inits: Sequence[np.ndarray], axes: Sequence[Any]) -> None:
        self._fold, self._axes = fold, axes
        self._inits: Values = tuple(np.ascontiguousarray(init).reshape(1) for init in inits)
        self._size = math.prod(a.window for a in axes)

    def results(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...] | None:
        """The result of each window; None where windows have too little padding for this."""
        counts = [a.count for a in self._axes]
        if 0 in counts or self._size < tuning().padded_from or max(a.low + a.high for a in self._axes) >= 1 << 60:
            return None
        held = math.prod(min(a.window, a.size) for a in self._axes)  # at most, by each window
        if held * tuning().padded_share > self._size:
            return None
        lines = [
            _line(a.size, a.window, a.stride, a.low, a.base_dilation, a.window_dilation, a.count) for a in self._axes
        ]
        lead = self._padded(self._inits, self._size)
        if lead.cycle is None:
            return None
        outputs = tuple(np.empty(counts, init.dtype) for init in self._inits)
        for windows, chosen in _groups(lines):
            self._group(arrays, lines, lead, windows, chosen, outputs)
        return outputs

    def _group(
        self,
        arrays: Sequence[np.ndarray],
        lines: Sequence[_Line],
        lead: _Padding,
        windows: Sequence[np.ndarray],
        chosen: tuple[slice, ...] | None,
        outputs: tuple[np.ndarray, ...],
    ) -> None:
        """The results of windows that hold the same elements at different places."""
        at, shape = np.ix_(*windows), tuple(map(len, windows))
        kind = object if self._size >= 1 << 62 else np.int64
        if chosen is None:
            states = lead.after(np.array([self._size], kind))
            for result, value in zip(outputs, lead.states[states[0]], strict=True):
                result[at] = value[0]
            return
        before, span, stride = np.zeros(shape, kind), 0, 1
        for d in reversed(range(len(lines))):
            line = lines[d]
            place = line.place[windows[d]].astype(kind) * stride
            before = before + place.reshape([-1 if i == d else 1 for i in range(len(lines))])
            span += (int(line.count[windows[d][0]]) - 1) * line.places * stride
            stride *= line.window
        starts, of_start = np.unique(lead.after(before.reshape(-1)), return_inverse=True)
        rest = (self._size - 1 - span) - before.reshape(-1)
        for i, start in enumerate(starts):
            those = np.flatnonzero(of_start.reshape(-1) == i)
            totals = self._elements(arrays, lines, windows, chosen, lead.states[start])
            places = np.unravel_index(those, shape)
            places = tuple(w[p] for w, p in zip(windows, places, strict=True))
            for result, value in zip(outputs, self._ends(totals, rest[those]), strict=True):
                result[places] = value

    def _elements(
        self,
        arrays: Sequence[np.ndarray],
        lines: Sequence[_Line],
        windows: Sequence[np.ndarray],
        chosen: tuple[slice, ...],
        totals: Values,
    ) -> Values:
        """The accumulators after the last element, from those before the first."""
        now = tuning()
        lengths = [int(line.count[w[0]]) for line, w in zip(lines, windows, strict=True)]
        run = lengths[-1]  # elements along the last dimension
        inner = lines[-1].places - 1
        held = [x[chosen].reshape(-1, run) for x in arrays]
        strides = [math.prod(line.window for line in lines[d + 1 :]) for d in range(len(lines))]
        steps = [line.places * stride for line, stride in zip(lines, strides, strict=True)]
        last = (run - 1) * steps[-1]
        previous: int | None = None
        rows: list[list[np.ndarray]] = [[] for _ in arrays]
        waiting = 0
        for number, index in enumerate(itertools.product(*(range(n) for n in lengths[:-1]))):
            place = sum(i * s for i, s in zip(index, steps, strict=False))
            gap = 0 if previous is None else place - previous - 1
            previous = place + last
            if gap > now.padded_gap:
                totals, rows, waiting = self._folded(totals, rows), [[] for _ in arrays], 0
                totals = self._skip(totals, gap)
            elif gap:
                for row, init in zip(rows, self._inits, strict=True):
                    row.append(np.repeat(init, gap))
            for first in range(0, run, 1 if inner > now.padded_gap else now.padded_part // (inner + 1)):
                part = slice(first, first + (1 if inner > now.padded_gap else now.padded_part // (inner + 1)))
                if first and inner > now.padded_gap:
                    totals, rows = self._folded(totals, rows), [[] for _ in arrays]
                    totals = self._skip(totals, inner)
                for row, x, init in zip(rows, held, self._inits, strict=True):
                    here = x[number, part]
                    if 0 < inner <= now.padded_gap:
                        spread = np.repeat(init, len(here) * (inner + 1))
                        spread[inner if first else 0 :: inner + 1] = here
                        here = spread if first else spread[: len(spread) - inner]
                    row.append(here)
                waiting += len(rows[0][-1])
                if waiting >= now.padded_part:
                    totals, rows, waiting = self._folded(totals, rows), [[] for _ in arrays], 0
        return self._folded(totals, rows)

    def _folded(self, totals: Values, rows: Sequence[Sequence[np.ndarray]]) -> Values:
        if not rows[0]:
            return totals
        folded = self._fold(totals, [np.concatenate(row).reshape(-1, 1) for row in rows])
        return tuple(np.ascontiguousarray(t).reshape(1) for t in folded)

    def _padded(self, totals: Values, most: int) -> _Padding:
        """The accumulators after each step of padding, up to a number of steps."""
        states, seen = [totals], {_bits(totals): 0}
        row = [init.reshape(1, 1) for init in self._inits]
        while len(states) <= min(most, tuning().padded_steps):
            totals = tuple(np.ascontiguousarray(t).reshape(1) for t in self._fold(totals, row))
            if (bits := _bits(totals)) in seen:
                return _Padding(states, len(states) - seen[bits])
            seen[bits] = len(states)
            states.append(totals)
        return _Padding(states, None)

    def _skip(self, totals: Values, count: int) -> Values:
        """The accumulators after a number of steps of padding."""
        padding = self._padded(totals, count)
        if padding.cycle is None:
            return self._walked(padding.states[-1], count - len(padding.states) + 1)
        return padding.states[padding.after(np.array(count))]

    def _walked(self, totals: Values, count: int) -> Values:
        """The same, made step by step."""
        for first in range(0, count, tuning().padded_part):
            length = min(tuning().padded_part, count - first)
            folded = self._fold(totals, [np.repeat(init, length).reshape(-1, 1) for init in self._inits])
            totals = tuple(np.ascontiguousarray(t).reshape(1) for t in folded)
        return totals

    def _ends(self, totals: Values, counts: np.ndarray) -> tuple[np.ndarray, ...]:
        """The accumulators after each of these numbers of steps of padding."""
        distinct, which = np.unique(counts, return_inverse=True)
        padding = self._padded(totals, distinct[-1])
        if padding.cycle is not None or distinct[-1] < len(padding.states):
            ends = [padding.states[i] for i in padding.after(distinct)]
        else:
            ends, now, done = [], totals, 0
            for count in distinct:
                now, done = self._walked(now, int(count) - done), int(count)
                ends.append(now)
        return tuple(np.concatenate(values)[which.reshape(-1)] for values in zip(*ends, strict=True))


def _groups(lines: Sequence[_Line]) -> Iterator[tuple[list[np.ndarray], tuple[slice, ...] | None]]:
    """Groups of windows that hold the same elements along each dimension, and these elements; None without any."""
    each = []
    for line in lines:
        pairs, which = np.unique(np.stack([line.first, line.count]), axis=1, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        ends = np.searchsorted(which.reshape(-1)[order], np.arange(pairs.shape[1] + 1))
        each.append(
            [
                (order[a:b], slice(int(first), int(first + (count - 1) * line.step + 1), line.step) if count else None)
                for (a, b), (first, count) in zip(itertools.pairwise(ends), pairs.T, strict=True)
            ]
        )
    for group in itertools.product(*each):
        chosen = tuple(part for _, part in group)
        yield [windows for windows, _ in group], None if None in chosen else chosen  # pyright: ignore[reportReturnType]


def _bits(values: Values) -> bytes:
    return b"".join(v.tobytes() for v in values)
