"""A whole run: the choice of cases, the workers, the recovery of an unfinished run, and its progress."""

from __future__ import annotations

import dataclasses
import datetime
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ..errors import InputError, OutputError
from ..judging.groups import group
from ..oracle.formats import CONVERTED
from . import shards, tests
from .cases import data
from .cases.case import Case
from .cases.cases import cases, select_cases
from .cases.forms import FORMS, forms
from .reproduction import MOST_CASES
from .result import CaseResult, Report, Run, load
from .support import takes
from .tester import Spec, Tester
from .verdicts import outcome
from .verdicts.forms import across_forms
from .verdicts.outcome import Settings

#: A finished task: its index among the tasks, and the results of its specs.
Done = tuple[int, list[CaseResult]]
#: Runs tasks, in any order.
Workers = Callable[[Settings, Sequence["Task"]], Iterator[Done]]

#: An unfinished run is written to its file at this interval, in seconds.
_PAUSE = 5.0


@dataclasses.dataclass(frozen=True)
class Task:
    """Cases that run in one program, and cases beside them that are not reported."""

    specs: tuple[Spec, ...]
    beside: tuple[Spec, ...] = ()


@dataclasses.dataclass(frozen=True)
class Choice:
    """A choice of cases."""

    ops: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    case: str = ""  #: a signature, or a pattern of them
    form: str = ""
    beside: tuple[str, ...] = ()  #: SIGNATURE:FORM
    tests: str = ""  #: a folder of .mlir tests
    #: Signatures with their forms, as a profile lists them; they override the other choices.
    listed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    profile: str = ""  #: its name, with its hash
    shard: str = ""  #: "2/3": the second of three parts of the work

    def cases(self, level: int) -> list[Case]:
        """The chosen cases of a level."""
        return [c for c in self.of_all_shards(level) if shards.has(self.shard, c.signature)]

    def of_all_shards(self, level: int) -> list[Case]:
        """The chosen cases, regardless of the shard."""
        if self.listed:
            known = {c.signature: c for c in cases(3)}
            return [known[signature] for signature, _ in self.listed]
        # A named case, and a type that is named, is found at any level that has it.
        is_named = self.case or not set(CONVERTED).isdisjoint(self.formats)
        chosen_ = select_cases(cases(3 if is_named else level), self.ops, self.formats, self.case)
        if level >= 2 or self.case:
            chosen_ += select_cases(tests.cases(self.tests), self.ops, self.formats, self.case)
        return chosen_


def tasks(choice: Choice, settings: Settings, kind: str) -> list[Task]:
    """The tasks of a run, for a backend that takes programs or operations. Raises ValueError if there are none."""
    listed = dict(choice.listed)
    specs = [
        Spec(case, form, part)
        for case in choice.cases(settings.level)
        for form in _forms(case, choice, settings, kind, listed.get(case.signature))
        for part in range(1 if settings.operands else data.parts(case, form, settings.level))
    ]
    if not specs and not choice.shard:
        raise ValueError("there is no such case (minihlo conform --list lists them)")
    beside = tuple(_parse_spec(text) for text in choice.beside)
    groups = group(specs, lambda spec: spec.group).values()
    return [Task(tuple(of[i : i + MOST_CASES]), beside) for of in groups for i in range(0, len(of), MOST_CASES)]


def _forms(case: Case, choice: Choice, settings: Settings, kind: str, listed: tuple[str, ...] | None) -> list[str]:
    if listed is not None:
        return [f for f in forms(case, 3, kind) if f in listed]
    if case.op == "test":
        return [tests.FORM] if choice.form in ("", tests.FORM) and kind == "programs" else []
    # A named form is found at any level that has it.
    names = forms(case, 3 if choice.form else settings.level, kind)
    return [f for f in names if choice.form in ("", f)]


def _parse_spec(text: str) -> Spec:
    signature, _, form = text.rpartition(":")
    matching = [c for c in cases(3) if c.signature == signature]
    if not matching or form not in FORMS:
        raise ValueError(f"--beside {text}: there is no such case (expected SIGNATURE:FORM)")
    return Spec(matching[0], form)


# -- running -----------------------------------------------------------------------------------------------------------


