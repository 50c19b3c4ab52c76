"""The report for a terminal: a grid of ops and formats, then the failures, each with the command that repeats it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import count
from ...oracle.formats import ALL_MINIFLOATS, FORMATS, INTEGERS
from ..causes import of_cases
from ..format_text import code_text
from ..result import (
    ABSENT,
    ACCURACY,
    CRASH,
    DIVERGENT,
    FAIL,
    PASS,
    UNSUPPORTED,
    VERDICTS,
    CaseResult,
    Failure,
    Report,
    worst,
)

_SIGNS = {PASS: "ok", DIVERGENT: "open", ACCURACY: "ulp", UNSUPPORTED: "-", FAIL: "FAIL", CRASH: "DIED"}
_STYLES = {
    PASS: "green",
    DIVERGENT: "cyan",
    ACCURACY: "yellow",
    UNSUPPORTED: "bright_black",
    FAIL: "bold red",
    CRASH: "bold white on red",
}
_MEANINGS = {
    PASS: "right",
    DIVERGENT: "left open by the format, a known choice",
    ACCURACY: "not correctly rounded, but next to the exact value (wide types: within the limit of ULP)",
    UNSUPPORTED: "the backend does not have it",
    FAIL: "wrong",
    CRASH: "the backend died or gave no answer",
}
#: Rows of the grid below the conversions.
_ROWS = (*(f"{op}_" for op in ("reduce", "cumulative")), "sort", "dot_general", "convolution")
#: Number of codes shown of long rows, and of sentences listed.
_FEW, _MOST = 6, 24
#: The width of a column of the grid, with its separator.
_COLUMN = 6


def show(report: Report, console: Console) -> None:
    """Prints a report."""
    if len(report.cases) > 1:
        for grid in grids(report.cases, console.width):
            console.print(grid, crop=False)
        used = [v for v in VERDICTS if report.counts[v]]
        console.print(
            Text("  ").join(Text.assemble((_SIGNS[v], _STYLES[v]), f" {_MEANINGS[v]}") for v in used), soft_wrap=True
        )
    for paragraph in paragraphs(report):
        console.print(Text(), paragraph, soft_wrap=True, sep="\n")
    console.print(Text(), _summary(report), soft_wrap=True, sep="\n")


def paragraphs(report: Report) -> Iterator[Text]:
    """The causes, failing cases, inaccurate results, open points, accumulators, and unsupported cases."""
    yield from _causes(report.cases)
    yield from _failures(report.cases)
    yield from _inaccurate([c for c in report.cases if c.verdict == ACCURACY])
    yield from _list("left open", _by(report.cases, lambda c: c.choices if c.verdict == DIVERGENT else []))
    yield from _list("sums", _by(report.cases, _models))
    lacking = [c for c in report.cases if c.verdict == UNSUPPORTED]
    yield from _list("unsupported", _by(lacking, lambda c: [_short(c.message)]))


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
        table.add_column(_heading(name), justify="center", vertical="bottom", no_wrap=True)
    for row in sorted(cells, key=_place):
        of_row = cells[row]
        verdicts = [worst(of_row[c]) if c in of_row else "" for c in columns]
        table.add_row(row, *(Text(_SIGNS.get(v, ""), _STYLES.get(v, "")) for v in verdicts))
    return table


def _place(row: str) -> tuple[int, int]:
    """The sort key of a row: conversions are together, in the order of the types."""
    words = row.split()
    if words[0] != "convert":
        return (2, 0) if words[0].startswith(_ROWS) else (0, 0)
    types = [*FORMATS, *INTEGERS, "i1"]
    return 1, types.index(words[2]) + (len(types) if words[1] == "to" else 0)


def _heading(name: str) -> str:
    """A format in lines of four letters: f8, E4M3, B11, FNUZ."""
    rest = name[2:]
    lines = [name[:2]] if name in ALL_MINIFLOATS else [name]
    if name in ALL_MINIFLOATS:
        lines += [rest[:4], *(p for p in (rest[4:-4], rest[-4:]) if p)] if len(rest) > 8 else [rest[:4], rest[4:]]
    return "\n".join(line for line in lines if line)


# -- failures ----------------------------------------------------------------------------------------------------------


def _causes(cases: Sequence[CaseResult]) -> Iterator[Text]:
    """The causes of failures, if there are fewer than failing signatures."""
    found = of_cases(cases)
    failing = {c.signature for c in cases if c.verdict in (FAIL, CRASH)}
    if len(found) == len(failing):
        return
    text = Text.assemble((count(len(found), "cause"), "bold"), f" of {count(len(failing), 'failing signature')}")
    for cause in found:
        example = cause.example
        text.append(f"\n  {_short(cause.sentence)}")
        text.append(f"  {count(len(cause.signatures), 'signature')}", "bright_black")
        text.append(f"\n    {example.case.signature} {example.case.form}")
        if example.failure:
            text.append("  ").append_text(_failure(example.failure, example.case))
        text.append(f"\n    {example.case.command}", "bright_black")
    yield text


def _failures(cases: Sequence[CaseResult]) -> Iterator[Text]:
    """A paragraph for each op on each type that fails: the first form in full, and the other forms that fail alike."""
    groups: dict[tuple[str, str, str, bool], list[CaseResult]] = {}
    for case in cases:
        if case.verdict in (FAIL, CRASH):
            why = case.diagnosis or case.message
            groups.setdefault((case.verdict, case.signature, why, case.is_expected), []).append(case)
    for (verdict, signature, why, is_expected), alike in groups.items():
        first = alike[0]
        text = Text.assemble((f"{verdict} ", _STYLES[verdict]), (signature, "bold"), f" {first.form}")
        if verdict == FAIL:
            text.append(f"  {first.counts.get(FAIL, 0):,} of {first.total:,} wrong")
            if first.worst_ulp:
                text.append(f", by up to {first.worst_ulp:,} ULP")
        if is_expected:
            text.append("  (expected)", "bright_black")
        for line in (why, first.model if verdict == FAIL else ""):
            if line:
                text.append(f"\n  {line}")
        for failure in first.failures:
            text.append("\n  ").append_text(_failure(failure, first))
        text.append(f"\n  {first.command}", "bright_black")
        if len(alike) > 1:
            others = ", ".join(f"{c.form} ({c.counts.get(FAIL, 0):,})" for c in alike[1:])
            text.append(f"\n  also {others}")
        yield text


def _failure(failure: Failure, case: CaseResult) -> Text:
    """`0x03 0x40 => 0x02 expected 0x01`, with values."""
    codes = [_codes(c, t) for c, t in zip(failure.operands, case.operands, strict=True)]
    values = [_some(v) for v in failure.values]
    got = "no result" if failure.got is None else code_text(failure.got, case.result)
    text = Text(" ".join(codes))
    text.append(f" => {got}", "red" if failure.verdict == FAIL else "yellow")
    text.append(f" expected {code_text(failure.expected, case.result)}")
    text.append(f"    {', '.join(values)} => {failure.got_value or '-'} expected {failure.expected_value}")
    if failure.ulp and failure.error != ABSENT:
        text.append(f", {failure.ulp:,} ULP")
    if len(failure.operands[0]) > 1 or case.form.startswith(("size", "unaligned")):
        text.append(f" at [{failure.index}] of {failure.size}")
    return text


def _codes(codes: Sequence[int], element: str) -> str:
    return _some([code_text(c, element) for c in codes])


def _some(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    return f"[{' '.join(texts[:_FEW])}{' …' if len(texts) > _FEW else ''}]"


def _inaccurate(cases: Sequence[CaseResult]) -> Iterator[Text]:
    if not cases:
        return
    text = Text.assemble(("ACCURACY", _STYLES[ACCURACY]))
    for case in cases:
        if case.form != "array" and any(c.signature == case.signature and c.form == "array" for c in cases):
            continue
        steps = ", ".join(f"{n:,} by {d}" for d, n in case.histogram.items())
        text.append(f"\n  {case.signature} {case.form}: of {case.total:,} {steps} ULP")
        if case.diagnosis:
            text.append(f" ({case.diagnosis})")
        if case.failures and case.command:
            text.append("\n    ").append_text(_failure(case.failures[0], case))
            text.append(f"\n    {case.command}", "bright_black")
    yield text


def _models(case: CaseResult) -> list[str]:
    if not case.model or case.verdict == FAIL:
        return []
    return [case.model.replace(case.operands[0], "the element type")]


def _by(cases: Sequence[CaseResult], sentences: Callable[[CaseResult], list[str]]) -> dict[str, list[CaseResult]]:
    groups: dict[str, list[CaseResult]] = {}
    for case in cases:
        for sentence in sentences(case):
            groups.setdefault(sentence, []).append(case)
    return groups


def _list(title: str, groups: dict[str, list[CaseResult]]) -> Iterator[Text]:
    if not groups:
        return
    text = Text(title, "bold")
    ordered = sorted(groups.items(), key=lambda g: -len(g[1]))
    for sentence, cases in ordered[:_MOST]:
        names = list(dict.fromkeys(c.signature for c in cases))
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        text.append(f"\n  {sentence}").append(f"  {few}", "bright_black")
    if len(ordered) > _MOST:
        text.append(f"\n  and {len(ordered) - _MOST} more such lines, in {count(len(_cases(ordered[_MOST:])), 'case')}")
    yield text


def _cases(groups: Sequence[tuple[str, list[CaseResult]]]) -> set[tuple[str, str]]:
    return {c.key for _, cases in groups for c in cases}


def _short(message: str) -> str:
    return message if len(message) < 160 else message[:157] + "…"


def _summary(report: Report) -> Text:
    counts = report.counts
    parts = [Text(f"{report.run.backend}: {count(len(report.cases), 'case')}")]
    parts += [Text(f"{counts[v]:,} {v}", _STYLES[v]) for v in VERDICTS if counts[v]]
    text = Text(", ").join(parts)
    expected = sum(c.is_expected for c in report.cases if c.verdict in (FAIL, CRASH))
    if expected:
        text.append(f" ({expected:,} expected)")
    return text.append(f" in {report.run.seconds:.1f} s")
