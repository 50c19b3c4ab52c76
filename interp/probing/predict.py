"""Predicts the results of dots by one record, or by many at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.accumulators.record import Accumulator
from ...ops.accumulators.sums import dots as summed
from ...ops.cast import cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES
from .designs import Dots
from .dots import Signature
from .packing import sums

_PLAIN = Policy()
#: If more than one in this many products are not zero, dots are summed without compression.
_DENSE = 4


def predict(record: Accumulator, dots: Dots, signature: Signature) -> np.ndarray:
    """Return the results of dots by a record, as codes of the result type, [n]."""
    return predict_by((record,), dots, signature)[0]


def predict_by(records: Sequence[Accumulator], dots: Dots, signature: Signature) -> np.ndarray:
    """Return the results of dots by each record, as codes of the result type, [records, n]."""
    result, types = ELEMENT_TYPES[signature.result], (signature.lhs, signature.rhs)
    codes = np.empty((len(records), len(dots)), result.format.code_dtype)
    sparse = dots.sparse(*types)
    if len(records) == 1 and len(sparse.row) > dots.x.size // _DENSE:  # there is little to omit
        every = iter([([0], summed(records[0], dots.x, dots.y, *types)[None])])
    else:
        every = sums(records, sparse, dots.packed)
    for at, got in every:
        storage = ELEMENT_TYPES[records[at[0]].storage.name]
        if storage is not result:
            with np.errstate(all="ignore"):
                got = cast(got, storage, result, _PLAIN)
        codes[at] = codes_of(np.ascontiguousarray(got), result.format)
    return codes


def steps(record: Accumulator, k: int) -> list[list[int]]:
    """Return the positions that each step takes."""
    run, period = record.pattern
    size = (record.step or k) * period // run
    found = []
    for first in range(0, k, record.outer or k):
        last = min(first + (record.outer or k), k)
        for i in range(first, last, size):
            window = range(i, min(i + size, last))
            found += [[p for p in window if (p - i) % period // run == part] for part in range(period // run)]
    return [s for s in found if s]
