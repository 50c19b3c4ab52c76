"""The HTML report: well-formed, needs nothing else, tells every failing case, and its pictures show the errors."""

import base64
import dataclasses
import re
import struct
import zlib
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.backends import ml_dtypes
from minihlo.interp.backends.operation import Operation
from minihlo.interp.conform import tester
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.conform.elementwise import Part
from minihlo.interp.conform.pictured import pictured
from minihlo.interp.conform.report import html
from minihlo.interp.conform.report.markup import element
from minihlo.interp.conform.result import (
    ACCURACY,
    CRASH,
    DIVERGENT,
    FAIL,
    IS_NAN,
    OPEN,
    PASS,
    UNSUPPORTED,
    UNTRIED,
    CaseResult,
    ErrorCurve,
    ErrorMap,
    Failure,
    Report,
    Run,
)
from minihlo.interp.conform.verdicts.judge import Judged
from minihlo.interp.conform.verdicts.outcome import Settings

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


def test_an_unfinished_run_says_so(page: Page) -> None:
    unfinished = report()
    unfinished.run.complete = False
    assert "not finished" in Page(html.page(unfinished)).text
    assert "not finished" not in page.text


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


def pixels(uri: str) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """An image of a palette without filters, and the palette."""
    data = base64.b64decode(uri.partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 3, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    palette, opacity = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3), np.frombuffer(chunks[b"tRNS"], np.uint8)
    return rows[:, 1:], [(*map(int, p), int(a)) for p, a in zip(palette, opacity, strict=True)]


def test_a_map_shows_the_errors(text: str, page: Page) -> None:
    images = [a["href"] for a in page.of("image")]
    assert len(images) == 3
    shown, palette = pixels(images[0] or "")
    assert shown.shape == (256, 256)
    colours = np.array(palette)[shown]
    assert ((colours[:, :, 3] == 255) == ((errors() != 0) & (errors() != OPEN))).all()
    too_small, nan, left_open = shown[0x10, 0x20], shown[0x7E, 0x7E], shown[0xFF, 0]
    assert len({too_small, nan, left_open, shown[0, 0]}) == 4
    # f8E4M3FN: subnormal sums of subnormals, NaN of NaN, 448 + 16 is a tie that stays, 448 + 17 would not
    subnormal, is_nan, beyond = shown[1, 1], shown[0x7F, 0x05], shown[0x7E, 0x5A]
    assert len({subnormal, is_nan, beyond, shown[0x38, 0x38]}) == 4
    assert shown[0x7E, 0x58] == shown[0x38, 0x38]
    assert shown[0x7E, 0x59] == beyond
    assert shown[0x81, 0x03] == subnormal
    # 6 / 0.5 is beyond the largest number of f4E2M1FN, 0.5 / 6 is subnormal
    divided, _ = pixels(images[1] or "")
    assert divided.shape == (16, 16)
    assert (divided[7, 1], divided[1, 7]) == (beyond, subnormal)
    told = re.findall(r"background:(rgb\([^)]*\))[^<]*></span>([^<]*)", text)
    assert next(n for _, n in told if n.startswith("too small by 2 to 4")) == "too small by 2 to 4 ULP: 10"
    assert "add.f8E4M3FN: 11 of 65,536 pairs of operands are wrong" in page.text
    assert len(page.of("circle")) == 22 + 3  # so few are ringed: eleven in each of two maps, three in a curve


def test_regions_of_a_format_without_sign() -> None:
    made = ErrorMap.of(np.zeros((256, 256), np.int8))
    page = Page(html.page(report([case("subtract", FAIL, formats=("f8E8M0FNU",), map=made)])))
    shown, _ = pixels(page.of("image")[0]["href"] or "")
    negative, nan, positive = shown[0x10, 0x20], shown[0xFF, 0x20], shown[0x20, 0x10]
    assert negative == nan != positive


