"""`minihlo conform`: runs the tester on a backend, lists its cases, or holds two of its results against each other."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..backends import Backend, backend, spellings
from ..conform import data, outcome, run
from ..conform.cases import Case
from ..conform.result import CRASH, FAIL, CaseResult, Report, load
from ..errors import InputError


def main(options: argparse.Namespace) -> int:
    """Run the command; returns 1 where something fails that --xfail does not name, or got worse."""
    names = options.names
    if names[:1] == ["diff"]:
        if len(names) != 3:
            raise InputError("minihlo conform diff takes two files: A.json B.json")
        return _diff(*names[1:])
    if options.list and not names:
        return _list(options)
    if len(names) != 1 or options.list:
        raise InputError(f"minihlo conform takes one backend ({spellings()})")
    made = backend(names[0])
    try:
        return _test(names[0], made, options)
    finally:
        made.close()


def _settings(name: str, options: argparse.Namespace) -> outcome.Settings:
    return outcome.Settings(
        name, options.level, options.seed, options.ulp, options.errors, options.timeout, tuple(options.operands)
    )


def _choice(options: argparse.Namespace) -> run.Choice:
    listed = ([p for text in given for p in text.split(",") if p] for given in (options.ops, options.formats))
    ops, formats = map(tuple, listed)
    return run.Choice(ops, formats, options.case, options.form, tuple(options.beside), options.tests)


def _test(name: str, made: Backend, options: argparse.Namespace) -> int:
    settings, choice = _settings(name, options), _choice(options)
    expected = _patterns(options.xfail)
    try:
        tasks = run.tasks(choice, settings, run.kind(made))
    except ValueError as error:
        raise InputError(str(error)) from None
    _check_operands(settings, {s.case for t in tasks for s in t.specs})
    path = Path(options.json) if options.json else None
    session = run.Session(run.described(settings, choice, made), settings, tasks, path)
    kept = session.resume()
    if kept:
        print(f"{path}: goes on after {kept} cases that an unfinished run left there", file=sys.stderr)
    workers = _workers(options, made, len(tasks))
    try:
        with _progress(session) as told:
            report = session.run(workers, told)
    except KeyboardInterrupt:
        there = (
            f"; {path} keeps {len(session.report.cases)} finished cases, and the same command goes on" if path else ""
        )
        print(f"interrupted{there}", file=sys.stderr)
        return 130
    report.cases = [_marked(c, expected) for c in report.cases]
    _write(report, options)
    return int(report.is_bad)


def _check_operands(settings: outcome.Settings, cases: set[Case]) -> None:
    if not settings.operands:
        return
    if len(cases) > 1 or not all(c.has_elements for c in cases):
        raise InputError("--operands goes with one --case, of an elementwise op")
    try:
        data.tuples(next(iter(cases)), list(settings.operands))
    except ValueError as error:
        raise InputError(str(error)) from None


def _workers(options: argparse.Namespace, made: Backend, tasks: int) -> run.Workers:
    if options.dask:
        from ..conform.workers import dask

        return dask(options.dask)
    jobs = min(options.jobs or os.cpu_count() or 1, tasks)
    if jobs == 1:
        return run.in_this_process(made)
    from ..conform.workers import processes

    return processes(jobs)


# -- reports -----------------------------------------------------------------------------------------------------------


def _write(report: Report, options: argparse.Namespace) -> None:
    """Everything that was asked for, from the one report."""
    from ..conform import terminal

    if options.json:
        report.save(options.json)
    if options.junit:
        from ..conform import junit

        junit.write(report, options.junit)
    if options.html:
        from ..conform import html

        html.write(report, options.html)
    terminal.show(report, _console())


def _console() -> Any:
    from rich.console import Console

    # What is not a terminal has no width; a grid of all formats takes a hundred columns.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@contextlib.contextmanager
def _progress(session: run.Session) -> Iterator[Callable[[list[CaseResult]], None]]:
    """A bar on standard error, with the time left; a function that moves it on."""
    if not sys.stderr.isatty() or session.total < 8:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=session.total, completed=session.done)

        def told(_: list[CaseResult]) -> None:
            bad = sum(c.verdict in (FAIL, CRASH) for c in session.report.cases)
            bar.update(task, completed=session.done, description=f"{bad} fail" if bad else "")

        yield told


# -- known failures ----------------------------------------------------------------------------------------------------


def _patterns(path: str | None) -> list[tuple[str, str]]:
    """Lines of a file: the pattern of a signature, and of a form where one is given; # begins a comment."""
    if path is None:
        return []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--xfail {path}: {error}") from None
    words = [line.partition("#")[0].split() for line in lines]
    wrong = next((w for w in words if len(w) > 2), None)
    if wrong:
        raise InputError(f"--xfail {path}: {' '.join(wrong)!r} (a line is SIGNATURE or SIGNATURE FORM)")
    return [(w[0], w[1] if len(w) > 1 else "*") for w in words if w]


def _marked(case: CaseResult, expected: list[tuple[str, str]]) -> CaseResult:
    fits = any(fnmatch.fnmatchcase(case.signature, s) and fnmatch.fnmatchcase(case.form, f) for s, f in expected)
    return dataclasses.replace(case, is_expected=True) if fits else case


# -- without running ---------------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> int:
    from ..conform.cases import forms

    found = _choice(options).cases(options.level)
    width = max((len(c.signature) for c in found), default=0)
    for case in found:
        print(f"{case.signature:{width}}  {' '.join(forms(case, options.level))}")
    return 0


def _diff(a: str, b: str) -> int:
    from collections import Counter

    from ..conform.differences import differences

    try:
        found = list(differences(load(a), load(b)))
    except (OSError, ValueError) as error:
        raise InputError(str(error)) from None
    for difference in found:
        print(difference)
    counts = Counter(d.kind for d in found)
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()) or "no difference")
    return int(counts["worse"] > 0)
