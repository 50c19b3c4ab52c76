"""The report for a terminal: a grid of ops and formats, then the failures, each with the command that repeats it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ... import pages
from ...errors import few, printable
from ...judging.groups import group
from ...judging.record import ACCURACY, CRASH, DIVERGENT, FAIL, MEANINGS, PASS, UNSUPPORTED, VERDICTS, worst
from ...oracle.formats import ALL_MINIFLOATS, FORMATS, INTEGERS
from ..causes import of_cases
from ..format_text import code_text
from ..result import ABSENT, CaseResult, Failure, Report

_SIGNS = {PASS: "ok", DIVERGENT: "open", ACCURACY: "ulp", UNSUPPORTED: "-", FAIL: "FAIL", CRASH: "DIED"}
_STYLES = {
    PASS: "green",
    DIVERGENT: "cyan",
    ACCURACY: "yellow",
    UNSUPPORTED: "bright_black",
    FAIL: "bold red",
    CRASH: "bold white on red",
}
#: Rows of the grid below the conversions.
_ROWS = (*(f"{op}_" for op in ("reduce", "cumulative")), "sort", "dot_general", "convolution")
#: Number of codes shown of long rows, and of sentences listed.
_FEW, _MOST = 6, 24
#: The width of a column of the grid, with its separator.
_COLUMN = 6


def show(report: Report, console: Console) -> None:
    """Prints a report: the grid, and `terminal.html` of the templates."""
    if len(report.cases) > 1:
        for grid in grids(report.cases, console.width):
            console.print(grid, crop=False)
        used = [v for v in VERDICTS if report.counts[v]]
        key = Text("  ").join(Text.assemble((_SIGNS[v], _STYLES[v]), f" {MEANINGS[v]}") for v in used)
        console.print(key, soft_wrap=True)
    bad = [c for c in report.cases if c.verdict in (FAIL, CRASH)]
    groups = group(bad, lambda c: (c.verdict, c.signature, c.diagnosis or c.message, c.is_expected))
    near = [c for c in report.cases if c.verdict == ACCURACY]
    in_arrays = {c.signature for c in near if c.form == "array"}
    lists = {
        "left open": _by(report.cases, lambda c: c.choices if c.verdict == DIVERGENT else []),
        "sums": _by(report.cases, _models),
        "unsupported": _by(report.cases, lambda c: [_short(c.message)] if c.verdict == UNSUPPORTED else []),
    }
    text = _render(
        "terminal.html",
        report=report,
        causes=of_cases(report.cases),
        failing=len({c.signature for c in bad}),
        groups=list(groups.values()),
        inaccurate=[c for c in near if c.form == "array" or c.signature not in in_arrays],
        lists=list(lists.items()),
        expected=sum(c.is_expected for c in bad),
    )
    console.print(Text.from_markup(text, emoji=False), soft_wrap=True, end="")


def grids(cases: Sequence[CaseResult], width: int) -> Iterator[Table]:
    """The grid, split into parts if a line is too short for all columns."""
    columns = [m for m in ALL_MINIFLOATS if any(c.column == m for c in cases)]
    columns += sorted({c.column for c in cases} - set(columns))
    cells: dict[str, dict[str, list[str]]] = {}
    for c in cases:
        cells.setdefault(c.row, {}).setdefault(c.column, []).append(c.verdict)
    label = max(map(len, cells))
    most = max(1, (width - label) // _COLUMN)
    for first in range(0, len(columns), most):
        grid = _grid(cells, columns[first : first + most])
        grid.width = label + _COLUMN if label + _COLUMN > width else None
        yield grid


def _grid(cells: Mapping[str, Mapping[str, Sequence[str]]], columns: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(Text(_heading(printable(name))), justify="center", vertical="bottom", no_wrap=True)
    for row in sorted(cells, key=_place):
        of_row = cells[row]
        verdicts = [worst(of_row[c]) if c in of_row else "" for c in columns]
        table.add_row(Text(printable(row)), *(Text(_SIGNS.get(v, ""), _STYLES.get(v, "")) for v in verdicts))
    return table


def _place(row: str) -> tuple[int, int]:
    """The sort key of a row: conversions are together, in the order of the types."""
    word, way, element = (*row.split(), "", "", "")[:3]
    types = [*FORMATS, *INTEGERS, "i1"]
    if word != "convert" or element not in types:
        return (2, 0) if word.startswith(_ROWS) else (0, 0)
    return 1, types.index(element) + (len(types) if way == "to" else 0)


def _heading(name: str) -> str:
    """A format in lines of four letters: f8, E4M3, B11, FNUZ."""
    parts = re.fullmatch(r"(f\d)(E\dM\d)(B\d+)?([A-Z]*)", name)
    return "\n".join(filter(None, parts.groups())) if parts else name


# -- names that the template uses --------------------------------------------------------------------------------------


def _failure(failure: Failure | None, case: CaseResult, before: str = "") -> pages.Marked:
    """`0x03 0x40 => 0x02 expected 0x01`, with values."""
    if failure is None:
        return pages.Marked()
    pairs = zip(failure.operands, case.operands, strict=True)
    codes = " ".join(_some([code_text(c, t) for c in cs]) for cs, t in pairs)
    got = "no result" if failure.got is None else code_text(failure.got, case.result)
    colour = "red" if failure.verdict == FAIL else "yellow"
    values = f"{', '.join(map(_some, failure.values))} => {failure.got_value or '-'} expected {failure.expected_value}"
    ulp = f", {failure.ulp:,} ULP" if failure.ulp and failure.error != ABSENT else ""
    is_placed = len(failure.operands[0]) > 1 or case.form.startswith(("size", "unaligned"))
    at = f" at [{failure.index}] of {failure.size}" if is_placed else ""
    right = f" expected {code_text(failure.expected, case.result)}"
    return pages.Marked(f"{before}{_plain(codes)}[{colour}] => {got}[/]{right}    {_plain(values + ulp + at)}")


def _plain(text: str) -> str:
    """Text from a report, which may come from anyone, as a terminal shows it."""
    return escape(printable(text))


def _some(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    return f"[{' '.join(texts[:_FEW])}{' …' if len(texts) > _FEW else ''}]"


def _models(case: CaseResult) -> list[str]:
    if not case.model or case.verdict == FAIL:
        return []
    return [case.model.replace(case.operands[0], "the element type")]


def _by(
    cases: Sequence[CaseResult], sentences: Callable[[CaseResult], list[str]]
) -> list[tuple[str, list[CaseResult]]]:
    """The cases of each sentence, those of most first."""
    pairs = group(((s, c) for c in cases for s in sentences(c)), lambda pair: pair[0])
    return sorted(((s, [c for _, c in of]) for s, of in pairs.items()), key=lambda g: -len(g[1]))


def _short(message: str) -> str:
    return message if len(message) < 160 else message[:157] + "…"


_render = pages.text_renderer(
    _plain,
    MOST=_MOST,
    STYLES=_STYLES,
    cases_of=lambda groups: len({c.key for _, cases in groups for c in cases}),
    failure=_failure,
    few=lambda cases: few(c.signature for c in cases),
    short=_short,
    steps=lambda case: ", ".join(f"{n:,} by {d}" for d, n in case.histogram.items()),
)
