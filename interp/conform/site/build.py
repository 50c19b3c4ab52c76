"""Writes the site: each page once, one style sheet, and no remaining file of an earlier site."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from ... import pages
from ...errors import InputError, OutputError
from .. import files
from . import cells, facts, front, grids
from .frame import STYLE
from .model import Site, site
from .read import LoadedReport

#: The list of written files, which the next site removes.
_LIST = "files.txt"


def build(loaded: Sequence[LoadedReport], out: Path) -> int:
    """Writes the pages of some reports to a folder and returns their number.

    Raises InputError if the folder has other files than those of an earlier site, and OutputError if it cannot be
    written.
    """
    before = _earlier(out)
    made = site(loaded)
    written: list[str] = []
    for path, text in (*_pages(made), (STYLE, pages.style("report.css", STYLE))):
        target = out / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{target.parent}: {error.strerror or error}") from None
        files.write(target, text)
        written.append(path)
    files.write(out / _LIST, "".join(f"{p}\n" for p in sorted(written)))
    for path in before - set(written):
        with contextlib.suppress(OSError):
            (out / path).unlink()
    return sum(p.endswith(".html") for p in written)


def _pages(made: Site) -> Iterator[tuple[str, str]]:
    """Every page, in an order that resolves links: pages that others link to come first."""
    for entry in made.entries:
        yield from cells.pages(made, entry)
    yield from front.causes(made).items()
    for entry in made.entries:
        yield from front.run(made, entry).items()
    for row in made.rows:
        yield from grids.of_operation(made, row).items()
    for column in made.columns:
        yield from grids.of_format(made, column).items()
    for page in (facts.accumulators, facts.choices, facts.changes, front.index):
        yield from page(made).items()


def _earlier(out: Path) -> set[str]:
    """The files of an earlier site in a folder. Raises InputError if there are other files and no such site."""
    if not out.exists():
        return set()
    if not out.is_dir():
        raise InputError(f"{out}: expected a folder, got a file")
    try:
        lines = (out / _LIST).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        if any(out.iterdir()):
            raise InputError(f"{out}: expected an empty folder, or one with an earlier site, got other files") from None
        return set()
    paths = (PurePosixPath(line) for line in lines)
    return {str(p) for p in paths if p.suffix in (".html", ".css") and not p.is_absolute() and ".." not in p.parts}
