"""The report in JUnit's XML format, for CI systems."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from .. import files
from ..format_text import code_text
from ..result import CRASH, FAIL, UNSUPPORTED, CaseResult, Report


def write(report: Report, path: str | Path) -> None:
    """Writes the report: a test for each case, a class for each op. Raises OutputError if that fails."""
    counts = report.counts
    bad = [c for c in report.cases if c.verdict in (FAIL, CRASH)]
    expected = sum(c.is_expected for c in bad)
    suite = ElementTree.Element(
        "testsuite",
        name=f"minihlo conform {report.run.backend}",
        tests=str(len(report.cases)),
        failures=str(sum(c.verdict == FAIL and not c.is_expected for c in bad)),
        errors=str(sum(c.verdict == CRASH and not c.is_expected for c in bad)),
        skipped=str(counts[UNSUPPORTED] + expected),
        time=f"{report.run.seconds:.3f}",
        timestamp=report.run.started.partition("+")[0],
    )
    for case in report.cases:
        suite.append(_test(case))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    files.write(path, f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n")


def _test(case: CaseResult) -> ElementTree.Element:
    name, seconds = f"{case.signature} {case.form}", f"{case.seconds:.3f}"
    test = ElementTree.Element("testcase", classname=case.op, name=name, time=seconds)
    if case.verdict == UNSUPPORTED:
        ElementTree.SubElement(test, "skipped", message=_plain(case.message))
    elif case.verdict in (FAIL, CRASH):
        if case.is_expected:
            ElementTree.SubElement(test, "skipped", message="expected to fail")
        else:
            failure = ElementTree.SubElement(test, "failure" if case.verdict == FAIL else "error", message=_why(case))
            failure.text = "\n".join([*_lines(case), case.command])
    elif case.choices or case.model or case.histogram:
        output = ElementTree.SubElement(test, "system-out")
        output.text = _plain("\n".join([case.verdict, *case.choices, case.model, str(case.histogram or "")]))
    return test


def _why(case: CaseResult) -> str:
    counted = f"{case.counts.get(FAIL, 0)} of {case.total} wrong" if case.verdict == FAIL else "no result"
    return _plain(": ".join(p for p in (counted, case.diagnosis, case.message, case.model) if p))


def _lines(case: CaseResult) -> list[str]:
    lines = []
    for f in case.failures:
        codes = [" ".join(code_text(c, t) for c in cs) for cs, t in zip(f.operands, case.operands, strict=True)]
        got = "none" if f.got is None else code_text(f.got, case.result)
        lines.append(_plain(f"{' '.join(codes)} => {got} expected {code_text(f.expected, case.result)}"))
    return lines


def _plain(text: str) -> str:
    """Removes characters that XML does not permit."""
    return "".join(c if c >= " " or c in "\n\t" else "?" for c in text)
