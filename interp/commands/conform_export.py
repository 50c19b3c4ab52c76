"""`minihlo conform export`: writes cases as test vectors, or as programs that check themselves."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from .. import __version__
from ..conform import profiles, run
from ..conform.vectors.export import export
from ..conform.vectors.manifest import ExportOptions
from ..conform.verdicts.outcome import Settings
from ..errors import InputError, count
from . import conform, conform_claim


def main(options: argparse.Namespace) -> int:
    """Run the command. Raises InputError for a wrong command line, and OutputError."""
    choice = conform.choice_of_options(options)
    level, seed, ulp = options.level, options.seed, options.ulp
    if options.profile is None:
        conform.check(choice, level)
    else:
        conform_claim.check_choosing(options)
        profile = profiles.load(options.profile)
        level, seed, ulp = profile.level, profile.seed, profile.ulp
        choice = dataclasses.replace(profile.choice(), shard=choice.shard)
    settings = Settings("vectors", level, seed, ulp)
    if options.files == "mlir":
        return _programs(Path(options.folder), choice, settings, options.stablehlo_version)
    if options.stablehlo_version:
        raise InputError("--stablehlo-version: expected --as mlir with it")
    try:
        tasks = run.tasks(choice, settings, "operations")
    except ValueError:
        raise InputError("expected a case that a function on arrays can compute, got none") from None
    chosen = list(choice.ops), list(choice.formats), run.options_of(settings, choice)
    made = ExportOptions(__version__, options.files, level, seed, ulp, *chosen)
    calls, size, vectors = export(Path(options.folder), tasks, made)
    print(f"{options.folder}: {calls:,} cases, {size:,} bytes, vectors {vectors}")
    return 0


def _programs(folder: Path, choice: run.Choice, settings: Settings, version: str) -> int:
    from ..conform.vectors import mlir

    try:
        tasks = run.tasks(choice, settings, "programs")
    except ValueError as error:
        raise InputError(str(error)) from None
    programs, size, left_out = mlir.write(folder, tasks, settings, version)
    words = f"{folder}: {count(programs, 'program')}, {size:,} bytes"
    print(f"{words}; {left_out:,} of sums, blocks and tests left out" if left_out else words)
    return 0
