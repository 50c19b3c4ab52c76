"""The data of pictures: the errors of a case, by its operands or by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..judging.sums.exact_sums import spread
from ..oracle.formats import MINIFLOATS, bits
from .cases.data import numbers
from .elementwise import Part, of_positions
from .format_text import number_text
from .part import BasePart
from .result import UNTRIED, ErrorCurve, ErrorMap
from .verdicts.judge import Judgement

#: Maximum number of points of a curve of each sort, right and wrong.
_POINTS = 1000


def picture_data(part: BasePart, judged: Judgement) -> dict[str, Any]:
    """The map of a binary op, the curve of a unary one, else errors by position; empty if all results are right."""
    if not judged.errors.any():
        return {}
    if isinstance(part, Part) and not of_positions(part.form):
        if len(part.arrays) == 2 and part.case.operands[0] in MINIFLOATS:
            return {"map": _map(part, judged.errors)}
        if len(part.arrays) == 1:
            return {"curve": _by_value(part, judged.errors)}
    places = np.sort(_select(judged.errors))
    return {"curve": _curve(places, places.astype(np.float64), judged.errors[places], "places")}


def _map(part: Part, errors: np.ndarray) -> ErrorMap:
    n = 1 << bits(part.case.operands[0])
    x, y = part.arrays
    made = np.full((n, n), UNTRIED, np.int8)
    made[x, y] = errors
    wrong = errors != 0  # for pairs that were tried more than once
    made[x[wrong], y[wrong]] = errors[wrong]
    return ErrorMap.of(made)


def _by_value(part: Part, errors: np.ndarray) -> ErrorCurve:
    codes = part.arrays[0]
    codes = codes.view(np.uint8) if codes.dtype == bool else codes  # codes in JSON are integers
    values = numbers(codes, part.case.operands[0]).astype(np.float64)
    places = _select(errors)
    places = places[np.argsort(values[places], kind="stable")]
    return _curve(codes[places], values[places], errors[places], "values")


def _curve(codes: np.ndarray, values: np.ndarray, errors: np.ndarray, over: str) -> ErrorCurve:
    written = [v if np.isfinite(v) else number_text(v) for v in values.tolist()]
    return ErrorCurve(codes.tolist(), written, errors.tolist(), over)


def _select(errors: np.ndarray) -> np.ndarray:
    """The indices of all elements, or an even selection of many."""
    if len(errors) <= _POINTS:
        return np.arange(len(errors))
    return np.concatenate([spread(np.flatnonzero(errors), _POINTS), spread(np.flatnonzero(errors == 0), _POINTS)])
