"""The part of the HTML report on single cases: failures, and inaccurate results."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..format_text import code_text, count
from ..result import ACCURACY, CRASH, DIVERGENT, ERRORS, FAIL, PASS, UNSUPPORTED, CaseResult, Failure
from .markup import Content, Markup, element, scroll_box
from .pictures import pictures

#: A sign for each verdict, so that colours are not needed.
SIGNS = {PASS: "✓", DIVERGENT: "○", ACCURACY: "≈", FAIL: "✗", CRASH: "!", UNSUPPORTED: "–"}
BAD = (FAIL, CRASH)


def anchor(case: CaseResult) -> str:
    """The anchor of a case on the page."""
    kind = "failures" if case.verdict in BAD else case.verdict.lower()
    return f"{kind}-{re.sub(r'[^A-Za-z0-9_.-]', '-', case.signature)}"


def failures(bad: Sequence[CaseResult]) -> Content:
    """The failing cases, grouped by signature."""
    if not bad:
        return None
    groups = _by_signature(bad)
    return element(
        "section",
        element("h2", "Failures"),
        element("p", f"{count(len(bad), 'case')} of {count(len(groups), 'signature')}. "
                "Operands and results are codes; a value stands behind each."),
        [_signature(cases) for cases in groups.values()],
        id="failures",
    )  # fmt: skip


def _by_signature(cases: Iterable[CaseResult]) -> dict[str, list[CaseResult]]:
    groups: dict[str, list[CaseResult]] = defaultdict(list)
    for case in cases:
        groups[case.signature].append(case)
    return groups


def _signature(cases: Sequence[CaseResult]) -> Markup:
    """All failing forms of one op on types; the first in full."""
    first, *others = sorted(cases, key=lambda c: (c.is_expected, c.map is None and c.curve is None, c.verdict != CRASH))
    more = None
    if others:
        shown = ", ".join(f"{c.form} (expected)" if c.is_expected else c.form for c in others)
        more = element("details", element("summary", f"fails too: {shown}"), [describe(c) for c in others])
    return element("article", element("h3", element("code", first.signature)), describe(first), more, id=anchor(first))


def describe(case: CaseResult, pictured: bool = True) -> Markup:
    """A case with its counts, diagnosis, pictures, first failures, and the command that reproduces them."""
    wrong = sum(n for v, n in case.counts.items() if v in BAD)
    facts = [f"form {case.form}"]
    facts += [f"{wrong:,} of {count(case.total, 'result')} wrong"] if case.total else []
    facts += [f"worst {case.worst_ulp:,} ULP"] if case.worst_ulp is not None else []
    facts += [f"{v} {n:,}" for v, n in case.counts.items() if v not in (FAIL, CRASH, PASS)]
    head = element(
        "p",
        badge(case.verdict),
        case.is_expected and element("span", "expected", class_="badge expected"),
        " · ".join(facts),
        class_="facts",
    )
    shown = [element("p", t, class_="diagnosis") for t in (case.diagnosis, case.message) if t]
    shown += [element("p", "Accumulation: ", case.model)] if case.model else []
    return element(
        "div",
        head,
        shown,
        pictures(case) if pictured else None,
        table(case, [f for f in case.failures if f.verdict in BAD] or case.failures),
        _histogram(case),
        command(case),
        program(case),
        class_="case",
    )


def badge(verdict: str) -> Markup:
    """A verdict with its sign."""
    return element("span", f"{SIGNS[verdict]} {verdict}", class_=f"badge {verdict}")


def table(case: CaseResult, failures: Sequence[Failure]) -> Content:
    """Elements of a case: operands, given and right results, as codes and values."""
    if not failures:
        return None
    names = ["operand"] if len(case.operands) == 1 else [f"operand {i + 1}" for i in range(len(case.operands))]
    heads = [*names, "gives", "expected", "error"]

    def row(f: Failure) -> Markup:
        cells: list[Content] = [_numbers(*x) for x in zip(f.operands, f.values, case.operands, strict=False)]
        also = f.also and element("small", f"also right: {f.also}")
        cells += [_number(f.got, f.got_value, case.result), [_number(f.expected, f.expected_value, case.result), also]]
        shown = zip(heads, [*cells, _error(f)], strict=True)
        return element(
            "tr",
            [element("td", element("span", c), data_is=h, class_="got" if h == "gives" else None) for h, c in shown],
        )

    head = element("thead", element("tr", [element("th", h, scope="col") for h in heads]))
    table = element("table", head, element("tbody", [row(f) for f in failures]), class_="examples")
    return scroll_box(f"results of {case.signature}, form {case.form}", table, role="group")


def _error(failure: Failure) -> str:
    if failure.error in ERRORS:
        return ERRORS[failure.error]
    if failure.ulp is None:
        return "wrong"
    return f"{'+' if failure.error > 0 else '−'}{failure.ulp:,} ULP"


def _number(code: int | None, value: str, kind: str) -> Content:
    if code is None:
        return "none"
    shown = code_text(code, kind)
    return [element("code", shown), value != shown and element("span", f" = {value}", class_="value")]


#: Number of codes shown for a row of a sum.
_SHOWN = 24


def _numbers(codes: Sequence[int], values: Sequence[str], kind: str) -> Content:
    if len(codes) == 1:
        return _number(codes[0], values[0], kind)
    shown = " ".join(code_text(c, kind) for c in codes[:_SHOWN]) + (f" … ({len(codes)})" if len(codes) > _SHOWN else "")
    return element("code", shown, class_="row")


def _histogram(case: CaseResult) -> Content:
    """The number of results at each distance, as bars."""
    if len(case.histogram) < 2:
        return None
    most = max(case.histogram.values())

    def row(distance: str, n: int) -> Markup:
        bar = element("span", style=f"width:{100 * n / most:.1f}%")
        return element("tr", element("th", f"{distance} ULP", scope="row"), element("td", bar), element("td", f"{n:,}"))

    return element("table", element("tbody", [row(*x) for x in case.histogram.items()]), class_="histogram")


def command(case: CaseResult) -> Content:
    """The command that reproduces the first failure."""
    return element("pre", element("code", case.command), class_="command") if case.command else None


def program(case: CaseResult) -> Content:
    """The StableHLO program of the first failure, and its inputs; collapsed."""
    if not case.program:
        return None
    inputs = "\n".join(f"--input {i}" for i in case.inputs)
    return element(
        "details",
        element("summary", "the first of them as a program"),
        element("pre", element("code", case.program)),
        inputs and element("pre", element("code", inputs)),
    )


def accuracy(cases: Sequence[CaseResult], limit: int) -> Content:
    """Results that are not required to be correctly rounded, and are not."""
    if not cases:
        return None
    shown = (
        "These are not required to be correctly rounded. A number next to the exact value counts as accuracy; "
        f"in types of 16 bits and more up to {limit} ULP do."
    )
    parts = []
    for name, group in _by_signature(cases).items():
        first = max(group, key=lambda c: (c.form == "array", c.counts.get(ACCURACY, 0)))
        worst_ulp = max((c.worst_ulp for c in group if c.worst_ulp is not None), default=0)
        summary = [
            element("code", name),
            f" {first.counts.get(ACCURACY, 0):,} of {first.total:,}, worst {worst_ulp} ULP",
        ]
        forms = ", ".join(c.form for c in group)
        detail = [element("p", f"forms: {forms}"), pictures(first), _histogram(first), table(first, first.failures)]
        parts.append(element("details", element("summary", summary), detail, id=anchor(first)))
    return element("section", element("h2", "Accuracy"), element("p", shown), parts, id="accuracy")
