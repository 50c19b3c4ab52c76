"""Explains results by fault models that reproduce them. No diagnosis is better than a wrong one.

A fault is named only if it reproduces every wrong result that it predicts, and predicts no change to a right one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from ..oracle.case import OpCase, Operands
from .equality import equal_codes
from .record import NONE, Diagnosis, Fault

#: Number of right elements that a fault is tried on before all of them.
_SAMPLE = 4096
#: At most this many faults are named together, and each explains at least one in this many failures.
_MOST, _SHARE = 3, 50


@dataclasses.dataclass(frozen=True)
class Results:
    """Results of an elementwise op to be explained."""

    case: OpCase
    operands: Operands  #: codes
    got: np.ndarray  #: the backend's codes
    right: np.ndarray  #: the right codes
    left_open: np.ndarray  #: open point of each result (oracle.rounding)
    to_integers: str = "toward zero"  #: how floats are converted to integers


@dataclasses.dataclass(frozen=True)
class _Explanation:
    """A fault that reproduces some failing elements and contradicts no result."""

    fault: Fault
    hit: np.ndarray


def by_faults(
    faults: Iterable[Fault], results: Results, failing: np.ndarray, others: np.ndarray, whole: bool = False
) -> Diagnosis:
    """Diagnoses failing elements by one fault, or by several that explain them together.

    Args:
        faults: the fault models to try, the likeliest first.
        results: all elements.
        failing: indices of the failing elements.
        others: indices of right elements, which a fault must not change.
        whole: accept only one fault that explains every failing element.

    Returns:
        the diagnosis, empty if faults explain less than half of the failing elements.
    """
    with np.errstate(all="ignore"):
        known = list(_explanations(faults, results, failing, others, whole))
    left, named = np.ones(len(failing), bool), []
    while left.any() and known and len(named) < _MOST:
        best = max(known, key=lambda e: int((e.hit & left).sum()))
        count = int((best.hit & left).sum())
        if count < max(1, len(failing) // _SHARE):
            break
        named.append((count, best.fault))
        left &= ~best.hit
    if not named or left.mean() > 0.5:
        return NONE
    found = [(n, f.diagnosis(results.case.result, results.to_integers)) for n, f in named]
    if len(found) == 1 and not left.any():
        return found[0][1]
    share = [f"{d} ({n:,} of {len(failing):,})" for n, d in found]
    rest = [f"something else ({int(left.sum()):,})"] if left.any() else []
    return Diagnosis("; ".join([*share, *rest]), tuple(d.identifier for _, d in found))


def _explanations(
    faults: Iterable[Fault], results: Results, failing: np.ndarray, others: np.ndarray, whole: bool
) -> Iterator[_Explanation]:
    for fault in faults:
        hit = _hits(fault, results, failing)
        if hit is None or (whole and not hit.all()):
            continue
        is_many = len(np.unique(results.got[failing][hit])) > 1
        if not whole and (hit.sum() < fault.least or (fault.least > 1 and not is_many)):
            continue
        # A fault may change other elements that are left open.
        points = np.unique(np.append(results.left_open[failing][hit], 0))
        spared = others[np.isin(results.left_open[others], points)]
        few = spared[np.linspace(0, len(spared) - 1, min(len(spared), _SAMPLE)).astype(np.intp)]
        if _spares(fault, results, few) and (len(few) == len(spared) or _spares(fault, results, spared)):
            yield _Explanation(fault, hit)
            if whole:
                return


def _compute(fault: Fault, results: Results, places: np.ndarray) -> np.ndarray | None:
    return fault.compute(results.case, tuple(x[places] for x in results.operands))


def _hits(fault: Fault, results: Results, failing: np.ndarray) -> np.ndarray | None:
    """The failing elements that a fault explains; None if it predicts a wrong result that was not given."""
    computed = _compute(fault, results, failing)
    if computed is None:
        return None
    hit = equal_codes(results.case.result, computed, results.got[failing])
    is_right = equal_codes(results.case.result, computed, results.right[failing])
    return hit if hit.any() and (hit | is_right).all() else None


def _spares(fault: Fault, results: Results, places: np.ndarray) -> bool:
    """Whether a fault leaves the given right elements unchanged."""
    if not len(places):
        return True
    computed = _compute(fault, results, places)
    return computed is None or bool(equal_codes(results.case.result, computed, results.got[places]).all())