def test_texts_are_escaped() -> None:
    assert element("a", "<&>", [None, "b", False], href='"<&', class_="x", data_y=None) == (
        '<a href="&quot;&lt;&amp;" class="x">&lt;&amp;&gt;b</a>'
    )
    assert element("rect", x=1, hidden=True) == '<rect x="1" hidden/>'


def test_pairs_that_were_tried_twice_are_wrong_if_once() -> None:
    twice = Part(Case("add", ("f8E5M2",) * 2, "f8E5M2"), "array", (np.array([1, 1, 3]), np.array([2, 2, 4])))
    judged = Judged(np.array([3, 0, 0]), np.array([5, 0, 0], np.int8), np.array([5, 0, 0]), {}, np.array([0, 0, 0]))
    shown = pictured(twice, judged)["map"].array()
    assert (shown[1, 2], shown[3, 4], shown[2, 1]) == (5, 0, UNTRIED)


def test_a_curve_shows_the_errors(page: Page) -> None:
    dots = [a["d"] or "" for a in page.of("path")]
    assert sum(d.count("M") for d in dots) == 5
    assert "3 of the 5 results shown are wrong" in page.text
    assert "f64 operand" in page.text


def test_what_was_not_tried_and_what_is_by_place() -> None:
    some = np.full((256, 256), UNTRIED, np.int8)
    some[:, 0x40] = 0
    some[3, 0x40] = 2
    by_place = ErrorCurve([0, 1, 2], [0.0, 1.0, 2.0], [0, 0, -1], "places")
    cases = [case("add", FAIL, "scalar", map=ErrorMap.of(some)), case("add", FAIL, "size-7", curve=by_place, total=7)]
    page = Page(html.page(report(cases)))
    assert "1 of 256 pairs of operands are wrong" in page.text
    assert "not tried: 65,280" in page.text
    assert "place in the result" in page.text
    assert "3 of 7 results are shown" in page.text
    shown, palette = pixels(page.of("image")[0]["href"] or "")
    assert (np.array(palette)[shown][:, :, 3] == 0).sum() == 65280


class SecondIsWrong:
    """ml_dtypes, but for the second result of each array."""

    name, takes, seconds = "it", "operations", 1.0

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        found = ml_dtypes.operate(operation, arrays).copy()
        found.reshape(-1)[1:2] ^= True
        return found

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("op", "operands", "result", "form", "where"),
    [
        ("add", 2, "f8E5M2", "array", [0, 1]),
        ("divide", 2, "f8E5M2", "broadcast", None),
        ("add", 2, "f8E5M2", "size-7", 1),
        ("negate", 1, "f8E5M2", "array", 1),
        ("convert", 1, "f32", "array", 1),
        ("is_finite", 1, "i1", "array", 1),
        ("select", 3, "f4E2M1FN", "array", 1),
        ("cumulative", 1, "f8E5M2", "length-8", None),
    ],
)
def test_what_fails_has_a_picture(op: str, operands: int, result: str, form: str, where: object) -> None:
    kind = "f4E2M1FN" if result == "f4E2M1FN" else "f8E5M2"
    attributes = (("body", "add"),) if op == "cumulative" else ()
    types = ("i1", kind, kind) if op == "select" else (kind,) * operands
    spec = tester.Spec(Case(op, types, result, attributes), form)
    (found,) = tester.Tester(SecondIsWrong(), Settings("it")).run([spec])
    assert found.verdict == FAIL
    assert (found.map is None) != (found.curve is None)
    if found.map:
        shown = found.map.array()
        places = np.argwhere((shown != 0) & (shown != OPEN) & (shown != UNTRIED)).tolist()
        assert places == [where] if where else places
    elif found.curve:
        wrong = [c for c, e in zip(found.curve.codes, found.curve.errors, strict=True) if e not in (0, OPEN)]
        assert wrong == [where] if where else wrong
        if (operands, form) == (1, "array"):
            assert sorted(found.curve.codes) == list(range(256))
    Page(html.page(report([found])))


def test_it_is_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    html.write(report(), target)
    assert Page(target.read_text(encoding="utf-8")).ids
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
