"""Scatters whose body does not read the updates, as `x.at[i].apply(f)` has one: each element goes through it so often.

Of numbers of up to 16 bits the body is a table. That of doing it twice is the table looked up in itself, so that
10**6 times take 20 lookups of all codes. Of other numbers all that are left take a turn together, up to where nothing
changes any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..engine.speed import tuning
from ..op import Body, Call
from ..types import ElementType, Kind
from .fold import Fold, Step

Arrays = tuple[np.ndarray, ...]


class ScatterRepeats:
    """Puts what a body makes of elements in their place, as often as they are named."""

    def __init__(self, elements: Sequence[ElementType], body: Callable[..., Arrays], fold: Fold) -> None:
        self._body, self._fold = body, fold
        self._of_few_bits = elements[0] if len(elements) == 1 and _is_of_few_bits(elements[0]) else None

    def __call__(self, region: Step, rows: Arrays, targets: np.ndarray, updates: Arrays) -> None:
        """Change rows in place; takes what a `ScatterUpdate` does."""
        groups, counts = _counted(targets, len(rows[0]))
        states, first = [r.take(groups, axis=0) for r in rows], [u[:1] for u in updates]
        element, most = self._of_few_bits, int(counts[0])
        if element is not None and most > tuning().repeats_few and 16 * len(targets) >= 1 << element.bits:
            self._by_table(element, states[0], counts, first)
        else:
            self._by_turns(region, states, counts, first)
        for r, state in zip(rows, states, strict=True):
            r[groups] = state

    def _by_table(
        self, element: ElementType, state: np.ndarray, counts: np.ndarray, first: Sequence[np.ndarray]
    ) -> None:
        """Powers of two of the body: each number takes those that its count is the sum of."""
        codes = state.view(f"u{state.itemsize}")
        every = np.arange(1 << element.bits, dtype=codes.dtype).view(element.dtype)
        (made,) = self._body(every, *(u.reshape(-1)[:1].repeat(len(every)) for u in first))
        table, left = made.view(codes.dtype), counts.reshape(-1, *[1] * (state.ndim - 1))
        while left.any():
            np.copyto(codes, table.take(codes), where=left & 1 == 1)
            left, table = left >> 1, table.take(table)

    def _by_turns(
        self, region: Step, states: Sequence[np.ndarray], counts: np.ndarray, first: Sequence[np.ndarray]
    ) -> None:
        """One turn after the other of all that have one left; the last few, which have many left, by themselves."""
        done, active, falling = 0, len(counts), -counts
        updates = [u.repeat(active, axis=0) for u in first]
        while active and int(counts[0]) - done <= tuning().scatter_steps * active:
            now = [s[:active] for s in states]
            results = self._body(*now, *(u[:active] for u in updates))
            if not done & (done + 1) and all(map(_are_same, now, results)):  # looked at after 1, 2, 4 turns and so on
                return
            if len(states) > 1:  # they may be views of each other
                results = tuple(map(np.array, results))
            for state, result in zip(now, results, strict=True):
                state[...] = result
            done += 1
            if counts[active - 1] <= done:
                active = int(np.searchsorted(falling, -done))
        for i, count in enumerate(counts[:active].tolist()):
            self._fold_one(region, [s[i : i + 1] for s in states], count - done, first)

    def _fold_one(self, region: Step, states: Sequence[np.ndarray], count: int, first: Sequence[np.ndarray]) -> None:
        """So many turns of one row, or up to where it stays as it is."""
        for begin in range(0, count, step := tuning().repeats_step):
            turns = min(step, count - begin)
            steps = [u.repeat(turns, axis=0).reshape(turns, -1) for u in first]
            results = self._fold(region, [s.reshape(-1) for s in states], steps)
            results = [r.reshape(s.shape) for r, s in zip(results, states, strict=True)]
            if all(map(_are_same, states, results)):
                return
            for state, result in zip(states, results, strict=True):
                state[...] = result


def scatter_repeats(call: Call, body: Body, elements: Sequence[ElementType], fold: Fold) -> ScatterRepeats | None:
    """What applies a body that does not read the updates; None of others, and where results hang on the turn."""
    reads_updates = body.reads is None or max(body.reads, default=0) >= len(elements)
    if reads_updates or body.vectorised is None or call.policy.rounding == "stochastic":
        return None
    return ScatterRepeats(elements, body.vectorised, fold)


def _is_of_few_bits(element: ElementType) -> bool:
    """Whether the element's codes, which are all numbers of so many bits, are at most 65,536."""
    return element.is_minifloat or (element.bits in (8, 16) and element.kind is not Kind.COMPLEX)


def _are_same(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether all bits are."""
    code = f"u{x.itemsize}"
    return x.itemsize <= 8 and np.array_equal(np.ascontiguousarray(x).view(code), np.ascontiguousarray(y).view(code))


def _counted(targets: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that are named, those named most often first; and how often each is."""
    if size > 16 * len(targets) + 4096:
        groups, counts = np.unique(targets, return_counts=True)
    else:
        counts = np.bincount(targets)
        groups = np.flatnonzero(counts)
        counts = counts[groups]
    order = np.argsort(-counts, kind="stable")
    return groups[order], counts[order]
