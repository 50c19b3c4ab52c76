"""Judges results: the tester of a live run, with a backend that replays recorded results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...backends import BackendError
from ...backends.operation import Operation
from ...errors import InputError
from ..cases.cases import select_cases
from ..repeats import AnyPart
from ..repeats import Results as RunResults
from ..run import Choice, Done, Task
from ..tester import Spec, Tester
from ..verdicts.outcome import Settings
from .calls import plain
from .manifest import Entry, Manifest
from .results import Results
from .stores import digest


def select_tasks(tasks: Sequence[Task], choice: Choice) -> list[Task]:
    """The tasks that a further choice selects."""

    def fits(spec: Spec) -> bool:
        return bool(select_cases([spec.case], choice.ops, choice.formats, choice.case)) and choice.form in (
            "",
            spec.form,
        )

    left = [Task(tuple(s for s in t.specs if fits(s))) for t in tasks]
    return [t for t in left if t.specs]


def wanted_entries(manifest: Manifest, tasks: Sequence[Task]) -> list[Entry]:
    """The calls of tasks. Raises InputError if the vectors are not those of this version of minihlo."""
    by_part: dict[tuple[str, str, int], list[Entry]] = {}
    for entry in manifest.cases:
        by_part.setdefault(entry.key[:3], []).append(entry)
    found: list[Entry] = []
    for spec in (s for t in tasks for s in t.specs):
        key = spec.case.signature, spec.form, spec.part
        if key not in by_part:
            raise InputError(f"the vectors lack {'.'.join(key[:2])}: expected vectors of this version of minihlo")
        found += by_part[key]
    return found


class Replay:
    """Stands in for a backend of operations: returns the recorded results of the calls of a part, one by one."""

    takes, name, seconds = "operations", "recorded", 0.0

    def __init__(self, manifest: Manifest, results: Results) -> None:
        self._entries = {e.key: e for e in manifest.cases}
        self._results = results
        self._spec: Spec | None = None
        self._next = 0

    def start(self, spec: Spec | None) -> None:
        """Selects the part whose calls come next; None if nothing was recorded."""
        self._spec, self._next = spec, 0

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The recorded codes. Raises BackendError if there are none."""
        if self._spec is None:
            raise BackendError("refused", "no result was recorded")
        spec = self._spec
        entry = self._entries.get((spec.case.signature, spec.form, spec.part, self._next))
        if (
            entry is None
            or entry.op != operation.op
            or [digest(plain(x)) for x in arrays] != [t.codes for t in entry.operands]
        ):
            raise InputError(
                f"expected the operands of this version of minihlo for {spec.case.signature} {spec.form}, got others"
            )
        self._next += 1
        return self._results.codes(entry).reshape(entry.result.shape)


class RecordedTester(Tester):
    """A tester of recorded results, which runs nothing."""

    def __init__(self, replay: Replay, settings: Settings) -> None:
        super().__init__(replay, settings)
        self._replay = replay
        self._specs: dict[AnyPart, Spec] = {}

    def part(self, spec: Spec) -> AnyPart:
        """See Tester."""
        part = super().part(spec)
        self._specs[part] = spec
        return part

    def results(self, parts: Sequence[AnyPart]) -> RunResults:
        """See Tester."""
        found: RunResults = []
        for part in parts:
            self._replay.start(self._specs.get(part))
            found += super().results([part])
        return found

    def forget(self) -> None:
        """Drops the cached data of the parts so far."""
        self._specs.clear()


def recorded_workers(manifest: Manifest, results: Results):
    """The workers of a run that judges results, one task after another."""

    def workers(settings: Settings, work: Sequence[Task]) -> Iterator[Done]:
        tester = RecordedTester(Replay(manifest, results), settings)
        for place, task in enumerate(work):
            yield place, tester.run(task.specs)
            tester.forget()

    return workers
