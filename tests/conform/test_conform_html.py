"""The HTML report: well-formed, needs nothing else, tells every failing case, and its pictures show the errors."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from minihlo.interp.conform.report import html
from minihlo.interp.conform.result import (
    ACCURACY,
    CRASH,
    DIVERGENT,
    FAIL,
    IS_NAN,
    OPEN,
    PASS,
    UNSUPPORTED,
    CaseResult,
    ErrorCurve,
    ErrorMap,
    Failure,
    Report,
    Run,
)

VOID = {"meta", "link", "br", "img", "line", "rect", "circle", "image", "path"}


class Page(HTMLParser):
    """Reads a page strictly: each element is closed, in order, and no id stands twice."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if "id" in dict(attrs):
            name = dict(attrs)["id"]
            assert name is not None
            assert name not in self.ids
            self.ids.add(name)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def case(op: str, verdict: str, form: str = "array", formats: tuple[str, ...] = ("f8E4M3FN",), **fields) -> CaseResult:
    arity = 2 if op in ("add", "subtract", "divide", "compare_LT") else 1
    result = "i1" if op == "compare_LT" else formats[-1]
    operands = [formats[0]] * arity
    name = ".".join([op, *formats])
    return CaseResult(name, form, op, operands, result, op, formats[-1], verdict, **fields)


def errors() -> np.ndarray:
    """Of add in f8E4M3FN: NaN where 448 + 448 is, ten too small, one open."""
    made = np.zeros((256, 256), np.int8)
    made[0x7E, 0x7E] = IS_NAN
    made[0x10, 0x20:0x2A] = -3
    made[0xFF, 0] = OPEN
    return made


ADD = Failure(
    FAIL, 0x7E7E, 65536, [[0x7E], [0x7E]], [["448"], ["448"]], 0x7F, "nan", 0x7E, "448", IS_NAN, None, "infinity"
)
SUM = Failure(FAIL, 2, 8, [list(range(40))], [[f"v{i}" for i in range(40)]], 0x11, "0.07", 0x12, "0.08", -1, 1)
CASES = [
    case(
        "add",
        FAIL,
        map=ErrorMap.of(errors()),
        failures=[ADD],
        total=65536,
        counts={PASS: 65524, FAIL: 11, DIVERGENT: 1},
        worst_ulp=3,
        histogram={"2": 4, "3": 6},
        diagnosis='all <failing> sums & more are "large"',
        command="minihlo conform it --case add.f8E4M3FN --operands 0x7E,0x7E",
        program="func.func @main() {\n  return\n}",
        inputs=["ui8=126", "ui8=126"],
        choices=["an invalid operation: +0"],
    ),
    case(
        "add",
        FAIL,
        "constant",
        failures=[ADD],
        total=65536,
        counts={FAIL: 1},
        command="minihlo conform it --form constant",
    ),
    case("add", PASS, "size-1", formats=("f8E5M2",), total=1, counts={PASS: 1}),
    case(
        "add",
        CRASH,
        formats=("f8E5M2",),
        message="it died (SIGSEGV): <script>alert(1)</script>",
        command="minihlo conform it --case add.f8E5M2",
    ),
    case(
        "divide",
        FAIL,
        formats=("f4E2M1FN",),
        map=ErrorMap.of(np.eye(16, dtype=np.int8)),
        total=256,
        counts={FAIL: 16},
        is_expected=True,
    ),
    case("compare_LT", FAIL, map=ErrorMap.of(errors()), total=65536, counts={FAIL: 12}),
    case(
        "convert",
        FAIL,
        formats=("f64", "f8E4M3FN"),
        total=5,
        counts={FAIL: 2, PASS: 3},
        failures=[
            Failure(FAIL, 0, 5, [[0x407B000000000001]], [["432.00000000000006"]], 0x7D, "416", 0x7E, "448", -1, 1)
        ],
        curve=ErrorCurve([1, 2, 3, 4, 5], ["-inf", -1.0, 0.0, 432.00000000000006, "nan"], [0, 5, 0, -1, IS_NAN]),
    ),
    case("reduce_add", FAIL, "length-64", failures=[SUM], model="rounded once from f32", total=8, counts={FAIL: 1}),
    case(
        "sine",
        ACCURACY,
        failures=[dataclasses.replace(SUM, verdict=ACCURACY, operands=[[1]], values=[["2^-9"]])],
        total=256,
        counts={ACCURACY: 3, PASS: 253},
        worst_ulp=2,
        histogram={"1": 2, "2": 1},
    ),
    case("negate", DIVERGENT, choices=["the sign of NaN: negative, as XLA CPU"], total=256, counts={DIVERGENT: 1}),
    case("tan", UNSUPPORTED, message="it refuses the program: no tan"),
    case("abs", PASS, total=256, counts={PASS: 256}),
]


