"""Judges the codes of a submission again, as if the backend gave them now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...backends import BackendError
from ...oracle.formats import code_dtype
from .. import run
from ..repeats import AnyPart, Results
from ..result import Report, StoredCodes, hash_of
from ..run import Choice, Task
from ..support import outputs
from ..tester import Spec, Tester, operands_of
from ..verdicts.outcome import Settings

#: The signature, the form and the part.
Key = tuple[str, str, str]


class SubmissionTester(Tester):
    """Judges given codes and runs nothing."""

    reruns = False

    def __init__(self, settings: Settings, takes: str, codes: Mapping[Key, tuple[StoredCodes, bytes]]) -> None:
        super().__init__(None, settings)
        self.kind = takes
        self.problems: dict[Key, str] = {}  #: why codes cannot be judged
        self._codes = codes
        self._keys: dict[int, Key] = {}

    def part(self, spec: Spec) -> AnyPart:
        """See Tester."""
        part = super().part(spec)
        self._keys[id(part)] = spec.case.signature, spec.form, str(spec.part)
        return part

    def results(self, parts: Sequence[AnyPart]) -> Results:
        """The codes of each part; an error if there are none, or if they belong to other operands."""
        return [self._codes_of(part) for part in parts]

    def _codes_of(self, part: AnyPart) -> np.ndarray | BackendError:
        key = self._keys[id(part)]
        if key not in self._codes:
            return self._refuse(key, "there are no results")
        kept, raw = self._codes[key]
        kind = code_dtype(part.result_type)
        size = sum(int(np.prod(shape, dtype=np.int64)) for _, shape in outputs(part))
        if len(raw) != size * kind.itemsize:
            return self._refuse(key, f"expected {size * kind.itemsize:,} bytes of results, got {len(raw):,}")
        if kept.operands != hash_of(operands_of(part)):
            return self._refuse(key, "its operands are not those that this version of minihlo and numpy makes")
        return np.frombuffer(raw, kind.newbyteorder("<")).astype(kind)

    def _refuse(self, key: Key, why: str) -> BackendError:
        self.problems[key] = why
        return BackendError("refused", why)


def judge(
    choice: Choice, settings: Settings, takes: str, codes: Mapping[Key, tuple[StoredCodes, bytes]]
) -> tuple[Report, dict[Key, str]]:
    """The report on codes, and the reasons why some cannot be judged. Cases without codes are omitted."""
    tester = SubmissionTester(settings, takes, codes)
    there = {key[:2] for key in codes}
    tasks = []
    for task in run.tasks(choice, settings, takes):
        specs = tuple(s for s in task.specs if (s.case.signature, s.form) in there)
        if specs:
            tasks.append(Task(specs))

    def workers(_: Settings, work: Sequence[Task]) -> Iterator[run.Done]:
        for place, task in enumerate(work):
            yield place, tester.run(task.specs)

    session = run.Session(run.describe_run(settings, choice, tester), settings, tasks, None)
    return session.run(workers), tester.problems


__all__ = ["Key", "SubmissionTester", "judge"]
