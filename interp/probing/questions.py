"""The designed dots asked of a backend once the steps of its sums are known."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.accumulators.record import Accumulator
from .answers import Session
from .designs import Dots, Scale
from .predict import steps

#: Positions of equal products, at most.
_EQUAL = 24
#: Dots of infinities and NaN.
_SPECIAL = 300


def ask(session: Session, record: Accumulator, scale: Scale) -> None:
    """Ask for the dots designed for the steps of a record."""
    d, k = session.designer, session.signature.k
    where = steps(record, k)
    per_group = max(record.group // max(record.step, 1), 1)
    per_chunk = -(-(record.outer or k) // max(record.step or k, 1))
    far = dict.fromkeys((1, per_group, per_chunk))
    kinds: list[tuple[str, Dots]] = []

    def sweep(kind: str, large: Sequence[tuple[int, int, float]], small: tuple[int, int]) -> None:
        try:
            at = [(where[s][i], sign) for s, i, sign in large]
            kinds.append((kind, d.sweep(scale, at, where[small[0]][small[1]])))
        except IndexError:
            return  # there are no such steps

    for i, j, at in ((0, 1, 2), (0, 2, 1), (0, 2, 4), (1, 3, 0), (0, 1, -1)):
        sweep("in a step", [(0, i, 1), (0, j, -1)], (0, at))
    sweep("one sum", [(0, 0, 1)], (0, 1))
    sweep("one sum", [(0, 0, 1)], (0, -1))
    for n in far:
        sweep("kept", [(0, 0, 1), (n, 0, -1)], (0, 1))
        sweep("joining", [(0, 0, 1), (n, 0, -1)], (n, 1))
        sweep("between", [(0, 0, 1), (2 * n, 0, -1)], (n, 0))
        sweep("before", [(n, 0, 1), (n, 1, -1)], (0, 0))
        sweep("before", [(n, 0, 1), (2 * n, 0, -1)], (0, 0))
        sweep("two sums", [(n, 0, 1)], (0, 0))
        sweep("two sums", [(0, 0, 1)], (n, 0))
    last = [p for p in where[0] if p != where[0][-1]]
    kinds.append(("many", d.many(last[:_EQUAL], scale, where[0][-1])))
    kinds.append(("many", d.many([p for s in where[: per_group + 1] for p in s][:_EQUAL], scale, None)))
    if len(where) > 1:
        kinds.append(("many", d.many(where[0][:_EQUAL], scale, where[1][0])))
    kinds.append(("alone", d.extremes()))
    second = [where[n][0] for n in far if n < len(where)] + where[0][1:2]
    kinds += [("tiny", d.tiny([where[0][0], p])) for p in second]
    kinds.append(("overflow", d.overflow(where)))
    kinds.append(("special", d.special(session.rng, _SPECIAL, min(k, 6))))
    session.ask_all(kinds)
