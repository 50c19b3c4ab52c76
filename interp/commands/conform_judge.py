"""`minihlo conform judge`: grades the results of test vectors."""

from __future__ import annotations

import argparse
import dataclasses

from .. import __version__
from ..conform import run, waivers
from ..conform.merge import choice_of, profile_of
from ..conform.tester import RecordedTester
from ..conform.vectors import judge, manifest, results
from ..conform.verdicts.outcome import Settings
from ..errors import InputError
from . import conform, conform_claim

#: The name of a backend without name.
_NAME = "recorded"


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if a case fails that --xfail does not list.

    Raises InputError for a wrong command line, vectors that have changed, and results that are not whole.
    """
    further = conform.choice_of_options(options)
    expected = waivers.read_known(options.xfail)
    conform.check_outputs(options)
    vectors = manifest.load(options.folder)
    made = vectors.made
    if made.minihlo != __version__:
        raise InputError(f"{options.folder}: expected vectors of minihlo {__version__}, got those of {made.minihlo}")
    conform.check(further, 3)
    profile = profile_of(made.options, options.profile)
    choice = choice_of(made.ops, made.formats, made.options, profile)
    if choice.shard and further.shard:
        raise InputError(f"--shard: expected none, as the vectors are the shard {choice.shard} themselves")
    choice = dataclasses.replace(choice, shard=choice.shard or further.shard)
    records = tuple(conform.record(text) for text in options.accumulate)
    settings = Settings("", made.level, made.seed, made.ulp, options.errors, accumulators=records, is_recorded=True)
    try:
        tasks = judge.select_tasks(run.tasks(choice, settings, "operations"), further)
    except ValueError as error:
        raise InputError(f"{options.folder}: {error}") from None
    held = conform_claim.assessment_run(profile, options)
    if held is not None and (choice.shard or further != run.Choice()):
        if held.keeps or options.waivers or options.badge:
            raise InputError("--submit, --waivers, --badge: expected all cases of the profile, got a part of them")
        held = None
    if held is not None:
        held.check_waivers("operations")
        settings = dataclasses.replace(settings, keeps=held.keeps)
    if not tasks and not choice.shard:
        raise InputError(f"{options.folder}: expected options that select a case of the vectors, got none selected")
    found = results.read(options.results, vectors.cases, judge.wanted_entries(vectors, tasks), vectors.vectors)
    settings = dataclasses.replace(settings, backend=options.name or found.backend or _NAME)
    given = {name: getattr(further, name) or getattr(choice, name) for name in ("ops", "formats", "case", "form")}
    choice = dataclasses.replace(choice, **given)
    tester = RecordedTester(settings, "operations", judge.replay(vectors, found))
    session = run.Session(run.describe_run(settings, choice, tester), settings, tasks, conform.path_of(options))
    report = conform.conclude(session, run.in_this_process(None, tester), options, expected)
    return report if isinstance(report, int) else conform.status_of(report, held, "operations", options)
