"""The first page, the page of causes, and a page for each run."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

from ..causes import Cause
from ..format_text import count
from ..report.html import lacking, summary
from ..report.html_cases import SIGNS
from ..report.html_causes import card, sentence
from ..report.markup import Content, Markup, element, join
from ..result import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED, CaseResult
from ..verdicts.differences import differences
from . import frame, grids
from .model import Entry, Site

#: Maximum number of causes on the page of a run, and of runs or cases on one line.
_CAUSES, _LINE = 40, 12
_ORDER = (FAIL, CRASH, ACCURACY, DIVERGENT, PASS, UNSUPPORTED)


# -- the first page ----------------------------------------------------------------------------------------------------


def index(site: Site) -> dict[str, str]:
    """The first page, in as many parts as it needs: runs, causes, grids."""
    cases = sum(len(e.report.cases) for e in site.entries)
    words = f"{count(len(site.latest), 'backend')}, {count(len(site.entries), 'run')}, {count(cases, 'case')}."
    sections = [_runs(site), _causes(site), grids.by_backend_and_format(site), *grids.overview(site)]
    above = element("p", words, class_="facts")
    return frame.in_parts("index.html", "Backends compared", sections, above, most=2 * frame.PART)[0]


def _runs(site: Site) -> frame.Section:
    heads = ("run", "versions", "date", "host", "level", *_ORDER, "causes")
    rows = []
    for entry in site.entries:
        run, counts = entry.report.run, entry.report.counts
        name: list[Content] = [element("a", entry.label, href=entry.page)]
        name += [None if entry.is_latest else element("small", " earlier"), None if run.complete else " (unfinished)"]
        numbers = [f"{counts[v]:,}" for v in _ORDER]
        rows.append([name, versions(entry), run.started[:10], run.host, run.level, *numbers, len(entry.causes)])
    shown = frame.table("runs", heads, rows, "list runs")
    return frame.Section(element("section", element("h2", "Backends"), shown, id="runs"))


def versions(entry: Entry) -> str:
    """The versions of the tested packages, in words."""
    return ", ".join(f"{name} {version}" for name, version in entry.report.run.versions.items())


def _causes(site: Site) -> frame.Section:
    """The causes of the latest runs, a line for each, the most frequent first."""
    title = element("h2", "Failures by cause")
    if not site.causes:
        return frame.Section(element("section", title, element("p", "Nothing fails."), id="wrong"))
    heads = "cause", "signatures", "backends"
    rows = []
    for cause in site.causes[: 2 * _CAUSES]:
        sign = element("span", SIGNS[cause.verdict], class_=f"sign {cause.verdict}", aria_hidden="true")
        to = element("a", sentence(cause), href=site.cause_addresses[cause.identifier])
        runs: list[Content] = [element("a", r, href=_page_of(site, r)) for r in cause.runs]
        rows.append([[sign, " ", to], f"{len(cause.signatures):,}", frame.item_list(runs, _backends)])
    failing = {(m.run, m.case.signature) for c in site.causes for m in c.members}
    words = f"{count(len(failing), 'failing signature')} from {count(len(site.causes), 'cause')}."
    if len(site.causes) > len(rows):
        words += f" The {len(rows)} of most signatures:"
    more = element("a", "Every cause, with an example", href="causes.html")
    return frame.Section(
        element(
            "section",
            title,
            element("p", words, " ", more),
            frame.table("causes", heads, rows, "list causes"),
            id="wrong",
        )
    )


def _backends(n: int) -> str:
    return count(n, "backend")


def _page_of(site: Site, label: str) -> str:
    return next(e.page for e in site.entries if e.label == label)


# -- causes ------------------------------------------------------------------------------------------------------------


def causes(site: Site) -> dict[str, str]:
    """The page of causes: a card for each. Fills `site.cause_addresses`."""
    sections = []
    for cause in site.causes:
        name = site.names.of(f"cause {cause.identifier}")
        runs = element("p", "On ", join([[element("a", r, href=_page_of(site, r)), " "] for r in cause.runs]))
        shown = card(_few(cause), site.address, runs=runs, level="h2")
        sections.append(frame.Section(element("div", shown, id=name), name))
    words = "One fault is one card, however many operations and formats it fails. A card has the smallest example."
    above = element("p", words if sections else "Nothing fails.")
    pages, addresses = frame.in_parts("causes.html", "Causes", sections, above)
    for cause in site.causes:
        site.cause_addresses[cause.identifier] = addresses[site.names.of(f"cause {cause.identifier}")]
    return pages


#: Number of signatures listed for a cause and a run.
_LISTED = 400


def _few(cause: Cause) -> Cause:
    """A cause with no more cases of a run than are listed."""
    of_runs: dict[str, set[str]] = defaultdict(set)
    kept = []
    for member in cause.members:
        signatures = of_runs[member.run]
        if len(signatures) < _LISTED or member.case.signature in signatures:
            signatures.add(member.case.signature)
            kept.append(member)
    return cause if len(kept) == len(cause.members) else dataclasses.replace(cause, members=tuple(kept))


# -- runs --------------------------------------------------------------------------------------------------------------


def run(site: Site, entry: Entry) -> dict[str, str]:
    """The pages of a run: its facts, causes, changes, grid, and unsupported cases."""
    up = frame.root(entry.page)
    sections = [
        frame.Section(summary(entry.report)),
        *_cards(entry, up),
        _changes(entry, up),
        *grids.of_run(site, entry),
        _lacking(entry),
    ]
    title = f"{entry.report.run.backend}: conformance"
    sections = [s for s in sections if s.markup]
    return frame.in_parts(entry.page, title, sections, _facts(entry), most=2 * frame.PART)[0]


def _facts(entry: Entry) -> list[Content]:
    r = entry.report.run
    words = [f"level {r.level}", versions(entry), r.host, r.started, f"{r.seconds:.0f} s"]
    words += [f"{w} {', '.join(given)}" for w, given in (("ops", r.ops), ("formats", r.formats)) if given]
    note = "This run was not finished; the page has its finished cases." if not r.complete else None
    last = f"This is not the latest run of {r.backend}."
    again = f"minihlo conform {r.backend} --level {r.level}" + (f" --seed {r.seed}" if r.seed else "")
    return [
        element("p", " · ".join(w for w in words if w), class_="facts"),
        element("p", note, class_="note") if note else None,
        element("p", last, class_="note") if not entry.is_latest else None,
        element("pre", element("code", again), class_="command"),
    ]


def _cards(entry: Entry, up: str) -> Iterator[frame.Section]:
    if not entry.causes:
        return

    def address(_: str, case: CaseResult) -> str | None:
        to = entry.address(case)
        return up + to if to else None

    signatures = len({s for c in entry.causes for s in c.signatures})
    words = f"{count(signatures, 'signature')} fail from {count(len(entry.causes), 'cause')}."
    if len(entry.causes) > _CAUSES:
        words += f" The {_CAUSES} of most signatures:"
    head = [element("h2", "Causes"), element("p", words)]
    for i, cause in enumerate(entry.causes[:_CAUSES]):
        alone = dataclasses.replace(_few(cause), members=tuple(dataclasses.replace(m, run="") for m in cause.members))
        shown = card(alone, address)
        yield frame.Section(element("section", head, shown, id="causes") if i == 0 else shown)


def _changes(entry: Entry, up: str) -> frame.Section:
    """The number of cases that changed since the previous run."""
    if entry.before is None:
        return frame.Section(Markup())
    found = list(differences(entry.before.report, entry.report))
    kinds = dict.fromkeys(d.kind for d in found)
    words = ", ".join(f"{sum(d.kind == k for d in found):,} {k}" for k in kinds) or "no difference"
    return frame.Section(
        element(
            "section",
            element("h2", "Since the previous run"),
            element("p", "Against ", element("a", entry.before.label, href=up + entry.before.page), f": {words}. "),
            element("p", element("a", "All changes", href=f"{up}changes.html")),
            id="since",
        )
    )


def _lacking(entry: Entry) -> frame.Section:
    """The unsupported cases; the anchor always exists, as cells link to it."""
    shown = lacking(entry.report)
    return frame.Section(join([shown]) if shown else Markup())
