"""The grids: backend × operation × format at once, and its slices, a page for each operation, format and run."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...oracle.formats import FORMATS
from ..format_text import count
from ..report.html import MEANINGS
from ..report.html_cases import BAD, SIGNS, badge, command, table
from ..report.markup import Content, Markup, element
from ..result import ACCURACY, DIVERGENT, FAIL, PASS, UNSUPPORTED, VERDICTS, CaseResult, worst
from . import frame
from .model import Entry, Site

#: Maximum number of cells in one table; more continue in another.
_CELLS = 3000
#: With more cells than these the first page has one letter for all formats of an operation.
_LETTERS = 12_000


def _chunks(rows: Sequence[str], across: int, cells: int = _CELLS) -> Iterator[Sequence[str]]:
    each = max(1, cells // max(across, 1))
    yield from (rows[i : i + each] for i in range(0, len(rows), each))


def _cell(entry: Entry, row: str, column: str, up: str, words: str) -> Markup:
    to = entry.addresses.get((row, column))
    verdict = entry.verdict(row, column)
    href = up + to if to and verdict != UNSUPPORTED else None
    return frame.cell(verdict, f"{words}: {verdict}", href)


def _link(href: str, words: str) -> Markup:
    return element("a", words, href=href)


# -- backend × operation × format --------------------------------------------------------------------------------------


def overview(site: Site) -> list[frame.Section]:
    """The whole grid: a row for each operation, a column for each backend, in each cell a letter for each format."""
    entries = site.latest
    has_letters = len(site.rows) * len(entries) * len(site.columns) <= _LETTERS
    legend = [element("li", element("a", c, href=site.format(c))) for c in site.columns]
    words = "The signs in a cell stand for the formats in this order; a format leads to its own grid:"
    if not has_letters:
        words = "The sign of a cell is the worst of all formats. The grid of each format:"
    head = [
        element("h2", "Backends, operations and formats"),
        frame.key(MEANINGS),
        element("p", words),
        element("ol", legend, class_="formats"),
    ]
    made = []
    heads = [_link(e.page, e.label) for e in entries]
    size = len(entries) * (len(site.columns) if has_letters else 1)
    for i, rows in enumerate(_chunks(site.rows, size, _LETTERS)):
        body = [
            (
                _link(site.operation(r), r),
                [_strip(site, e, r) if has_letters else _worst(site, e, r) for e in entries],
            )
            for r in rows
        ]
        shown = frame.grid("operations by backends", heads, body)
        made.append(frame.Section(element("section", head if i == 0 else None, shown, id=f"grid-{i + 1}")))
    return made


def _strip(site: Site, entry: Entry, row: str) -> Markup:
    """A sign for each format. A result that is not PASS is a link; equal neighbours among the rest are one element.

    Thousands of elements in one table take a browser minutes to print.
    """
    letters: list[Content] = []
    for verdict, columns in itertools.groupby(site.columns, lambda c: entry.verdict(row, c)):
        if verdict in (None, PASS, UNSUPPORTED):
            n = len(list(columns))
            style = f"--n:{n}" if n > 1 else None
            letters.append(element("i", n * (SIGNS[verdict] if verdict else "·"), class_=verdict, style=style))
            continue
        for column in columns:
            words = f"{column}: {verdict}"
            to = entry.addresses[row, column]
            link = element("a", SIGNS[verdict], href=to, title=words, aria_label=words)
            letters.append(element("i", link, class_=verdict))
    return element("td", letters, class_="strip")


def _worst(site: Site, entry: Entry, row: str) -> Markup:
    verdicts = [v for c in site.columns if (v := entry.verdict(row, c)) is not None]
    verdict = worst(verdicts) if verdicts else None
    column = next((c for c in site.columns if entry.verdict(row, c) == verdict), "")
    return frame.cell(verdict, f"{entry.label}, {row}: {verdict}", entry.addresses.get((row, column)))


def by_backend_and_format(site: Site) -> frame.Section:
    """The small grid: a row for each backend, a column for each format, with the worst verdict and its count."""
    body = []
    for entry in site.latest:
        cells = []
        for column in site.columns:
            verdicts = [v for r in site.rows if (v := entry.verdict(r, column)) is not None]
            verdict = worst(verdicts) if verdicts else None
            words = f"{entry.label}, {column}: {verdict}, {count(verdicts.count(verdict or ''), 'operation')}"
            cells.append(frame.cell(verdict, words, site.format(column) if verdict else None))
        body.append((_link(entry.page, entry.label), cells))
    heads = [_link(site.format(c), c) for c in site.columns]
    words = "The worst verdict of all operations. A format leads to its grid of operations and backends."
    content = element("h2", "Backends and formats"), element("p", words), frame.grid("backends by formats", heads, body)
    return frame.Section(element("section", content, id="formats"))


# -- slices ------------------------------------------------------------------------------------------------------------


def of_format(site: Site, column: str) -> dict[str, str]:
    """The pages of a format: operations by backends."""
    path = site.format(column)
    up = frame.root(path)
    rows = [r for r in site.rows if any(e.verdict(r, column) for e in site.latest)]
    sections = [
        frame.Section(
            frame.grid(
                f"operations by backends in {column}",
                [_link(up + e.page, e.label) for e in site.latest],
                [
                    (
                        _link(up + site.operation(r), r),
                        [_cell(e, r, column, up, f"{e.label}, {r}") for e in site.latest],
                    )
                    for r in some
                ],
            )
        )
        for some in _chunks(rows, len(site.latest))
    ]
    above = [_facts(column), frame.key(MEANINGS)]
    return frame.in_parts(path, column, sections, above)[0]


def _facts(column: str) -> Content:
    fmt = FORMATS.get(column)
    if fmt is None:
        return None
    words = [f"{fmt.bits} bits", f"{fmt.mantissa_bits} of them mantissa", f"the largest number is {fmt.max:g}"]
    words += ["has infinity" if fmt.has_infinity else "no infinity"]
    return element("p", " · ".join(words), class_="facts")


def of_run(site: Site, entry: Entry) -> list[frame.Section]:
    """The grid of one run: operations by formats."""
    up = frame.root(entry.page)
    rows = list(dict.fromkeys(r for r, _ in entry.cells))
    columns = [c for c in site.columns if any((r, c) in entry.cells for r in rows)]
    columns += sorted({c for _, c in entry.cells} - set(columns))
    made = []
    for i, some in enumerate(_chunks(rows, len(columns))):
        heads = [_link(up + site.operation(r), r) if r in site.rows else r for r in some]
        body = [[_cell(entry, r, c, up, f"{r}, {c}") for c in columns] for r in some]
        head = [element("h2", "Operations and formats"), frame.key(MEANINGS)] if i == 0 else None
        shown = frame.grid("operations by formats", columns, list(zip(heads, body, strict=True)))
        made.append(frame.Section(element("section", head, shown, id=f"grid-{i + 1}")))
    return made


def of_operation(site: Site, row: str) -> dict[str, str]:
    """The pages of an operation: formats by backends, then each signature with a backend that is not all right."""
    path = site.operation(row)
    up = frame.root(path)
    columns = [c for c in site.columns if any(e.verdict(row, c) for e in site.latest)]
    body = [
        (_link(up + site.format(c), c), [_cell(e, row, c, up, f"{e.label}, {c}") for e in site.latest]) for c in columns
    ]
    heads = [_link(up + e.page, e.label) for e in site.latest]
    sections = [frame.Section(frame.grid(f"formats by backends: {row}", heads, body))]
    signatures: dict[str, dict[str, list[CaseResult]]] = defaultdict(lambda: defaultdict(list))
    for entry in site.latest:
        for column in columns:
            for case in entry.cells.get((row, column), ()):
                signatures[case.signature][entry.label].append(case)
    apart = {s: of for s, of in signatures.items() if any(_departs(c) for cases in of.values() for c in cases)}
    if apart:
        sections.append(frame.Section(element("h2", "Results by backend")))
    sections += [_compare(site, s, of, up) for s, of in apart.items()]
    return frame.in_parts(path, row, sections, frame.key(MEANINGS))[0]


def _departs(case: CaseResult) -> bool:
    return case.verdict in (*BAD, ACCURACY, DIVERGENT)


def _compare(site: Site, signature: str, runs: dict[str, list[CaseResult]], up: str) -> frame.Section:
    """A signature: each backend's verdicts, and the first example of each backend that departs."""
    rows: list[list[Content]] = []
    examples: list[Content] = []
    for label, cases in runs.items():
        verdict = max((c.verdict for c in cases), key=VERDICTS.index)
        of = [c for c in cases if c.verdict == verdict]
        first = next((c for c in of if c.failures), of[0])
        said = first.diagnosis or first.message or first.model or "; ".join(first.choices)
        to = site.address(label, first)
        forms = f"{len(of)} of {count(len(cases), 'form')}"
        name = element("a", label, href=up + to) if to else label
        rows.append([name, badge(verdict), forms, said if verdict not in (PASS, UNSUPPORTED) else ""])
        if _departs(first) and first.failures:
            bad = [f for f in first.failures if f.verdict == FAIL] or first.failures
            examples.append(element("div", element("h4", label), table(first, bad[:1]), command(first)))
    shown = frame.table(signature, ("backend", "verdict", "in", "cause"), rows)
    more = element("details", element("summary", "an example of each"), examples) if examples else None
    anchor = site.names.of(signature)
    return frame.Section(element("article", element("h3", element("code", signature)), shown, more, id=anchor), anchor)
