"""Smallest sets for which a test holds, as of operations that are wrong together or explain a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimal_subset(items: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """Return a subset for which a test holds and from which no item can be left out. It holds for all items.

    Halves, quarters and so on are tried alone, then the items without each of these, the last ones first (Zeller and
    Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).
    """
    chosen, parts = list(items), 2
    while len(chosen) > 1:
        size = -(-len(chosen) // parts)
        starts = range(0, len(chosen), size)
        chunks = [chosen[i : i + size] for i in starts]
        rests = [chosen[:i] + chosen[i + size :] for i in reversed(starts)] if len(chunks) > 2 else []
        if smaller := next(filter(holds, chunks), None):
            chosen, parts = smaller, 2
        elif smaller := next(filter(holds, rests), None):
            chosen, parts = smaller, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(chosen))
    return chosen
