"""Faults of a place in an array: a lane of a vector, the last partial vector, the last elements, all after the n-th.

An element is at fault for its place where it fails there whatever the operands are: `is_of_places` compares a run with
one on the same elements in another order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

#: Sizes of vectors, in elements.
_VECTORS = (2, 4, 8, 16, 32, 64, 128, 256)
#: Places whose remainder is the same by chance: as unlikely as this for the fewest that are named a lane.
_CHANCE = 1e-4
#: As many elements at the end of an array as these make a tail; more is what comes after some element.
_TAIL = 16


def is_of_places(failing: np.ndarray, moved: np.ndarray, order: np.ndarray) -> bool:
    """Whether failures stand at places, and not with operands.

    Args:
        failing: bool, which elements fail.
        moved: bool, which fail where the elements are in another order.
        order: that order; the element `order[i]` stands at place i.
    """
    of_elements = np.zeros(failing.shape, bool)
    of_elements[order[moved]] = True
    return not (of_elements == failing).all()


def told(failing: np.ndarray, right: np.ndarray) -> str:
    """What places have in common, of an array of so many; nothing where that cannot be said.

    Args:
        failing: bool, which elements fail; of several runs of the same size any that did.
        right: bool, which are right; what is left open is neither.
    """
    at, n = np.flatnonzero(failing), len(failing)
    if not at.size or not right.any():
        return ""
    return _end(at, right) or _lane(at, right, n)


def _end(at: np.ndarray, right: np.ndarray) -> str:
    """All elements from one on; of many it is more likely that they come after so many than that they are a tail."""
    first, n = int(at[0]), len(right)
    if right[first:].any():
        return ""
    return of_tail(n - first) if n - first <= _TAIL else of_start(first)


def of_tail(count: int) -> str:
    return f"only the last {count} elements of the array" if count > 1 else "only the last element of the array"


def of_start(first: int) -> str:
    return f"only from element {first:,} on"


def of_lane(lane: int, vector: int) -> str:
    return f"only in lane {lane} of {vector}: at places i with i mod {vector} = {lane}"


def _lane(at: np.ndarray, right: np.ndarray, n: int) -> str:
    """A remainder that all share: of the smallest vector of which no such place is right, else of the largest."""
    shared = [v for v in _VECTORS if v < n and len(np.unique(at % v)) == 1]
    whole = [v for v in shared if not right[int(at[0] % v) :: v].any()]
    if whole and len(at) > 1:
        return of_lane(int(at[0] % whole[0]), whole[0])
    if not shared or float(shared[-1]) ** -(len(at) - 1) > _CHANCE:
        return ""
    return of_lane(int(at[0] % shared[-1]), shared[-1])


def of_sizes(tails: Mapping[int, int]) -> str:
    """What several sizes of arrays say together.

    Args:
        tails: for each size, how many elements at the end fail (all others are right).

    Returns:
        a sentence on the last partial vector, on what comes after an element, or on as many last elements of each.
    """
    failing = {n: tail for n, tail in tails.items() if tail}
    if not failing or max(tails) < _VECTORS[-1]:
        return ""
    starts = {n - tail for n, tail in failing.items()}
    if len(starts) == 1 and all(n <= min(starts) for n in tails if n not in failing) and len(failing) > 1:
        return of_start(starts.pop())
    count = max(failing.values())
    sizes = ", ".join(str(n) for n in sorted(failing) if n > count)
    if sizes and count <= _TAIL and all(tail == min(n, count) for n, tail in tails.items()):
        return f"{of_tail(count)}s of {sizes}"
    vectors = [v for v in _VECTORS[1:] if all(n % v == tail for n, tail in tails.items())]
    if vectors:
        return f"only the last partial vector, if vectors have {' or '.join(map(str, vectors))} elements"
    return ""
