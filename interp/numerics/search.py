"""Finds the ops that cause a difference: each alone, each left out, and a smallest set that explains it together."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ..judging.minimal import minimal_subset
from .measures import NONE, Amount, Measure, Outcome

T = TypeVar("T")

logger = logging.getLogger("minihlo.blame")


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

    def numbers(self, total: Amount) -> dict[str, Any]:
        """The fields of a BlamedOp that follow; `total` is the whole difference."""
        share = self.most.of(total) if total else None
        return {
            "alone": self.alone, "without": self.without, "contribution": self.most, "share": share,
            "together": self.together,
        }  # fmt: skip


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
        """The evaluation of a set, cached."""
        if ops not in self.evaluations:
            outcome = self._evaluate(ops)
            made = Evaluation(len(ops), self._measure.of(outcome), self._measure.between(self._bad, outcome))
            self.evaluations[ops] = made
            logger.info("%d: %d ops computed in the bad way: %s", len(self.evaluations), len(ops), made.total)
        return self.evaluations[ops]

    def explains(self, ops: Sequence[T]) -> bool:
        """Whether these ops alone cause the difference, up to the share. If no evaluation is left, it is not known."""
        chosen = frozenset(ops)
        if chosen not in self.evaluations and len(self.evaluations) >= self._most:
            self.is_complete = False
            return False
        left = self.evaluation(chosen).left
        return left == NONE or (bool(self.total) and left.of(self.total) <= 1 - self._share)

    def explained(self, ops: Sequence[T]) -> float:
        """The share of the difference that ops cause; 0 if it is not known. All of them give the bad output itself."""
        if not ops or len(ops) == len(self.candidates):
            return float(bool(ops))
        known = self.evaluations.get(frozenset(ops))
        return 1 - known.left.of(self.total) if known else 0.0

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
        for op in order:  # most are known already
            if frozenset([op]) in self.evaluations and self.explains([op]):
                return [op]
        size = 2
        while size < len(order) and not self.explains(order[:size]):
            size *= 2
        return minimal_subset(order[:size], self.explains)
