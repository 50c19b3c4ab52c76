"""Finds the layouts of sums (the positions in a step, a group, a chunk) that explain the masks of a backend.

A mask records whether a small product is lost beside a pair of large ones that cancel. The layout alone decides that,
by the relative positions of the three, regardless of the other facts of a record. So masks with equal relations in
a layout must all lose the small product or all keep it. The layouts with the fewest exceptions are tried first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...ops.accumulators.record import Accumulator
from .facts import PATTERNS, Change, take, with_change

#: Groups and outer sums take the products of this many steps, or of this many groups.
_MULTIPLES = (*range(2, 17), 24, 32, 48, 64, 96, 128)
_CHUNKS = (1, *_MULTIPLES)
#: All lengths of windows up to _EVERY are tried, and of longer ones the multiples of a part of it.
_EVERY, _PART = 288, 16
#: Layouts compared at once, masks for the first comparison, and best layouts compared on all masks.
_BLOCK, _SOME, _BEST = 64, 400, 300
#: Relations of one product to another: before or after it, in another step, group or chunk, or in the same step with
#: the
#: same parity or not. For three products: three such relations, and the two that a tree adds first.
_RELATIONS, _MERGES = 8, 9


class Layout(NamedTuple):
    """The facts of a record that place products."""

    step: int
    pattern: tuple[int, int] = (1, 1)
    group: int = 0
    outer: int = 0
    apart: str = ""  #: how products of one step differ: "even_odd", "tree" or not at all

    def record(self, change: Change) -> Accumulator | None:
        """Return a record of this layout with other facts; None if they contradict it."""
        fields: Change = {"step": self.step, "take": take(self.pattern)}
        fields |= {"group": self.group, "outer": self.outer} | ({self.apart: True} if self.apart else {})
        made = with_change(Accumulator(), fields | change)
        return made if made is not None and made.group == self.group else None

    def is_alike(self, change: Change) -> bool:
        """Whether a record with c=after equals one with c=aligned: each sum starts from zero, and ends there."""
        return change.get("c") == "after" and self.outer > 0 and self.outer == (self.group or self.window)

    @property
    def window(self) -> int:
        """The number of consecutive positions that steps share."""
        return self.step * self.pattern[1] // self.pattern[0]


class _Positions(NamedTuple):
    """The steps, groups and chunks of positions, numbered, and their positions within a step."""

    step: np.ndarray
    group: np.ndarray
    chunk: np.ndarray
    place: np.ndarray


def _positions(layout: Layout, k: int) -> _Positions:
    run, period = layout.pattern
    parts = period // run
    window, outer = layout.window or k, layout.outer or k
    chunk, within = np.divmod(np.arange(k, dtype=np.int32), outer)
    at, offset = np.divmod(within, window)
    step = at * parts + offset % period // run
    group = step // (layout.group // layout.step) if layout.group else step
    place = offset // period * run + offset % run
    if layout.apart == "tree":
        place = _paths(layout.step or k)[place]
    steps = -(-outer // window) * parts
    return _Positions(chunk * steps + step, chunk * steps + group, chunk, place)


@functools.lru_cache(maxsize=512)
def _paths(n: int) -> np.ndarray:
    """The path to each product from the root of a tree, a bit for each addition; the first one is the highest."""
    found = np.zeros(n, np.int32)

    def walk(first: int, last: int, bit: int) -> None:
        if last - first > 1:
            middle = first + (last - first) // 2
            found[middle:last] |= 1 << bit
            walk(first, middle, bit - 1)
            walk(middle, last, bit - 1)

    walk(0, n, max(n - 1, 1).bit_length())
    return found


class Masks:
    """Masks: for each three positions whether the small product at the third is kept."""

    def __init__(self, triples: np.ndarray, kept: np.ndarray, k: int, rng: np.random.Generator) -> None:
        self._triples, self._kept, self._k = triples, kept, k
        self._some = rng.permutation(len(kept))[:_SOME]

    def best(self, layouts: Sequence[Layout]) -> dict[Layout, tuple[int, int]]:
        """Return the numbers of exceptions and of relation classes of the best layouts; the best first.

        Among layouts with equally many exceptions the one with fewer classes is better.
        """
        first = self._costs(layouts, self._some)
        left = sorted(first, key=lambda v: (first[v], complexity(v)))[:_BEST]
        costs = self._costs(left, np.arange(len(self._kept)))
        return dict(sorted(costs.items(), key=lambda item: (item[1], complexity(item[0]))))

    def classes(self, layout: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a mask of each relation class, the number of these that are kept, and of those that are lost."""
        codes = self._codes([layout], np.arange(len(self._kept)))[0]
        _, first, number = np.unique(codes, return_index=True, return_inverse=True)
        kept = np.bincount(number[self._kept], minlength=len(first))
        return first, kept, np.bincount(number, minlength=len(first)) - kept

    def _costs(self, layouts: Sequence[Layout], at: np.ndarray) -> dict[Layout, tuple[int, int]]:
        found = {}
        for i in range(0, len(layouts), _BLOCK):
            some = layouts[i : i + _BLOCK]
            codes = self._codes(some, at)
            size = _RELATIONS**3 * (_MERGES if any(v.apart == "tree" for v in some) else 1)
            codes += (np.arange(len(some)) * size)[:, None]
            every = np.bincount(codes.reshape(-1), minlength=len(some) * size)
            kept = np.bincount(codes[:, self._kept[at]].reshape(-1), minlength=len(some) * size)
            costs = np.minimum(kept, every - kept).reshape(len(some), size).sum(1)
            parts = (every > 0).reshape(len(some), size).sum(1)
            found |= zip(some, zip(costs.tolist(), parts.tolist(), strict=True), strict=True)
        return found

    def _codes(self, layouts: Sequence[Layout], at: np.ndarray) -> np.ndarray:
        """The relation classes of masks, [layouts, masks]."""
        positions = [_positions(v, self._k) for v in layouts]
        steps, groups, chunks, places = (np.stack(part) for part in zip(*positions, strict=True))
        pairs = [(self._triples[at, i], self._triples[at, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
        even_odd = np.array([v.apart == "even_odd" for v in layouts])[:, None]
        code = np.zeros((len(layouts), len(at)), np.int64)
        for x, y in pairs:
            sign = np.sign(steps[:, y] - steps[:, x])
            far = (sign != 0).astype(np.int8) + (groups[:, x] != groups[:, y]) + (chunks[:, x] != chunks[:, y])
            relation = 3 + sign * far
            relation[even_odd & (sign == 0) & ((places[:, x] ^ places[:, y]) & 1 > 0)] = _RELATIONS - 1
            code = code * _RELATIONS + relation
        if any(v.apart == "tree" for v in layouts):
            code += _RELATIONS**3 * self._merges(layouts, steps, places, pairs)
        return code

    @staticmethod
    def _merges(
        layouts: Sequence[Layout], steps: np.ndarray, places: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        """The two of three products that a tree adds first, and the next."""
        tree = np.array([v.apart == "tree" for v in layouts])[:, None]
        height = np.frexp(np.arange(int(places.max(initial=0)) * 2 + 2))[1]
        heights = [np.where(steps[:, x] == steps[:, y], height[places[:, x] ^ places[:, y]], 99) for x, y in pairs]
        merges = sum((3**i) * (1 + np.sign(heights[0] - h)) for i, h in enumerate(heights[1:]))
        return np.where(tree, merges, 0)


def complexity(layout: Layout) -> tuple[int, int, int]:
    """The order of plausibility of layouts that explain equally much."""
    facts = (layout.pattern != (1, 1)) + (layout.group > 0) + (layout.outer > 0) + (layout.apart != "")
    return facts, layout.step.bit_count(), layout.step


def layouts(k: int) -> Iterator[Layout]:
    """Return all layouts to try."""
    for pattern in PATTERNS:
        run, period = pattern
        for n in dict.fromkeys((*_windows(k), -(-k // period) * period)):  # the last of them may be wider than k
            # A step of no more products than are adjacent takes consecutive ones.
            if n % period or (period > 1 and n <= period):
                continue
            step = n * run // period if n < k or period > 1 else 0
            for apart in ("", "even_odd", "tree") if step != 1 else ("",):
                plain = Layout(step, pattern, apart=apart)
                yield plain
                if not step:
                    continue
                yield from (plain._replace(outer=n * m) for m in _CHUNKS if n * m < k)
                for group in (n * m for m in _MULTIPLES if n * m < k) if not apart else ():
                    yield plain._replace(group=group)
                    yield from (plain._replace(group=group, outer=group * m) for m in _MULTIPLES if group * m < k)


def _windows(k: int) -> Iterator[int]:
    yield from range(1, min(k, _EVERY) + 1)
    yield from (n for n in range(_EVERY + _PART, k + 1, _PART) if n % (1 << max(n.bit_length() - 6, 0)) == 0)
    if k > _EVERY:
        yield k
