"""Dots with the results of a backend, and the comparison of records with them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...ops.accumulators.record import Accumulator
from ...ops.types import ELEMENT_TYPES
from .designs import Designer, Dots
from .dots import Asker
from .operands import values
from .predict import predict_by

#: Number of dots of each design in a call: they contain several of every exponent.
_EACH = 300
#: Dots of up to this many products are few.
_FEW = 8
#: Number of records compared at once, and of those compared on the second part of the data, the third and so on.
_BLOCK, _NEAR = 1024, (100, 24, 12, 6)


@dataclasses.dataclass
class Answers:
    """Dots of one kind with the results of the backend."""

    kind: str
    dots: Dots
    got: np.ndarray

    def __getitem__(self, index: Any) -> Answers:
        return Answers(self.kind, self.dots[index], self.got[index])

    def __len__(self) -> int:
        return len(self.got)

    @functools.cached_property
    def is_few(self) -> bool:
        """Whether all dots have few products: they are predicted quickly."""
        return bool(((self.dots.x != 0) & (self.dots.y != 0)).sum(1).max(initial=0) <= _FEW)


class Session:
    """The dots asked of a backend, with its answers."""

    def __init__(self, asker: Asker, rng: np.random.Generator) -> None:
        self.asker, self.rng = asker, rng
        self.signature = asker.signature
        self.designer = Designer(self.signature)
        self.answers: list[Answers] = []
        self._together: list[Answers] = []
        self._left = 0  #: predictions that a search may still make
        fmt = ELEMENT_TYPES[self.signature.result].format
        codes = np.arange(1 << (8 * fmt.code_dtype.itemsize), dtype=np.int64) if fmt.bits <= 16 else np.zeros(0, int)
        self._nans = np.isnan(values(codes.astype(fmt.code_dtype), fmt.name))

    def ask(self, kind: str, dots: Dots) -> Answers:
        """Ask the backend and keep its answers."""
        made = Answers(kind, dots, self.asker.ask(dots.x, dots.y))
        self.answers.append(made)
        return made

    def ask_all(self, kinds: Sequence[tuple[str, Dots]]) -> None:
        """Ask for several kinds of dots at once."""
        kinds = [(kind, dots[self.rng.permutation(len(dots))[:_EACH]]) for kind, dots in kinds if len(dots)]
        if not kinds:
            return
        together = Dots.join([dots for _, dots in kinds])
        got = self.asker.ask(together.x, together.y)
        first = 0
        for kind, dots in kinds:
            self.answers.append(Answers(kind, dots, got[first : first + len(dots)]))
            first += len(dots)

    def misses(self, record: Accumulator, answers: Answers) -> np.ndarray:
        """Return which dots a record does not predict. All NaN are equal."""
        return self.misses_of((record,), answers)[0]

    def misses_of(self, records: Sequence[Accumulator], answers: Answers) -> np.ndarray:
        """Return which dots each record does not predict, [records, dots]."""
        self.asker.count_compared(len(records))
        expected = predict_by(records, answers.dots, self.signature)
        return (expected != answers.got) & ~(self.is_nan(expected) & self.is_nan(answers.got))

    def is_nan(self, codes: np.ndarray) -> np.ndarray:
        """Return which results are NaN."""
        return self._nans[codes] if len(self._nans) else np.isnan(values(codes, self.signature.result))

    def cost(self, record: Accumulator, answers: Answers) -> int:
        """Return how many dots a record does not predict."""
        return int(self.misses(record, answers).sum())

    def allow(self, predictions: int) -> None:
        """Allow this many predictions in the next search."""
        self._left = predictions

    def best(
        self, records: Iterable[Accumulator], data: Sequence[Answers], first: Accumulator
    ) -> tuple[Accumulator, int]:
        """Return the record with the fewest misses, the earliest of several; `first` before all.

        All records are compared on the first part of the data, and those with the fewest misses on each further part.
        """
        best, least = first, sum(self.cost(first, part) for part in data)
        records = iter(records)
        while least and self._left > 0 and (block := list(itertools.islice(records, min(_BLOCK, self._left)))):
            self._left -= len(block)
            costs = np.zeros(len(block), int)
            at = np.arange(len(block))
            for part, most in itertools.zip_longest(data, _NEAR[: len(data) - 1]):
                costs[at] += self.misses_of([block[i] for i in at], part).sum(1)
                at = at[costs[at] < least]
                if not len(at):
                    break
                at = at[np.argsort(costs[at], kind="stable")[:most]]
            if len(at) and costs[at[0]] < least:
                least, best = int(costs[at[0]]), block[at[0]]
        return best, least

    def predicts_all(self, record: Accumulator) -> bool:
        """Return whether a record predicts all dots."""
        return not any(self.cost(record, part) for part in self._every())

    def count_misses(self, record: Accumulator) -> int:
        """Return how many dots of all a record does not predict."""
        return self.count_misses_of(record, self._every())

    def count_misses_of(self, record: Accumulator, parts: Sequence[Answers]) -> int:
        """Return how many dots of some answers a record does not predict."""
        return sum(self.cost(record, part) for part in parts)

    def some_of_few(self, count: int) -> Answers:
        """Return random answers of few products."""
        few = join([a for a in self.answers if a.is_few])
        return few[self.rng.permutation(len(few))[:count]]

    def _every(self) -> list[Answers]:
        """All answers, those of few products and others: each part is predicted at once."""
        if sum(map(len, self._together)) != sum(map(len, self.answers)):
            few, others = [], []
            for a in self.answers:
                (few if a.is_few else others).append(a)
            self._together = [join(part) for part in (few, others) if part]
        return self._together


def join(parts: Sequence[Answers]) -> Answers:
    """Concatenate answers of several kinds."""
    return Answers("", Dots.join([p.dots for p in parts]), np.concatenate([p.got for p in parts]))


def simplest(parts: Sequence[Answers], most: int) -> Answers:
    """Return the answers whose dots have the fewest products."""
    every = join(parts)
    count = ((every.dots.x != 0) & (every.dots.y != 0)).sum(1)
    return every[np.argsort(count, kind="stable")[:most]]
