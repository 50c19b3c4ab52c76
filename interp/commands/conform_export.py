"""`minihlo conform export`: writes cases as test vectors."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import __version__
from ..conform import run
from ..conform.vectors.export import export
from ..conform.vectors.manifest import Made
from ..conform.verdicts.outcome import Settings
from ..errors import InputError
from . import conform


def main(options: argparse.Namespace) -> int:
    """Run the command. Raises InputError for a wrong command line, and OutputError."""
    choice = conform.choice_of_options(options)
    conform.check(choice, options.level)
    settings = Settings("vectors", options.level, options.seed, options.ulp)
    try:
        tasks = run.tasks(choice, settings, "operations")
    except ValueError:
        raise InputError("expected a case that a function on arrays can compute, got none") from None
    given = run.options_of(settings, choice)
    made = Made(
        __version__,
        options.files,
        options.level,
        options.seed,
        options.ulp,
        list(choice.ops),
        list(choice.formats),
        given,
    )
    count, size, vectors = export(Path(options.folder), tasks, made)
    print(f"{options.folder}: {count:,} cases, {size:,} bytes, vectors {vectors}")
    return 0
