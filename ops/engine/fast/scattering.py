"""Rows of f32 added up, or to the rows of a matrix at given places: numba compiles these functions as they stand."""

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


def add_down(totals, rows, first, last):
    """Add each row, one after the other, to the totals of the columns from `first` to `last`."""
    for i in range(rows.shape[0]):
        for j in range(first, last):
            totals[_at(j)] = totals[_at(j)] + rows[_at(i), _at(j)]
