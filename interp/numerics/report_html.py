"""A profile as one HTML page: what to change, the source with a heat map in the margin, each tensor in numbers."""

from __future__ import annotations

import linecache
import math
from typing import TYPE_CHECKING

from .. import pages
from ..conform.report.markup import Content, Markup, element, page_head
from .profile_tensors import LineProfile, TensorProfile, percent
from .report_charts import histogram, time_line
from .report_text import number
from .statistics_blocks import BlockStatistics

if TYPE_CHECKING:
    from .profile import Profile

#: Number of findings shown first, and of tensors drawn for a line.
_FIRST, _DRAWN = 5, 12
#: Lines of source around a profiled one.
_AROUND = 2
_WORDS = """Underflow: the exact result is not zero, and the result is. Saturate: it is beyond the largest number by
more than half a step, and the result is finite. Overflow: the exact result is finite, and the result is an infinity
or NaN. The exact result is the infinitely precise one of the operation on its actual operands. ULP: the error
divided by the step of the format at the exact result. SQNR: the sum of squared exact results by that of squared
errors."""


def page(profile: Profile) -> str:
    """The whole page."""
    style = pages.style("report.css", "profile.css")
    lines = [x for x in profile.lines if any(_is_shown(t) for t in x.tensors)]
    worst = sorted(lines, key=lambda x: -x.severity)
    programs = dict.fromkeys(str(s["program"]) for s in profile.steps)
    title = f"Numerics of {', '.join(programs) or 'nothing'}"
    head = page_head(title, element("style", Markup(style)))
    runs = len(profile.steps)
    facts = f"{len(profile.tensors):,} tensors · {runs:,} evaluated call{'s' * (runs != 1)}"
    body = element(
        "body",
        element("header", element("h1", title, element("small", "profile")), element("p", facts, class_="facts")),
        element("main", _findings(profile), _source(lines), [_line(x) for x in worst], _arguments(profile)),
        element("footer", element("p", _WORDS)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _is_shown(t: TensorProfile) -> bool:
    """Whether a tensor has a drawing: those that may have losses in a narrow format."""
    return t.is_found or (t.rounds and t.statistics.format.bits <= 16)


def _anchor(file: str, line: int) -> str:
    return f"L{line}-{''.join(c if c.isalnum() else '-' for c in file)[-60:]}"


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _findings(profile: Profile) -> Markup:
    found = profile.findings
    seen: list[TensorProfile] = []  # one for each line
    for t in found:
        if all((t.line.file, t.line.line) != (s.line.file, s.line.line) for s in seen):
            seen.append(t)
    items = [
        element(
            "li",
            element("a", f"{_name(t.line.file)}, line {t.line.line}", href=f"#{_anchor(t.line.file, t.line.line)}"),
            f": {t.sentence()}.",
            t.source and element("pre", element("code", t.source)),
        )
        for t in seen[:_FIRST]
    ]
    more = len(seen) - _FIRST
    rest = element("p", f"{more} more line{'s' * (more != 1)} below.", class_="facts") if more > 0 else None
    nothing = "No operation underflows, saturates or overflows in more than 0.1 % of its results."
    content = element("ol", items, class_="first") if items else element("p", nothing)
    return element("section", element("h2", "What to change"), content, rest, id="findings")


# -- the source --------------------------------------------------------------------------------------------------------


def _source(lines: list[LineProfile]) -> Content:
    by_file: dict[str, list[LineProfile]] = {}
    for x in lines:
        by_file.setdefault(x.line.file, []).append(x)
    shown = [element("div", _file(file, there)) for file, there in by_file.items() if there[0].line.line]
    if not shown:
        return None
    words = "The share of the results of a line's worst operation that is lost stands in the margin."
    return element("section", element("h2", "Source"), element("p", words), shown, id="source")


def _file(file: str, lines: list[LineProfile]) -> list[Markup]:
    known = {x.line.line: x for x in lines}
    wanted = sorted({n for line in known for n in range(max(1, line - _AROUND), line + _AROUND + 1)})
    text = linecache.getlines(file)
    rows: list[Markup] = []
    for before, n in zip([wanted[0] - 1, *wanted], wanted, strict=False):
        if n > len(text) and n not in known:
            continue
        if n != before + 1:
            rows.append(element("div", "⋯", class_="row gap"))
        code = text[n - 1].rstrip() if n <= len(text) else ""
        rows.append(_row(n, code, known.get(n)))
    return [element("h3", file), element("div", rows, class_="heat")]


def _row(n: int, code: str, x: LineProfile | None) -> Markup:
    if x is None:
        return element("div", element("span"), element("span", n, class_="number"), element("code", code), class_="row")
    worst = x.tensors[0]
    heat = min(1.0, 0.15 + 0.85 * x.share) if worst.is_found else 0.0
    style = f"background:rgb(215 90 0 / {heat:.2f})" if heat else None
    share = percent(worst.lost, worst.statistics.elements) if worst.lost else "0"
    anchor = f"#{_anchor(x.line.file, n)}"
    return element(
        "div",
        element("span", element("b", share) if heat else share, class_="share", style=style),
        element("span", element("a", n, href=anchor), class_="number"),
        element("code", code),
        class_="row",
    )


# -- tensors -----------------------------------------------------------------------------------------------------------


def _line(x: LineProfile) -> Markup:
    shown = [t for t in x.tensors if _is_shown(t)]
    first, rest = shown[0], shown[1:_DRAWN]
    more = element(
        "details",
        element("summary", f"{len(shown) - 1} more operation{'s' * (len(shown) != 2)} of this line"),
        [_tensor(t) for t in rest],
        len(shown) > _DRAWN and element("p", f"{len(shown) - _DRAWN} more are in the JSON.", class_="facts"),
    )
    where = f"{_name(x.line.file)}, line {x.line.line}" if x.line.line else x.line.file
    code = element("pre", element("code", x.source)) if x.source else None
    return element(
        "article",
        element("h2", where),
        code,
        _tensor(first),
        more if rest else None,
        id=_anchor(x.line.file, x.line.line),
    )


def _tensor(t: TensorProfile) -> Markup:
    s = t.statistics
    said = element("p", f"{t.sentence()}.", class_="diagnosis") if t.is_found else None
    facts = " · ".join(
        [t.type, *([t.name] if t.name else []), f"{t.executions:,} execution{'s' * (t.executions != 1)}"]
    )
    return element(
        "div",
        element("h3", f"{t.short} in {s.format.name}"),
        element("p", facts, class_="facts"),
        said,
        histogram(t),
        _numbers(t),
        [_block(b) for b in t.blocks.values()],
        time_line(t.steps),
        class_="case",
    )


def _numbers(t: TensorProfile) -> Markup:
    s = t.statistics

    def share(count: int, total: int) -> str:
        return f"{percent(count, total)} ({count:,})" if count else "none"

    error = s.measured > 0
    pairs = [
        ("elements", f"{s.elements:,}"),
        ("zero", share(s.zeros, s.elements)),
        ("underflow", share(s.underflows, s.compared) if s.compared else "not known"),
        ("subnormal", share(s.subnormals, s.elements)),
        ("saturate", share(s.saturations, s.compared) if s.compared else "not known"),
        ("overflow", share(max(s.overflows, t.nonfinite_created), s.elements)),
        ("NaN", share(s.nans, s.elements)),
        ("infinite", share(s.infinities, s.elements)),
        ("largest", number(s.max_abs)),
        ("smallest above 0", number(s.min_abs)),
        ("error in ULP", f"at most {s.ulp_max:.3g}, mean {s.ulp_mean:.3g}" if error else "not known"),
        ("relative error", f"at most {s.relative_max:.3g}, mean {s.relative_mean or 0:.3g}" if error else "not known"),
        ("SQNR", "-" if s.sqnr is None else "exact" if math.isinf(s.sqnr) else f"{s.sqnr:.1f} dB"),
        ("largest scale that fits", "-" if s.scale is None else f"2^{s.scale}"),
    ]
    return element(
        "dl", [element("div", element("dt", name), element("dd", value)) for name, value in pairs], class_="numbers"
    )


def _block(b: BlockStatistics) -> Markup:
    """The losses of a tensor in blocks, in a sentence."""
    under, sqnr = percent(b.underflows, b.elements), "-" if b.sqnr is None else f"{b.sqnr:.1f} dB"
    return element(
        "p",
        f"In {b.format.name}: {b.blocks:,} blocks. {under} of the elements underflow, in {b.blocks_with_underflow:,} "
        f"blocks; {b.blocks_lost:,} blocks become all zero. {b.saturations:,} elements saturate. SQNR {sqnr}.",
    )


def _arguments(profile: Profile) -> Content:
    given = [t for t in profile.tensors if t.op == "argument" and t.statistics.format.bits <= 16]
    if not given:
        return None
    shown = [element("div", element("h3", t.name or f"argument {t.index}"), histogram(t), _numbers(t)) for t in given]
    return element(
        "section", element("h2", "Arguments"), element("details", element("summary", f"{len(given)}"), shown)
    )
