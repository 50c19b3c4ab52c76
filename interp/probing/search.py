"""Finds the record that reproduces a backend's dots.

Each fact is the value that predicts most of the dots designed for it. If the facts together miss some dots, the search
continues on a sample of all dots, one fact after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ...ops.accumulators.record import EXACT, Accumulator
from . import questions
from .answers import Answers, Session, join
from .facts import neighbours, with_change
from .orders import order
from .structure import Structure, structure

#: Dots for the comparison of candidates, and the share of one kind among them.
_SAMPLE, _SHARE = 600, 60
#: Dots of a kind that are compared first: dots that a record misses, and others.
_WRONG, _RIGHT = 9, 2
#: The same for dots of many products, which are slow.
_WIDE_DOTS = 2
#: Number of dots in the first batch, and in the second.
_BATCH_SIZES = 80, 120
#: Number of best records with which the search continues, and of rounds with other dots.
_DESCENTS, _ROUNDS = 3, 2
#: Starts that miss at most this factor more dots than the best one are near.
_CLOSE = 2
#: A record that misses less than this share of the dots is searched immediately.
_NEARLY = 200
#: With so few misses all other dots are examined as well.
_FEW = 40
#: Bits that truncate nothing, until the truncation is searched.
_WIDE = 45
#: Limits of the predictions, of some hundred dots each, in these searches.
_EACH_START, _EACH_DESCENT, _EACH_PRODUCT = 10_000, 10_000, 1500
#: Facts that are searched together, as each masks the other's effect.
_TOGETHER = (("bits", "drop", "normalise"), ("keep", "rounding"), ("c", "keep"), ("even_odd", "drop", "join"))
#: The same with thousands of pairs: they are tried once.
_MANY = ("least", "bits")
#: Facts that are searched one by one, those of few values first.
_FIELDS = (
    "rounding", "drop", "join", "normalise", "flush", "overflow", "even_odd", "tree", "step", "group", "outer", "take",
    "bits", "keep", "sum_bits", "c_bits", "c_reach", "product_limit", "c", "least",
)  # fmt: skip


#: Facts that place products.
_STEPS = ("step", "take", "group", "outer", "tree", "even_odd")

#: Facts that are reset to their defaults if that predicts the same dots, in this order.
_SIMPLER = (
    "flush", "overflow", "least", "product_limit", "c_reach", "join", "normalise", "drop", "rounding", "bits",
    "even_odd", "outer", "group", "c", "keep", "take",
)  # fmt: skip
#: Number of random dots.
_RANDOM = ("few", "codes", "normal", "wide", "cancelling")
#: Records that are tried first: one exact sum, f32 in order, and the same with rounded products.
_PLAIN = (Accumulator(0, keep=EXACT), Accumulator(), Accumulator(1, tree=True, c="after"))
#: Facts that are searched together, and the kinds of dots that show them.
Group = tuple[Sequence[str], Sequence[str]]
#: Facts that are found on the dots designed for them, in this order.
_JOINING = ("joining", "between", "before", "two sums")
_KEPT: Group = (("keep", "rounding"), ("one sum", "many", "kept", "two sums"))
_FACTS: tuple[Group, ...] = (
    (("flush",), ("alone",)),
    (("bits", "drop", "normalise"), ("in a step",)),
    _KEPT,
    (("overflow",), ("overflow",)),
    (("c_bits", "join"), ("before",)),
    (("c_reach",), ("before",)),
    (("c_bits", "join"), ("before",)),
    (("sum_bits", "join"), _JOINING),
    (("bits", "drop"), ("in a step", "joining", "between", "before")),
    (("least",), ("alone", "tiny")),
    (("keep", "overflow"), ("overflow", "many", "alone", "one sum")),
    (("flush",), ("alone", "tiny")),
    (("product_limit",), ("alone", "overflow")),
)
#: For sums that join: truncation of the running sum masks its rounding.
_JOINED: tuple[Group, ...] = (*_FACTS[:8], _KEPT, *_FACTS[4:])
#: For sums whose form keeps fewer bits than their terms do.
_KEPT_FIRST: tuple[Group, ...] = (_FACTS[0], _FACTS[2], *_FACTS[1:])
#: The same once their numbers are nearly known: the running sum may join elsewhere.
_AGAIN: tuple[Group, ...] = (*_FACTS, (("c",), _JOINING), *_FACTS[1:])
#: For sums that join: the bits of the products' sum, before those of the products.
_SUM_FIRST: tuple[Group, ...] = (
    (("sum_bits", "join"), ("in a step", *_JOINING)),
    *_JOINED,
    (("bits", "normalise"), ("random codes", "random cancelling")),
    (("drop",), ("random codes", "random cancelling")),
)


def find(session: Session) -> tuple[Accumulator, Structure]:
    """Ask a backend for designed and random dots, and return the record that predicts the most."""
    shown = structure(session)
    questions.ask(session, shown.starts[0], shown.scale)
    for kind in _RANDOM:
        session.ask_all([(f"random {kind}", session.designer.random(session.rng, 20, 20, kind))])
    return fit(session, shown.starts, shown.lengths), shown


def fit(session: Session, starts: Sequence[Accumulator], lengths: Sequence[int]) -> Accumulator:
    """Return the record that predicts most of all answers; the search begins with `starts`."""
    for plain in _PLAIN:
        if session.predicts_all(plain):
            return plain
    search = _Fit(session, lengths)
    if order(session, [a for a in session.answers if a.kind.startswith("random")]):
        return search.near(starts[0])
    return search.simplest(search.fit(starts))


def refit(session: Session, record: Accumulator, shown: Structure) -> Accumulator:
    """Return the record that predicts most of all answers; `record` predicts all but some new ones."""
    search = _Fit(session, shown.lengths)
    mended = search.refine(record)
    if session.count_misses(mended) > _FEW:
        mended = search.fit((record, *shown.starts))
    return search.simplest(mended)


class _Fit:
    """The search on the answers of a session."""

    def __init__(self, session: Session, lengths: Sequence[int]) -> None:
        self.session, self.lengths = session, lengths
        self.rng, self.answers, self.k = session.rng, session.answers, session.signature.k
        self._stuck: set[Accumulator] = set()  #: records that were searched
        self._has_tried_all = False

    def near(self, start: Accumulator) -> Accumulator:
        """Return a record for sums in a sequential order, which few records express: each fact as its dots show it."""
        return self._try(start, _FACTS)[1]

    def fit(self, starts: Sequence[Accumulator]) -> Accumulator:
        """Return the record that predicts most of all dots."""
        paths = [list(self._starts(start)) for start in starts]
        found = []
        for path in paths:
            found.append(self._try(*path[0]))
            if not found[-1][0]:
                return found[-1][1]
        # The other paths of near records go first.
        least = min(missed for missed, _ in found)
        near = [path for (missed, _), path in zip(found, paths, strict=True) if missed <= _CLOSE * least]
        for group in (near, [path for path in paths if path not in near]):
            for path in itertools.chain.from_iterable(path[1:] for path in group):
                found.append(self._try(*path))
                if not found[-1][0]:
                    return found[-1][1]
            # Records with equally many misses are mostly alike: one of them is enough.
            for missed, record in sorted(dict(reversed(found)).items())[:_DESCENTS]:
                found.append(self._improve(missed, record))
                if not found[-1][0]:
                    return found[-1][1]
        return min(found, key=lambda f: f[0])[1]

    def _try(self, start: Accumulator, facts: Sequence[Group]) -> tuple[int, Accumulator]:
        """Search each group of facts; a record that is near the right one is searched immediately."""
        record = self._by_facts(start, facts)
        missed = self.session.count_misses(record)
        if 0 < missed < sum(map(len, self.answers)) // _NEARLY:
            return self._descend_and_count(record)
        return missed, record

    def _improve(self, missed: int, record: Accumulator) -> tuple[int, Accumulator]:
        """Return a record that misses fewer dots than one far from the right one, and their number."""
        for _ in range(_ROUNDS):
            better = self._descend_and_count(self._by_facts(record, _AGAIN))
            if better[0] >= missed:
                break
            missed, record = better
            if not missed:
                break
        return missed, record

    def _descend_and_count(self, record: Accumulator) -> tuple[int, Accumulator]:
        """Return a record that misses fewer dots, found by changes of one fact or two, and their number."""
        if record not in self._stuck:
            self.session.allow(_EACH_DESCENT)
            self._stuck.add(record)
            record = self._descend(record)
        return self.session.count_misses(record), record

    def refine(self, record: Accumulator) -> Accumulator:
        """Return a record that predicts dots that a record misses, if there is one near it."""
        for _ in range(_ROUNDS):
            self.session.allow(_EACH_DESCENT)
            record = self._descend(record)
            if not self.session.count_misses(record):
                break
        return record

    def simplest(self, record: Accumulator) -> Accumulator:
        """Return a record that predicts the same dots with more facts at their defaults."""
        missed = self.session.count_misses(record)
        for field in _SIMPLER:
            default = getattr(Accumulator(), field)
            simpler = with_change(record, {field: default})
            if (
                getattr(record, field) != default
                and simpler is not None
                and self.session.count_misses(simpler) <= missed
            ):
                record = simpler
        return record

    def _starts(self, start: Accumulator) -> Iterator[tuple[Accumulator, Sequence[Group]]]:
        """Return starting records and the order of facts: the strongest truncation is found first, and masks the
        others.
        """
        if start.c != "joined":
            yield start, _FACTS
            widest = self._widest(start)
            yield widest or start, _KEPT_FIRST
            return
        joined = with_change(start, {"sum_bits": _WIDE, "c_bits": _WIDE}) or start
        yield joined, _JOINED
        if widest := self._widest(joined):
            yield widest, _SUM_FIRST

    @staticmethod
    def _widest(record: Accumulator) -> Accumulator | None:
        """Return the record with as many bits as possible in each of its fields."""
        if record.bits is None:
            return None
        return next((r for n in range(_WIDE, 0, -1) if (r := with_change(record, {"bits": n})) is not None), None)

    def _by_facts(self, record: Accumulator, facts: Sequence[Group] = _FACTS) -> Accumulator:
        """Search each group of facts on the dots designed for it."""
        self.session.allow(_EACH_START)
        for fields, kinds in facts:
            if fields[0] in ("c_bits", "c_reach", "sum_bits") and record.c != "joined":
                continue
            # The running sum is a term: in a short step it takes the place of one of three products.
            aligned = self._of(("joining",)) if record.c == "aligned" else []
            if record.even_odd and "drop" in fields:
                fields = (*fields, "join")  # even and odd sums are truncated as well
            if record.step == 1 and record.c != "aligned" and "bits" in fields:
                kinds = (*kinds, "alone")  # truncation affects one product
            if record.c == "after" and "keep" in fields:
                kinds = (*kinds, *_JOINING)  # sums join in the type that is kept
            if data := self._of(kinds) or aligned or self._of(("one sum", "two sums")):
                record, _ = self.session.best(self._product(record, fields), data, record)
        return record

    def _of(self, kinds: Sequence[str]) -> list[Answers]:
        chosen = [a for a in self.answers if a.kind in kinds]
        each = max(_SAMPLE // max(len(chosen), 1), 1)
        if not chosen:
            return []
        some = join([a[self.rng.permutation(len(a))[:each]] for a in chosen])
        order = self.rng.permutation(len(some))
        return _batches(some[order])

    def _descend(self, record: Accumulator) -> Accumulator:
        """Apply the best change repeatedly, while a sample of all dots is predicted better."""
        session, data = self.session, self._sample(record)
        cost = session.count_misses_of(record, data)
        # If only dots of many products distinguish records, steps stay: packed in one way alone such dots are quick.
        is_wide = not data[0].is_few
        fields = [f for f in _FIELDS if not is_wide or f not in _STEPS]
        while cost:
            before = cost
            every = [neighbours(record, field, self.k, self.lengths) for field in fields]
            record, cost = session.best(itertools.chain.from_iterable(every), data, record)
            if cost < before:
                continue
            for together in _TOGETHER[:2] if is_wide else _TOGETHER:
                session.allow(_EACH_PRODUCT)
                record, cost = session.best(self._product(record, together), data, record)
            if cost == before and not is_wide and not self._has_tried_all:
                self._has_tried_all = True
                session.allow(_EACH_DESCENT)
                record, cost = session.best(self._product(record, _MANY), data, record)
            if cost == before:
                break
            session.allow(_EACH_DESCENT)
        return record

    def _sample(self, record: Accumulator) -> list[Answers]:
        """Return some dots of each kind, mispredicted ones and others: first some of few products."""
        first, wide, rest, every = [], [], {True: [], False: []}, 0
        for answers in self.answers:
            missed = self.session.misses(record, answers)
            every += int(missed.sum())
            wrong, right = (self.rng.permutation(np.flatnonzero(w))[: _SHARE // 2] for w in (missed, ~missed))
            rest[answers.is_few].append(answers[np.concatenate([wrong, right])])
            if answers.is_few:
                first.append(answers[np.concatenate([wrong[:_WRONG], right[:_RIGHT]])])
            elif len(wrong):
                wide.append(answers[wrong[:_WIDE_DOTS]])
        parts = [first, rest[True], rest[False]]
        if not self.session.count_misses_of(record, first):  # only dots of many products distinguish records
            parts.insert(0, wide)
        if every < _FEW:  # a record that predicts these has to be right about all others
            parts.append([a for a in self.answers if a.is_few])
        return [join(part) for part in parts if part]

    def _product(self, record: Accumulator, fields: Sequence[str]) -> Iterator[Accumulator]:
        """Return the records that differ in some of the fields."""
        if not fields:
            yield record
            return
        for other in itertools.chain([record], neighbours(record, fields[0], self.k, self.lengths)):
            yield from self._product(other, fields[1:])


def _batches(answers: Answers) -> list[Answers]:
    """Return answers in batches, the first ones small."""
    ends = [0, *itertools.accumulate(_BATCH_SIZES), len(answers)]
    return [answers[i:j] for i, j in itertools.pairwise(ends) if i < min(j, len(answers))]
