"""Why what a function of mlir_tests/ checks differs on a peer: models of whole programs, beside those of single ops.

A model takes the values that are checked and gives the codes that the peer would have for that reason, or None where
it does not apply. Differences that a cause of a single op explains (`causes`) need none of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from minihlo.interp.oracle.expected import expected
from minihlo.ops.programs.checks import INFINITELY_FAR, ulp_distance

from .causes import CAUSES, assign
from .functions import Checked
from .numbers import is_nan
from .peers import Codes
from .registry import ACCURACY, Causes

Model = Callable[[Checked], "Codes | None"]


FUNCTION_CAUSES: Causes[Model] = Causes(CAUSES)
function_cause = FUNCTION_CAUSES.declare


def explained(peer: str, checked: Checked) -> Iterator[tuple[str, np.ndarray]]:
    """The causes of a peer's differences, each with the places it explains; "" for those that none does."""
    left = np.flatnonzero(checked.got != checked.expected)
    if checked.case is not None:
        case, operands = checked.case
        right = dataclasses.replace(expected(case, operands), codes=checked.expected)
        for name, places in assign(peer, case, operands, right, checked.got):
            if name:
                yield name, places
                left = np.setdiff1d(left, places)
    nan = is_nan(checked.got, checked.element)
    for cause in FUNCTION_CAUSES.values():
        if not left.size:
            return
        if peer in cause.peers:
            model = cause.model(checked)
            if model is not None:
                model = np.broadcast_to(model, checked.got.shape)
                hit = (model == checked.got)[left] | (nan & is_nan(model, checked.element))[left]
                if cause.kind == ACCURACY:
                    hit &= _is_near(checked)[left]
                if hit.any():
                    yield cause.name, left[hit]
                left = left[~hit]
    if left.size:
        yield "", left


def _is_near(checked: Checked) -> np.ndarray:
    """Where a difference is a number of ULP. (The others are no matter of accuracy.)"""
    t = checked.element
    if not t.is_float:
        return np.zeros(checked.got.shape, bool)
    return np.asarray(ulp_distance(checked.got.view(t.dtype), checked.expected.view(t.dtype))) != INFINITELY_FAR


def name_of(checked: Checked) -> str:
    """The op that the values are results of, or an empty string."""
    return checked.operation.name if checked.operation else ""
