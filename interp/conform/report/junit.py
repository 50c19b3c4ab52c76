"""The report in JUnit's XML format, for CI systems: `junit.html` of the templates."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from ... import pages
from .. import files
from ..format_text import code_text
from ..result import CRASH, FAIL, UNSUPPORTED, CaseResult, Report


def write(report: Report, path: str | Path) -> None:
    """Writes the report: a test for each case, a class for each op. Raises OutputError if that fails."""
    bad = [c for c in report.cases if c.verdict in (FAIL, CRASH)]
    failures, errors = (sum(c.verdict == v and not c.is_expected for c in bad) for v in (FAIL, CRASH))
    skipped = report.counts[UNSUPPORTED] + sum(c.is_expected for c in bad)
    files.write(path, _render("junit.html", report=report, failures=failures, errors=errors, skipped=skipped))


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


_render = pages.text_renderer(_text, attribute=_attribute, lines=_lines, why=_why)
