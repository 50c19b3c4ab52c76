"""Explains results by fault models that reproduce them, and by positions. No diagnosis is better than a wrong one.

A fault is named only if it reproduces every wrong result that it predicts, and predicts no change to a right one. An
element fails for its position if it fails there with any operands: `is_of_places` compares a run with another run on
the same elements in another order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ..oracle.case import OpCase, Operands
from .equality import equal_codes
from .record import NONE, Diagnosis, Fault
from .sums.exact_sums import spread
from .table import cause

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
        few = spread(spared, _SAMPLE)
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


#: Vector sizes, in elements.
_VECTORS = (2, 4, 8, 16, 32, 64, 128, 256)
#: The probability of a common remainder by chance, for the fewest elements that are called a lane.
_CHANCE = 1e-4
#: The most elements at the end of an array that are called a tail; more are "from some element on".
TAIL = 16


def is_of_places(failing: np.ndarray, moved: np.ndarray, order: np.ndarray) -> bool:
    """Whether failures depend on positions, and not on operands.

    Args:
        failing: bool, which elements fail.
        moved: bool, which elements fail in another order.
        order: that order; the element `order[i]` is at position i.
    """
    of_elements = np.zeros(failing.shape, bool)
    of_elements[order[moved]] = True
    return not (of_elements == failing).all()


def common(failing: np.ndarray, right: np.ndarray) -> Diagnosis:
    """Describes the pattern of failing positions; empty if there is none.

    Args:
        failing: bool, which elements fail in any of several runs of the same size.
        right: bool, which elements are right; elements left open are neither.
    """
    at, n = np.flatnonzero(failing), len(failing)
    if not at.size or not right.any():
        return NONE
    return _end(at, right) or _lane(at, right, n)


def _end(at: np.ndarray, right: np.ndarray) -> Diagnosis:
    """All elements from one on; if there are many, this is more likely than a tail."""
    first, n = int(at[0]), len(right)
    if right[first:].any():
        return NONE
    return of_tail(n - first) if n - first <= TAIL else of_start(first)


def of_tail(count: int) -> Diagnosis:
    """Only the last elements fail."""
    return cause("last-elements", count, which=_elements(count))


def _elements(count: int) -> str:
    return f"{count} elements" if count > 1 else "element"


def of_start(first: int) -> Diagnosis:
    """All elements from the given one on fail."""
    return cause("from-element", first)


def _lane(at: np.ndarray, right: np.ndarray, n: int) -> Diagnosis:
    """The common remainder of all failures: for the smallest vector without a right element there, else the largest."""
    shared = [v for v in _VECTORS if v < n and len(np.unique(at % v)) == 1]
    whole = [v for v in shared if not right[int(at[0] % v) :: v].any()]
    if whole and len(at) > 1:
        return cause("lane", int(at[0] % whole[0]), whole[0])
    if not shared or float(shared[-1]) ** -(len(at) - 1) > _CHANCE:
        return NONE
    return cause("lane", int(at[0] % shared[-1]), shared[-1])


def of_sizes(tails: Mapping[int, int]) -> Diagnosis:
    """Combines the failures of several array sizes.

    Args:
        tails: for each size, how many elements at the end fail (all others are right).

    Returns:
        a diagnosis: the last partial vector, the elements after some index, or the last elements of each.
    """
    failing = {n: tail for n, tail in tails.items() if tail}
    if not failing or max(tails) < _VECTORS[-1]:
        return NONE
    starts = {n - tail for n, tail in failing.items()}
    if len(starts) == 1 and all(n <= min(starts) for n in tails if n not in failing) and len(failing) > 1:
        return of_start(starts.pop())
    count = max(failing.values())
    sizes = ", ".join(str(n) for n in sorted(failing) if n > count)
    if sizes and count <= TAIL and all(tail == min(n, count) for n, tail in tails.items()):
        return cause("last-elements-of-sizes", which=_elements(count), sizes=sizes)
    vectors = [v for v in _VECTORS[1:] if all(n % v == tail for n, tail in tails.items())]
    if vectors:
        return cause("last-partial-vector", elements=" or ".join(map(str, vectors)))
    return NONE


# -- arrays of several dimensions --------------------------------------------------------------------------------------


def of_array(wrong: np.ndarray) -> Diagnosis:
    """The part of an array that has all wrong elements: an index of a dimension, a stride along it, or a half."""
    if wrong.sum() < 2:
        return NONE
    for d, n in enumerate(wrong.shape):
        along = np.flatnonzero(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != d)))
        if n > 1 and len(along) == 1:
            return cause("index", d, along[0])
    for d, n in enumerate(wrong.shape):
        along = np.flatnonzero(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != d)))
        for lanes in (32, 16, 8, 4):
            if n >= 2 * lanes and len(along) == n // lanes and len(set(along % lanes)) == 1:
                return cause("lane-of-dimension", d, along[0] % lanes, lanes)
        if (
            n >= 4
            and len(along) == n // 2
            and along[-1] - along[0] == len(along) - 1
            and 0 in (along[0], along[0] - n // 2)
        ):
            return cause("half", d, "first" if along[0] == 0 else "second")
    return NONE
