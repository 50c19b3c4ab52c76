"""Dots that demonstrate a fact: the backend's result, and the results under other values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...ops.accumulators.record import Accumulator
from . import format_text as words
from .answers import Answers, Session
from .designs import Dots
from .dots import Signature
from .predict import predict
from .sentences import alternatives

#: Number of lines for a fact.
_LINES = 2


def evidence(session: Session, answers: Answers, record: Accumulator, field: str) -> Iterator[str]:
    """Return lines that demonstrate the value of a field: each refutes other values by the first dot that they miss.

    `answers` has those of few products first.
    """
    s = session.signature
    right = ~session.misses(record, answers)
    count, unseen = 0, []
    for name, other in alternatives(record, field, s.k):
        expected = predict(other, answers.dots, s)
        differs = right & (expected != answers.got) & ~(session.is_nan(expected) & session.is_nan(answers.got))
        if not differs.any():
            unseen.append(name)
            continue
        if count < _LINES:
            i = int(np.argmax(differs))
            count += 1
            got, other = format_result(answers.got[i], s), format_result(expected[i], s)
            yield f"{line(answers.dots, i, s)} => {got} ({other} with {name})"
    if unseen:
        yield f"these dots do not distinguish it from {', '.join(unseen)}"


def line(dots: Dots, i: int, s: Signature) -> str:
    """Return the products of a dot as text."""
    return words.dot(dots.x[i], dots.y[i], s.lhs, s.rhs)


def format_result(code: np.ndarray | int, s: Signature) -> str:
    """Return a result as text."""
    return words.number(code, s.result)
