"""Cases on rows of numbers: reductions, cumulative sums, dots, convolutions and sorts, as programs and as calls."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from ..backends.operation import Operation, result_shape
from ..backends.programs import Builder
from ..judging.sums.hypotheses import Rows, SumQuery
from ..oracle.exact import evaluate, total_order
from ..oracle.expected import Expected
from ..oracle.formats import FORMATS, Format
from ..oracle.rounding import NAN_ORDER, ZEROS, encode
from ..oracle.sums import exact_products, exact_sums
from .cases import row_programs
from .cases.row_data import start_code
from .part import BasePart, Call


@dataclasses.dataclass(frozen=True, eq=False)
class RowPart(BasePart):
    """One case in one form: its operands, as arrays of codes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        if self.form == "rank-3":
            return row_programs.shape_in_three(self.case, self.arrays)
        return result_shape(self.operation, [a.shape for a in self.arrays])

    @property
    def operation(self) -> Operation:
        """The operation on arrays."""
        attributes = {"body": self.body} if self.case.op in ("reduce", "cumulative") else {}
        return Operation(self.case.op, self.case.operands, self.case.result, attributes)

    def emit(self, builder: Builder) -> None:
        """Adds the case to a program, as its next result."""
        row_programs.emit(builder, self.case, self.form, self.arrays, self.shape)

    @property
    def body(self) -> str:
        """The op that combines elements."""
        return row_programs.body(self.case)

    def operate(self, call: Call) -> list[np.ndarray]:
        """See BasePart."""
        given = list(self.arrays)
        if self.form == "transposed":
            given = [np.asarray(x.T, order="C").T for x in given]
        elif self.form == "reversed":
            given = [np.array(x[::-1, ::-1])[::-1, ::-1] for x in given]
        return [call(self.operation, given)]

    def contributing(self, i: int) -> list[list[int]]:
        """See BasePart."""
        rows = self.arrays[0]
        if self.case.op == "sort":
            return [rows[i // rows.shape[1]].tolist()]
        if self.case.op == "cumulative":
            return [rows[i // rows.shape[1], : i % rows.shape[1] + 1].tolist()]
        return [t[i].tolist() for t in self.terms]

    @functools.cached_property
    def query(self) -> SumQuery:
        """The query for the sums, or products."""
        types = self.case.operands if self.case.is_product else self.case.operands[:1]
        return SumQuery(types, self.case.result, self.body, (self.terms[0].shape[1],))

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The terms of each result: f64 [results, terms]."""
        terms = [FORMATS[t].decode(x) for t, x in zip(self.case.operands, self.terms, strict=True)]
        with np.errstate(all="ignore"):
            return terms[0] if len(terms) == 1 else terms[0] * terms[1]

    @functools.cached_property
    def exact(self) -> Expected:
        """The exact sums, or products, rounded once."""
        form = exact_sums if self.body == "add" else exact_products
        with np.errstate(all="ignore"):
            return Expected(*encode(FORMATS[self.case.result], form(self.values)))

    @functools.cached_property
    def may_overflow(self) -> np.ndarray:
        """Tests which sums overflow in some order, in a type as narrow as the operands' or the result's."""
        most = min(FORMATS[t].max for t in (*self.case.operands, self.case.result))
        with np.errstate(all="ignore"):
            sizes = np.nansum(np.abs(self.values), axis=1)
        return (~(sizes <= most / 2) | ~np.isfinite(self.values).all(axis=1)) & (self.body == "add")

    def rows(self, flat: np.ndarray) -> Rows:
        """The terms of some results."""
        x = self.terms
        return Rows(self.values[flat], (lambda: (x[0][flat], x[1][flat])) if self.case.is_product else None)

    @functools.cached_property
    def terms(self) -> list[np.ndarray]:
        """The codes that contribute to each result: [results, terms], for both operands if there are two."""
        match self.case.op:
            case "reduce":
                return [self.arrays[0]]
            case "cumulative":
                return [_prefixes(self.arrays[0], FORMATS[self.case.operands[0]], self.body)]
            case "dot_general":
                x, y = (a.reshape(-1, *a.shape[-2:]) for a in self.arrays)
                rows = np.repeat(x, y.shape[2], axis=1), np.tile(y.transpose(0, 2, 1), (1, x.shape[1], 1))
                return [r.reshape(-1, x.shape[2]) for r in rows]
        x, y = self.arrays
        window = y.shape[0]
        places = [x[:, i : i + window].reshape(x.shape[0], -1) for i in range(x.shape[1] - window + 1)]
        rows = np.stack(places, axis=1).reshape(-1, window * x.shape[2])
        columns = y.reshape(-1, y.shape[2]).T
        return [np.repeat(rows, len(columns), axis=0), np.tile(columns, (len(rows), 1))]

    def with_nan_first(self, got: np.ndarray) -> Expected:
        """The right results of a sort, with a NaN without sign first in the rows where the given result has it
        first."""
        fmt, right = FORMATS[self.case.operands[0]], self.expected
        if fmt.nan != "sign":
            return right
        first = in_total_order(fmt, self.arrays[0], nan_first=True)
        other = (right.codes != first.codes).reshape(self.arrays[0].shape)
        at_front = (fmt.is_nan(got.reshape(other.shape)[:, :1]) & other.any(axis=1, keepdims=True)) & other
        flat = at_front.ravel()
        as_given = flat & (got == first.codes)
        return Expected(
            np.where(flat & ~as_given, first.codes, right.codes),
            np.where(as_given, np.uint8(NAN_ORDER), right.left_open),
        )

    @functools.cached_property
    def expected(self) -> Expected:
        """The right results of cases with only one: extremes and sorts."""
        fmt = FORMATS[self.case.operands[0]]
        if self.case.op == "sort":
            return in_total_order(fmt, self.arrays[0])
        total = self.terms[0][:, 0]
        left_open = np.zeros(len(total), np.uint8)
        for i in range(1, self.terms[0].shape[1]):
            x, y = fmt.decode(total), fmt.decode(self.terms[0][:, i])
            unlike = (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
            left_open = np.where(unlike, np.uint8(ZEROS), np.where(y == total, left_open, left_open))
            total = evaluate(self.body, fmt, x, y)[0]
        return Expected(total, np.where(fmt.decode(total) == 0, left_open, 0).astype(np.uint8))


def in_total_order(fmt: Format, codes: np.ndarray, nan_first: bool = False) -> Expected:
    """Rows of codes sorted in the total order; the signs of zeros are open."""
    order = np.argsort(total_order(fmt, codes, nan_first), axis=1, kind="stable")
    found = np.take_along_axis(codes, order, axis=1)
    # Numbers that compare equal: their order is open without a total order.
    zeros = (fmt.decode(codes) == 0) & ((codes & fmt.sign_bit) != 0)
    either = zeros.any(axis=1, keepdims=True) & (fmt.decode(found) == 0)
    return Expected(found.ravel(), np.where(either, np.uint8(ZEROS), np.uint8(0)).ravel())


def _prefixes(rows: np.ndarray, fmt: Format, body: str) -> np.ndarray:
    """The terms of each cumulative result; later terms are neutral."""
    n, k = rows.shape
    found = np.full((n, k, k), start_code(fmt, body), rows.dtype)
    for i in range(k):
        found[:, i, : i + 1] = rows[:, : i + 1]
    return found.reshape(n * k, k)