def report(cases: list[CaseResult] = CASES, **fields) -> Report:
    return Report(Run("it", 1, versions={"it": "1.2"}, host="Linux", complete=True, **fields), cases)


@pytest.fixture(scope="module")
def text() -> str:
    return html.page(report())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_page_needs_nothing_else(text: str, page: Page) -> None:
    assert text.startswith("<!DOCTYPE html>\n<html")
    assert not page.of("script")
    assert not page.of("link")
    links = [a[k] for _, a in page.tags for k in ("href", "src", "data", "action") if k in a]
    assert links
    for link in links:
        assert link is not None
        assert link.startswith(("#", "data:image/png;base64,"))
        if link.startswith("#"):
            assert link[1:] in page.ids
    (style,) = re.findall("<style>(.*?)</style>", text, re.S)
    assert len(style) > 1000
    assert "url(" not in style
    assert "@import" not in style
    assert not [k for _, a in page.tags for k in a if k.startswith("on")]


def test_a_page_of_nothing() -> None:
    page = Page(html.page(report([])))
    assert "0 cases" in page.text
    assert "Failures" not in page.text


def test_every_failing_case_is_told(text: str, page: Page) -> None:
    for c in CASES:
        if c.verdict in (FAIL, CRASH):
            assert f"failures-{c.signature}" in page.ids
            assert f"form {c.form}" in page.text
            assert c.command in page.text
            assert c.message in page.text
            assert c.diagnosis in page.text
    assert "7 cases of 6 signatures" in page.text
    assert "<script>alert" not in text
    assert "1 of the failures are expected" in page.text
    assert "fails too: constant" in page.text


def test_examples(page: Page) -> None:
    for told in (
        "0x7E = 448",
        "0x7F = nan",
        "also right: infinity",
        "NaN, and should not be",
        "0x407B000000000001 = 432.00000000000006",
        "−1 ULP",
        "0x00 0x01 0x02",
        "… (40)",
        "rounded once from f32",
        "--input ui8=126",
        "return\n}",
        "11 of 65,536 results wrong",
        "the sign of NaN: negative, as XLA CPU",
        "no tan",
        "worst 2 ULP",
    ):
        assert told in page.text
    assert "it refuses the program" not in page.text


def test_the_grid(text: str) -> None:
    (grid,) = re.findall('<table class="grid">(.*?)</table>', text)
    rows = [re.findall(r"<th scope=\"row\">(.*?)</th>|<td class=\"(\w+)\">", r) for r in grid.split("<tr>")[2:]]
    cells = {r[0][0]: [verdict for _, verdict in r[1:]] for r in rows}
    assert re.findall("<span>(.*?)</span>", grid) == ["f4E2M1FN", "f8E4M3FN", "f8E5M2"]
    assert cells["add"] == ["none", FAIL, CRASH]
    assert cells["divide"] == [FAIL, "none", "none"]
    assert [cells[r][1] for r in ("sine", "negate", "tan", "abs")] == [ACCURACY, DIVERGENT, UNSUPPORTED, PASS]
