"""`minihlo conform merge`: joins the reports of shards."""

from __future__ import annotations

import argparse

from ..conform.merge import merged
from ..conform.result import Report, load
from ..errors import InputError
from . import conform


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if a case fails. Raises InputError where the reports are not those of one run."""
    conform.check_outputs(options)
    report = merged([_load(name) for name in options.reports], options.reports)
    conform.write_reports(report, options)
    return int(report.is_bad)


def _load(name: str) -> Report:
    try:
        return load(name)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
