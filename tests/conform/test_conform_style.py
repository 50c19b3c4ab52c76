"""The colours of the pages of `minihlo conform site`: text is read in both schemes."""

import re
from collections.abc import Iterator

import pytest

from minihlo.interp.conform.result import (
    ACCURACY,
    CRASH,
    DIVERGENT,
    FAIL,
    PASS,
    UNSUPPORTED,
)
from minihlo.interp.conform.site import build


def schemes() -> Iterator[tuple[str, dict[str, str]]]:
    """The variables of the light and of the dark scheme."""
    style = build.style()
    light = dict(re.findall(r"--([\w-]+): ([^;]+);", style[: style.index("@media")]))
    dark = re.search(r"@media \(prefers-color-scheme: dark\) \{(.*?)\n\}", style, re.DOTALL)
    assert dark is not None
    yield "light", light
    yield "dark", {**light, **dict(re.findall(r"--([\w-]+): ([^;]+);", dark[1]))}


def luminance(colour: str) -> float:
    """The relative luminance of `#rgb` or `#rrggbb`, as WCAG 2.2 defines it."""
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * d for d in digits)
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#fff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_level_aa(scheme: str) -> None:
    colours = dict(schemes())[scheme]
    verdicts = (PASS, DIVERGENT, ACCURACY, FAIL, CRASH, UNSUPPORTED)
    pairs = [(ink, ground) for ink in ("ink", "soft", "link") for ground in ("page", "panel")]
    pairs += [(f"{v}-ink", v) for v in verdicts]
    low = {(a, b): contrast(colours[a], colours[b]) for a, b in pairs if contrast(colours[a], colours[b]) < 4.5}
    assert low == {}
