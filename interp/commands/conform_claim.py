"""Adds a profile to a run of `minihlo conform BACKEND --profile P`: cases, verdict, submission and badge."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from ..conform import conformance, profiles, waivers
from ..conform.conformance import Problem
from ..conform.profiles import Profile
from ..conform.report import ci
from ..conform.result import Report
from ..conform.submission import bundle
from ..conform.verdicts.outcome import Settings
from ..errors import InputError

#: Options that choose cases, which a profile does itself.
_CHOOSING = ("ops", "formats", "case", "form", "operands", "beside", "tests")
#: Options that a profile sets, with their defaults.
_SET = {"level": 1, "seed": 0, "ulp": 4}
#: Options that need a profile.
_NEEDING = ("waivers", "submit", "badge")
#: Maximum number of reasons printed for not conforming.
_MOST_REASONS = 10


@dataclasses.dataclass(frozen=True)
class ProfileRun:
    """A profile with waivers, against which a run is assessed."""

    profile: Profile
    waivers: tuple[waivers.Waiver, ...]
    keeps: bool  #: for a submission

    def settings(self, settings: Settings) -> Settings:
        """The settings of the run, with those of the profile."""
        profile = self.profile
        return dataclasses.replace(
            settings, level=profile.level, seed=profile.seed, ulp=profile.ulp, keeps=self.keeps or settings.keeps
        )

    def check_waivers(self, takes: str) -> None:
        """Raises InputError if a waiver is not permitted."""
        for waiver, case in conformance.forbidden(self.profile, self.waivers, takes):
            identifier = self.profile.identifier
            raise InputError(
                f"--waivers: {waiver}: expected cases that may be waived, got {case} ({identifier} requires it)"
            )


def profile_run(options: argparse.Namespace) -> ProfileRun | None:
    """The profile of the command line, None if there is none. Raises InputError for options that do not fit."""
    if options.profile is None:
        _refuse(options, _NEEDING, "expected --profile with it, got none")
        return None
    profile = profiles.load(options.profile)
    check_choosing(options)
    if options.shard:
        _refuse(options, _NEEDING, "expected none with --shard, as a shard has no verdict, got one")
    for option, default in _SET.items():
        value, own = getattr(options, option), getattr(profile, option)
        if value not in (default, own):
            raise InputError(f"--{option}: expected {own}, as in {profile.identifier}, got {value}")
    return assessment_run(profile, options)


def check_choosing(options: argparse.Namespace) -> None:
    """Raises InputError if options choose cases beside a profile."""
    _refuse(options, _CHOOSING, "expected none with --profile, which chooses the cases")


def assessment_run(profile: Profile | None, options: argparse.Namespace) -> ProfileRun | None:
    """The assessment settings of a run, or of its results.

    Raises InputError for options that need a profile if there is none.
    """
    if profile is None:
        _refuse(options, _NEEDING, "expected cases of a profile, got others")
        return None
    return ProfileRun(profile, waivers.read(options.waivers), bool(getattr(options, "submit", None)))


def _refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    given = next((name for name in names if getattr(options, name, None)), None)
    if given:
        raise InputError(f"--{given}: {why}")


def finish(run: ProfileRun, report: Report, takes: str, options: argparse.Namespace) -> int:
    """Print the verdict, the last line of all, and write the submission and the badge. Returns 1 if not conformant.

    Problems of cases that --xfail lists do not count for the exit status.
    """
    assessment = conformance.assess(run.profile, report.cases, run.waivers, takes)
    for waiver in assessment.unused:
        print(f"--waivers {options.waivers}: {waiver}: it waives nothing", file=sys.stderr)
    if getattr(options, "submit", None):
        sha256 = bundle.write(options.submit, report, assessment, takes)
        print(f"{options.submit}: {assessment.verdict}, SHA-256 {sha256}", file=sys.stderr)
    ci.write_badges(options.badge, assessment)
    problems = assessment.problems
    for problem in problems[:_MOST_REASONS]:
        print(f"against {run.profile.identifier}: {problem}")
    if len(problems) > _MOST_REASONS:
        print(f"against {run.profile.identifier}: {len(problems) - _MOST_REASONS:,} more cases")
    expected = {c.key for c in report.cases if c.is_expected}
    unexpected = [p for p in problems if (p.signature, p.form) not in expected]
    if options.github:
        annotate(report, unexpected)
    known = "; --xfail lists all its problems" if problems and not unexpected else ""
    print(assessment.line + known)
    return int(bool(unexpected))


def annotate(report: Report, problems: Sequence[Problem] | None = None) -> None:
    """Print annotations of GitHub: of conformance problems, else of unexpected failures."""
    for line in ci.annotate(report, problems):
        print(line)
