"""The grids: backend × operation × format at once, and its slices, a page for each operation, format and run."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from ...oracle.formats import FORMATS
from ..report.html import DESCRIBED
from ..result import FAIL, PASS, UNSUPPORTED, VERDICTS, CaseResult, worst
from . import frame
from .frame import Section, render
from .model import Entry, Site

#: Maximum number of cells in one table; more continue in another.
_CELLS = 3000
#: With more cells than these the first page has one letter for all formats of an operation.
_LETTERS = 12_000

#: A cell of a grid: its verdict, words and address; or, in `pieces`, a strip of several.
Cell = dict[str, Any]
#: The head of a row or column: words and an address.
Head = tuple[str, str]


def _chunks(rows: Sequence[str], across: int, cells: int = _CELLS) -> Iterator[Sequence[str]]:
    each = max(1, cells // max(across, 1))
    yield from (rows[i : i + each] for i in range(0, len(rows), each))


def _cell(entry: Entry, row: str, column: str, up: str, words: str) -> Cell:
    to = entry.addresses.get((row, column))
    verdict = entry.verdict(row, column)
    href = up + to if to and verdict != UNSUPPORTED else None
    return {"verdict": verdict, "words": f"{words}: {verdict}", "href": href}


def _backends(site: Site, up: str = "") -> list[Head]:
    return [(e.label, up + e.page) for e in site.latest]


def overview(site: Site) -> Iterator[Section]:
    """The whole grid: a row for each operation, a column for each backend, in each cell a letter for each format."""
    entries = site.latest
    has_letters = len(site.rows) * len(entries) * len(site.columns) <= _LETTERS
    cell = _strip if has_letters else _worst
    size = len(entries) * (len(site.columns) if has_letters else 1)
    for number, rows in enumerate(_chunks(site.rows, size, _LETTERS), 1):
        body = [((r, site.operation(r)), [cell(site, e, r) for e in entries]) for r in rows]
        data = {"site": site, "number": number, "has_letters": has_letters, "columns": _backends(site), "rows": body}
        yield Section(render("site_grids.html#overview", **data))


def _strip(site: Site, entry: Entry, row: str) -> Cell:
    """A sign for each format. A result that is not PASS is a link; equal neighbours among the rest are one element.

    Thousands of elements in one table take a browser minutes to print.
    """
    pieces: list[Cell] = []
    for verdict, columns in itertools.groupby(site.columns, lambda c: entry.verdict(row, c)):
        if verdict in (None, PASS, UNSUPPORTED):
            pieces.append({"verdict": verdict, "n": len(list(columns)), "href": None})
        else:
            for c in columns:
                words = f"{c}: {verdict}"
                pieces.append({"verdict": verdict, "n": 1, "words": words, "href": entry.addresses[row, c]})
    return {"pieces": pieces}


def _worst(site: Site, entry: Entry, row: str) -> Cell:
    verdicts = [v for c in site.columns if (v := entry.verdict(row, c)) is not None]
    verdict = worst(verdicts) if verdicts else None
    column = next((c for c in site.columns if entry.verdict(row, c) == verdict), "")
    words = f"{entry.label}, {row}: {verdict}"
    return {"verdict": verdict, "words": words, "href": entry.addresses.get((row, column))}


def by_backend_and_format(site: Site) -> Section:
    """The small grid: a row for each backend, a column for each format, with the worst verdict and its count."""
    rows = []
    for entry, head in zip(site.latest, _backends(site), strict=True):
        cells = []
        for column in site.columns:
            verdicts = [v for r in site.rows if (v := entry.verdict(r, column)) is not None]
            verdict = worst(verdicts) if verdicts else None
            n = verdicts.count(verdict or "")
            words = f"{entry.label}, {column}: {verdict}, {n:,} operation{'s' * (n != 1)}"
            cells.append({"verdict": verdict, "words": words, "href": site.format(column)})
        rows.append((head, cells))
    columns = [(c, site.format(c)) for c in site.columns]
    return Section(render("site_grids.html#by_format", columns=columns, rows=rows))


def of_format(site: Site, column: str) -> dict[str, str]:
    """The pages of a format: operations by backends."""
    path = site.format(column)
    up = frame.root(path)
    shown = [r for r in site.rows if any(e.verdict(r, column) for e in site.latest)]
    sections = []
    for some in _chunks(shown, len(site.latest)):
        cells = {r: [_cell(e, r, column, up, f"{e.label}, {r}") for e in site.latest] for r in some}
        rows = [((r, up + site.operation(r)), of) for r, of in cells.items()]
        label = f"operations by backends in {column}"
        sections.append(Section(render("site_grids.html#grid", label=label, columns=_backends(site, up), rows=rows)))
    above = render("site_grids.html#format_facts", format=FORMATS.get(column))
    return frame.in_parts(path, column, sections, above)[0]


def of_run(site: Site, entry: Entry) -> Iterator[Section]:
    """The grid of one run: operations by formats."""
    up = frame.root(entry.page)
    shown = list(dict.fromkeys(r for r, _ in entry.cells))
    columns = [c for c in site.columns if any((r, c) in entry.cells for r in shown)]
    columns += sorted({c for _, c in entry.cells} - set(columns))
    for number, some in enumerate(_chunks(shown, len(columns)), 1):
        cells = {r: [_cell(entry, r, c, up, f"{r}, {c}") for c in columns] for r in some}
        rows = [((r, up + site.operation(r) if r in site.rows else ""), of) for r, of in cells.items()]
        yield Section(render("site_grids.html#of_run", number=number, columns=[(c, "") for c in columns], rows=rows))


def of_operation(site: Site, row: str) -> dict[str, str]:
    """The pages of an operation: formats by backends, then each signature with a backend that is not all right."""
    path = site.operation(row)
    up = frame.root(path)
    columns = [c for c in site.columns if any(e.verdict(row, c) for e in site.latest)]
    rows = [((c, up + site.format(c)), [_cell(e, row, c, up, f"{e.label}, {c}") for e in site.latest]) for c in columns]
    label = f"formats by backends: {row}"
    sections = [Section(render("site_grids.html#grid", label=label, columns=_backends(site, up), rows=rows))]
    signatures: dict[str, dict[str, list[CaseResult]]] = defaultdict(lambda: defaultdict(list))
    for entry in site.latest:
        for column in columns:
            for case in entry.cells.get((row, column), ()):
                signatures[case.signature][entry.label].append(case)
    apart = {s: of for s, of in signatures.items() if any(c.verdict in DESCRIBED for cs in of.values() for c in cs)}
    if apart:
        sections.append(Section(render("site_grids.html#by_backend")))
    for signature, of in apart.items():
        anchor = site.names.of(signature)
        backends = [_compared(site, label, cases, up) for label, cases in of.items()]
        data = {"signature": signature, "anchor": anchor, "backends": backends}
        sections.append(Section(render("site_grids.html#compare", **data), anchor))
    return frame.in_parts(path, row, sections, render("site_grids.html#key"))[0]


def _compared(site: Site, label: str, cases: Sequence[CaseResult], up: str) -> dict[str, Any]:
    """A backend's worst verdict on a signature, and an example if it departs."""
    verdict = max((c.verdict for c in cases), key=VERDICTS.index)
    of = [c for c in cases if c.verdict == verdict]
    first = next((c for c in of if c.failures), of[0])
    to = site.address(label, first)
    bad = [f for f in first.failures if f.verdict == FAIL] or first.failures
    return {
        "label": label,
        "href": up + to if to else None,
        "verdict": verdict,
        "n": len(of),
        "total": len(cases),
        "said": frame.said(first) if verdict not in (PASS, UNSUPPORTED) else "",
        "case": first,
        "example": bad[:1] if first.verdict in DESCRIBED else [],
    }
