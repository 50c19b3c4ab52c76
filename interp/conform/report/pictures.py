"""Pictures of errors: the map of a binary op over all pairs of operands, the curve of an op on one operand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...oracle.formats import FORMATS, Format
from ..format_text import code_text, number_text
from ..result import CUT, UNTRIED, CaseResult
from .markup import Markup, element, png
from .shades import NAMES, RIGHT, SHADES, is_wrong, legend, regions, runs, shades


def pictures(case: CaseResult) -> Sequence[Markup]:
    """The pictures of a case."""
    drawn: list[Markup] = []
    if case.map is not None:
        drawn.append(error_map(case))
    if case.curve is not None and case.curve.codes:
        drawn.append(error_curve(case))
    return drawn


# -- maps --------------------------------------------------------------------------------------------------------------

_SIDE, _LEFT, _TOP = 256, 62, 44  #: of the map, and of the margins beside and above it
_FEW = 100  #: number of errors that are ringed
_RING, _CROWD = 4, 12  #: the radius of a ring; errors within this space that are visible without one
_STRIP = 6  #: the width of the strips that mark the regions of the operands


def error_map(case: CaseResult) -> Markup:
    """The errors over pairs of operands, both axes in the order of the codes, with the regions marked."""
    assert case.map is not None
    errors, fmt = case.map.array(), FORMATS[case.operands[0]]
    values = fmt.decode(np.arange(case.map.n))
    shaded = shades(case, errors, values[:, None], values[None, :])
    wrong = is_wrong(errors)
    tried = np.count_nonzero(errors != UNTRIED)
    title = f"{case.signature}: {np.count_nonzero(wrong):,} of {tried:,} pairs of operands are wrong"
    picture = element(
        "svg",
        element("title", title),
        element("text", "second operand", x=_LEFT + _SIDE / 2, y=10, class_="axis middle"),
        element(
            "text",
            "first operand",
            x=0,
            y=0,
            class_="axis middle",
            transform=f"translate(9 {_TOP + _SIDE / 2}) rotate(-90)",
        ),
        _axis(fmt, across=True),
        _axis(fmt, across=False),
        element(
            "image",
            href=png(shaded, [s.colour for s in SHADES.values()]),
            x=_LEFT,
            y=_TOP,
            width=_SIDE,
            height=_SIDE,
            preserveAspectRatio="none",
            style="image-rendering:pixelated",
        ),
        element("rect", x=_LEFT, y=_TOP, width=_SIDE, height=_SIDE, class_="frame"),
        _rings(np.argwhere(wrong)[:, ::-1] + (_LEFT + 0.5, _TOP + 0.5)) if case.map.n == _SIDE else None,
        viewBox=f"0 0 {_LEFT + _SIDE + 6} {_TOP + _SIDE + 6}",
        class_="map",
        role="img",
        aria_label=title,
    )
    return element("figure", picture, element("figcaption", _keys(fmt), legend(shaded)))


def _rings(centres: np.ndarray) -> list[Markup]:
    """Circles around errors, float[n, 2], if they are too few and too far apart to be seen."""
    if len(centres) > _FEW:
        return []
    distances = np.abs(centres[:, None] - centres[None]).max(axis=-1)
    alone = (distances <= 2 * _RING).sum(axis=1) < _CROWD
    return [element("circle", cx=f"{x:.5g}", cy=f"{y:.5g}", r=_RING, class_="ring") for x, y in centres[alone].tolist()]


def _regions_of(fmt: Format) -> list[tuple[int, int, str]]:
    """Runs of codes of one kind: where they begin and end, and the kind ("" for normal numbers)."""
    codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
    values = fmt.decode(codes)
    kinds = np.select([np.isnan(values), np.isinf(values), fmt.is_subnormal(codes) | (values == 0)], [1, 2, 3], 0)
    names = ("", "nan", "infinity", "subnormal")
    return [(a, b, names[kind]) for a, b, kind in runs(kinds)]


def _keys(fmt: Format) -> Markup:
    """The legend of the strips beside the map."""
    words = {"subnormal": "zero or subnormal", "infinity": "infinity", "nan": "NaN"}
    there = {kind for _, _, kind in _regions_of(fmt)}
    keys = [
        element("li", element("span", class_=f"swatch region {k}"), f"operand is {w}")
        for k, w in words.items()
        if k in there
    ]
    return element("ul", keys, class_="legend")


def _axis(fmt: Format, across: bool) -> list[Markup]:
    """The strip of one axis with its regions, codes and values at some positions, lines at the sign and at regions."""
    n = 1 << fmt.bits
    unit = _SIDE / n
    drawn: list[Markup] = []
    for a, b, kind in _regions_of(fmt):
        at, length = a * unit, (b - a) * unit
        x, y = (_LEFT + at, _TOP - _STRIP - 1) if across else (_LEFT - _STRIP - 1, _TOP + at)
        width, height = (length, _STRIP) if across else (_STRIP, length)
        drawn.append(element("rect", class_=f"region {kind or 'normal'}", x=x, y=y, width=width, height=height))
    for code in _ticks(fmt):
        at = (code + 0.5) * unit
        code_word, value = code_text(code, fmt.name), _short(float(fmt.decode(np.array([code]))[0]), 6)
        if across:
            place = f"translate({_LEFT + at:g} {_TOP - _STRIP - 4})"
            drawn.append(element("text", value, transform=place, class_="tick middle"))
            drawn.append(element("text", code_word, transform=place + " translate(0 -9)", class_="tick middle code"))
        else:
            place = f"translate({_LEFT - _STRIP - 4:g} {_TOP + at:g})"
            drawn.append(element("text", code_word, transform=place, class_="tick end code"))
            drawn.append(element("text", value, transform=place + " translate(0 8.5)", class_="tick end"))
    return drawn


def _ticks(fmt: Format) -> list[int]:
    """The codes at an axis: at the eighths, without the last, which would be beyond the edge."""
    n = 1 << fmt.bits
    return [i * n // 8 for i in range(8)] if n >= 16 else list(range(n))


# -- curves ------------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LANE = 380, 150, 13  #: of the field, and of the lines above it for errors without distance
_LEFT_OF_CURVE, _ABOVE, _BELOW = 52, 20, 34
_GRID = (-100, -16, -4, -1, 0, 1, 4, 16, 100)


#: Errors without distance have lines of their own.
_LANES = {
    "zero": "sign of 0",
    "open": "left open",
    "not-nan": "not NaN",
    "is-nan": "NaN",
    "infinite": "infinite",
    "absent": "no result",
    "wrong": "wrong",
}


def error_curve(case: CaseResult) -> Markup:
    """Errors by the values of the operands, with the regions of the result marked, or by position."""
    assert case.curve is not None
    errors = np.array(case.curve.errors, np.int8)
    values = np.array([float(v) for v in case.curve.values])
    by_value = case.curve.over == "values"
    shaded = shades(case, errors, values) if by_value else shades(case, errors)
    special = [name for name in _LANES if (shaded == NAMES.index(name)).any()]
    top = _ABOVE + _LANE * len(special) + (6 if special else 0)
    left, bottom = _LEFT_OF_CURVE, top + _HEIGHT
    step = _WIDTH / max(len(errors), 1)
    across = left + (np.arange(len(errors)) + 0.5) * step
    sizes = np.clip(errors.astype(float), -CUT, CUT)
    lanes = {name: _ABOVE + _LANE * (i + 0.5) for i, name in enumerate(special)}
    heights = bottom - _HEIGHT / 2 * (1 + np.sign(sizes) * np.log1p(np.abs(sizes)) / np.log1p(CUT))
    for name, y in lanes.items():
        heights[shaded == NAMES.index(name)] = y

    wrong = np.count_nonzero(is_wrong(errors))
    title = f"{case.signature}: {wrong:,} of the {len(errors):,} results shown are wrong"
    axis = f"{case.operands[0]} operand, in order" if by_value else "place in the result"
    picture = element(
        "svg",
        element("title", title),
        _bands(regions(case, values), step, top) if by_value else None,
        [_grid_line(e, bottom - _HEIGHT / 2 * (1 + np.sign(e) * np.log1p(abs(e)) / np.log1p(CUT))) for e in _GRID],
        [element("text", _LANES[name], x=left - 4, y=y + 3, class_="tick end") for name, y in lanes.items()],
        element("text", "ULP", x=left - 4, y=9, class_="axis end"),
        _points(shaded, across, heights),
        _rings(np.stack([across, heights], axis=1)[is_wrong(errors)]),
        _values(values, across, bottom),
        element("text", axis, x=left + _WIDTH / 2, y=bottom + 29, class_="axis middle"),
        viewBox=f"0 0 {left + _WIDTH + 10} {bottom + _BELOW}",
        class_="curve",
        role="img",
        aria_label=title,
    )
    some = element("p", f"{len(errors):,} of {case.total:,} results are shown.") if len(errors) < case.total else None
    return element("figure", picture, element("figcaption", legend(shaded), some))


def _bands(kinds: np.ndarray, step: float, top: float) -> list[Markup]:
    """Runs of operands whose right result is subnormal, beyond the largest number, or NaN."""
    colours = [s.css for s in SHADES.values()]
    return [
        element(
            "rect",
            x=f"{_LEFT_OF_CURVE + a * step:.5g}",
            y=top,
            width=f"{(b - a) * step:.5g}",
            height=_HEIGHT,
            fill=colours[kind],
            fill_opacity=0.5,
        )
        for a, b, kind in runs(kinds)
        if kind
    ]


def _grid_line(error: int, y: float) -> list[Markup]:
    left, sign = _LEFT_OF_CURVE, "+" if error > 0 else ""
    written = f"{sign}{error}" if abs(error) < CUT else f"{sign}{error}…"
    return [
        element(
            "line", x1=left, x2=left + _WIDTH, y1=f"{y:.5g}", y2=f"{y:.5g}", class_="zero" if error == 0 else "grid"
        ),
        element("text", written, x=left - 4, y=f"{y + 3:.5g}", class_="tick end"),
    ]


def _points(shaded: np.ndarray, across: np.ndarray, heights: np.ndarray) -> list[Markup]:
    """The elements as dots, a path for each shade; right ones small."""
    drawn: list[Markup] = []
    for i, shade in enumerate(SHADES.values()):
        at = shaded == i
        if at.any():
            dots = "".join(f"M{x:.5g} {y:.5g}h0" for x, y in zip(across[at], heights[at], strict=True))
            width = 1.6 if i < RIGHT else 3.6
            colour = "currentColor" if i < RIGHT else shade.css
            drawn.append(
                element("path", d=dots, stroke=colour, stroke_width=width, stroke_linecap="round", class_="dots")
            )
    return drawn


def _values(values: np.ndarray, across: np.ndarray, y: float) -> list[Markup]:
    """Some values under the axis."""
    if not len(values):
        return []
    places = np.unique(np.linspace(0, len(values) - 1, min(5, len(values))).round().astype(int))
    return [
        element("text", _short(float(values[i])), x=f"{across[i]:.5g}", y=f"{y + 13:.5g}", class_="tick middle")
        for i in places
    ]


def _short(value: float, most: int = 8) -> str:
    written = number_text(value)
    return written if len(written) <= most else f"{value:.2g}"
