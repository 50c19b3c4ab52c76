"""Rows added to rows of a matrix at given places: numba compiles `add_at` as it stands."""

from __future__ import annotations

import numpy as np

#: Of an index that is not signed the compiler knows that it does not count from the end.
_at = np.uintp


def add_at(rows, targets, updates):
    """Add each row of `updates`, one after the other, to the row whose number `targets` has for it."""
    for i in range(updates.shape[0]):
        target = _at(targets[_at(i)])
        for j in range(updates.shape[1]):
            rows[target, _at(j)] = rows[target, _at(j)] + updates[_at(i), _at(j)]
