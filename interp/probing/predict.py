"""Predicts the results of dots by one record, or by many at once: those that differ in numbers alone go together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...ops.accumulators.forms import MANTISSA
from ...ops.accumulators.operands import Operand, operand
from ...ops.accumulators.record import Accumulator
from ...ops.accumulators.sums import Numbers, accumulate, finish
from ...ops.cast import cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES
from ..judging.groups import group
from .designs import Dots
from .dots import Signature

_PLAIN = Policy()
#: Sums that are formed at a time.
_SUMS = 1 << 13
#: A distance that no exponents have, and a power of two that no product reaches.
_FAR = 1 << 13


def predict(record: Accumulator, dots: Dots, signature: Signature) -> np.ndarray:
    """Return the results of dots by a record, as codes of the result type, [n]."""
    return predict_by((record,), dots, signature)[0]


def predict_by(records: Sequence[Accumulator], dots: Dots, signature: Signature) -> np.ndarray:
    """Return the results of dots by each record, as codes of the result type, [records, n]."""
    result, n = ELEMENT_TYPES[signature.result], len(dots)
    codes = np.empty((len(records), n), result.format.code_dtype)
    kinds = group(range(len(records)), lambda i: _kind(records[i]))
    size = max(_SUMS // max(n, 1), 1)
    for at in (every[i : i + size] for every in kinds.values() for i in range(0, len(every), size)):
        first = records[at[0]]
        x, y = _operands(dots, signature, first)
        got = finish(first, accumulate(first, x, y, None, (len(at), n), numbers=_numbers([records[i] for i in at])))
        if (storage := ELEMENT_TYPES[first.storage.name]) is not result:
            with np.errstate(all="ignore"):
                got = cast(got, storage, result, _PLAIN)
        codes[at] = codes_of(np.ascontiguousarray(got), result.format)
    return codes


def _operands(dots: Dots, signature: Signature, record: Accumulator) -> tuple[Operand, Operand]:
    is_flushed = "operands" in record.flush
    if is_flushed not in dots.numbers:
        x, y = dots.x.T[:, None], dots.y.T[:, None]
        dots.numbers[is_flushed] = operand(x, signature.lhs, record), operand(y, signature.rhs, record)
    return dots.numbers[is_flushed]


def _kind(record: Accumulator) -> Hashable:
    """The fields in which records agree that are computed together: all but their numbers."""
    return (
        record.step, record.take, record.group, record.outer, record.bits is None, record.normalise, record.drop,
        record.even_odd, record.tree, record.inner, record.c, record.join, record.keep.partition(":")[0],
        record.form.mantissa_bits >= MANTISSA, record.rounding, record.flush, record.overflow, record.nan,
    )  # fmt: skip


def _numbers(records: Sequence[Accumulator]) -> Numbers:
    """The numbers of records of one `_kind`, [records, 1]."""
    rows = [Numbers.of(r) for r in records]

    def column(name: str, absent: int | None = None) -> Any:
        found = [getattr(row, name) for row in rows]
        if all(x == found[0] for x in found):
            return found[0]
        return np.array([absent if x is None else x for x in found], np.int16)[:, None]

    form, fractions = rows[0].form, np.array([row.form.mantissa_bits for row in rows])
    if (fractions != fractions[0]).any():
        form = form._replace(mantissa_bits=fractions[:, None])
    return Numbers(
        column("bits"), column("sum_bits"), column("c_bits"), column("c_reach", _FAR), column("least"),
        column("product_limit", _FAR), form,
    )  # fmt: skip


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
