"""Judges recorded results: the tester of a live run, which takes the results of each part from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .repeats import AnyPart, Results
from .result import CaseResult
from .tester import Spec, Tester
from .verdicts.outcome import Settings


class RecordedTester(Tester):
    """A tester that runs nothing."""

    def __init__(self, settings: Settings, takes: str, codes: Callable[[Spec, AnyPart], Any]) -> None:
        """`codes` gives the results of a part of a case, as `Tester.results` does."""
        super().__init__(None, settings)
        self.kind = self.takes = takes
        self._codes = codes
        self._specs: dict[AnyPart, Spec] = {}

    def run(self, specs: Sequence[Spec], beside: Sequence[Spec] = ()) -> list[CaseResult]:
        """See Tester."""
        try:
            return super().run(specs, beside)
        finally:
            self._specs.clear()

    def part(self, spec: Spec) -> AnyPart:
        """See Tester."""
        part = super().part(spec)
        self._specs[part] = spec
        return part

    def results(self, parts: Sequence[AnyPart]) -> Results:
        """The recorded results of each part."""
        return [self._codes(self._specs[part], part) for part in parts]
