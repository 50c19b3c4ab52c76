"""What a record predicts for dots."""

from __future__ import annotations

import numpy as np

from ...ops.accumulators.record import Accumulator
from ...ops.accumulators.sums import dots
from ...ops.engine.cast import cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES
from .dots import Signature

_PLAIN = Policy()


def predicted(record: Accumulator, x: np.ndarray, y: np.ndarray, signature: Signature) -> np.ndarray:
    """Return the codes of dots of [n, k] and [n, k] as a record forms them, in the result type, [n]."""
    k = _needed(record, x, y)
    sums = dots(record, x[:, :k], y[:, :k], signature.lhs, signature.rhs)
    storage, result = ELEMENT_TYPES[record.storage.name], ELEMENT_TYPES[signature.result]
    with np.errstate(all="ignore"):
        return codes_of(np.ascontiguousarray(cast(sums, storage, result, _PLAIN)), result.format)


def _needed(record: Accumulator, x: np.ndarray, y: np.ndarray) -> int:
    """Return how many products count: a step of zeros changes a sum, and those after it do not."""
    k = x.shape[1]
    used = np.flatnonzero((x != 0).any(0) | (y != 0).any(0))
    last = int(used[-1]) + 1 if len(used) else 1
    run, period = record.pattern
    whole = max(record.step * period // run, record.group) or k
    end = -(-last // whole) * whole
    return last if end >= k else min(k, end + whole)


def steps(record: Accumulator, k: int) -> list[list[int]]:
    """Return the positions that each step takes."""
    run, period = record.pattern
    size = (record.step or k) * period // run
    found = []
    for first in range(0, k, record.outer or k):
        last = min(first + (record.outer or k), k)
        for i in range(first, last, size):
            window = range(i, min(i + size, last))
            found += [[p for p in window if (p - i) % period // run == way] for way in range(period // run)]
    return [s for s in found if s]
