"""Finds the ops that cause a difference: each alone, each left out, and a smallest set that explains it together."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .measures import NONE, Amount, Measure, Outcome

T = TypeVar("T")

logger = logging.getLogger("minihlo.blame")


class SpentError(Exception):
    """The evaluations are used up."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One run of the program with a set of ops computed in the bad way."""

    ops: int  #: how many
    total: Amount  #: from the good output to the output of this run
    left: Amount  #: from the output of this run to the bad one


@dataclasses.dataclass(frozen=True)
class Effect:
    """The effect of one op on the output; for ops that were only tried together, their common effect."""

    alone: Amount  #: the difference that it causes with everything else computed in the good way
    without: Amount  #: the difference that remains if it alone is computed in the good way
    moved: Amount  #: the change of the output then
    together: int = 1  #: number of ops tried together

    @property
    def most(self) -> Amount:
        """The larger of its effect alone and of the effect of its absence."""
        return max(self.alone, self.moved)


class Search(Generic[T]):
    """The search over `candidates`, ops in the order of the program, which together give the bad output."""

    def __init__(
        self,
        evaluate: Callable[[frozenset[T]], Outcome],
        candidates: Sequence[T],
        measure: Measure,
        bad: Outcome,
        share: float,
        most: int,
    ) -> None:
        """A set explains the difference if at most `1 - share` of it is left; `most` limits the evaluations."""
        self.candidates, self._evaluate, self._measure, self._bad = list(candidates), evaluate, measure, bad
        self._share, self._most = share, most
        self.total = measure.of(bad)
        self.evaluations: dict[frozenset[T], Evaluation] = {}
        self.is_complete = True  #: each op was tried, and the set is a smallest one

    def evaluation(self, ops: frozenset[T]) -> Evaluation:
        """The evaluation of a set, cached. Raises SpentError."""
        if ops not in self.evaluations:
            if len(self.evaluations) >= self._most:
                raise SpentError
            outcome = self._evaluate(ops)
            made = Evaluation(len(ops), self._measure.of(outcome), self._measure.between(self._bad, outcome))
            self.evaluations[ops] = made
            logger.info("%d: %d ops computed in the bad way: %s", len(self.evaluations), len(ops), made.total)
        return self.evaluations[ops]

    def explains(self, ops: Sequence[T]) -> bool:
        """Whether these ops alone cause the difference, up to the share. Raises SpentError."""
        left = self.evaluation(frozenset(ops)).left
        return left == NONE or (bool(self.total) and left.of(self.total) <= 1 - self._share)

    # -- each op -------------------------------------------------------------------------------------------------------

    def effects(self) -> dict[T, Effect]:
        """The effect of each op. If there are more ops than evaluations, ops without effect are tried in groups."""
        each = 2 * len(self.candidates)
        size = 1 if each <= self._most // 2 else -(-len(self.candidates) // max(1, self._most // 8))
        found: dict[T, Effect] = {}
        waiting = [self.candidates[i : i + size] for i in range(0, len(self.candidates), size)]
        limit = self._most if size == 1 else 3 * self._most // 4  # the rest is for the set
        while waiting:
            # The group of the largest known effect is split next.
            group = max(waiting, key=lambda g: found[g[0]].most.size if g[0] in found else float("inf"))
            waiting.remove(group)
            if len(self.evaluations) + 2 > limit:
                self.is_complete = False
                break
            rest = frozenset(self.candidates) - frozenset(group)
            alone, without = self.evaluation(frozenset(group)), self.evaluation(rest)
            effect = Effect(alone.total, without.total, without.left, len(group))
            found.update(dict.fromkeys(group, effect))
            if len(group) > 1 and effect.most:
                half = len(group) // 2
                waiting += [group[:half], group[half:]]
        return found

    # -- a smallest set ------------------------------------------------------------------------------------------------

    def smallest(self, order: Sequence[T]) -> list[T]:
        """A set that explains the difference, from which no op can be omitted; tried in this order, likely ones first.

        If the evaluations do not suffice, the smallest one found so far.
        """
        if not self.total:
            return []
        found = list(order)
        try:
            for op in order:  # most are known already
                if frozenset([op]) in self.evaluations and self.explains([op]):
                    return [op]
            size = 2
            while size < len(order) and not self.explains(order[:size]):
                size *= 2
            found = list(order[:size])
            return self._reduce(found)
        except SpentError:
            self.is_complete = False
            return self._best or found

    _best: list[T] | None = None

    def _reduce(self, ops: list[T]) -> list[T]:
        """ddmin: halves, quarters and so on alone, and their complements."""
        parts = 2
        while len(ops) > 1:
            self._best = ops
            size = -(-len(ops) // parts)
            chunks = [ops[i : i + size] for i in range(0, len(ops), size)]
            smaller = next((c for c in chunks if self.explains(c)), None)
            if smaller is not None:
                ops, parts = smaller, 2
                continue
            # Unlikely ops come last, and are omitted first.
            rests = ([o for o in ops if o not in chunk] for chunk in reversed(chunks))
            rest = next((r for r in rests if len(chunks) > 2 and self.explains(r)), None)
            if rest is not None:
                ops, parts = rest, max(parts - 1, 2)
            elif size == 1:
                break
            else:
                parts = min(2 * parts, len(ops))
        return ops