class Session:
    """A run in progress."""

    def __init__(
        self, run: Run, settings: Settings, work: Sequence[Task], path: Path | None, pause: float = _PAUSE
    ) -> None:
        """An unfinished run is written to the file every `pause` seconds."""
        self._pause = pause
        self.report, self.settings, self.path = Report(run), settings, path
        self._tasks = list(work)
        self._unfinished: dict[tuple[str, str], tuple[set[int], CaseResult]] = {}
        self._wanted: dict[tuple[str, str], set[int]] = {}
        for task in work:
            for spec in task.specs:
                self._wanted.setdefault(_key(spec), set()).add(spec.part)
        self._began = self._saved = time.monotonic()
        self.failure: OutputError | None = None  #: the last error in writing the file
        self._before = 0.0  #: seconds that an interrupted run took

    @property
    def total(self) -> int:
        """The number of parts."""
        return sum(len(parts) for parts in self._wanted.values())

    @property
    def done(self) -> int:
        """The number of finished parts."""
        finished = {c.key for c in self.report.cases}
        return sum(len(self._wanted[k]) for k in finished if k in self._wanted) + sum(
            len(parts) for parts, _ in self._unfinished.values()
        )

    def resume(self) -> int:
        """Takes over the cases that an interrupted run of the same kind left in the file, and returns their number.

        Raises InputError if the file has cases of another run, which would be lost.
        """
        if self.path is None or not self.path.is_file():
            return 0
        try:
            before = load(self.path)
        except ValueError:
            return 0
        if before.run.complete or not before.cases:
            return 0
        other = _mismatch(before.run, self.report.run)
        if other:
            got = f"{len(before.cases)} finished cases of an unfinished run of another command ({other})"
            raise InputError(f"{self.path}: expected another file, got one with {got}")
        self.report.cases = [c for c in before.cases if c.key in self._wanted]
        self.report.run.started, self._before = before.run.started, before.run.seconds
        kept = {c.key for c in self.report.cases}
        left = (Task(tuple(s for s in t.specs if _key(s) not in kept), t.beside) for t in self._tasks)
        self._tasks = [t for t in left if t.specs]
        return len(self.report.cases)

    def run(self, workers: Workers, on_results: Callable[[list[CaseResult]], None] = lambda _: None) -> Report:
        """Runs the remaining tasks and calls `on_results` as results come. The file is written periodically and at the
        end.
        """
        try:
            for place, results in workers(self.settings, self._tasks):
                self._add(self._tasks[place], results)
                on_results(results)
                if time.monotonic() - self._saved > self._pause:
                    self._save()
            self.report.run.complete = True
        finally:
            order = {key: i for i, key in enumerate(self._wanted)}
            self.report.cases.sort(key=lambda c: order[c.key])
            if self.report.run.complete:
                self.report.cases = across_forms(self.report.cases)
            self._save()
        return self.report

    def _add(self, task: Task, results: Sequence[CaseResult]) -> None:
        for spec, result in zip(task.specs, results, strict=True):
            key = _key(spec)
            parts, before = self._unfinished.get(key, (set(), None))
            whole = result if before is None else outcome.merge_parts(before, result, self.settings.errors)
            parts.add(spec.part)
            if parts == self._wanted[key]:
                self._unfinished.pop(key, None)
                self.report.cases.append(whole)
            else:
                self._unfinished[key] = parts, whole

    def _save(self) -> None:
        self.report.run.seconds = round(self._before + time.monotonic() - self._began, 1)
        self.failure = None
        try:
            if self.path is not None:
                self.report.save(self.path)
        except OutputError as error:  # there may be space again before the end
            self.failure = error
        self._saved = time.monotonic()


def _key(spec: Spec) -> tuple[str, str]:
    return spec.case.signature, spec.form


def _mismatch(a: Run, b: Run) -> str:
    """Why the cases of one run do not fit another; empty if they do."""
    fields = ("backend", "level", "seed", "ulp", "ops", "formats", "options", "versions")
    differing = ((f, getattr(a, f), getattr(b, f)) for f in fields)
    return next((f"{f}: {_words(x)}, not {_words(y)}" for f, x, y in differing if x != y), "")


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_words(v)}" for k, v in value.items()) or "none"
    return ",".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def in_this_process(backend: Any, tester: Tester | None = None) -> Workers:
    """Runs tasks one after another, in this process; on a backend, or by a tester."""

    def workers(settings: Settings, work: Sequence[Task]) -> Iterator[Done]:
        made = tester or Tester(backend, settings)
        for place, task in enumerate(work):
            yield place, made.run(task.specs, task.beside)

    return workers


def describe_run(settings: Settings, choice: Choice, backend: Any) -> Run:
    """The description of a run in a report, before it begins."""
    chosen = list(choice.ops), list(choice.formats), options_of(settings, choice)
    versions = dict(_versions(("minihlo", *getattr(backend, "packages", ()))))
    host = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    limits = settings.level, settings.seed, settings.ulp
    return Run(settings.backend, *limits, *chosen, versions, host, now, takes(backend))


def options_of(settings: Settings, choice: Choice) -> dict[str, list[str]]:
    """The options of a run, by name, as a report records them."""
    given = {
        "case": [choice.case],
        "form": [choice.form],
        "operands": list(settings.operands),
        "beside": list(choice.beside),
        "tests": [choice.tests],
        "accumulate": list(settings.accumulators),
        "profile": [choice.profile],
        "keeps": ["results"] if settings.keeps else [],
        "shard": [choice.shard],
    }
    return {name: values for name, values in given.items() if any(values)}


def _versions(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    for package in packages:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
