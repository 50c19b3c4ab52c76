"""`minihlo conform`: tests a backend, or lists the cases."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...ops.accumulators.record import Accumulator
from ...ops.close import hint
from ..backends import Backend, backend, spellings
from ..conform import files, run, shards, tests, waivers
from ..conform.cases import data
from ..conform.cases.case import Case
from ..conform.cases.cases import cases
from ..conform.cases.forms import FORMS
from ..conform.report import ci
from ..conform.result import CRASH, FAIL, UNSUPPORTED, CaseResult, Report
from ..conform.support import takes
from ..conform.verdicts import outcome
from ..errors import InputError, OutputError, WorkersLostError
from ..policies import accumulation
from . import conform_claim
from .terminal import progress_bar


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if a case fails that --xfail does not list.

    Raises InputError for a wrong command line.
    """
    if options.list and options.backend is None:
        return _list(options)
    if options.backend is None or options.list:
        got = "--list and a backend" if options.list else "none"
        raise InputError(f"expected one backend, got {got} (backends: {spellings()})")
    made = backend(options.backend)
    try:
        return _test(options.backend, made, options)
    finally:
        made.close()


def _settings(name: str, options: argparse.Namespace) -> outcome.Settings:
    records = tuple(record(text) for text in options.accumulate)
    limits = options.level, options.seed, options.ulp, options.errors, options.timeout
    return outcome.Settings(name, *limits, tuple(options.operands), records)


def record(text: str) -> str:
    """An accumulator of --accumulate, as text. Raises InputError if it is invalid."""
    found = accumulation(text)
    try:
        return (Accumulator.from_text(found) if isinstance(found, str) else found).to_text()
    except ValueError as error:
        raise InputError(f"--accumulate {text}: {str(error).removeprefix('accumulator: ')}") from None


def choice_of_options(options: argparse.Namespace) -> run.Choice:
    """The cases that the options choose. Raises InputError."""
    listed = ([p for text in given for p in text.split(",") if p] for given in (options.ops, options.formats))
    ops, formats = map(tuple, listed)
    try:
        shards.has(options.shard, "")
    except ValueError as error:
        raise InputError(f"--shard: {error}") from None
    beside, folder = tuple(getattr(options, "beside", ())), getattr(options, "tests", "")
    return run.Choice(ops, formats, options.case, options.form, beside, folder, shard=options.shard)


def _test(name: str, made: Backend, options: argparse.Namespace) -> int:
    settings, choice, held = _settings(name, options), choice_of_options(options), conform_claim.profile_run(options)
    expected = waivers.read_known(options.xfail)
    if held is None:
        check(choice, options.level)
    else:
        held.check_waivers(takes(made))
        settings, choice = held.settings(settings), dataclasses.replace(held.profile.choice(), shard=choice.shard)
    check_outputs(options)
    try:
        tasks = run.tasks(choice, settings, takes(made))
    except ValueError as error:
        raise InputError(str(error)) from None
    _check_operands(settings, {s.case for t in tasks for s in t.specs})
    session = run.Session(run.describe_run(settings, choice, made), settings, tasks, path_of(options))
    report = conclude(session, _workers(options, made, len(tasks)), options, expected)
    if isinstance(report, int):
        return report
    dead = _dead(report, expected)
    for command in dead:
        print(f"{name} crashes on a type, so no case of that type was run. To reproduce: {command}", file=sys.stderr)
    return status_of(report, None if choice.shard else held, takes(made), options, bool(dead))


def status_of(
    report: Report, held: conform_claim.ProfileRun | None, takes: str, options: argparse.Namespace, is_bad: bool = False
) -> int:
    """Print the verdict of a profile and the annotations for CI. Returns the exit status."""
    if held is not None:
        return conform_claim.finish(held, report, takes, options)
    if options.github:
        conform_claim.annotate(report)
    return int(report.is_bad or is_bad)


def path_of(options: argparse.Namespace) -> Path | None:
    """The file of --json, in which a run can go on; None for a pipe, which is written once."""
    path = Path(options.json or "")
    return path if options.json and (path.is_file() or not path.exists()) else None


def conclude(
    session: run.Session, workers: run.Workers, options: argparse.Namespace, expected: Sequence[waivers.Waiver]
) -> Report | int:
    """Run what is left of a session and write its reports. Returns the exit status where it was interrupted."""
    path, kept = session.path, session.resume()
    if kept:
        print(f"{path}: continues an unfinished run, which has {kept} cases", file=sys.stderr)
    try:
        with _progress(session) as report_progress:
            report = session.run(workers, report_progress)
    except (KeyboardInterrupt, WorkersLostError) as error:
        is_lost = isinstance(error, WorkersLostError)
        saved = f"{path} holds {len(session.report.cases)} finished cases; the same command continues"
        why = str(error) if is_lost else "interrupted"
        print("; ".join([why, *([str(session.failure or saved)] if path else [])]), file=sys.stderr)
        return 2 if is_lost else 130
    report.cases = [waivers.mark_expected(c, expected) for c in report.cases]
    write_reports(report, options)
    signatures = (c.signature for c in run.Choice(tests=getattr(options, "tests", "")).cases(3))
    for line in waivers.outdated_lines(expected, report.cases, signatures):
        print(f"--xfail {options.xfail}: {line}", file=sys.stderr)
    return report


