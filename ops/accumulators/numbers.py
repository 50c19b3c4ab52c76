"""The numbers of a record. Records that differ in nothing else are computed together, with arrays of numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .forms import MANTISSA, Form
from .record import Accumulator

#: A distance that no exponents have, and a power of two that no product reaches.
_FAR = 1 << 13
#: Exponents that are aligned to, so that all powers of two are numbers of f64. Products lie within.
LOW, HIGH = -900, 900


class Numbers(NamedTuple):
    """Fields of a record, as int16 where they are arrays: [records, 1], or whatever broadcasts with sums."""

    bits: Any
    sum_bits: Any
    c_bits: Any
    c_reach: Any
    least: Any
    product_limit: Any
    form: Form  #: of the sum that is kept

    @staticmethod
    def of(record: Accumulator) -> Numbers:
        """The numbers of one record."""
        least = LOW if record.least is None else max(record.least, LOW)
        return Numbers(
            record.bits,
            record.sum_bits,
            record.c_bits,
            record.c_reach,
            least,
            record.product_limit,
            Form.of(record.form),
        )

    @staticmethod
    def stacked(records: Sequence[Accumulator]) -> Numbers:
        """The numbers of records of one `kind`, [records, 1]."""
        if len(records) == 1:
            return Numbers.of(records[0])
        rows = [Numbers.of(r) for r in records]

        def column(name: str, absent: int | None = None) -> Any:
            found = [getattr(row, name) for row in rows]
            if all(x == found[0] for x in found):
                return found[0]
            return np.array([absent if x is None else x for x in found], np.int16)[:, None]

        first = rows[0].form
        fractions = np.array([row.form.mantissa_bits for row in rows])
        form = first if (fractions == fractions[0]).all() else first._replace(mantissa_bits=fractions[:, None])
        return Numbers(
            column("bits"), column("sum_bits"), column("c_bits"), column("c_reach", _FAR), column("least"),
            column("product_limit", _FAR), form,
        )  # fmt: skip


def kind(record: Accumulator) -> Hashable:
    """What records have to agree in to be computed together: all but their numbers, and where products lie."""
    return (
        record.bits is None, record.normalise, record.drop, record.even_odd, record.tree and (record.step,),
        record.inner, record.c, record.join, record.keep.partition(":")[0], record.form.mantissa_bits >= MANTISSA,
        record.rounding, record.flush, record.overflow, record.nan, record.outer > 0,
    )  # fmt: skip
