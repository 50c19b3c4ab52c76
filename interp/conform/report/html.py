"""The report as one self-contained HTML file without scripts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ... import pages
from ...oracle.formats import FORMATS
from .. import causes, files
from ..format_text import count
from ..result import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED, CaseResult, Report, worst
from . import html_causes
from .accumulators import accumulators
from .html_cases import BAD, SIGNS, accuracy, anchor, failures
from .markup import Content, Markup, element, join, page_head, scroll_box

#: The verdicts, most important first, with their meanings.
MEANINGS = {
    FAIL: "a result is wrong",
    CRASH: "the backend died, or gave no answer in time",
    ACCURACY: "not correctly rounded, where that is not required, but next to the exact value",
    DIVERGENT: "the format or the specification leaves it open, and the choice is known",
    PASS: "every result is right",
    UNSUPPORTED: "the backend does not have it",
}
#: Number of names listed; more are collapsed.
_FEW = 4
_ULP = """ULP is the number of steps from the correctly rounded result to the given one, where a step leads from one
number of the result's format to the next; both zeros are one number, and infinity is the step after the largest number
(in a format without infinity, the NaN that overflow gives is that step). NaN has no distance to a number."""


def write(report: Report, path: str | Path) -> None:
    """Writes the page atomically. Raises OutputError if that fails."""
    files.write(path, page(report))


def page(report: Report) -> str:
    """The page."""
    title = f"{report.run.backend}: conformance"
    style = pages.style("report.css")
    bad = [c for c in report.cases if c.verdict in BAD]
    head = page_head(title, element("style", Markup(style)))
    body = element(
        "body",
        element("header", element("h1", report.run.backend, element("small", "conformance")), _run(report)),
        element(
            "main",
            summary(report),
            html_causes.section(causes.of_cases(bad)),
            _grid(report),
            failures(bad),
            accuracy([c for c in report.cases if c.verdict == ACCURACY], report.run.ulp),
            accumulators(report.cases),
            _open(report),
            lacking(report),
        ),
        element("footer", element("p", _ULP), _about(report)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


# -- overview ----------------------------------------------------------------------------------------------------------


def _run(report: Report) -> list[Content]:
    run = report.run
    facts = [f"level {run.level}", *(f"{name} {version}" for name, version in run.versions.items())]
    facts += [x for x in (run.host, run.started) if x]
    chosen = [f"{w} {', '.join(given)}" for w, given in (("ops", run.ops), ("formats", run.formats)) if given]
    note = "This run was not finished; the report has its finished cases." if not run.complete else None
    return [element("p", " · ".join([*facts, *chosen]), class_="facts"), note and element("p", note, class_="note")]


def summary(report: Report) -> Markup:
    """The number of cases of each verdict, as a bar and as numbers."""
    counts = report.counts
    total = sum(counts.values()) or 1
    order = [v for v in MEANINGS if counts[v]]
    bar = [element("span", class_=f"part {v}", style=f"flex-grow:{counts[v] / total:.4f}") for v in reversed(order)]
    tiles = [
        element(
            "li",
            element("span", SIGNS[v], class_=f"sign {v}"),
            element("b", f"{counts[v]:,}"),
            " ",
            element("span", v, class_="word"),
            element("span", MEANINGS[v], class_="meaning"),
        )
        for v in order
    ]
    expected = sum(c.is_expected for c in report.cases if c.verdict in BAD)
    elements = sum(c.total for c in report.cases)
    words = f"{count(sum(counts.values()), 'case')}, {count(elements, 'result')} judged"
    words += f"; {expected:,} of the failures are expected" if expected else ""
    return element(
        "section",
        element("p", words, "."),
        element("div", bar, class_="bar"),
        element("ul", tiles, class_="tiles"),
        id="summary",
    )


def _grid(report: Report) -> Content:
    """The grid of ops by formats, with the worst verdict of each cell, linked to its cases."""
    cells: dict[tuple[str, str], list[CaseResult]] = defaultdict(list)
    for case in report.cases:
        cells[case.row, case.column].append(case)
    rows = list(dict.fromkeys(c.row for c in report.cases))
    there = {c.column for c in report.cases}
    columns = [*(f for f in FORMATS if f in there), *sorted(there - set(FORMATS))]  # cases arrive in any order
    head = [element("th", element("span", c), scope="col") for c in columns]
    body = [element("tr", element("th", r, scope="row"), [_cell(cells.get((r, c), [])) for c in columns]) for r in rows]
    table = element(
        "table", element("thead", element("tr", element("td"), head)), element("tbody", body), class_="grid"
    )
    key = [element("li", element("span", SIGNS[v], class_=f"sign {v}"), f" {v}") for v in MEANINGS]
    return element(
        "section",
        element("h2", "Operations and formats"),
        element("ul", key, class_="key"),
        scroll_box("the grid", table),
        id="grid",
    )


def _cell(cases: Sequence[CaseResult]) -> Markup:
    if not cases:
        return element("td", class_="none")
    verdict = worst([c.verdict for c in cases])
    like = [c for c in cases if c.verdict == verdict]
    words = f"{verdict}: {len(like)} of {count(len(cases), 'case')}"
    sign: Content = element("abbr", SIGNS[verdict], title=words)
    if verdict in (*BAD, ACCURACY, DIVERGENT):
        sign = element("a", SIGNS[verdict], href=f"#{anchor(like[0])}", title=words)
    number = element("small", str(len(like))) if verdict in BAD and len(cases) > 1 else None
    return element("td", sign, number, class_=verdict)


# -- the rest ----------------------------------------------------------------------------------------------------------


def _open(report: Report) -> Content:
    """The points that formats leave open, with the backend's choices."""
    by_point: dict[str, dict[str, CaseResult]] = defaultdict(dict)
    for case in report.cases:
        for choice in case.choices:
            by_point[choice].setdefault(case.signature, case)
    if not by_point:
        return None
    anchored: set[str] = set()

    def name(case: CaseResult) -> Markup:
        anchor = f"divergent-{case.signature}"
        is_first = anchor not in anchored
        anchored.add(anchor)
        return element("code", case.signature, id=anchor if is_first else None)

    rows = [
        element(
            "tr", element("td", choice), element("td", [join([name(c), " "]) for c in cases.values()], class_="names")
        )
        for choice, cases in by_point.items()
    ]
    head = element(
        "thead",
        element(
            "tr",
            element("th", "open point: choice of the backend", scope="col"),
            element("th", "where", scope="col"),
        ),
    )
    words = "Formats and specifications leave these results open; none of them is wrong."
    table = element("table", head, element("tbody", rows), class_="list")
    return element(
        "section",
        element("h2", "Left open"),
        element("p", words),
        scroll_box("open points", table),
        id="divergent",
    )


