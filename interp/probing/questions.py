"""The designed dots asked of a backend: for the steps of its sums, and to distinguish the nearest records.

Dots for the latter are made and compared here; a backend is asked only for those on which the nearest records differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ...ops.accumulators.record import DROPS, Accumulator
from .answers import Session
from .designs import Dots, Product, Scale
from .facts import with_change
from .predict import predict_by, steps
from .report import SENTENCES, alternatives

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


#: Number of dots made, and of dots asked for each record.
_MADE, _ASKED = 10_000, 12
#: Number of answers that a record has to reproduce to be a rival.
_ANSWERS = 600
#: The share of dots in which two small products have opposite signs.
_PAIRED = 0.25
#: Products in a dot, and steps that contain them.
_MOST_PRODUCTS, _MOST_STEPS = 7, 4


def ask_rivals(session: Session, record: Accumulator) -> bool:
    """Ask for dots on which the records nearest to one differ from it; return whether there are any."""
    s = session.signature
    rivals = _rivals(session, record)
    dots = session.designer.dots(_scatter(session, record))
    if not rivals or not len(dots):
        return False
    expected = predict_by((record, *rivals), dots, s)
    nan = session.is_nan(expected)
    differs = (expected[1:] != expected[0]) & ~(nan[1:] & nan[0])
    chosen = np.unique(np.concatenate([np.flatnonzero(d)[:_ASKED] for d in differs]))
    if not len(chosen):
        return False
    session.ask("rivals", dots[chosen])
    return True


def _rivals(session: Session, record: Accumulator) -> list[Accumulator]:
    """The records next to one that reproduce many of the answers too."""
    near = [other for field in SENTENCES for _, other in alternatives(record, field, session.signature.k)]
    near += [
        other
        for even_odd, drop, join in itertools.product((False, True), DROPS, DROPS)
        if (other := with_change(record, {"even_odd": even_odd, "drop": drop, "join": join})) is not None
    ]
    near = [r for r in dict.fromkeys(near) if r != record]
    some = session.some_of_few(_ANSWERS)
    return [r for r, n in zip(near, session.misses_of(near, some).sum(1).tolist(), strict=True) if not n]


def _scatter(session: Session, record: Accumulator) -> Iterator[list[Product]]:
    """Products in one or several steps, of random exponents, many as far apart as the record has bits.

    In some dots a small product occurs a second time, with the other sign: each of the two is truncated toward minus
    infinity, and they would cancel if they were added first.
    """
    rng, designer = session.rng, session.designer
    where = steps(record, session.signature.k)
    low, high = designer.operands.least, designer.operands.high
    bits = [record.bits, record.sum_bits, record.c_bits, record.c_reach, record.form.mantissa_bits]
    critical = [0, *(b + d for b in bits if b is not None and b <= high - low for d in (-1, 0, 1, 2))]
    significands = [1.0, designer.half, designer.fine, designer.wide, designer.full]
    for _ in range(_MADE):
        first = int(rng.integers(len(where)))
        count = int(rng.integers(2, _MOST_STEPS)) if rng.random() < 0.5 else 1
        near = [p for s in where[first : first + count] for p in s]
        places = rng.permutation(near)[: int(rng.integers(2, _MOST_PRODUCTS))].tolist()
        top = int(rng.integers((low + high) // 2, high + 1))
        below = rng.integers(0, high - low + 1, len(places))
        is_critical = rng.random(len(places)) < 0.5
        below[is_critical] = rng.choice(critical, int(is_critical.sum()))
        below[0] = 0
        signs, kinds = rng.choice([-1.0, 1.0], len(places)), rng.integers(0, len(significands), len(places))
        if len(places) > 2 and rng.random() < _PAIRED:
            below[-1], signs[-1], kinds[-1] = below[-2], -signs[-2], kinds[-2]
        row = [
            (at, top - int(b), float(sign) * significands[n])
            for at, b, sign, n in zip(places, below, signs, kinds, strict=True)
            if top - b >= low
        ]
        if len(row) > 1:
            yield row
