"""The choice of cases that a report or a folder of vectors records, and the merging of reports of shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from . import profiles, run, shards
from .profiles import Profile
from .result import Report
from .run import Choice
from .verdicts.outcome import Settings

#: The options with a single value, by their names in a report.
_SINGLE = ("case", "form", "tests", "shard")


def profile_of(options: Mapping[str, Sequence[str]], named: str | None = None) -> Profile | None:
    """The profile named in the options of `result.Run`, None if there is none.

    Args:
        options: the options.
        named: the name or the file of the profile, unless it is one of minihlo's.

    Raises InputError if the profile is missing or differs.
    """
    text = (options.get("profile") or [""])[0]
    if not text:
        if named is not None:
            raise InputError(f"--profile: expected none, as the cases are not those of a profile, got {named}")
        return None
    profile = profiles.load(named or text.split()[0])
    if profile.choice().profile != text:
        raise InputError(f"--profile: expected the profile {text}, got {profile.choice().profile}")
    return profile


def choice_of(
    ops: Sequence[str], formats: Sequence[str], options: Mapping[str, Sequence[str]], profile: Profile | None = None
) -> Choice:
    """The choice of ops, formats and options in `result.Run`, and of their profile."""
    if profile is not None:
        return dataclasses.replace(profile.choice(), shard=(options.get("shard") or [""])[0])
    case, form, tests, shard = (options[name][0] if options.get(name) else "" for name in _SINGLE)
    return Choice(tuple(ops), tuple(formats), case, form, tuple(options.get("beside", ())), tests, shard=shard)


def merge_reports(reports: Sequence[Report], names: Sequence[str], profile: Profile | None = None) -> Report:
    """Merges the reports of all shards.

    Args:
        reports: the reports of all shards, in any order.
        names: their names in messages.
        profile: the profile whose cases were run.

    Raises InputError unless they are all shards of one run, each once and complete.
    """
    places: dict[int, str] = {}
    count, first = 0, reports[0]
    for report, name in zip(reports, names, strict=True):
        given = report.run.options.get("shard", [])
        if not given:
            raise InputError(f"{name}: expected the report of a shard (--shard I/N), got the report of a whole run")
        try:
            index, of = shards.parse(given[0])
        except ValueError as error:
            raise InputError(f"{name}: {error}") from None
        if not report.run.complete:
            raise InputError(f"{name}: expected a complete run, got one that was interrupted")
        for field, one in _facts(first).items():
            if (two := _facts(report)[field]) != one:
                raise InputError(f"{name}: expected the same {field} as {names[0]}, {one}, got {two}")
        if count not in (0, of):
            raise InputError(f"{name}: expected one of {count} shards, as {names[0]}, got a shard of {of}")
        if index in places:
            raise InputError(f"{name}: expected each shard once, got {given[0]}, as in {places[index]}")
        places[index], count = name, of
        foreign = next((c.signature for c in report.cases if not shards.has(given[0], c.signature)), None)
        if foreign is not None:
            raise InputError(f"{name}: expected cases of the shard {given[0]}, got {foreign}, of another shard")
    missing = [f"{i}/{count}" for i in range(1, count + 1) if i not in places]
    if missing:
        raise InputError(f"expected all shards, got none for {', '.join(missing)}")
    return _whole(reports, profile)


def _facts(report: Report) -> dict[str, Any]:
    """The facts in which the shards of a run agree."""
    run = report.run
    options = {k: v for k, v in run.options.items() if k != "shard"}
    facts = {"backend": run.backend, "level": run.level, "seed": run.seed, "ulp": run.ulp, "ops": run.ops}
    return facts | {"formats": run.formats, "versions": run.versions, "takes": run.takes, "options": options}


def _whole(reports: Sequence[Report], profile: Profile | None) -> Report:
    runs = [r.run for r in reports]
    started, seconds = min(r.started for r in runs), round(sum(r.seconds for r in runs), 1)
    made = {"host": "; ".join(dict.fromkeys(r.host for r in runs)), "started": started, "seconds": seconds}
    whole = Report(dataclasses.replace(runs[0], **_facts(reports[0]), **made))
    cases = {c.key: c for r in reports for c in r.cases}
    order = {key: i for i, key in enumerate(_keys(whole, profile))}
    unknown = next((c for c in cases.values() if c.key not in order), None)
    if unknown is not None:
        raise InputError(f"expected cases of this version of minihlo, got {unknown.signature} {unknown.form}")
    missing = next((key for key in order if key not in cases), None)
    if missing is not None:
        raise InputError(f"expected all cases of the run, got none for {' '.join(missing)}")
    whole.cases = sorted(cases.values(), key=lambda c: order[c.key])
    return whole


def _keys(report: Report, profile: Profile | None) -> list[tuple[str, str]]:
    """The cases of a run, in the order of its report."""
    was, options = report.run, report.run.options
    settings = Settings(was.backend, was.level, was.seed, was.ulp, operands=tuple(options.get("operands", ())))
    tasks = run.tasks(choice_of(was.ops, was.formats, options, profile), settings, was.takes)
    return list(dict.fromkeys((s.case.signature, s.form) for t in tasks for s in t.specs))