def lacking(report: Report) -> Content:
    """The cases that the backend does not support, by its messages."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for case in report.cases:
        if case.verdict == UNSUPPORTED:
            message = re.sub(rf"{re.escape(report.run.backend)} refuses the (program|operation): ", "", case.message)
            by_type[message].append(case.signature if case.form == "array" else f"{case.signature} ({case.form})")
    if not by_type:
        return None

    def row(message: str, names: Sequence[str]) -> Markup:
        listed: Content = ", ".join(names)
        if len(names) > _FEW:
            listed = element("details", element("summary", count(len(names), "case")), element("p", listed))
        return element("tr", element("td", message or "it does not say why"), element("td", listed, class_="names"))

    rows = [row(*item) for item in sorted(by_type.items(), key=lambda item: -len(item[1]))]
    head = element(
        "thead", element("tr", element("th", "message of the backend", scope="col"), element("th", "of", scope="col"))
    )
    table = element("table", head, element("tbody", rows), class_="list")
    return element("section", element("h2", "Not supported"), scroll_box("unsupported cases", table), id="unsupported")


def _about(report: Report) -> Markup:
    again = f"minihlo conform {report.run.backend} --level {report.run.level}"
    again += f" --seed {report.run.seed}" if report.run.seed else ""
    return element("p", "Made by ", element("code", again), f" in {report.run.seconds:.0f} s.")
