"""The failures of a run as annotations of GitHub Actions, a line for each cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ... import pages
from ...errors import count
from ...judging.groups import group
from ..causes import causes
from ..conformance import Problem
from ..result import CRASH, FAIL, Report

#: GitHub shows ten errors for each step.
MOST = 10
_FEW = 3


def lines(report: Report, problems: Sequence[Problem] | None = None) -> Iterator[str]:
    """An error for each cause of failures, then for each kind of other conformance problem.

    Args:
        report: the run.
        problems: the conformance problems, the only ones annotated; None for a run without a profile, which annotates
            all unexpected failures.
    """
    backend = report.run.backend
    keys = None if problems is None else {(p.signature, p.form) for p in problems}
    wrong = [c for c in report.cases if c.verdict in (FAIL, CRASH)]
    failing = [c for c in wrong if (not c.is_expected if keys is None else c.key in keys)]
    errors = []
    for cause in causes({backend: failing}):
        of = f"{_join_names(cause.signatures)}. To reproduce: {cause.example.case.command}"
        errors.append((count(len(cause.members), "case"), f"{cause.sentence}: {of}"))
    failed = {c.key for c in wrong}
    others = (p for p in problems or () if (p.signature, p.form) not in failed)
    for why, of in group(others, lambda p: p.why).items():
        signatures = list(dict.fromkeys(p.signature for p in of))
        errors.append((f"{count(len(of), 'case')} against the profile", f"{why}: {_join_names(signatures)}"))
    shown = errors if len(errors) <= MOST else errors[: MOST - 1]
    for words, message in shown:
        yield _error(f"minihlo conform {backend}: {words}", message)
    if len(errors) > len(shown):
        yield _error(f"minihlo conform {backend}", f"{count(len(errors) - len(shown), 'more cause')}")


def _join_names(signatures: Sequence[str]) -> str:
    more = len(signatures) - _FEW
    return ", ".join(signatures[:_FEW]) + (f" and {more:,} more" if more > 0 else "")


def _error(title: str, message: str) -> str:
    return f"::error title={_escape(title, ':,')}::{_escape(message)}"


def _escape(text: str, also: str = "") -> str:
    """Escapes text for workflow commands; in a property colons and commas are escaped too."""
    text = pages.plain(text)
    for character in "%\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
