"""The model of the site: runs with their names, cells of the grid, causes, and all addresses."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Sequence

from ...judging.groups import group
from ...oracle.formats import FORMATS
from ..causes import Cause, causes
from ..result import CRASH, FAIL, UNSUPPORTED, CaseResult, Report, worst
from .read import LoadedReport, by_backend

#: From a row and a column of the grid to the cases.
Cells = dict[tuple[str, str], list[CaseResult]]


#: Longer names are truncated and get a hash.
_LONGEST = 60


class Names:
    """Gives each text a name of letters, digits, `_`, `.` and `-`, unique without regard to case.

    A name depends on its text alone, unless an earlier text has taken it.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, text: str) -> str:
        """The name of a text, the same each time."""
        if text not in self._names:
            name = _readable(text)
            if name is None or name.casefold() in self._taken:
                digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
                name = f"{(name or 'x')[:_LONGEST]}-{digest[:10]}"
            self._taken.add(name.casefold())
            self._names[text] = name
        return self._names[text]


def _readable(text: str) -> str | None:
    """The text with `-` for other characters; None if little of it would be left."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", text[: 4 * _LONGEST]).strip("-.")
    name = re.sub(r"\.{2,}", ".", name)
    return name if name and len(text) <= _LONGEST else None


@dataclasses.dataclass(eq=False)
class Entry:
    """A run on the site."""

    label: str  #: the backend, with distinguishing versions if it has several runs
    name: str  #: the base name of its files
    report: Report
    cells: Cells
    before: Entry | None = None  #: the previous run of the same backend
    is_latest: bool = True
    causes: list[Cause] = dataclasses.field(default_factory=list)
    #: The addresses of cells: a file and an anchor, from the root of the site.
    addresses: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)

    @property
    def page(self) -> str:
        """The address of the page of the run."""
        return f"runs/{self.name}.html"

    @property
    def failing(self) -> int:
        """The number of signatures that fail."""
        return len({s for c in self.causes for s in c.signatures})

    def verdict(self, row: str, column: str) -> str | None:
        """The worst verdict of a cell; None if it has no cases."""
        cases = self.cells.get((row, column))
        return worst([c.verdict for c in cases]) if cases else None

    def address(self, case: CaseResult) -> str | None:
        """The address of a case's description."""
        return self.addresses.get((case.row, case.column))


@dataclasses.dataclass
class Site:
    """All runs, and their common data."""

    entries: list[Entry]  #: by backend, each from the first run to the latest
    rows: list[str]  #: of the grid, in the order of the reports
    columns: list[str]  #: the formats, in the order of the table of formats
    causes: list[Cause]  #: of the latest runs
    names: Names
    #: The addresses of causes, by identifier, from the root.
    cause_addresses: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def latest(self) -> list[Entry]:
        """The latest run of each backend."""
        return [e for e in self.entries if e.is_latest]

    @property
    def cases(self) -> int:
        """The number of cases of all runs."""
        return sum(len(e.report.cases) for e in self.entries)

    def page(self, label: str) -> str:
        """The address of the page of a run."""
        return next(e.page for e in self.entries if e.label == label)

    def operation(self, row: str) -> str:
        """The address of the page of a row of the grid."""
        return f"ops/{self.names.of(row)}.html"

    def format(self, column: str) -> str:
        """The address of the page of a format."""
        return f"formats/{self.names.of(column)}.html"

    def address(self, label: str, case: CaseResult) -> str | None:
        """The address of the description of a run's case."""
        return next((e.address(case) for e in self.entries if e.label == label), None)


def site(loaded: Sequence[LoadedReport]) -> Site:
    """The model of some reports."""
    names, entries = Names(), []
    for of_backend in by_backend(loaded):
        before: Entry | None = None
        for one, label in zip(of_backend, _labels(of_backend), strict=True):
            report = one.report
            cells = group(report.cases, lambda c: (c.row, c.column))
            entry = Entry(label, names.of(one.stem), report, cells, before, one is of_backend[-1])
            entry.causes = causes({label: report.cases})
            entries.append(entry)
            before = entry
    every = [c for e in entries for c in e.report.cases]
    shown = [c for c in every if c.verdict != UNSUPPORTED] or every
    # In the order of the longest list of rows, then of the others.
    lists = sorted((list(dict.fromkeys(c.row for c in e.report.cases)) for e in entries), key=len, reverse=True)
    wanted = {c.row for c in shown}
    rows = [row for row in dict.fromkeys(row for of in lists for row in of) if row in wanted]
    there = {c.column for c in shown}
    columns = [*(f for f in FORMATS if f in there), *sorted(there - set(FORMATS))]
    failing = {e.label: [c for c in e.report.cases if c.verdict in (FAIL, CRASH)] for e in entries if e.is_latest}
    return Site(entries, rows, columns, causes(failing), names)


def _labels(runs: Sequence[LoadedReport]) -> list[str]:
    """The backend; for several runs with the versions that differ, else the date; if these are alike, the file."""
    reports = [r.report.run for r in runs]
    if len(runs) == 1:
        return [reports[0].backend]
    packages = dict.fromkeys(p for r in reports for p in r.versions)
    differing = [p for p in packages if len({r.versions.get(p) for r in reports}) > 1]
    labels = []
    for r in reports:
        words = [f"{p} {r.versions[p]}" for p in differing if p in r.versions] or [r.started[:10]]
        if len(words) > 1 and len(versions := {r.versions.get(p) for p in differing}) == 1:
            words = [str(*versions)]
        labels.append(f"{r.backend} ({', '.join(words)})")
    return [x if labels.count(x) == 1 else f"{x}, {r.stem}" for x, r in zip(labels, runs, strict=True)]
