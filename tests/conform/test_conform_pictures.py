"""The pictures of the HTML report: maps of errors and curves, and when a case has one."""

import base64
import re
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from minihlo.interp.backends import ml_dtypes
from minihlo.interp.backends.operation import Operation
from minihlo.interp.conform import tester
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.conform.report import html
from minihlo.interp.conform.result import FAIL, OPEN, UNTRIED
from minihlo.interp.conform.verdicts.outcome import Settings

from .test_conform_html import Page, errors, report


@pytest.fixture(scope="module")
def text() -> str:
    return html.page(report())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


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


def test_a_curve_shows_the_errors(page: Page) -> None:
    dots = [a["d"] or "" for a in page.of("path")]
    assert sum(d.count("M") for d in dots) == 5
    assert "3 of the 5 results shown are wrong" in page.text
    assert "f64 operand" in page.text


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
