"""Finds which values that a loop carries depend on each other; the others can have loops of their own.

Masks say of a value or an operation which of several things it has to do with, a bit for each: one pass over a turn
answers for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...program import Operation, Region, Value
from ..uses import captures


def used_by(operation: Operation) -> list[Value]:
    """The values that an operation takes, and those that its regions use."""
    return [*operation.operands, *(v for r in operation.regions for v in captures(r))]


def components(turn: Region, states: Sequence[int], most: int) -> list[list[int]]:
    """The places of the states in groups: each needs itself and those before it, and no part of it less than the whole.

    Groups that do not need each other are one where there would be more than `most`.
    """
    masks = {turn.arguments[place]: 1 << k for k, place in enumerate(states)}
    for operation in turn.operations:
        mask = 0
        for value in used_by(operation):
            mask |= masks.get(value, 0)
        masks.update(dict.fromkeys(operation.results, mask))
    count = len(states)
    reaches = np.eye(count, dtype=bool)
    for k, place in enumerate(states):
        mask = masks.get(turn.returns[place], 0)
        reaches[k] |= [bool(mask >> j & 1) for j in range(count)]
    while True:
        further = (reaches.astype(np.float32) @ reaches.astype(np.float32)) > 0
        if (further == reaches).all():
            break
        reaches = further
    # What needs fewer states comes first: it cannot need what needs more.
    order = np.argsort(reaches.sum(1), kind="stable")
    groups: list[list[int]] = []
    depths: list[int] = []  # the longest way to what needs nothing before it
    of: dict[int, int] = {}
    for k in order.tolist():
        known = next((of[j] for j in of if reaches[k, j] and reaches[j, k]), None)
        if known is None:
            before = [depths[of[j]] for j in of if reaches[k, j]]
            known = len(groups)
            groups.append([])
            depths.append(max(before, default=-1) + 1)
        of[k] = known
        groups[known].append(states[k])
    if len(groups) > most:
        together: dict[int, list[int]] = {}
        for depth, group in sorted(zip(depths, groups, strict=True)):
            together.setdefault(depth, []).extend(group)
        groups = list(together.values())
    return [sorted(group) for group in groups]


def users(turn: Region, wanted: Mapping[int, Sequence[Value]]) -> dict[Operation, int]:
    """For each operation a bit mask of the users that depend on it. `wanted` has the values that each user needs."""
    masks: dict[Value, int] = {}
    for k, values in wanted.items():
        for value in values:
            masks[value] = masks.get(value, 0) | 1 << k
    found: dict[Operation, int] = {}
    for operation in reversed(turn.operations):
        mask = 0
        for result in operation.results:
            mask |= masks.get(result, 0)
        if mask:
            found[operation] = mask
            for value in used_by(operation):
                masks[value] = masks.get(value, 0) | mask
    return found
