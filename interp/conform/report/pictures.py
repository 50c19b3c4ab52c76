"""Pictures of errors: the map of a binary op over all pairs of operands, the curve of an op on one operand.

They are computed here as data, and drawn by `pictures.html` of the templates.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...oracle.formats import FORMATS, Format
from ..format_text import code_text, number_text
from ..result import CUT, UNTRIED, CaseResult
from .shades import NAMES, RIGHT, SHADES, is_wrong, legend, regions, runs, shades

_FEW = 100  #: number of errors that are ringed
_RING, _CROWD = 4, 12  #: the radius of a ring; errors within this space that are visible without one

# -- maps --------------------------------------------------------------------------------------------------------------

_SIDE, _LEFT, _TOP = 256, 62, 44  #: of the map, and of the margins beside and above it
_STRIP = 6  #: the width of the strips that mark the regions of the operands
_KINDS = {"subnormal": "zero or subnormal", "infinity": "infinity", "nan": "NaN"}


def error_map(case: CaseResult) -> dict[str, Any]:
    """The errors over pairs of operands, both axes in the order of the codes, with the regions marked."""
    assert case.map is not None
    errors, fmt = case.map.array(), FORMATS[case.operands[0]]
    values = fmt.decode(np.arange(case.map.n))
    shaded = shades(case, errors, values[:, None], values[None, :])
    wrong = is_wrong(errors)
    tried = np.count_nonzero(errors != UNTRIED)
    there = _regions_of(fmt)
    return {
        "title": f"{case.signature}: {np.count_nonzero(wrong):,} of {tried:,} pairs of operands are wrong",
        "image": png(shaded, [s.colour for s in SHADES.values()]),
        "regions": [_strip(*r, _SIDE / (1 << fmt.bits), across) for across in (True, False) for r in there],
        "ticks": [t for across in (True, False) for t in _ticks(fmt, across)],
        "rings": _rings(np.argwhere(wrong)[:, ::-1] + (_LEFT + 0.5, _TOP + 0.5)) if case.map.n == _SIDE else [],
        "marks": {kind: words for kind, words in _KINDS.items() if kind in {r[2] for r in there}},
        "legend": legend(shaded),
    }


def _rings(centres: np.ndarray) -> list[tuple[float, float]]:
    """The errors, float[n, 2], that are ringed: those too few and too far apart to be seen."""
    if len(centres) > _FEW:
        return []
    distances = np.abs(centres[:, None] - centres[None]).max(axis=-1)
    return centres[(distances <= 2 * _RING).sum(axis=1) < _CROWD].tolist()


def _regions_of(fmt: Format) -> list[tuple[int, int, str]]:
    """Runs of codes of one kind: where they begin and end, and the kind ("" for normal numbers)."""
    codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
    values = fmt.decode(codes)
    kinds = np.select([np.isnan(values), np.isinf(values), fmt.is_subnormal(codes) | (values == 0)], [1, 2, 3], 0)
    names = ("", "nan", "infinity", "subnormal")
    return [(a, b, names[kind]) for a, b, kind in runs(kinds)]


def _strip(a: int, b: int, kind: str, unit: float, across: bool) -> dict[str, Any]:
    """The mark of a region beside the map."""
    x, y = (_LEFT + a * unit, _TOP - _STRIP - 1) if across else (_LEFT - _STRIP - 1, _TOP + a * unit)
    width, height = ((b - a) * unit, _STRIP) if across else (_STRIP, (b - a) * unit)
    return {"kind": kind, "x": x, "y": y, "width": width, "height": height}


def _ticks(fmt: Format, across: bool) -> Iterator[dict[str, str]]:
    """Codes and values at the eighths of an axis, without the last, which would be beyond the edge."""
    n = 1 << fmt.bits
    for code in [i * n // 8 for i in range(8)] if n >= 16 else range(n):
        at = (code + 0.5) * _SIDE / n
        value = _short(float(fmt.decode(np.array([code]))[0]), 6)
        x, y = (_LEFT + at, _TOP - _STRIP - 4) if across else (_LEFT - _STRIP - 4, _TOP + at)
        place = f"translate({x:g} {y:g})"
        words, kinds = (value, code_text(code, fmt.name)), ("middle", "middle code")
        if not across:
            words, kinds = words[::-1], ("end code", "end")
        places = place, f"{place} translate(0 {-9 if across else 8.5})"
        for text, kind, at_place in zip(words, kinds, places, strict=True):
            yield {"text": text, "class": kind, "at": at_place}


def png(pixels: np.ndarray, palette: list[tuple[int, int, int, int]]) -> str:
    """An image as a data URI: `pixels` are indices into a palette of red, green, blue and opacity."""
    height, width = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.astype(np.uint8)], axis=1)  # 0: no filter
    colours, opacities = bytes(c for p in palette for c in p[:3]), bytes(p[3] for p in palette)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"PLTE", colours), (b"tRNS", opacities), (b"IDAT", zlib.compress(rows.tobytes(), 9))]
    data = b"\x89PNG\r\n\x1a\n"
    for kind, part in (*chunks, (b"IEND", b"")):
        data += struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part))
    return "data:image/png;base64," + base64.b64encode(data).decode()


# -- curves ------------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LANE = 380, 150, 13  #: of the field, and of the lines above it for errors without distance
_LEFT_OF_CURVE, _ABOVE = 52, 20
_GRID = (-100, -16, -4, -1, 0, 1, 4, 16, 100)
#: Errors without distance have lines of their own, in this order.
_LANES = ("zero", "open", "not-nan", "is-nan", "infinite", "absent", "wrong")


def curve(case: CaseResult) -> dict[str, Any]:
    """Errors by the values of the operands, with the regions of the result marked, or by position."""
    assert case.curve is not None
    errors = np.array(case.curve.errors, np.int8)
    values = np.array([float(v) for v in case.curve.values])
    by_value = case.curve.over == "values"
    shaded = shades(case, errors, values) if by_value else shades(case, errors)
    special = [name for name in _LANES if (shaded == NAMES.index(name)).any()]
    lanes = {name: _ABOVE + _LANE * (i + 0.5) for i, name in enumerate(special)}
    top = _ABOVE + _LANE * len(special) + (6 if special else 0)
    bottom = top + _HEIGHT
    step = _WIDTH / max(len(errors), 1)
    across = _LEFT_OF_CURVE + (np.arange(len(errors)) + 0.5) * step

    def height(error: np.ndarray) -> np.ndarray:
        return bottom - _HEIGHT / 2 * (1 + np.sign(error) * np.log1p(np.abs(error)) / np.log1p(CUT))

    heights = height(np.clip(errors.astype(float), -CUT, CUT))
    for name, y in lanes.items():
        heights[shaded == NAMES.index(name)] = y
    wrong = is_wrong(errors)
    places = np.unique(np.linspace(0, len(values) - 1, min(5, len(values))).round().astype(int)) if len(values) else []
    return {
        "title": f"{case.signature}: {np.count_nonzero(wrong):,} of the {len(errors):,} results shown are wrong",
        "axis": f"{case.operands[0]} operand, in order" if by_value else "place in the result",
        "top": top,
        "bottom": bottom,
        "bands": list(_bands(regions(case, values), step)) if by_value else [],
        "grid": list(zip(_GRID, height(np.array(_GRID)).tolist(), strict=True)),
        "lanes": [(SHADES[name].lane, y) for name, y in lanes.items()],
        "dots": list(_dots(shaded, across, heights)),
        "rings": _rings(np.stack([across, heights], axis=1)[wrong]),
        "scale": [(f"{across[i]:.5g}", _short(float(values[i]))) for i in places],
        "legend": legend(shaded),
        "shown": len(errors),
        "total": case.total,
    }


def _bands(kinds: np.ndarray, step: float) -> Iterator[dict[str, str]]:
    """Runs of operands whose right result is subnormal, beyond the largest number, or NaN."""
    colours = [s.css for s in SHADES.values()]
    for a, b, kind in runs(kinds):
        if kind:
            yield {"x": f"{_LEFT_OF_CURVE + a * step:.5g}", "width": f"{(b - a) * step:.5g}", "fill": colours[kind]}


def _dots(shaded: np.ndarray, across: np.ndarray, heights: np.ndarray) -> Iterator[dict[str, Any]]:
    """The elements as dots, a path for each shade; right ones small."""
    for i, shade in enumerate(SHADES.values()):
        at = shaded == i
        if at.any():
            path = "".join(f"M{x:.5g} {y:.5g}h0" for x, y in zip(across[at], heights[at], strict=True))
            width, colour = (1.6, "currentColor") if i < RIGHT else (3.6, shade.css)
            yield {"path": path, "width": width, "colour": colour}


def _short(value: float, most: int = 8) -> str:
    written = number_text(value)
    return written if len(written) <= most else f"{value:.2g}"
