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


def parts(path: str, sections: Iterable[Section], most: int = PART) -> list[tuple[str, list[Section]]]:
    """Distributes the sections of a page over as many pages as they need: x.html, x-2.html, …; at least one."""
    made: list[list[Section]] = [[]]
    size = 0
    for section in sections:
        if made[-1] and size + len(section.markup) > most:
            made.append([])
            size = 0
        made[-1].append(section)
        size += len(section.markup)
    stem = path.removesuffix(".html")
    return [(f"{stem}-{i + 1}.html" if i else path, part) for i, part in enumerate(made)]


def in_parts(
    path: str, title: str, sections: Iterable[Section], above: str = "", most: int = PART
) -> tuple[dict[str, str], dict[str, str]]:
    """The pages of some sections, by path, and the addresses of their anchors from the root.

    Args:
        path: the address of the first page, from the root.
        title: its title.
        sections: the content.
        above: the content of the first page between the title and the sections.
        most: the number of characters of a page that continues in the next part.
    """
    made = parts(path, sections, most)
    addresses = {s.anchor: f"{at}#{s.anchor}" for at, part in made for s in part if s.anchor}
    names = [at.rsplit("/", 1)[-1] for at, _ in made]
    pages = {}
    for i, (at, part) in enumerate(made):
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
