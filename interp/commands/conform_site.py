"""`minihlo conform site`: writes static pages of the results in a folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..conform.site import build, read
from ..errors import count, printable


def main(options: argparse.Namespace) -> int:
    """Write the pages. Raises InputError for a folder without results, OutputError if a page cannot be written."""
    loaded, others = read.reports(Path(options.results))
    for path in others:
        print(printable(f"{path}: skipped, as it is not a result of minihlo conform"), file=sys.stderr)
    pages = build.build(loaded, Path(options.out))
    print(printable(f"{Path(options.out) / 'index.html'}: {count(pages, 'page')} of {count(len(loaded), 'run')}"))
    return 0
