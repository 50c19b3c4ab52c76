"""The first page, the page of causes, and a page for each run."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator

from ..causes import Cause
from ..result import CaseResult
from ..verdicts.differences import differences
from . import frame, grids
from .frame import Section, render
from .model import Entry, Site

#: Maximum number of causes on the page of a run, and of signatures listed for a cause and a run.
_CAUSES, _LISTED = 40, 400


def index(site: Site) -> dict[str, str]:
    """The first page, in as many parts as it needs: runs, causes, grids."""
    failing = {(m.run, m.case.signature) for c in site.causes for m in c.members}
    sections = [
        Section(render("site_front.html#runs", site=site)),
        Section(render("site_front.html#causes", site=site, most=2 * _CAUSES, failing=len(failing))),
        grids.by_backend_and_format(site),
        *grids.overview(site),
    ]
    above = render("site_front.html#above", site=site)
    return frame.in_parts("index.html", "Backends compared", sections, above, most=2 * frame.PART)[0]


def causes(site: Site) -> dict[str, str]:
    """The page of causes: a card for each. Fills `site.cause_addresses`."""
    names = {cause.identifier: site.names.of(f"cause {cause.identifier}") for cause in site.causes}
    sections = []
    for cause in site.causes:
        name = names[cause.identifier]
        sections.append(Section(render("site_front.html#cause", site=site, cause=_few(cause), name=name), name))
    above = render("site_front.html#causes_above", site=site)
    pages, addresses = frame.in_parts("causes.html", "Causes", sections, above)
    site.cause_addresses |= {identifier: addresses[name] for identifier, name in names.items()}
    return pages


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


def run(site: Site, entry: Entry) -> dict[str, str]:
    """The pages of a run: its facts, causes, changes, grid, and unsupported cases."""
    up = frame.root(entry.page)
    sections = [
        Section(render("summary.html#summary", report=entry.report)),
        *_cards(entry, up),
        *_changes(entry, up),
        *grids.of_run(site, entry),
        Section(render("summary.html#lacking", report=entry.report)),
    ]
    title = f"{entry.report.run.backend}: conformance"
    above = render("site_front.html#run_facts", entry=entry)
    return frame.in_parts(entry.page, title, sections, above, most=2 * frame.PART)[0]


def _cards(entry: Entry, up: str) -> Iterator[Section]:
    def address(_: str, case: CaseResult) -> str | None:
        to = entry.address(case)
        return up + to if to else None

    for i, cause in enumerate(entry.causes[:_CAUSES]):
        alone = dataclasses.replace(_few(cause), members=tuple(dataclasses.replace(m, run="") for m in cause.members))
        data = {"entry": entry, "cause": alone, "most": _CAUSES, "address": address, "is_first": i == 0}
        yield Section(render("site_front.html#run_cause", **data))


def _changes(entry: Entry, up: str) -> Iterator[Section]:
    """The number of cases that changed since the previous run."""
    if entry.before is not None:
        kinds = Counter(d.kind for d in differences(entry.before.report, entry.report))
        yield Section(render("site_front.html#since", before=entry.before, kinds=kinds, up=up))
