"""Which products each step of a sum takes, and which steps change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .operands import Operand
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


def zeros(a: Operand, b: Operand) -> np.ndarray:
    """Which products are zero in all sums."""
    absent, finite = [], []
    for side in (a, b):
        others = tuple(range(1, side.values.ndim))
        absent.append(~side.values.any(others))
        finite.append(np.isfinite(side.values.sum(others)))
    return (absent[0] & finite[1]) | (absent[1] & finite[0])


def thinned(record: Accumulator, chunks: list[Chunk], is_zero: np.ndarray, from_zero: bool) -> list[Chunk]:
    """The chunks without steps of zeros that change nothing: of a run of them only the first changes a sum.

    Nor does that one where the sum is still zero.
    """
    if record.inner > 1 or not is_zero.any():  # there the exponent of a scale counts
        return chunks
    begins, result = from_zero or record.outer > 0, []
    for chunk in chunks:
        groups = []
        for group in chunk:
            absent = [bool(is_zero[index(step)].all()) for step in group]
            leads = begins or record.c == "after"
            groups.append((_first_of_runs(group, absent, leads) or group[:1], all(absent)))
        left = _first_of_runs([g for g, _ in groups], [zero for _, zero in groups], begins)
        result.append((left or chunk[:1], all(zero for _, zero in groups)))
    return _first_of_runs([c for c, _ in result], [zero for _, zero in result], from_zero)


def _first_of_runs(parts: list[Any], zeros: list[bool], before: bool) -> list[Any]:
    return [p for p, zero, last in zip(parts, zeros, [before, *zeros[:-1]], strict=True) if not (zero and last)]


def _steps(record: Accumulator, first: int, last: int) -> Iterator[Step]:
    """Which k each step takes."""
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
    """What picks the products of a step, or of a part of it, from an array."""
    return slice(part.start, part.stop, part.step) if isinstance(part, range) else part
