"""Sequential orders of addition in one type, for backends whose sums no record expresses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..judging.equality import equal_codes
from ..judging.sums.explain import Observation, explain
from ..judging.sums.hypotheses import Rows, SumQuery, in_types
from .answers import Answers, Session
from .operands import values


def order(session: Session, checks: Sequence[Answers]) -> str:
    """Return the order that predicts all random dots, in words, or an empty text."""
    s = session.signature
    query = SumQuery((s.lhs, s.rhs), s.result, "add", (s.k,))
    fit = explain([_observe(query, answers) for answers in checks], in_types(query)).fit
    return fit.sentence if fit else ""


def _observe(query: SumQuery, answers: Answers) -> Observation:
    x, y, got = answers.dots.x, answers.dots.y, answers.got
    lhs, rhs = query.operands

    def rows(flat: np.ndarray) -> Rows:
        with np.errstate(all="ignore"):
            return Rows(values(x[flat], lhs) * values(y[flat], rhs), lambda: (x[flat], y[flat]))

    def agrees(flat: np.ndarray, codes: np.ndarray, _: np.ndarray) -> np.ndarray:
        zeros = (values(codes, query.result) == 0) & (values(got[flat], query.result) == 0)
        return equal_codes(query.result, got[flat], codes) | zeros

    every = np.arange(len(got))
    return Observation("", query, rows, agrees, lambda flat: got[flat], every, every[:0])
