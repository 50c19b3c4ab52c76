"""docs/divergences.md: the table of divergences as a page to read, by peer and cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from minihlo.ops.minifloat.formats import MINIFLOATS
from minihlo.ops.types import ELEMENT_TYPES

from .causes import ABSENCES, CAUSES, Cause
from .compare import list_cases as compared_cases
from .compare import part_of
from .function_page import SECTIONS as PROGRAMS
from .peers import PEERS, version_text
from .registry import ACCURACY, ERROR, KINDS, OPEN
from .table import DIVERGENCES, Row
from .tables import code_text, markdown, number_text

_TITLES = {p.name: p.title for p in PEERS.values()}


def summary() -> str:
    """The number of cases that differ, by peer and kind."""
    versions, rows = DIVERGENCES.load()
    lines = []
    for peer in _TITLES:
        cells = [f"[{_TITLES[peer]}](#{_anchor(_TITLES[peer])})", version_text(peer, versions)]
        for kind in (ERROR, OPEN, ACCURACY):
            result = [r for r in rows if r.peer == peer and CAUSES[r.cause].kind == kind]
            cells.append(f"{sum(r.cases for r in result):,} in {len(result)}" if result else "none")
        lines.append(cells)
    header = ["", "version", *(f"{KINDS[k]}" for k in (ERROR, OPEN, ACCURACY))]
    return markdown(header, lines)


def of_peer(peer: str) -> Callable[[], str]:
    """The section of a peer: its causes, those of the peer's own errors first."""

    def section() -> str:
        _, rows = DIVERGENCES.load()
        mine: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if row.peer == peer:
                mine[row.cause].append(row)
        order = {ERROR: 0, OPEN: 1, ACCURACY: 2}
        causes = sorted((CAUSES[c] for c in mine), key=lambda c: (order[c.kind], -sum(r.cases for r in mine[c.name])))
        parts = [_rows_of(cause, mine[cause.name]) for cause in causes]
        missing = [f"- {a.what}: {a.why}" for a in ABSENCES if a.peer == peer]
        if missing:
            parts.append("\n".join(["### Not there", "", *missing]))
        return "\n\n".join(parts)

    return section


def _rows_of(cause: Cause, rows: list[Row]) -> str:
    lines = [f"### {cause.title}", "", f"*{KINDS[cause.kind][0].upper()}{KINDS[cause.kind][1:]}.* {cause.why}", ""]
    by_op: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_op[f"convert to {row.result}" if row.op == "convert" and _by_target(rows) else row.op].append(row)
    farthest = max(r.ulp for r in rows)
    if farthest:
        lines += [f"At most {farthest} ULP from the exact result.", ""]
    cells = []
    for op, group in sorted(by_op.items()):
        shown = max(group, key=_plainness)
        cells.append([f"`{op}`", _formats(group), _example(shown)])
    return "\n".join([*lines, markdown(["op", "formats, and how many cases", "for example"], cells)])


def _by_target(rows: list[Row]) -> bool:
    """Whether conversions are listed by their targets, or by their sources."""
    return len({r.result for r in rows}) < len({r.operand for r in rows})


def _formats(rows: list[Row]) -> str:
    conversion = rows[0].op == "convert"
    name: Callable[[Row], str] = lambda r: r.operand  # noqa: E731
    if conversion and not _by_target(rows) and len({r.result for r in rows}) > 1:
        name = lambda r: f"{r.operand} to {r.result}"  # noqa: E731
    counted = {name(r): r.cases for r in rows}
    return ", ".join(f"{n} {count:,}" for n, count in counted.items())


def _plainness(row: Row) -> tuple[bool, int]:
    """The readability of a row's example: of 8 bits, and with short numbers."""
    t = ELEMENT_TYPES[row.operand]
    numbers = [number_text(c, t) for c in row.example]
    return t.bits <= 8, -sum(map(len, numbers))


def _example(row: Row) -> str:
    t, target = ELEMENT_TYPES[row.operand], ELEMENT_TYPES[row.result]
    operands = ", ".join(code_text(c, t) for c in row.example)
    formats = row.operand if row.op != "convert" else f"{row.operand} to {row.result}"
    return f"{formats}: ({operands}) gives {code_text(row.got, target)}, exact {code_text(row.expected, target)}"


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def extent() -> str:
    """The extent of the comparison, in numbers."""
    wanted = compared_cases()
    ops = {c.op for c in wanted}
    total = sum(part_of(c).size for c in wanted)
    formats = ", ".join(f"`{f}`" for f in MINIFLOATS)
    return f"{len(ops)} ops, {total:,} cases for each peer; formats: {formats}."


SECTIONS: dict[str, Callable[[], str]] = {
    "divergences": summary,
    "what is compared": extent,
    **{f"divergences of {peer}": of_peer(peer) for peer in _TITLES},
    **PROGRAMS,
}
