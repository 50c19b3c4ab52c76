"""What explains results: the fault models that give them. No diagnosis is better than a wrong one.

A fault is named only if it gives the result that was given wherever it gives another one than the right one, and the
right one wherever that was given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from ..oracle.case import OpCase, Operands
from .equality import equal_codes
from .faults.record import Fault

#: How many right elements a fault is tried on before it is tried on all.
_SAMPLE = 4096
#: At most so many faults are named together, and each explains at least one of so many failures.
_MOST, _SHARE = 3, 50


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What results have in common: a sentence for people, and the identifiers of what it names."""

    sentence: str = ""
    causes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sentence)

    def joined(self, other: Diagnosis, between: str = "; ") -> Diagnosis:
        """Both, one after the other."""
        sentence = between.join(filter(None, (self.sentence, other.sentence)))
        return Diagnosis(sentence, (*self.causes, *(c for c in other.causes if c not in self.causes)))


NONE = Diagnosis()


@dataclasses.dataclass(frozen=True)
class Results:
    """The results of an elementwise op that are to be explained."""

    case: OpCase
    operands: Operands  #: codes
    got: np.ndarray  #: the codes that were given
    right: np.ndarray  #: the right codes
    left_open: np.ndarray  #: what is left open about each (oracle.rounding)
    to_integers: str = "toward zero"  #: how floats are to become integers


@dataclasses.dataclass(frozen=True)
class _Explanation:
    """A fault that gives the results of some failing elements, and no other result than those that were given."""

    fault: Fault
    hit: np.ndarray


def by_faults(
    faults: Iterable[Fault], results: Results, failing: np.ndarray, others: np.ndarray, whole: bool = False
) -> Diagnosis:
    """The faults that give the results of the failing elements: one, or some that do together.

    Args:
        faults: the fault models to try, the likeliest first.
        results: all elements.
        failing: places of the failing elements.
        others: places of elements that are right, which a fault has to leave so.
        whole: ask for one fault that explains every failing element.

    Returns:
        the diagnosis. It is empty where faults explain less than half of the failing elements.
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
    sentences = [f.words(results.case, results.to_integers) for _, f in named]
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
        # A fault has nothing to do with what is left open about other elements.
        points = np.unique(np.append(results.left_open[failing][hit], 0))
        spared = others[np.isin(results.left_open[others], points)]
        few = spared[np.linspace(0, len(spared) - 1, min(len(spared), _SAMPLE)).astype(np.intp)]
        if _spares(fault, results, few) and (len(few) == len(spared) or _spares(fault, results, spared)):
            yield _Explanation(fault, hit)
            if whole:
                return


def _computed(fault: Fault, results: Results, places: np.ndarray) -> np.ndarray | None:
    return fault.compute(results.case, tuple(x[places] for x in results.operands))


def _hits(fault: Fault, results: Results, failing: np.ndarray) -> np.ndarray | None:
    """Which failing elements a fault explains; None where it gives a wrong result that was not given."""
    computed = _computed(fault, results, failing)
    if computed is None:
        return None
    hit = equal_codes(results.case.result, computed, results.got[failing])
    is_right = equal_codes(results.case.result, computed, results.right[failing])
    return hit if hit.any() and (hit | is_right).all() else None


def _spares(fault: Fault, results: Results, places: np.ndarray) -> bool:
    """Whether a fault leaves elements alone that are right."""
    if not len(places):
        return True
    computed = _computed(fault, results, places)
    return computed is None or bool(equal_codes(results.case.result, computed, results.got[places]).all())
