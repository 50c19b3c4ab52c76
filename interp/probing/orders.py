"""Plain orders of addition in a common type, for backends whose sums no record expresses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.engine.cast import cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES
from ..comparison.sums import accumulation
from ..oracle.formats import FORMATS
from .answers import Answers, Session
from .operands import values

_F64, _PLAIN = ELEMENT_TYPES["f64"], Policy()
#: Dots that an order has to give first.
_FEW = 60


def order(session: Session, checks: Sequence[Answers]) -> str:
    """Return the order that predicts all finite random dots, in words, or nothing."""
    s = session.signature
    element = FORMATS[s.lhs]
    precisions = sum(FORMATS[t].mantissa_bits + 1 for t in (s.lhs, s.rhs))
    terms = [_terms(a, s.lhs, s.rhs) for a in checks]
    for t in accumulation.types(element, "add"):
        is_cut = precisions > FORMATS[t.name].mantissa_bits + 1
        for held in accumulation.held(t, is_cut):
            for way in map(held.in_order, accumulation.orders(s.k)):
                if all(
                    _gives(session, way, rows, a, n)
                    for n in (_FEW, None)
                    for rows, a in zip(terms, checks, strict=True)
                ):
                    return way.sentence
    return ""


def _terms(answers: Answers, lhs: str, rhs: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values(answers.dots.x, lhs) * values(answers.dots.y, rhs)


def _gives(session: Session, way: accumulation.Accumulator, rows: np.ndarray, answers: Answers, n: int | None) -> bool:
    result = ELEMENT_TYPES[session.signature.result]
    with np.errstate(all="ignore"):
        sums = cast(np.ascontiguousarray(way.sum(rows[:n])), _F64, result, _PLAIN)
    given, got = values(codes_of(sums, result.format), result.name), values(answers.got[:n], result.name)
    return bool(((given == got) | (np.isnan(given) & np.isnan(got))).all())
