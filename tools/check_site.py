"""Checks that no page of the built documentation loads anything from the network: `python -m tools.check_site FOLDER`.

Links that a reader may follow are allowed. What a browser loads by itself (scripts, styles, images, fonts, frames) must
be a file of the site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

#: Attributes whose addresses a browser loads by itself, by element. `link` is read by its `rel`.
_LOADED = {"script": "src", "img": "src", "source": "srcset", "iframe": "src", "video": "src", "audio": "src"}
_LOADED_LINKS = {"stylesheet", "preload", "icon", "preconnect", "dns-prefetch", "modulepreload", "prefetch"}
_REMOTE = re.compile(r"\s*(https?:)?//")
_IN_STYLES = re.compile(r"(?:url\(|@import\s+)\s*['\"]?\s*((?:https?:)?//[^'\")]+)")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _LOADED and _LOADED[tag] in given:
            self.addresses.append(given[_LOADED[tag]])
        if tag == "link" and _LOADED_LINKS & set(given.get("rel", "").split()):
            self.addresses.append(given.get("href", ""))
        self.addresses += _IN_STYLES.findall(given.get("style", ""))


def loaded_addresses(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each address outside the site that a page or a style sheet loads."""
    for path in sorted(folder.rglob("*.html")):
        page = _Page()
        page.feed(path.read_text())
        yield from ((path, a) for a in page.addresses if _REMOTE.match(a))
    for path in sorted(folder.rglob("*.css")):
        yield from ((path, a) for a in _IN_STYLES.findall(path.read_text()))


def main() -> int:
    (folder,) = map(Path, sys.argv[1:])
    pages = list(folder.rglob("*.html"))
    result = [f"{path}: loads {address}" for path, address in loaded_addresses(folder)]
    print("\n".join(result) or f"{len(pages)} pages load nothing from the network")
    return int(bool(result) or not pages)


if __name__ == "__main__":
    sys.exit(main())
