"""`minihlo conform merge`: joins the reports of shards."""

from __future__ import annotations

import argparse

from ..conform import files
from ..conform.merge import merge_reports, profile_of
from ..conform.result import Report, parse
from . import conform, conform_claim


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if a case fails. Raises InputError if the reports are not those of one run."""
    conform.check_outputs(options)
    reports = [load_report(name) for name in options.reports]
    profile = profile_of(reports[0].run.options, options.profile)
    held = conform_claim.assessment_run(profile, options)
    if held is not None:
        held.check_waivers(reports[0].run.takes)
    report = merge_reports(reports, options.reports, profile)
    conform.write_reports(report, options)
    return conform.status_of(report, held, report.run.takes, options)


def load_report(name: str) -> Report:
    """The report of a file. Raises InputError if it cannot be read or is none."""
    return files.load(name, name, lambda raw: parse(raw, name))
