"""Sums of f32 in the order of their elements, along and across rows: numba compiles these functions as they stand."""

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


def add_rows(totals, rows):
    """Add up each row into its total, from left to right; eight side by side, as each sum waits for the one before."""
    count, width = rows.shape
    first = 0
    while first + 8 <= count:
        t0, t1, t2, t3 = totals[first], totals[first + 1], totals[first + 2], totals[first + 3]
        t4, t5, t6, t7 = totals[first + 4], totals[first + 5], totals[first + 6], totals[first + 7]
        part = rows[first : first + 8]
        for j in range(width):
            t0, t1, t2, t3 = t0 + part[0, j], t1 + part[1, j], t2 + part[2, j], t3 + part[3, j]
            t4, t5, t6, t7 = t4 + part[4, j], t5 + part[5, j], t6 + part[6, j], t7 + part[7, j]
        totals[first], totals[first + 1], totals[first + 2], totals[first + 3] = t0, t1, t2, t3
        totals[first + 4], totals[first + 5], totals[first + 6], totals[first + 7] = t4, t5, t6, t7
        first += 8
    for i in range(first, count):
        t = totals[i]
        for j in range(width):
            t = t + rows[i, j]
        totals[i] = t
