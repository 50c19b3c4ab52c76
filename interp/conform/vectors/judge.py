"""Judges results: the tester of a live run on recorded results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from ...backends import BackendError
from ...backends.operation import Operation
from ...errors import InputError
from ...judging.groups import group
from ..cases.cases import select_cases
from ..repeats import AnyPart
from ..run import Choice, Task
from ..tester import Spec
from .calls import plain
from .manifest import Entry, Manifest
from .results import Results
from .stores import digest


def select_tasks(tasks: Sequence[Task], choice: Choice) -> list[Task]:
    """The tasks that a further choice selects."""

    def fits(spec: Spec) -> bool:
        is_chosen = bool(select_cases([spec.case], choice.ops, choice.formats, choice.case))
        return is_chosen and choice.form in ("", spec.form)

    left = [Task(tuple(s for s in t.specs if fits(s))) for t in tasks]
    return [t for t in left if t.specs]


def wanted_entries(manifest: Manifest, tasks: Sequence[Task]) -> list[Entry]:
    """The calls of tasks. Raises InputError if the vectors are not those of this version of minihlo."""
    by_part = group(manifest.cases, lambda entry: entry.key[:3])
    found: list[Entry] = []
    for spec in (s for t in tasks for s in t.specs):
        key = spec.case.signature, spec.form, spec.part
        if key not in by_part:
            raise InputError(f"the vectors lack {'.'.join(key[:2])}: expected vectors of this version of minihlo")
        found += by_part[key]
    return found


def replay(manifest: Manifest, results: Results) -> Callable[[Spec, AnyPart], np.ndarray | BackendError]:
    """The recorded results of a part, as `RecordedTester` takes them: those of its calls, one by one."""
    entries = {e.key: e for e in manifest.cases}

    def codes(spec: Spec, part: AnyPart) -> np.ndarray | BackendError:
        number = itertools.count()

        def call(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
            entry = entries.get((spec.case.signature, spec.form, spec.part, next(number)))
            given = [digest(plain(x)) for x in arrays]
            if entry is None or entry.op != operation.op or given != [t.codes for t in entry.operands]:
                what = f"{spec.case.signature} {spec.form}"
                raise InputError(f"expected the operands of this version of minihlo for {what}, got others")
            return results.codes(entry).reshape(entry.result.shape)

        return part.result_of_calls(call)

    return codes
