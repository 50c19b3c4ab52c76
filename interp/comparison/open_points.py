"""Open points of formats and operations, by identifier.

The points of the formats are in `ops.minifloat.open_points`, with the results of each known implementation. This file
has those of the operations, and the identifier of each byte by which the oracle marks open results (`oracle.rounding`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ...ops.minifloat.open_points import OPEN_POINTS, OpenPoint
from ..oracle import rounding


@dataclasses.dataclass(frozen=True)
class Question:
    """An open point that the operation leaves open, and not a format."""

    identifier: str
    question: str


OF_OPERATIONS: dict[str, Question] = {
    q.identifier: q
    for q in (
        Question("overflow", "a result beyond the largest number"),
        Question("infinite-result", "an infinite result"),  # of formats with a NaN; the others have a row of their own
        Question(
            "above-largest", "a number above the largest that is nearest to it, in a format of one significant bit"
        ),
        Question("signs-of-zeros", "the sign of a zero (the larger or smaller of +0 and -0; sign of -0)"),
        Question("nan-order", "the place of the NaN without sign in the total order"),
        Question("beyond-integer", "the integer that NaN, or a number beyond the type's range, is converted to"),
        Question("integer-beyond-integer", "an integer beyond the integer type"),
        Question("integer-division", "integer division by zero, and of the smallest integer by -1"),
        Question("complex-not-finite", "the parts of a complex number that is not finite"),
        Question("order-of-equals", "the order of equal elements, as the sort is not stable"),
        Question("last-update", "the order of several updates of one element"),
        Question("initial-values", "the number of times the initial value is used"),
        Question("implementation", "the result is implementation-defined"),
    )
}

#: The identifier of each byte of `oracle.rounding`.
IDENTIFIERS: dict[int, str] = {
    rounding.OVERFLOW: "overflow",
    rounding.INFINITE: "infinite-result",
    rounding.INVALID: "invalid-operation",
    rounding.NEGATIVE: "negative-number",
    rounding.ZERO: "zero-result",
    rounding.SMALL: "below-smallest",
    rounding.TIE: "tie",
    rounding.FROM_NAN: "nan-converted",
    rounding.FROM_NEGATIVE_NAN: "negative-nan-converted",
    rounding.ZEROS: "signs-of-zeros",
    rounding.NAN_ORDER: "nan-order",
    rounding.NOT_AN_INTEGER: "beyond-integer",
    rounding.WRAPPED: "integer-beyond-integer",
    rounding.ABOVE: "above-largest",
}


def row(identifier: str, element: str, table: Iterable[OpenPoint] = OPEN_POINTS) -> OpenPoint | Question:
    """The row of an open point for an element type: the format's, else the operation's. Raises KeyError."""
    rows = (p for p in table if p.identifier == identifier and element in p.formats)
    return next(rows, None) or OF_OPERATIONS[identifier]
