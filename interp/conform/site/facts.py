"""Pages across backends on accumulators and on choices at open points; and changes between versions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ...judging.open_points import CHOICES, IDENTIFIERS, OPEN_POINTS, question
from ..format_text import count
from ..report.accumulators import drawing
from ..report.html_cases import BAD, badge
from ..report.markup import Content, Markup, element, join
from ..result import AccumulatorFacts, CaseResult
from ..verdicts.differences import Difference, differences
from . import frame
from .model import Entry, Site

# -- accumulators ------------------------------------------------------------------------------------------------------

#: The columns of the table of facts, and the number of accumulators drawn for a backend and a pair of types.
_FACTS = (
    "backend",
    "operations and forms",
    "kept between steps",
    "fraction bits",
    "products in a step",
    "dropped",
    "order",
    "c",
)
_DRAWN = 2
#: Rows of one table, which continues in another.
_ROWS = 400


def accumulators(site: Site) -> dict[str, str]:
    """The page of accumulators: for each pair of types a table of the facts, and the drawings side by side."""
    pairs: dict[str, dict[tuple[str, AccumulatorFacts], list[CaseResult]]] = {}
    for entry in site.latest:
        for case in entry.report.cases:
            if case.accumulator is not None:
                of = pairs.setdefault(_pair(case), defaultdict(list))
                of[entry.label, case.accumulator].append(case)
    order = sorted(
        pairs, key=lambda p: ([site.columns.index(p.split()[0])] if p.split()[0] in site.columns else [99], p)
    )
    sections = [s for pair in order for s in _of_pair(site, pair, pairs[pair])]
    words = (
        "The specification does not define how the products of a dot or convolution are summed. "
        "These accumulators explain the results of each backend, for operands and results of the same types."
    )
    made, addresses = frame.in_parts("accumulators.html", "Accumulators side by side", sections)
    if len(made) == 1 and not sections:
        return frame.in_parts(
            "accumulators.html", "Accumulators side by side", [], element("p", "No sum is explained.")
        )[0]
    contents = [element("li", element("a", p, href=addresses[site.names.of(f"sums {p}")])) for p in order]
    above = [
        element("p", words),
        element("details", element("summary", "types"), element("ul", contents, class_="parts")),
    ]
    return frame.in_parts("accumulators.html", "Accumulators side by side", sections, above)[0]


def _pair(case: CaseResult) -> str:
    operands = " × ".join(case.operands[:2])
    return f"{operands} to {case.result}"


def _of_pair(
    site: Site, pair: str, found: dict[tuple[str, AccumulatorFacts], list[CaseResult]]
) -> Iterator[frame.Section]:
    rows, drawn = [], []
    of_backend: Counter[str] = Counter()
    for (label, a), cases in list(found.items())[:_ROWS]:
        forms: dict[str, list[str]] = defaultdict(list)
        for case in cases:
            forms[case.op].append(case.form)
        ops = [element("div", op, element("small", f" {', '.join(of)}")) for op, of in forms.items()]
        rows.append(
            [
                _link(site, label, cases[0]),
                ops,
                a.keep,
                "all" if a.bits is None else a.bits,
                a.step or "all",
                a.drop,
                a.order,
                a.c,
            ]
        )
        of_backend[label] += 1
        if of_backend[label] <= _DRAWN:
            record = element("pre", element("code", f"--accumulate '{a.record}'")) if a.record else None
            drawn.append(element("li", element("h3", f"{label}: {', '.join(forms)}"), drawing(a, cases[0]), record))
    name = site.names.of(f"sums {pair}")
    title = element("h2", pair)
    table = frame.table(f"accumulators of {pair}", _FACTS, rows, "list facts-table")
    yield frame.Section(element("section", title, table, element("ul", drawn, class_="beside"), id=name), name)


def _link(site: Site, label: str, case: CaseResult) -> Content:
    to = site.address(label, case)
    return element("a", label, href=to) if to else label


# -- choices -----------------------------------------------------------------------------------------------------------

_SENTENCES = {(IDENTIFIERS[byte], c.identifier): c.sentence for byte, known in CHOICES.items() for c in known}
_QUESTIONS = {p.identifier: p.question for p in OPEN_POINTS}


def choices(site: Site) -> dict[str, str]:
    """The page of open points: each backend's choice, in all formats, and in each."""
    points: dict[str, dict[str, dict[str, Counter[str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(Counter))
    )
    for entry in site.latest:
        for case in entry.report.cases:
            for point, made in case.open_points.items():
                points[point][case.column][entry.label].update(made)
    sections = []
    for point in sorted(points):
        formats = points[point]
        total: dict[str, Counter[str]] = defaultdict(Counter)
        for of_backends in formats.values():
            for label, made in of_backends.items():
                total[label] += made
        rows = [
            [_backend(site, label), [_choice(point, c, n) for c, n in made.most_common(8)]]
            for label, made in total.items()
        ]
        columns = [c for c in site.columns if c in formats]
        labels = list(total)
        by_format = [
            [c, *([_short(point, x) for x in formats[c].get(label, Counter()).most_common(3)] for label in labels)]
            for c in columns
        ]
        heads = ["format", *labels]
        details = element(
            "details",
            element("summary", f"by format, in {count(len(columns), 'format')}"),
            frame.table(f"{point} by format", heads, by_format, "list by-format"),
        )
        title = element("h2", _question(point, columns))
        facts = element("p", element("code", point), class_="facts")
        table = frame.table(point, ("backend", "choice, and number of results"), rows)
        name = site.names.of(f"point {point}")
        sections.append(frame.Section(element("section", title, facts, table, details, id=name), name))
    words = (
        "Formats and specifications leave these results open; none of them is wrong." if sections else "None is met."
    )
    return frame.in_parts("choices.html", "Choices at open points", sections, element("p", words))[0]


def _question(point: str, columns: list[str]) -> str:
    """The open point in words; its identifier if no table has it."""
    for column in columns or [""]:
        try:
            text = question(point, column)
        except KeyError:
            continue
        return text[:1].upper() + text[1:]
    return _QUESTIONS.get(point, point)


def _choice(point: str, choice: str, n: int) -> Markup:
    return element("div", _SENTENCES.get((point, choice), choice), element("small", f" {n:,}"))


def _short(point: str, made: tuple[str, int]) -> Markup:
    return element("div", _SENTENCES.get((point, made[0]), made[0]))


def _backend(site: Site, label: str) -> Markup:
    return element("a", label, href=next(e.page for e in site.entries if e.label == label))


# -- changes -----------------------------------------------------------------------------------------------------------

_KINDS = {
    "worse": "got worse",
    "new": "are new",
    "better": "got better",
    "changed": "changed, and are as good as before",
    "gone": "are gone",
}


def changes(site: Site) -> dict[str, str]:
    """The page of changes between consecutive runs of each backend."""
    sections = [s for e in reversed(site.entries) if e.before is not None for s in _since(site, e, e.before)]
    words = (
        "Each run compared with the previous one of the same backend."
        if sections
        else "There is one run of each backend."
    )
    return frame.in_parts("changes.html", "Changes between versions", sections, element("p", words))[0]


def _since(site: Site, entry: Entry, before: Entry) -> Iterator[frame.Section]:
    found: dict[str, list[Difference]] = defaultdict(list)
    for difference in differences(before.report, entry.report):
        found[difference.kind].append(difference)
    name = site.names.of(f"since {entry.label}")
    words = ", ".join(f"{len(found[k]):,} {words}" for k, words in _KINDS.items() if found[k]) or "No difference."
    links = element("a", before.label, href=before.page), " → ", element("a", entry.label, href=entry.page)
    yield frame.Section(element("section", element("h2", links), element("p", words), id=name), name)
    for kind, says in _KINDS.items():
        of = [d for d in found[kind] if kind not in ("new", "gone") or d.case.verdict in BAD]
        says += " and fail" if kind == "new" else " and failed" if kind == "gone" else ""
        for i in range(0, len(of), _ROWS):
            some = of[i : i + _ROWS]
            title = element("summary", f"{len(of):,} {says}" + (f", from {i + 1:,} on" if i else ""))
            heads = "case", "before", "after", "cause"
            table = frame.table(f"cases that {says}", heads, [_row(entry, before, d) for d in some])
            yield frame.Section(element("details", title, table, open=kind == "worse" and i == 0))


def _row(entry: Entry, before: Entry, difference: Difference) -> list[Content]:
    case = difference.case
    to = (entry if difference.after else before).address(case)
    name = [element("code", case.signature), f" {case.form}"]
    said = case.diagnosis or case.message or case.model or "; ".join(case.choices)
    badges = [_verdict(c) if c else None for c in (difference.before, difference.after)]
    return [element("a", name, href=to) if to else join(name), *badges, said]


def _verdict(case: CaseResult) -> Content:
    wrong = case.counts.get(case.verdict, 0)
    return [badge(case.verdict), f"{wrong:,} of {case.total:,}" if case.total else None]
