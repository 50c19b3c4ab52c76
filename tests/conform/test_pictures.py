"""The pictures of the documentation: their data is right, and their files are what they should be."""

import xml.etree.ElementTree as ET
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tools.pictures import PICTURES, error_map, number_line

from .. import oracle

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def test_there_is_a_file_for_each_picture_and_no_other() -> None:
    assert {p.name for p in FOLDER.iterdir()} == {f"{name}.svg" for name in PICTURES}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_title_and_text_and_stays_on_its_page(name: str) -> None:
    root = ET.fromstring((FOLDER / f"{name}.svg").read_text())
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title")
    assert root.findtext(f"{space}desc")
    assert len(root.findall(f"{space}text")) > 5
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter(f"{space}rect"):
        x, y, w, h = (float(box.attrib.get(k, 0)) for k in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert x + w <= width
        assert y + h <= height


@pytest.mark.parametrize("name", sorted(number_line.MINIFLOATS))
def test_the_numbers_of_a_format(name: str) -> None:
    fmt = number_line.FORMATS[name]
    values = np.arange(1 << fmt.bits, dtype=np.uint8).view(getattr(ml_dtypes, fmt.dtype_name)).astype(np.float64)
    expected = sorted({Fraction(v) for v in values[np.isfinite(values) & (values > 0)].tolist()})
    assert number_line.numbers(fmt) == expected


def test_the_map_of_errors() -> None:
    """bfloat16 has eight significant bits: a quotient is rounded to them first, by an oracle of fractions."""
    numbers, actual = error_map.wrong()
    assert len(numbers) == 223
    own, wide = oracle.FORMATS[error_map.FORMAT], oracle.FORMATS[error_map.MACHINE]
    tried = [(i, j) for i in range(0, 223, 4) for j in range(1, 223, 5) if numbers[j] != 0]
    for i, j in tried:
        quotient = Fraction(numbers[i]) / Fraction(numbers[j])
        exact, once = (float(oracle.decode(f, oracle.encode(f, quotient))) for f in (own, wide))
        twice = float(oracle.decode(own, oracle.encode(own, Fraction(once))))
        assert actual[i, j] == (twice > exact) - (twice < exact), (i, j)
    assert sum(actual[i, j] != 0 for i, j in tried) > 50
    assert np.count_nonzero(actual) > 1000
    assert (actual == -actual[::-1]).all()  # the rounding is symmetric
