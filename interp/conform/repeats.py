"""Runs parts again: compares results between runs, and with the elements in another order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import BackendError
from ..judging.diagnosis import common, is_of_places
from ..judging.equality import equal_codes
from ..judging.record import NONE, SAME, WRONG, Diagnosis
from ..judging.table import cause
from .block_parts import BlockPart
from .cases.forms import LAYOUTS
from .elementwise import Part
from .rows import RowPart
from .verdicts.judge import Judgement

if TYPE_CHECKING:
    from .tester import Tester

AnyPart = Part | RowPart | BlockPart
Results = list[np.ndarray | BackendError]

#: The cause of failures that occur in some runs only.
INTERMITTENT = "intermittent"
#: Number of runs from which the share of wrong results is estimated.
RUNS = 4
#: If failures are not random, more than this share of all elements that ever fail do so in every run.
_ALWAYS = 0.9


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The evidence from further runs of a failing part."""

    #: The wrong elements in each of some runs; a single run if all runs agree.
    runs: tuple[np.ndarray, ...]
    #: The right elements in the first run; the others are left open.
    right: np.ndarray
    #: Another order of the elements, and the wrong ones then; None if that gives no evidence.
    order: np.ndarray | None = None
    moved: np.ndarray | None = None

    @property
    def is_intermittent(self) -> bool:
        """Whether runs differ."""
        return len(self.runs) > 1

    @property
    def is_of_places(self) -> bool:
        """Whether elements fail for their positions, with any operands."""
        if self.is_intermittent or self.order is None or self.moved is None or not self.moved.any():
            return False
        return is_of_places(self.runs[0], self.moved, self.order)

    @property
    def always(self) -> np.ndarray | None:
        """The elements that fail in every run, if they are most of those that ever fail."""
        every = np.logical_and.reduce(self.runs)
        ever = np.logical_or.reduce(self.runs)
        return every if every.sum() > _ALWAYS * max(1, ever.sum()) else None

    def diagnosis(self) -> Diagnosis:
        """The diagnosis of failures that are intermittent or depend on positions; empty if they depend on operands."""
        if self.is_intermittent:
            return intermittent([int(r.sum()) for r in self.runs], self.runs[0].size)
        if self.is_of_places and self.moved is not None:
            return common(self.runs[0] | self.moved, self.right & ~self.moved) or cause("places")
        return NONE


def intermittent(wrong: Sequence[int], size: int) -> Diagnosis:
    """The diagnosis of wrong results, of `size` each, in runs that should be alike."""
    count, runs = sum(n > 0 for n in wrong), len(wrong)
    share = f"{sum(wrong) / (size * count):.1%}"
    if count == runs:
        return cause(INTERMITTENT, runs=f"{runs} runs", share=share, rest=", not always the same ones")
    return cause(INTERMITTENT, runs=f"{count} of {runs} runs", share=share, rest="")


def runs_of(
    tester: Tester, parts: Sequence[AnyPart], first: Results, wanted: Sequence[int], others: Mapping[int, np.ndarray]
) -> dict[int, Results]:
    """The results of some parts in further runs of the same programs: one run if the second agrees, else RUNS.

    `others` are results of some parts that are known to differ from the first.
    """
    runs = [first]
    alone = tester.results([parts[i] for i in wanted])
    # A difference without the other parts may occur in every run of all of them.
    if others or any(not alike(parts[i], first[i], r) for i, r in zip(wanted, alone, strict=True)):
        runs.append(tester.results(parts))
        if others or any(not alike(parts[i], first[i], runs[1][i]) for i in wanted):
            runs += [tester.results(parts) for _ in range(RUNS - 2)]
    found: dict[int, Results] = {}
    for i in wanted:
        given, *rest = (r[i] for r in runs)
        found[i] = _unlike(parts[i], [given, *([others[i]] if i in others else rest[:1]), *rest[1:]])
    return found


def _unlike(part: AnyPart, runs: Results) -> Results:
    there: Results = [r for r in runs if not isinstance(r, BackendError)]
    return there if any(not alike(part, there[0], r) for r in there) else there[:1]


def alike(part: AnyPart, a: np.ndarray | BackendError, b: np.ndarray | BackendError) -> bool:
    """Whether two runs give the same codes, or NaN at the same places; or both none."""
    if isinstance(a, BackendError) or isinstance(b, BackendError):
        return isinstance(a, BackendError) and isinstance(b, BackendError)
    return bool(equal_codes(part.result_type, a, b).all())


def evidence(tester: Tester, parts: Sequence[Part], runs: Sequence[Results]) -> list[Evidence]:
    """The evidence from runs of parts, and from one run with their elements in another order."""
    random = np.random.default_rng(0)
    has_order = [p.form not in ("scalar", "broadcast", *LAYOUTS) and p.size > 1 for p in parts]
    orders = [random.permutation(p.size) if has else None for p, has in zip(parts, has_order, strict=True)]
    tried = zip(parts, orders, runs, strict=True)
    moving = [(p.restrict(o), o) for p, o, results in tried if o is not None and len(results) == 1]
    moved = iter(tester.results([p for p, _ in moving]) if moving else [])
    all_evidence = []
    for part, order, results in zip(parts, orders, runs, strict=True):
        judged = [_judge(tester, part, r) for r in results]
        wrong = tuple(j.verdicts == WRONG for j in judged)
        elsewhere = None
        if order is not None and len(results) == 1:
            result = next(moved)
            if not isinstance(result, BackendError):
                elsewhere = _judge(tester, part.restrict(order), result).verdicts == WRONG
        all_evidence.append(Evidence(wrong, judged[0].verdicts == SAME, order, elsewhere))
    return all_evidence


def _judge(tester: Tester, part: Part, result: Any) -> Judgement:
    return part.judge(result, tester.settings.ulp, tester.kind == "operations")[0]
