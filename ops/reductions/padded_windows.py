"""Windows of which most is padding: long runs of padding are not folded step by step.

A window of 10^9 places over 10^5 elements has 10^5 elements, and the rest is padding. Windows that hold the same
elements differ only in the positions of these. All padding is the initial value, so each step of padding takes the
accumulators from one state to the next: a sum with zero does not change, a maximum changes once at most, and a sum of
bytes returns to its first value after 256 steps. Once a state repeats, all later states are known, and the results are
those of the whole fold, bit for bit.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .axes import Axis

#: The accumulators, or the initial values: arrays with a single element each.
Values = tuple[np.ndarray, ...]
#: Folds arrays of shape (steps, 1) into accumulators.
Fold = Callable[[Values, Sequence[np.ndarray]], Sequence[np.ndarray]]

#: Windows of at least so many places, of which at most one in `SHARE` is an element, are folded in order if the
#: states of the padding before an element repeat within `_STEPS` steps. These decide how floats are rounded: other
#: windows of this size may be combined as a tree.
PLACES, SHARE, _STEPS = 1 << 20, 4, 1 << 12
#: Up to so many steps of padding between two elements are folded like elements.
_GAP = 16


@dataclasses.dataclass(frozen=True)
class _Line:
    """The elements of windows along one dimension. The arrays have an entry for each window."""

    first: np.ndarray  #: the first element
    count: np.ndarray  #: how many elements
    place: np.ndarray  #: the place of the first within the window
    step: int  #: the distance of neighbouring elements in the operand
    places: int  #: the distance of their places in the window

    @classmethod
    def of(cls, axis: Axis) -> _Line:
        base, dilation = axis.base_dilation, axis.window_dilation
        common = math.gcd(base, dilation)
        step, places = dilation // common, base // common
        # Place p of window w is element e where e * base = w * stride + p * dilation - low, if there is such an e.
        start = np.arange(axis.count) * axis.stride - axis.low
        least = np.maximum(-(-start // base), 0)
        first = least + (start // common * pow(places, -1, step) - least) % step
        place = (first * base - start) // dilation
        count = np.minimum((axis.window - 1 - place) // places, (axis.size - 1 - first) // step) + 1
        inside = np.where(start % common == 0, np.maximum(count, 0), 0)
        return cls(np.where(inside, first, 0), inside, np.where(inside, place, 0), step, places)


@dataclasses.dataclass(frozen=True)
class _States:
    """The accumulators after each number of steps of padding, up to the first state that repeats, if one does."""

    values: list[Values]
    period: int | None  #: of the last states; None where none repeats

    def after(self, counts: np.ndarray) -> np.ndarray:
        """The index of the state after each number of steps. There must be a period, or enough states."""
        number, period = len(self.values), self.period or 1
        return np.where(counts < number, counts, number - period + (counts - number) % period).astype(np.intp)


def _states(fold: Fold, totals: Values, inits: Values, most: int) -> _States:
    """The states from these accumulators on, for at most so many steps."""
    values, seen, row = [totals], {_bits(totals): 0}, [init.reshape(1, 1) for init in inits]
    while len(values) <= most:
        totals = tuple([np.ascontiguousarray(t).reshape(1) for t in fold(totals, row)])
        if (bits := _bits(totals)) in seen:
            return _States(values, len(values) - seen[bits])
        seen[bits] = len(values)
        values.append(totals)
    return _States(values, None)


def _bits(values: Values) -> bytes:
    return b"".join([v.tobytes() for v in values])


def fold_padded(
    fold: Fold, arrays: Sequence[np.ndarray], inits: Sequence[np.ndarray], axes: Sequence[Axis]
) -> tuple[np.ndarray, ...] | None:
    """The result of each window; None where windows have too little padding, or its states do not repeat."""
    counts, size = [a.count for a in axes], math.prod(a.window for a in axes)
    if 0 in counts or size < PLACES or max(a.low + a.high for a in axes) >= 1 << 60:
        return None
    if math.prod(min(a.window, a.size) for a in axes) * SHARE > size:
        return None
    starts = tuple([np.ascontiguousarray(init).reshape(1) for init in inits])
    lead = _states(fold, starts, starts, _STEPS)
    if lead.period is None:
        return None
    lines, kind = [_Line.of(a) for a in axes], object if size >= 1 << 62 else np.int64
    strides = [math.prod(a.window for a in axes[d + 1 :]) for d in range(len(axes))]
    outputs = tuple([np.empty(counts, init.dtype) for init in inits])
    for windows, held in _groups(lines):
        if held is None:
            for result, value in zip(outputs, lead.values[int(lead.after(np.array(size, kind)))], strict=True):
                result[np.ix_(*windows)] = value[0]
            continue
        before, places = np.zeros((), kind), np.zeros((), kind)
        for line, chosen, stride in zip(lines, windows, strides, strict=True):
            before = before[..., None] + line.place[chosen].astype(kind) * stride
            places = places[..., None] + np.arange(int(line.count[chosen[0]])).astype(kind) * (line.places * stride)
        shape, before, places = before.shape, before.reshape(-1), places.reshape(-1)
        elements, indices = [x[held].reshape(-1) for x in arrays], lead.after(before)
        for index in np.unique(indices):
            those = np.flatnonzero(indices == index)
            totals = _fold_elements(fold, lead.values[index], starts, elements, places)
            rest = size - 1 - places[-1] - before[those]
            trail = _states(fold, totals, starts, max(rest))
            at = tuple([w[p] for w, p in zip(windows, np.unravel_index(those, shape), strict=True)])
            for i, result in enumerate(outputs):
                result[at] = np.concatenate([v[i] for v in trail.values])[trail.after(rest)]
    return outputs


def _fold_elements(
    fold: Fold, totals: Values, inits: Values, elements: Sequence[np.ndarray], places: np.ndarray
) -> Values:
    """The accumulators after the last element, from those before the first; `places` are where elements stand."""
    cuts = np.flatnonzero(np.diff(places) > _GAP + 1) + 1
    for first, last in itertools.pairwise([0, *cuts.tolist(), len(places)]):
        if first:
            gap = places[first] - places[first - 1] - 1
            states = _states(fold, totals, inits, gap)
            totals = states.values[int(states.after(np.array(gap)))]
        offsets = (places[first:last] - places[first]).astype(np.intp)
        rows = [np.full(offsets[-1] + 1, init, init.dtype) for init in inits]
        for row, x in zip(rows, elements, strict=True):
            row[offsets] = x[first:last]
        totals = tuple([np.ascontiguousarray(t) for t in fold(totals, [row.reshape(-1, 1) for row in rows])])
    return totals


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
        held = tuple([part for _, part in group])
        yield [windows for windows, _ in group], None if None in held else held  # pyright: ignore[reportReturnType]