def _check_operands(settings: outcome.Settings, cases: set[Case]) -> None:
    if not settings.operands:
        return
    if len(cases) > 1 or not all(c.has_elements for c in cases):
        raise InputError(f"--operands: expected one --case of an elementwise op, got {len(cases)} cases")
    try:
        data.tuples(next(iter(cases)), list(settings.operands))
    except ValueError as error:
        raise InputError(str(error)) from None


def _workers(options: argparse.Namespace, made: Backend, tasks: int) -> run.Workers:
    if options.dask:
        from ..conform.cluster import dask

        return dask(options.dask)
    jobs = min(options.jobs or os.cpu_count() or 1, tasks)
    if jobs <= 1:
        return run.in_this_process(made)
    from ..conform.workers import processes

    return processes(jobs)


# -- reports -----------------------------------------------------------------------------------------------------------


def write_reports(report: Report, options: argparse.Namespace) -> None:
    """Write all requested reports. Raises OutputError if one cannot be written."""
    from ..conform.report import html, terminal

    failures: list[OutputError] = []
    for path, write in ((options.json, Report.save), (options.junit, ci.write_junit), (options.html, html.write)):
        try:
            if path:
                write(report, path)
        except OutputError as error:  # the other reports are still written
            failures.append(error)
    terminal.show(report, _console())
    sys.stdout.flush()
    if failures:
        raise OutputError("; ".join(map(str, failures)))


def _console() -> Any:
    from rich.console import Console

    # A pipe or file has no width. A grid of all formats takes a hundred columns.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@contextlib.contextmanager
def _progress(session: run.Session) -> Iterator[Callable[[list[CaseResult]], None]]:
    """Show a progress bar with the remaining time on standard error. Yields a function that advances it."""
    with progress_bar(session.total, session.done, least=8) as show:

        def advance(_: list[CaseResult]) -> None:
            bad = sum(c.verdict in (FAIL, CRASH) for c in session.report.cases)
            show(session.done, f"{bad} fail" if bad else "")

        yield advance


# -- options -----------------------------------------------------------------------------------------------------------


def check(choice: run.Choice, level: int) -> None:
    """Check the patterns of the options. Raises InputError if one of them matches nothing."""
    every = [*cases(3), *(tests.cases(choice.tests) if choice.ops or choice.case else [])]
    types = dict.fromkeys(t for c in every for t in c.types)
    ops = dict.fromkeys(n for c in every for n in (c.op, c.name))
    signatures = [c.signature for c in every]
    for option, expected, patterns, names in (
        ("--formats", "an element type", choice.formats, types),
        ("--ops", "an op", choice.ops, ops),
        ("--case", "a signature", [choice.case], signatures),
        ("--form", "a form", [choice.form], FORMS),
    ):
        for pattern in filter(None, patterns):
            if not fnmatch.filter(names, pattern):
                close = hint(pattern, names) or " (minihlo conform --list lists them)"
                raise InputError(f"{option}: expected {expected} or a pattern, got {pattern}{close}")
    if not choice.of_all_shards(level):
        raise InputError("expected options that select a case, got none selected (minihlo conform --list lists all)")


def check_outputs(options: argparse.Namespace) -> None:
    """Check that all output files can be written, before any case runs. Raises OutputError."""
    badges = getattr(options, "badge", ())
    ci.check_badges(badges)
    given = [(o, getattr(options, o, None)) for o in ("json", "junit", "html", "submit")]
    for option, name in (*given, *(("badge", file) for file in badges)):
        if name is None:
            continue
        try:
            files.check(name)
        except OutputError as error:
            raise OutputError(f"--{option} {error}") from None


def _dead(report: Report, expected: Sequence[waivers.Waiver]) -> list[str]:
    """Return commands that reproduce crashes on a type for which no case of this run failed."""
    reported = {c.signature for c in report.cases if c.op == "type"}
    commands = dict.fromkeys(c.command for c in report.cases if c.verdict == UNSUPPORTED and c.command)
    signatures = {c: next(w for w in c.split() if w.startswith("type.")) for c in commands}
    return [c for c, s in signatures.items() if s not in reported and not any(k.names(s) for k in expected)]


# -- without running ---------------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> int:
    from ..conform.cases.forms import forms

    choice = choice_of_options(options)
    check(choice, options.level)
    chosen = choice.cases(options.level)
    width = max((len(c.signature) for c in chosen), default=0)
    for case in chosen:
        names = forms(case, options.level) or forms(case, options.level, "operations")
        print(f"{case.signature:{width}}  {' '.join(names)}")
    return 0
