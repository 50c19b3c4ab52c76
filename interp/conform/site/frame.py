"""The frame of all pages: head, navigation, landmarks; tables; and the division of long pages into parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from ..report.html_cases import SIGNS
from ..report.markup import Content, Markup, element, join, page_head, scroll_box

STYLE = "site.css"
#: The pages that every page links to.
_NAVIGATION = (
    ("index.html", "Overview"),
    ("causes.html", "Causes"),
    ("accumulators.html", "Accumulators"),
    ("choices.html", "Choices"),
    ("changes.html", "Changes"),
)
#: A page of this many characters continues in the next part. A section is much shorter.
PART = 300_000


@dataclasses.dataclass(frozen=True)
class Section:
    """A piece of a page that is not divided."""

    markup: Markup
    anchor: str = ""  #: the id of its element


def root(path: str) -> str:
    """The relative path from a page to the root of the site."""
    return "../" * path.count("/")


def page(path: str, title: str, *content: Content, above: Content = None) -> str:
    """A page. `path` is its address from the root, `above` the content between the title and the rest."""
    up = root(path)
    whole = title if path == "index.html" else f"{title} - conformance"
    head = page_head(whole, element("link", rel="stylesheet", href=up + STYLE))
    links = [
        element("li", element("a", words, href=up + to, aria_current="page" if to == path else None))
        for to, words in _NAVIGATION
    ]
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element("nav", element("ul", links), aria_label="The site"),
        element("header", element("h1", title), above),
        element("main", content, id="content", tabindex="-1"),
        element("footer", element("p", "Made by ", element("code", "minihlo conform site"), ".")),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def parts(path: str, sections: Iterable[Section], most: int = PART) -> list[tuple[str, list[Section]]]:
    """Distributes the sections of a page over as many pages as they need: x.html, x-2.html, …; at least one."""
    pages: list[list[Section]] = [[]]
    size = 0
    for section in sections:
        if pages[-1] and size + len(section.markup) > most:
            pages.append([])
            size = 0
        pages[-1].append(section)
        size += len(section.markup)
    stem = path.removesuffix(".html")
    return [(f"{stem}-{i + 1}.html" if i else path, part) for i, part in enumerate(pages)]


def in_parts(
    path: str, title: str, sections: Iterable[Section], above: Content = None, most: int = PART
) -> tuple[dict[str, str], dict[str, str]]:
    """The pages of some sections, by path, and the addresses of their anchors from the root."""
    made = parts(path, sections, most)
    addresses = {s.anchor: f"{at}#{s.anchor}" for at, part in made for s in part if s.anchor}
    pages = {}
    for i, (at, part) in enumerate(made):
        words = title if i == 0 else f"{title}, part {i + 1}"
        others = _others([p for p, _ in made], i)
        pages[at] = page(at, words, [s.markup for s in part], others, above=[above if i == 0 else None, others])
    return pages, addresses


def _others(paths: Sequence[str], here: int) -> Content:
    """Links to the other parts."""
    if len(paths) == 1:
        return None
    names = [p.rsplit("/", 1)[-1] for p in paths]
    links = [
        element("li", element("a", f"part {i + 1}", href=n, aria_current="page" if i == here else None))
        for i, n in enumerate(names)
    ]
    return element("ul", links, class_="parts")


# -- tables ------------------------------------------------------------------------------------------------------------


def table(label: str, heads: Sequence[Content], rows: Iterable[Sequence[Content]], class_: str = "list") -> Markup:
    """A table with a head, whose first cells head the rows."""
    head = element("thead", element("tr", [element("th", h, scope="col") for h in heads]))
    body = [element("tr", element("th", first, scope="row"), [element("td", x) for x in rest]) for first, *rest in rows]
    return scroll_box(label, element("table", head, element("tbody", body), class_=class_))


def key(meanings: dict[str, str]) -> Markup:
    """The legend of the signs of verdicts."""
    items = [
        element("li", element("span", SIGNS[v], class_=f"sign {v}", aria_hidden="true"), f" {v}: {words}")
        for v, words in meanings.items()
    ]
    return element("ul", items, class_="key")


def cell(verdict: str | None, words: str, href: str | None) -> Markup:
    """A cell of a grid: the sign of a verdict, in its colour, with a link."""
    if verdict is None:
        return element("td", class_="none")
    sign: Content = SIGNS[verdict]
    sign = element("a", sign, href=href, aria_label=words, title=words) if href else element("abbr", sign, title=words)
    return element("td", sign, class_=verdict)


def grid(label: str, columns: Sequence[Content], rows: Iterable[tuple[Content, Sequence[Markup]]]) -> Markup:
    """A grid of cells, with upright heads."""
    heads = [element("th", element("span", c), scope="col") for c in columns]
    body = [element("tr", element("th", head, scope="row"), cells) for head, cells in rows]
    top = element("thead", element("tr", element("td"), heads))
    return scroll_box(label, element("table", top, element("tbody", body), class_="grid"))


def item_list(items: Sequence[Content], what: Callable[[int], str], few: int = 6) -> Content:
    """A list of items; a long one is collapsed."""
    shown = join([[x, " "] for x in items])
    return shown if len(items) <= few else element("details", element("summary", what(len(items))), shown)
