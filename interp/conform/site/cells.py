"""A page for each run and operation: every case by format, down to codes and commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...judging.groups import group
from ..causes import CIRCUMSTANCES
from ..report.html import BAD
from ..result import DIVERGENT, FAIL, PASS, UNSUPPORTED, CaseResult, worst
from . import frame
from .frame import Section, render
from .model import Entry, Site


def pages(site: Site, entry: Entry) -> Iterator[tuple[str, str]]:
    """The pages of a run's cells, each with its path. Fills `entry.addresses`."""
    for row in dict.fromkeys(row for row, _ in entry.cells):
        columns = [c for r, c in entry.cells if r == row]
        known = [c for c in site.columns if c in columns]
        columns = [*known, *(c for c in columns if c not in site.columns)]
        if all(entry.verdict(row, c) == UNSUPPORTED for c in columns):
            entry.addresses |= {(row, column): f"{entry.page}#unsupported" for column in columns}
            continue
        path = f"cells/{entry.name}/{site.names.of(row)}.html"
        above = render("site_cells.html#above", site=site, entry=entry, row=row, up=frame.root(path))
        sections = [s for c in columns for s in _column(site, c, entry.cells[row, c], entry.report.run.backend)]
        made, addresses = frame.in_parts(path, f"{row} on {entry.label}", sections, above)
        entry.addresses |= {(row, column): addresses[site.names.of(column)] for column in columns}
        yield from made.items()


def _column(site: Site, column: str, cases: Sequence[CaseResult], backend: str) -> Iterator[Section]:
    """A cell: an overview, and a section for each signature with something to show."""
    anchor = site.names.of(column)
    signatures = group(cases, lambda c: c.signature)
    data = {"name": column, "anchor": anchor, "signatures": signatures, "backend": backend}
    yield Section(render("site_cells.html#column", verdict=worst([c.verdict for c in cases]), **data), anchor)
    for signature, of in signatures.items():
        shown = [c for c in of if c.verdict not in (PASS, UNSUPPORTED)]
        bad = sorted((c for c in shown if c.verdict in BAD), key=lambda c: (c.is_expected, not (c.map or c.curve)))
        others = [_example(cs) for v, cs in group(shown, lambda c: c.verdict).items() if v not in BAD]
        if shown:
            yield Section(render("site_cells.html#signature", name=signature, bad=bad, others=others))


def _example(cases: Sequence[CaseResult]) -> dict[str, Any]:
    """Cases of one verdict that is no failure, with one example."""
    first = max(cases, key=lambda c: (bool(c.failures), c.form == "array"))
    return {
        "case": first,
        "cases": cases,
        "said": list(dict.fromkeys(text for c in cases for text in (*c.choices, c.diagnosis, c.model) if text)),
        "causes": [c for c in first.causes if c not in CIRCUMSTANCES] if first.verdict != DIVERGENT else [],
        "failures": [f for f in first.failures if f.verdict != FAIL][:2],
    }
