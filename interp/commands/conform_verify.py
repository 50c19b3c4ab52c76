"""`minihlo conform verify`: checks a submission."""

from __future__ import annotations

import argparse

from ..conform.report import ci
from ..conform.submission.verify import verify
from ..errors import printable

#: Maximum number of reasons printed for a refusal.
_MOST_REASONS = 10


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if the submission is refused or does not conform.

    Raises InputError for a file that is no submission.
    """
    ci.check_badges(options.badge)
    checked = verify(options.file)
    if checked.assessment is None or checked.reasons:
        for reason in checked.reasons[:_MOST_REASONS]:
            print(f"{options.file}: {reason}")
        if len(checked.reasons) > _MOST_REASONS:
            print(f"{options.file}: {len(checked.reasons) - _MOST_REASONS:,} more reasons")
        print(f"refused: {checked.claim}")
        return 1
    for waiver in checked.assessment.used:
        print(f"waiver {waiver}: {printable(waiver.reason)}")
    ci.write_badges(options.badge, checked.assessment)
    print(f"verified: {checked.backend}: {checked.assessment.line}; SHA-256 {checked.sha256}")
    return int(not checked.assessment.is_conformant)
