"""The frame of all pages, and the division of long pages into parts. The pages are `site*.html` of the templates."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable

from ... import pages
from ...judging.groups import group
from ..report.html import NAMES
from ..result import CaseResult

STYLE = "site.css"
#: The pages that every page links to.
_NAVIGATION = {
    "index.html": "Overview",
    "causes.html": "Causes",
    "accumulators.html": "Accumulators",
    "choices.html": "Choices",
    "changes.html": "Changes",
}
#: A page of this many characters continues in the next part. A section is much shorter.
PART = 300_000


@dataclasses.dataclass(frozen=True)
class Section:
    """A piece of a page that is not divided."""

    markup: str
    anchor: str = ""  #: the id of its element


def root(path: str) -> str:
    """The relative path from a page to the root of the site."""
    return "../" * path.count("/")


def in_parts(
    path: str, title: str, sections: Iterable[Section], above: str = "", most: int = PART
) -> tuple[dict[str, str], dict[str, str]]:
    """The pages of some sections, by path, at least one, and the addresses of their anchors from the root.

    Args:
        path: the address of the first page, from the root.
        title: its title.
        sections: the content.
        above: the content of the first page between the title and the sections.
        most: the number of characters of a page that continues in the next part.
    """
    parts: list[list[Section]] = [[]]
    size = 0
    for section in sections:
        if parts[-1] and size + len(section.markup) > most:
            parts.append([])
            size = 0
        parts[-1].append(section)
        size += len(section.markup)
    paths = [path, *(f"{path.removesuffix('.html')}-{i}.html" for i in range(2, len(parts) + 1))]
    names = [at.rsplit("/", 1)[-1] for at in paths]
    addresses, pages = {}, {}
    for i, (at, part) in enumerate(zip(paths, parts, strict=True)):
        addresses |= {s.anchor: f"{at}#{s.anchor}" for s in part if s.anchor}
        heading = title if i == 0 else f"{title}, part {i + 1}"
        pages[at] = render(
            "site.html",
            title=heading if at == "index.html" else f"{heading} - conformance",
            heading=heading,
            path=at,
            up=root(at),
            above=above if i == 0 else "",
            sections=[s.markup for s in part],
            parts=names,
            part=i,
        )
    return pages, addresses


def said(case: CaseResult) -> str:
    """The best explanation of a case."""
    return case.diagnosis or case.message or case.model or "; ".join(case.choices)


#: The renderer of the site.
render = pages.renderer(
    **NAMES,
    NAVIGATION=_NAVIGATION,
    by_verdict=lambda cases: group(cases, lambda c: c.verdict),
    quote=shlex.quote,
    said=said,
)
