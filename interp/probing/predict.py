"""What a record predicts for dots."""

from __future__ import annotations

import numpy as np

from ...ops.accumulators.packing import Layout, packed
from ...ops.accumulators.record import Accumulator
from ...ops.engine.cast import cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES
from .designs import Dots
from .dots import Signature

_PLAIN = Policy()
#: Layouts of the same dots that are kept.
_LAYOUTS = 64


def predicted(record: Accumulator, dots: Dots, signature: Signature) -> np.ndarray:
    """Return the codes of dots as a record forms them, in the result type, [n]."""
    layout = Layout.of(record)
    if (found := dots.packed.get(layout)) is None:
        if len(dots.packed) >= _LAYOUTS:
            dots.packed.clear()
        found = dots.packed[layout] = packed(layout, dots.x, dots.y, signature.lhs, signature.rhs)
    sums = found.sums(record, signature.lhs, signature.rhs)
    storage, result = ELEMENT_TYPES[record.storage.name], ELEMENT_TYPES[signature.result]
    if storage is result:
        return codes_of(sums, result.format)
    with np.errstate(all="ignore"):
        return codes_of(np.ascontiguousarray(cast(sums, storage, result, _PLAIN)), result.format)


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
