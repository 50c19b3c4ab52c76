"""Reports for CI systems: JUnit's XML, annotations of GitHub Actions, badges."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from ... import pages
from ...errors import InputError, count, few
from ...judging.groups import group
from .. import files, profiles
from ..causes import causes
from ..conformance import Assessment, Problem
from ..format_text import code_text
from ..result import CRASH, FAIL, UNSUPPORTED, CaseResult, Report

# -- JUnit -------------------------------------------------------------------------------------------------------------


def write_junit(report: Report, path: str | Path) -> None:
    """Writes the report: a test for each case, a class for each op. Raises OutputError if that fails."""
    bad = [c for c in report.cases if c.verdict in (FAIL, CRASH)]
    failures, errors = (sum(c.verdict == v and not c.is_expected for c in bad) for v in (FAIL, CRASH))
    skipped = report.counts[UNSUPPORTED] + sum(c.is_expected for c in bad)
    files.write(path, _render_junit("junit.html", report=report, failures=failures, errors=errors, skipped=skipped))


def _why(case: CaseResult) -> str:
    counted = f"{case.counts.get(FAIL, 0)} of {case.total} wrong" if case.verdict == FAIL else "no result"
    return ": ".join(filter(None, (counted, case.diagnosis, case.message, case.model)))


def _lines(case: CaseResult) -> str:
    lines = []
    for f in case.failures:
        codes = [" ".join(code_text(c, t) for c in cs) for cs, t in zip(f.operands, case.operands, strict=True)]
        got = "none" if f.got is None else code_text(f.got, case.result)
        lines.append(f"{' '.join(codes)} => {got} expected {code_text(f.expected, case.result)}")
    return "\n".join([*lines, case.command])


def _text(text: str) -> str:
    """Text without the characters that XML does not permit, escaped."""
    return escape("".join(c if c >= " " or c in "\n\t" else "?" for c in text))


def _attribute(text: str) -> pages.Marked:
    return pages.Marked(_text(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#09;"))


_render_junit = pages.text_renderer(_text, attribute=_attribute, lines=_lines, why=_why)

# -- GitHub ------------------------------------------------------------------------------------------------------------

#: GitHub shows ten errors for each step.
MOST = 10


def annotate(report: Report, problems: Sequence[Problem] | None = None) -> Iterator[str]:
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
        of = f"{few(cause.signatures)}. To reproduce: {cause.example.case.command}"
        errors.append((count(len(cause.members), "case"), f"{cause.sentence}: {of}"))
    failed = {c.key for c in wrong}
    others = (p for p in problems or () if (p.signature, p.form) not in failed)
    for why, of in group(others, lambda p: p.why).items():
        errors.append((f"{count(len(of), 'case')} against the profile", f"{why}: {few(p.signature for p in of)}"))
    shown = errors if len(errors) <= MOST else errors[: MOST - 1]
    for words, message in shown:
        yield _error(f"minihlo conform {backend}: {words}", message)
    if len(errors) > len(shown):
        yield _error(f"minihlo conform {backend}", f"{count(len(errors) - len(shown), 'more cause')}")


def _error(title: str, message: str) -> str:
    return f"::error title={_escape(title, ':,')}::{_escape(message)}"


def _escape(text: str, also: str = "") -> str:
    """Escapes text for workflow commands; in a property colons and commas are escaped too."""
    text = pages.plain(text)
    for character in "%\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


# -- badges ------------------------------------------------------------------------------------------------------------

#: Colors on which white text has a contrast of at least 4.5.
_GREEN, _AMBER, _RED = "#1a7f37", "#9a6700", "#cf222e"
#: The margin at both sides of a text, and the average width of a character of 11 px DejaVu Sans.
_MARGIN, _CHARACTER = 6, 6.6


def check_badges(paths: Sequence[str]) -> None:
    """Raises InputError for a file of --badge that is neither SVG nor JSON."""
    for path in paths:
        if Path(path).suffix not in (".svg", ".json"):
            raise InputError(f"--badge: expected a file named .svg or .json, got {path}")


def write_badges(paths: Sequence[str], assessment: Assessment) -> None:
    """Writes the badge of a verdict to each file: green, amber with waivers, else red. Raises OutputError.

    JSON is in the format of a shields.io endpoint (https://shields.io/badges/endpoint-badge); SVG has no fonts or
    scripts from elsewhere.
    """
    color = _RED if assessment.problems else _AMBER if assessment.used else _GREEN
    label, message = assessment.profile.identifier, assessment.verdict
    label = label if profiles.is_ours(assessment.profile) else f"own profile {label}"
    left, right = (round(len(text) * _CHARACTER) + 2 * _MARGIN for text in (label, message))
    for path in paths:
        if Path(path).suffix == ".svg":
            text = _render_badge("badge.html", label=label, message=message, color=color, left=left, right=right)
        else:
            data = {"schemaVersion": 1, "label": label, "message": message, "color": color.removeprefix("#")}
            text = json.dumps(data, ensure_ascii=False) + "\n"
        files.write(path, text)


_render_badge = pages.text_renderer(html.escape)
