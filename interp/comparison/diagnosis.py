"""Explains results by fault models that reproduce them. No diagnosis is better than a wrong one.

A fault is named only if it reproduces every wrong result that it predicts, and predicts no change to a right one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from ..oracle.case import OpCase, Operands
from .equality import equal_codes
from .faults.record import Fault

#: Number of right elements that a fault is tried on before all of them.
_SAMPLE = 4096
#: At most this many faults are named together, and each explains at least one in this many failures.
_MOST, _SHARE = 3, 50


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """An explanation of results: a sentence for people, and the identifiers of the faults it names."""

    sentence: str = ""
    causes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sentence)

    def join(self, other: Diagnosis, between: str = "; ") -> Diagnosis:
        """This diagnosis followed by another."""
        sentence = between.join(filter(None, (self.sentence, other.sentence)))
        return Diagnosis(sentence, (*self.causes, *(c for c in other.causes if c not in self.causes)))


NONE = Diagnosis()


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
    causes = tuple(f.identifier for _, f in named)
    sentences = [f.describe(results.case, results.to_integers) for _, f in named]
    if len(named) == 1 and not left.any():
        return Diagnosis(sentences[0], causes)
    share = [f"{s} ({n:,} of {len(failing):,})" for (n, _), s in zip(named, sentences, strict=True)]
    rest = [f"something else ({int(left.sum()):,})"] if left.any() else []
    return Diagnosis("; ".join([*share, *rest]), causes)


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
