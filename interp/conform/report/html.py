"""The report as one self-contained HTML file without scripts, from `report.html` of the templates."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ... import pages
from ...judging.groups import group
from ...judging.record import ACCURACY, CRASH, DIVERGENT, FAIL, MEANINGS, UNSUPPORTED, worst
from ...oracle.formats import FORMATS
from .. import causes, files
from ..format_text import code_text
from ..result import CUT, ERRORS, CaseResult, Report
from . import accumulators, pictures

BAD = (FAIL, CRASH)
#: The verdicts of cases that a page describes.
DESCRIBED = (*BAD, ACCURACY, DIVERGENT)


def write(report: Report, path: str | Path) -> None:
    """Writes the page atomically. Raises OutputError if that fails."""
    files.write(path, page(report))


def page(report: Report) -> str:
    """The page."""
    bad = [c for c in report.cases if c.verdict in BAD]
    columns, rows = _grid(report.cases)
    return render(
        "report.html",
        title=f"{report.run.backend}: conformance",
        report=report,
        run=report.run,
        causes=causes.of_cases(bad),
        failing=len({c.signature for c in bad}),
        address=lambda _, case: f"#{anchor(case)}",
        columns=columns,
        rows=rows,
        failing_groups=list(_failing(bad)),
        inaccurate=list(_inaccurate([c for c in report.cases if c.verdict == ACCURACY])),
        sums=group((c for c in report.cases if c.accumulator is not None), lambda c: c.accumulator),
        choices=_choices(report.cases),
    )


def _grid(cases: Sequence[CaseResult]) -> tuple[list[str], dict[str, dict[str, list[CaseResult]]]]:
    """The formats, and the cases by row and format."""
    rows: dict[str, dict[str, list[CaseResult]]] = {c.row: defaultdict(list) for c in cases}
    for case in cases:
        rows[case.row][case.column].append(case)
    there = {c.column for c in cases}
    return [*(f for f in FORMATS if f in there), *sorted(there - set(FORMATS))], rows


def _failing(bad: Iterable[CaseResult]) -> Iterator[list[CaseResult]]:
    """The failing cases of each signature; the one that says most is first."""
    for cases in group(bad, lambda c: c.signature).values():
        yield sorted(cases, key=lambda c: (c.is_expected, c.map is None and c.curve is None, c.verdict != CRASH))


def _inaccurate(cases: Iterable[CaseResult]) -> Iterator[dict[str, Any]]:
    """The cases of each signature with results that are not correctly rounded, the first to show, the worst ULP."""
    for alike in group(cases, lambda c: c.signature).values():
        first = max(alike, key=lambda c: (c.form == "array", c.counts.get(ACCURACY, 0)))
        ulp = max((c.worst_ulp for c in alike if c.worst_ulp is not None), default=0)
        yield {"first": first, "cases": alike, "worst": ulp}


def _choices(cases: Iterable[CaseResult]) -> dict[str, dict[str, str | None]]:
    """The choices at open points, each with its signatures; the first mention of a signature has an anchor."""
    choices: dict[str, dict[str, str | None]] = defaultdict(dict)
    for case in cases:
        for choice in case.choices:
            choices[choice].setdefault(case.signature)
    anchored: set[str] = set()
    for names in choices.values():
        names |= {name: f"divergent-{name}" for name in names if name not in anchored}
        anchored |= set(names)
    return choices


# -- names that templates use ------------------------------------------------------------------------------------------


def anchor(case: CaseResult) -> str:
    """The anchor of a case on the page."""
    kind = "failures" if case.verdict in BAD else case.verdict.lower()
    return f"{kind}-{re.sub(r'[^A-Za-z0-9_.-]', '-', case.signature)}"


def unsupported(report: Report) -> list[tuple[str, list[str]]]:
    """The messages of the backend with the cases that it does not support, the most frequent first."""
    messages: dict[str, list[str]] = defaultdict(list)
    refuses = re.compile(rf"{re.escape(report.run.backend)} refuses the (program|operation): ")
    for case in report.cases:
        if case.verdict == UNSUPPORTED:
            name = case.signature if case.form == "array" else f"{case.signature} ({case.form})"
            messages[refuses.sub("", case.message)].append(name)
    return sorted(messages.items(), key=lambda item: -len(item[1]))


def sentence(cause: causes.Cause) -> str:
    """The sentence of a cause, capitalized unless it begins with the name of an operation."""
    text = cause.sentence
    is_word = text[:2].isalpha() and text[:2].islower() and not cause.is_of_one_family
    return text[:1].upper() + text[1:] if is_word else text


#: The names that templates of the report and of the site use.
NAMES = {
    "BAD": BAD,
    "CUT": CUT,
    "DESCRIBED": DESCRIBED,
    "ERRORS": ERRORS,
    "MEANINGS": MEANINGS,
    "anchor": anchor,
    "code_text": code_text,
    "picture_of_accumulator": accumulators.picture,
    "picture_of_curve": pictures.curve,
    "picture_of_map": pictures.error_map,
    "sentence": sentence,
    "unsupported": unsupported,
    "worst": worst,
}
render = pages.renderer(**NAMES)
