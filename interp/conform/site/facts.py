"""Pages across backends on accumulators and on choices at open points; and changes between versions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ...judging.groups import group
from ...judging.open_points import CHOICES, IDENTIFIERS, OPEN_POINTS, question
from ..report.html import BAD
from ..result import AccumulatorFacts, CaseResult
from ..verdicts.differences import differences
from . import frame
from .frame import Section, render
from .model import Entry, Site

#: The number of accumulators drawn for a backend and a pair of types, and of rows of a table.
_DRAWN, _ROWS = 2, 400

# -- accumulators ------------------------------------------------------------------------------------------------------


def accumulators(site: Site) -> dict[str, str]:
    """The page of accumulators: for each pair of types a table of the facts, and the drawings side by side."""
    pairs: dict[str, dict[tuple[str, AccumulatorFacts], list[CaseResult]]] = {}
    for entry in site.latest:
        for case in entry.report.cases:
            if case.accumulator is not None:
                pair = f"{' × '.join(case.operands[:2])} to {case.result}"
                pairs.setdefault(pair, defaultdict(list))[entry.label, case.accumulator].append(case)

    def place(pair: str) -> tuple[int, str]:
        operand = pair.split()[0]
        return site.columns.index(operand) if operand in site.columns else 99, pair

    order = sorted(pairs, key=place)
    names = {pair: site.names.of(f"sums {pair}") for pair in order}
    sections = []
    for pair, name in names.items():
        data = {"pair": pair, "name": name, "rows": list(_explained(site, pairs[pair]))}
        sections.append(Section(render("site_facts.html#sums", **data), name))
    path, title = "accumulators.html", "Accumulators side by side"
    found = frame.in_parts(path, title, sections)[1]
    above = render("site_facts.html#accumulators_above", addresses={p: found[name] for p, name in names.items()})
    return frame.in_parts(path, title, sections, above)[0]


def _explained(
    site: Site, found: Mapping[tuple[str, AccumulatorFacts], Sequence[CaseResult]]
) -> Iterator[dict[str, Any]]:
    """Each accumulator of a backend, with the operations and forms that it explains."""
    of_backend: Counter[str] = Counter()
    for (label, accumulator), cases in list(found.items())[:_ROWS]:
        of_backend[label] += 1
        yield {
            "label": label,
            "href": site.address(label, cases[0]),
            "accumulator": accumulator,
            "ops": {op: [c.form for c in of] for op, of in group(cases, lambda c: c.op).items()},
            "case": cases[0],
            "is_drawn": of_backend[label] <= _DRAWN,
        }


# -- choices -----------------------------------------------------------------------------------------------------------

_SENTENCES = {(IDENTIFIERS[byte], c.identifier): c.sentence for byte, known in CHOICES.items() for c in known}
_QUESTIONS = {p.identifier: p.question for p in OPEN_POINTS}


def choices(site: Site) -> dict[str, str]:
    """The page of open points: each backend's choice, in all formats, and in each."""
    points: dict[str, dict[str, dict[str, Counter[str]]]] = {}
    for entry in site.latest:
        for case in entry.report.cases:
            for point, made in case.open_points.items():
                formats = points.setdefault(point, {})
                formats.setdefault(case.column, defaultdict(Counter))[entry.label].update(made)
    sections = []
    for point, formats in sorted(points.items()):
        total: dict[str, Counter[str]] = defaultdict(Counter)
        for of_backends in formats.values():
            for label, made in of_backends.items():
                total[label] += made
        columns, name = [c for c in site.columns if c in formats], site.names.of(f"point {point}")
        data = {"site": site, "name": name, "point": point, "question": _question(point, columns), "columns": columns}
        data |= {"total": _in_words(point, total), "choices": {c: _in_words(point, formats[c]) for c in columns}}
        sections.append(Section(render("site_facts.html#point", **data), name))
    words = "Formats and specifications leave these results open; none of them is wrong."
    above = Markup("<p>{}</p>").format(words if sections else "None is met.")
    return frame.in_parts("choices.html", "Choices at open points", sections, above)[0]


def _in_words(point: str, choices: Mapping[str, Counter[str]]) -> dict[str, list[tuple[str, int]]]:
    """The choices of each backend in words, the most frequent first, with their counts."""
    words = {c: _SENTENCES.get((point, c), c) for made in choices.values() for c in made}
    return {label: [(words[c], n) for c, n in made.most_common()] for label, made in choices.items()}


def _question(point: str, columns: list[str]) -> str:
    """The open point in words; its identifier if no table has it."""
    for column in columns or [""]:
        try:
            text = question(point, column)
        except KeyError:
            continue
        return text[:1].upper() + text[1:]
    return _QUESTIONS.get(point, point)


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
    words = "Each run compared with the previous one of the same backend."
    above = Markup("<p>{}</p>").format(words if sections else "There is one run of each backend.")
    return frame.in_parts("changes.html", "Changes between versions", sections, above)[0]


def _since(site: Site, entry: Entry, before: Entry) -> Iterator[Section]:
    found = group(differences(before.report, entry.report), lambda d: d.kind)
    name = site.names.of(f"since {entry.label}")
    counts = {words: len(found[k]) for k, words in _KINDS.items() if k in found}
    data = {"name": name, "before": before, "entry": entry, "counts": counts}
    yield Section(render("site_facts.html#since", **data), name)
    for kind, says in _KINDS.items():
        of = [d for d in found.get(kind, []) if kind not in ("new", "gone") or d.case.verdict in BAD]
        says += " and fail" if kind == "new" else " and failed" if kind == "gone" else ""
        for i in range(0, len(of), _ROWS):
            rows = [{"case": d.case, "before": d.before, "after": d.after} for d in of[i : i + _ROWS]]
            for row in rows:
                row["href"] = (entry if row["after"] else before).address(row["case"])
            data = {"says": says, "number": len(of), "first": i, "rows": rows, "open": kind == "worse" and i == 0}
            yield Section(render("site_facts.html#changes", **data))
