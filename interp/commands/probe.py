"""`minihlo probe`: finds how a backend sums products."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator

from ..probing.probe import probe
from .diff import write_json


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if no record predicts every dot."""
    types = options.type.split(",")
    with _progress() as show:
        report = probe(
            options.backend,
            type=types[0] if len(types) == 1 else types,
            result=options.result,
            k=options.k,
            seed=options.seed,
            progress=show,
        )
    print(report)
    write_json(options.json, report.to_json())
    return int(not report.is_found)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None] | None]:
    """Yield a function that shows a line of text on a terminal's standard error, replacing the previous one."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update
