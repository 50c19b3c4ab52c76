"""Sequential orders of addition in one type, for backends whose sums no record expresses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.cast import cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES
from ..judging.sums import accumulation
from ..oracle.formats import FORMATS
from .answers import Answers, Session
from .operands import values

_F64, _PLAIN = ELEMENT_TYPES["f64"], Policy()
#: Dots that an order has to reproduce first.
_FEW = 60


def order(session: Session, checks: Sequence[Answers]) -> str:
    """Return the order that predicts all finite random dots, in words, or an empty text."""
    s = session.signature
    elements = [FORMATS[t] for t in dict.fromkeys((s.lhs, s.rhs))]
    precisions = sum(FORMATS[t].mantissa_bits + 1 for t in (s.lhs, s.rhs))
    terms = [_terms(a, s.lhs, s.rhs) for a in checks]
    pairs = [(n, *pair) for n in (_FEW, None) for pair in zip(terms, checks, strict=True)]
    for t in accumulation.types(elements, "add"):
        for held in accumulation.rounded_sums(t, precisions > FORMATS[t.name].mantissa_bits + 1):
            for sequence in accumulation.orders([s.k]):
                total = held.total(sequence)
                if all(_gives(session, total, rows, answers, n) for n, rows, answers in pairs):
                    return f"{held.sentence} in {held.type.name} {sequence.sentence}"
    return ""


def _terms(answers: Answers, lhs: str, rhs: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values(answers.dots.x, lhs) * values(answers.dots.y, rhs)


def _gives(session: Session, total: accumulation.Sum, rows: np.ndarray, answers: Answers, n: int | None) -> bool:
    result = ELEMENT_TYPES[session.signature.result]
    with np.errstate(all="ignore"):
        sums = cast(np.ascontiguousarray(total(rows[:n])), _F64, result, _PLAIN)
    given, got = values(codes_of(sums, result.format), result.name), values(answers.got[:n], result.name)
    return bool(((given == got) | (np.isnan(given) & np.isnan(got))).all())
