"""Windows of bits: how wrapping integers are found a few bits at a time, from the lowest on.

Sums, products, shifts to the left and bitwise operations give bit `j` of a result from bits `j` and lower of operands.
So a turn of such operations has an effect on the lowest bits that depends on them alone. A bitwise operation with
something known keeps bits, flips them, sets or clears them. Where the bits below a window are known, and what it does
is the same for all bits of the window, it is affine in what is not known, modulo two to the end of the window: it
keeps that, negates it, or drops it. The highest bit of a window may be flipped besides, which is a sum there. One bit
is always affine in itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...ops.engine.speed import tuning

#: What becomes of a bit: it does not matter, it is kept, or it is flipped; `_OWN` where that differs by turns.
DROPPED, _KEPT, _FLIPPED, _OWN = range(4)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What an operation with something known does to the lowest `bits` bits; it does not care about higher ones.

    of_bits: a bitwise operation with `number`, or with row `row` of a turn; None where each bit differs by turns.
    """

    bits: int
    of_bits: Callable[[int, int], int] | None = None
    number: int = 0
    row: int | None = None


#: Of a row: all bits of its numbers that may differ, and 0 or -1, which has the bits above.
Extent = tuple[int, int]


def effects(of_bits: Callable[[int, int], int]) -> tuple[int, int]:
    """What becomes of a bit by an operation with 0 and with 1."""
    marks = {(0, 1): _KEPT, (1, 0): _FLIPPED}
    zero, one = ((of_bits(0, known) & 1, of_bits(1, known) & 1) for known in (0, 1))
    return marks.get(zero, DROPPED), marks.get(one, DROPPED)


@functools.lru_cache(1 << 8)
def windows(patterns: frozenset[Pattern], bits: int, extents: tuple[tuple[int, Extent], ...] = ()) -> tuple[int, ...]:
    """Where windows of an integer of some bits end, as few as there can be, lower ones short; see `Extent` of rows."""
    known = dict(extents)
    reach = [min(ends) for ends in zip([bits] * bits, *(_reach(p, bits, known) for p in patterns), strict=True)]
    least, ends = [0] * (bits + 1), [bits] * bits
    for first in reversed(range(bits)):
        ends[first] = min(range(first + 1, reach[first] + 1), key=least.__getitem__)
        least[first] = 1 + least[ends[first]]
    found = [ends[0]]
    while found[-1] < bits:
        found.append(ends[found[-1]])
    return tuple(found)


def are_few(ends: Sequence[int], varies: bool) -> bool:
    """Whether composing turns window by window pays; `varies` says that the factor is one of each turn."""
    return len(ends) <= (tuning().composed_own_windows if varies else tuning().composed_windows)


def _reach(pattern: Pattern, bits: int, extents: Mapping[int, Extent]) -> Iterable[int]:
    """From each bit on the end of the longest window."""
    marks = _marks(pattern, extents)
    for first in range(bits):
        yield _end(marks, first) if first < len(marks) else bits


def _end(marks: list[int], first: int) -> int:
    mark, end = marks[first], first + 1
    if mark == _OWN:
        return end
    while end < len(marks) and marks[end] == mark:
        end += 1
    may_flip = mark != DROPPED and end < len(marks) and marks[end] in (_KEPT, _FLIPPED)
    return end + 1 if may_flip else end


def _marks(pattern: Pattern, extents: Mapping[int, Extent]) -> list[int]:
    """What becomes of each bit."""
    if pattern.of_bits is None:
        return [_OWN] * pattern.bits
    low, number = (0, pattern.number) if pattern.row is None else extents[pattern.row]
    of = effects(pattern.of_bits)
    return [_OWN if bit < low else of[number >> bit & 1] for bit in range(pattern.bits)]
