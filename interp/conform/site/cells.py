"""A page for each run and operation: every case by format, down to codes and commands."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..causes import CIRCUMSTANCES
from ..format_text import count
from ..report.html_cases import BAD, badge, command, describe, program, table
from ..report.markup import Content, Markup, element
from ..result import DIVERGENT, FAIL, PASS, UNSUPPORTED, CaseResult, worst
from . import frame
from .model import Entry, Site

#: Maximum number of failing cases of a signature described after the first.
_MOST = 6
#: Number of forms listed.
_FEW = 5


def pages(site: Site, entry: Entry) -> Iterator[tuple[str, str]]:
    """The pages of a run's cells, each with its path. Fills `entry.addresses`."""
    for row in dict.fromkeys(row for row, _ in entry.cells):
        columns = [c for r, c in entry.cells if r == row]
        known = [c for c in site.columns if c in columns]
        columns = [*known, *(c for c in columns if c not in site.columns)]
        if all(entry.verdict(row, c) == UNSUPPORTED for c in columns):
            for column in columns:
                entry.addresses[row, column] = f"{entry.page}#unsupported"
            continue
        path = f"cells/{entry.name}/{site.names.of(row)}.html"
        up = frame.root(path)
        above = element(
            "p",
            element("a", entry.label, href=up + entry.page),
            " · ",
            element("a", f"{row} on all backends", href=up + site.operation(row)),
            class_="facts",
        )
        sections = [s for c in columns for s in _column(site, c, entry.cells[row, c], entry.report.run.backend)]
        made, addresses = frame.in_parts(path, f"{row} on {entry.label}", sections, above)
        for column in columns:
            entry.addresses[row, column] = addresses[site.names.of(column)]
        yield from made.items()


def _column(site: Site, column: str, cases: Sequence[CaseResult], backend: str) -> Iterator[frame.Section]:
    """A cell: an overview, and a section for each signature with something to show."""
    anchor = site.names.of(column)
    title = element("h2", column, " ", badge(worst([c.verdict for c in cases])))
    signatures: dict[str, list[CaseResult]] = defaultdict(list)
    for case in cases:
        signatures[case.signature].append(case)
    rows = [
        (element("code", s), *_forms(of), element("code", f"minihlo conform {shlex.quote(backend)} --case {s}"))
        for s, of in signatures.items()
    ]
    heads = "signature", "forms, by verdict", "results judged", "worst ULP", "run it again"
    overview = frame.table(f"cases of {column}", heads, rows, "list cases")
    yield frame.Section(element("section", title, overview, id=anchor), anchor)
    for signature, of in signatures.items():
        shown = [c for c in of if c.verdict not in (PASS, UNSUPPORTED)]
        if shown:
            yield frame.Section(_signature(signature, shown))


def _forms(cases: Sequence[CaseResult]) -> tuple[Content, str, str]:
    """The forms by verdict, the number of results judged, and the worst distance."""
    by_verdict: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        by_verdict[case.verdict].append(f"{case.form} (expected)" if case.is_expected else case.form)
    listed = [_of_verdict(v, forms) for v, forms in by_verdict.items()]
    ulp = max((c.worst_ulp for c in cases if c.worst_ulp is not None), default=None)
    return listed, f"{sum(c.total for c in cases):,}", "" if ulp is None else f"{ulp:,}"


def _of_verdict(verdict: str, forms: Sequence[str]) -> Markup:
    """The forms of a verdict; a long list is collapsed."""
    names = ", ".join(forms)
    if len(forms) <= _FEW:
        return element("div", badge(verdict), names)
    return element("details", element("summary", badge(verdict), count(len(forms), "form")), names)


def _signature(name: str, cases: Sequence[CaseResult]) -> Markup:
    """A signature: failures in full, with pictures of the first; an example of other verdicts."""
    bad = sorted((c for c in cases if c.verdict in BAD), key=lambda c: (c.is_expected, not (c.map or c.curve)))
    others = [c for c in cases if c.verdict not in BAD]
    content: list[Content] = [element("h3", element("code", name))]
    if bad:
        first, *more = bad
        content.append(describe(first))
        if more:
            words = f"fails too: {', '.join(c.form for c in more)}"
            listed = [describe(c, pictured=False) for c in more[:_MOST]]
            content.append(element("details", element("summary", words), listed))
    by_verdict: dict[str, list[CaseResult]] = defaultdict(list)
    for case in others:
        by_verdict[case.verdict].append(case)
    for of in by_verdict.values():
        content.append(element("details", *_example(of), open=not bad))
    return element("article", content)


def _example(cases: Sequence[CaseResult]) -> tuple[Content, ...]:
    """Cases of one verdict that is no failure, with one example."""
    first = max(cases, key=lambda c: (bool(c.failures), c.form == "array"))
    said = dict.fromkeys(text for c in cases for text in (*c.choices, c.diagnosis, c.model) if text)
    some = [f for f in first.failures if f.verdict not in (FAIL,)][:2]
    causes = [c for c in first.causes if c not in CIRCUMSTANCES] if first.verdict != DIVERGENT else []
    return (
        element("summary", badge(first.verdict), f"{count(len(cases), 'form')}: {', '.join(c.form for c in cases)}"),
        [element("p", text, class_="diagnosis") for text in said],
        element("p", "Recorded as ", element("code", ", ".join(causes))) if causes else None,
        table(first, some),
        command(first),
        program(first),
    )
