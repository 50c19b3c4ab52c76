"""Finds the record that gives a backend's dots.

Each fact is the value that predicts most of the dots designed for it. What the facts together do not predict is
searched on a sample of all dots, one fact after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ...ops.accumulators.record import EXACT, Accumulator
from . import questions
from .answers import Answers, Session, joined
from .facts import changed, neighbours
from .orders import order
from .structure import Structure, structure

#: Dots that candidates are compared on, and those of one kind among them.
_SAMPLE, _SHARE = 600, 60
#: Dots whose products are below this position are compared first: they are quick.
_NEAR = 66
#: How many of them are compared first.
_HEAT = 100
#: How many records the search begins with, how many of the best it goes on with, and how often with other dots.
_STARTS, _DESCENTS, _ROUNDS = 8, 2, 2
#: A record that misses less than this part of the dots is searched at once.
_NEARLY = 20
#: Bits that cut nothing off, until the cut is looked for.
_WIDE = 45
#: How many predictions, of some hundred dots each, these searches may make.
_EACH_START, _EACH_DESCENT = 3000, 2000
#: Facts that are searched together, as each hides the other's effect.
_TOGETHER = (("bits", "drop", "normalise"), ("keep", "rounding"), ("least", "bits"), ("c", "keep"), ("drop", "join"))
#: Facts that are searched one by one, those of few values first.
_FIELDS = (
    "rounding", "drop", "join", "normalise", "flush", "overflow", "even_odd", "tree", "step", "group", "outer", "take",
    "bits", "keep", "sum_bits", "c_bits", "c_reach", "product_limit", "c", "least",
)  # fmt: skip


#: The facts that are set back to their defaults where that predicts the same dots, in this order.
_SIMPLER = (
    "flush", "overflow", "least", "product_limit", "c_reach", "join", "normalise", "drop", "rounding", "bits",
    "even_odd", "outer", "group", "c", "keep", "take",
)  # fmt: skip
#: Random dots that are asked for.
_RANDOM = ("few", "codes", "normal", "wide", "cancelling")
#: Records that are tried before all others: one exact sum, f32 in order, and the same of rounded products.
_PLAIN = (Accumulator(0, keep=EXACT), Accumulator(), Accumulator(1, tree=True, c="after"))
#: Facts that are searched together, and the kinds of dots that show them.
Group = tuple[Sequence[str], Sequence[str]]
#: Facts that are found on the dots designed for them, in this order.
_JOINING = ("joining", "between", "before", "two sums")
_FACTS: tuple[Group, ...] = (
    (("flush",), ("alone",)),
    (("bits", "drop", "normalise"), ("in a step",)),
    (("keep", "rounding"), ("one sum", "many", "kept", "two sums")),
    (("overflow",), ("overflow",)),
    (("c_bits", "join"), ("before",)),
    (("c_reach",), ("before",)),
    (("c_bits", "join"), ("before",)),
    (("sum_bits", "join"), _JOINING),
    (("bits", "drop"), ("in a step", "joining", "between", "before")),
    (("least",), ("alone", "tiny")),
    (("flush",), ("alone", "tiny")),
    (("keep", "overflow"), ("overflow", "many", "alone", "one sum")),
    (("product_limit",), ("alone", "overflow")),
)
#: For sums whose form keeps fewer bits than their terms do.
_KEPT_FIRST: tuple[Group, ...] = (_FACTS[0], _FACTS[2], *_FACTS[1:])
#: The same once their numbers are nearly known: where the running sum joins may be another place.
_AGAIN: tuple[Group, ...] = (*_FACTS, (("c",), _JOINING), *_FACTS[1:])
#: For sums that join: the bits of the products' sum, before those of the products are looked for.
_SUM_FIRST: tuple[Group, ...] = (
    (("sum_bits", "join"), ("in a step", *_JOINING)),
    *_FACTS,
    (("bits", "drop", "normalise"), ("random codes", "random cancelling")),
)


def find(session: Session) -> tuple[Accumulator, Structure]:
    """Ask a backend for designed and random dots, and return the record that predicts the most."""
    shown = structure(session)
    questions.ask(session, shown.starts[0], shown.scale)
    for kind in _RANDOM:
        session.ask_all([(f"random {kind}", session.designer.random(session.rng, 20, 20, kind))])
    return fit(session, shown.starts, shown.lengths), shown


def fit(session: Session, starts: Sequence[Accumulator], lengths: Sequence[int]) -> Accumulator:
    """Return the record that predicts the most of all answers; the search begins with `starts`."""
    for plain in _PLAIN:
        if session.predicts_all(plain):
            return plain
    search = _Fit(session, lengths)
    if order(session, [a for a in session.answers if a.kind.startswith("random")]):
        return search.near(starts[0])
    return search.simplest(search.fitted(starts))


class _Fit:
    """The search on the answers of a session."""

    def __init__(self, session: Session, lengths: Sequence[int]) -> None:
        self.session, self.lengths = session, lengths
        self.rng, self.answers, self.k = session.rng, session.answers, session.signature.k

    def near(self, start: Accumulator) -> Accumulator:
        """Return a record for sums that have an order that no record expresses: each fact as its own dots show it."""
        self.session.allow(_EACH_START)
        return self._by_facts(start)

    def fitted(self, starts: Sequence[Accumulator]) -> Accumulator:
        """Return the record that predicts the most of all dots."""
        found: list[tuple[int, Accumulator]] = []
        for start in starts[:_STARTS]:
            for first, facts in self._ways(start):
                self.session.allow(_EACH_START)
                record = self._by_facts(first, facts)
                missed = self.session.missed(record)
                if 0 < missed < sum(map(len, self.answers)) // _NEARLY:
                    self.session.allow(_EACH_DESCENT)
                    record = self._descend(record)
                    missed = self.session.missed(record)
                found.append((missed, record))
                if not found[-1][0]:
                    return record
        found.sort(key=lambda f: f[0])
        for least, record in found[:_DESCENTS]:
            for _ in range(_ROUNDS):
                self.session.allow(_EACH_START)
                better = self._by_facts(record, _AGAIN)
                if self.session.missed(better):
                    self.session.allow(_EACH_DESCENT)
                    better = self._descend(better)
                if (missed := self.session.missed(better)) >= least:
                    break
                least, record = missed, better
                if not least:
                    return record
            found.append((least, record))
        return min(found, key=lambda f: f[0])[1]

    def simplest(self, record: Accumulator) -> Accumulator:
        """Return a record that predicts the same dots with more facts at their defaults."""
        missed = self.session.missed(record)
        for field in _SIMPLER:
            default = getattr(Accumulator(), field)
            simpler = changed(record, {field: default})
            if getattr(record, field) != default and simpler is not None and self.session.missed(simpler) <= missed:
                record = simpler
        return record

    def _ways(self, start: Accumulator) -> Iterator[tuple[Accumulator, Sequence[Group]]]:
        """Return records to begin with and the order of facts: what cuts most is found first, and hides the others."""
        if start.c != "joined":
            yield start, _FACTS
            widest = self._widest(start)
            yield widest or start, _KEPT_FIRST
            return
        joined = changed(start, {"sum_bits": _WIDE, "c_bits": _WIDE}) or start
        yield joined, _FACTS
        if widest := self._widest(joined):
            yield widest, _SUM_FIRST

    @staticmethod
    def _widest(record: Accumulator) -> Accumulator | None:
        """Return the record with as many bits as it can have where it has some."""
        if record.bits is None:
            return None
        return next((r for n in range(_WIDE, 0, -1) if (r := changed(record, {"bits": n})) is not None), None)

    def _by_facts(self, record: Accumulator, facts: Sequence[Group] = _FACTS) -> Accumulator:
        """Search each group of facts on the dots that are designed for it."""
        for fields, kinds in facts:
            if fields[0] in ("c_bits", "c_reach", "sum_bits") and record.c != "joined":
                continue
            # The running sum is a term: in a short step it takes the place of one of three products.
            aligned = self._of(("joining",)) if record.c == "aligned" else []
            if record.even_odd and "drop" in fields:
                fields = (*fields, "join")  # even and odd sums are cut as well
            if data := self._of(kinds) or aligned or self._of(("one sum", "two sums")):
                record, _ = self.session.best(self._product(record, fields), data, record)
        return record

    def _of(self, kinds: Sequence[str]) -> list[Answers]:
        chosen = [a for a in self.answers if a.kind in kinds]
        each = max(_SAMPLE // max(len(chosen), 1), 1)
        if not chosen:
            return []
        some = joined([a[self.rng.permutation(len(a))[:each]] for a in chosen])
        order = self.rng.permutation(len(some))
        return [some[order[:_HEAT]], some[order[_HEAT:]]]

    def _descend(self, record: Accumulator) -> Accumulator:
        """Change one fact after the other, and some together, as long as a sample of all dots is predicted better."""
        session, data = self.session, self._sample(record)
        cost = sum(session.cost(record, part) for part in data)
        while cost:
            before = cost
            for field in _FIELDS:
                record, cost = session.best(neighbours(record, field, self.k, self.lengths), data, record)
            if cost < before:
                continue
            for fields in _TOGETHER:
                record, cost = session.best(self._product(record, fields), data, record)
            if cost == before:
                break
        return record

    def _sample(self, record: Accumulator) -> list[Answers]:
        """Return some dots of each kind, such as the record does not predict and others: quick ones first."""
        chosen = []
        for answers in self.answers:
            missed = self.session.misses(record, answers)
            some = [self.rng.permutation(np.flatnonzero(w))[: _SHARE // 2] for w in (missed, ~missed)]
            chosen.append(answers[np.concatenate(some)])
        parts = [[a for a in chosen if a.is_short(_NEAR) is short] for short in (True, False)]
        return [joined(part) for part in parts if part]

    def _product(self, record: Accumulator, fields: Sequence[str]) -> Iterator[Accumulator]:
        """Return the records that differ in some of the fields."""
        if not fields:
            yield record
            return
        for other in itertools.chain([record], neighbours(record, fields[0], self.k, self.lengths)):
            yield from self._product(other, fields[1:])
