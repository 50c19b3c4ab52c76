"""The products that each step of a sum takes."""

from __future__ import annotations

from collections.abc import Iterator

from .record import Accumulator

#: The k of a step. A group is steps whose sum joins the running one, a chunk is groups whose sums join the outer one.
Step = range | list[int]
Chunk = list[list[Step]]


def chunks_of(record: Accumulator, length: int) -> list[Chunk]:
    """The steps of so many products: chunks that an outer sum takes, their groups, and the steps of these."""
    chunks = []
    for first in range(0, length, record.outer or max(length, 1)):
        steps = list(_steps(record, first, min(first + (record.outer or length), length)))
        size = len(steps) if record.c != "after" else record.group // record.step if record.group else 1
        chunks.append([steps[i : i + size] for i in range(0, len(steps), size)])
    return chunks


def _steps(record: Accumulator, first: int, last: int) -> Iterator[Step]:
    """The k of each step."""
    run, period = record.pattern
    if run == period:
        size = record.step or max(last - first, 1)
        yield from (range(i, min(i + size, last)) for i in range(first, last, size))
        return
    window = record.step * period // run
    for i in range(first, last, window):
        for way in range(period // run):
            yield [k for k in range(i, min(i + window, last)) if (k - i) % period // run == way]


def index(part: Step) -> slice | list[int]:
    """The index that picks the products of a step, or of a part of it, from an array."""
    return slice(part.start, part.stop, part.step) if isinstance(part, range) else part
