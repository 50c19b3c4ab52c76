"""The differences between two runs: improvements and regressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...errors import printable
from ..result import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED, CaseResult, Report

#: From bad to good. UNSUPPORTED is neither a fault nor a result.
_ORDER = {CRASH: 0, FAIL: 1, UNSUPPORTED: 2, ACCURACY: 3, DIVERGENT: 4, PASS: 4}


@dataclasses.dataclass(frozen=True)
class Difference:
    """One case on which two runs differ; None if a run does not have it."""

    kind: str  #: better, worse, changed, new, gone
    before: CaseResult | None
    after: CaseResult | None

    @property
    def is_bad(self) -> bool:
        """Whether it got worse, or is new and fails unexpectedly."""
        fails = self.after is not None and self.after.verdict in (FAIL, CRASH) and not self.after.is_expected
        return self.kind == "worse" or (self.kind == "new" and fails)

    @property
    def case(self) -> CaseResult:
        """The case after the change, or before if it is gone."""
        case = self.after or self.before
        assert case is not None
        return case

    def __str__(self) -> str:
        words = [_words(c) for c in (self.before, self.after) if c is not None]
        return printable(f"{self.kind:8}{self.case.signature} {self.case.form}: {' -> '.join(words)}")


def differences(before: Report, after: Report) -> Iterator[Difference]:
    """The cases that differ between two runs, in the order of the runs."""
    old = {c.key: c for c in before.cases}
    new = {c.key: c for c in after.cases}
    for key in dict.fromkeys([*old, *new]):
        a, b = old.get(key), new.get(key)
        if a is None or b is None:
            yield Difference("gone" if b is None else "new", a, b)
            continue
        step = _goodness(b)[0] - _goodness(a)[0] or _goodness(b)[1] - _goodness(a)[1]
        if step:
            yield Difference("better" if step > 0 else "worse", a, b)
        elif _facts(a) != _facts(b):
            yield Difference("changed", a, b)


def _goodness(case: CaseResult) -> tuple[int, int]:
    """The verdict, and the negative number of wrong results."""
    return _ORDER[case.verdict], -case.counts.get(FAIL, 0) - case.counts.get(ACCURACY, 0)


def _facts(case: CaseResult) -> tuple[object, ...]:
    return case.verdict, case.counts, case.worst_ulp, case.choices, case.model, case.histogram


def _words(case: CaseResult) -> str:
    wrong = case.counts.get(case.verdict, 0) if case.verdict in (FAIL, ACCURACY) else 0
    return f"{case.verdict} ({wrong:,} of {case.total:,})" if wrong else case.verdict
