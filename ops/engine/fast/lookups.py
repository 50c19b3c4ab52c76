"""Lookups in tables, and along a table of transitions: numba compiles these functions as they stand."""

from __future__ import annotations

from typing import Any

import numpy as np


def look_up(codes: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """`out[i] = table[codes[i]]`, of unsigned integers; the table has an entry for every code."""
    for i in range(codes.size):
        out[i] = table[codes[i]]


def look_up_pairs(high: np.ndarray, low: np.ndarray, width: Any, table: np.ndarray, out: np.ndarray) -> None:
    """The same for matrices of codes that are joined; the second has `width` bits. The table's size is a power of 2."""
    mask = np.uintp(table.size - 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = table[((np.uintp(high[i, j]) << width) | np.uintp(low[i, j])) & mask]


def look_up_lines(codes: np.ndarray, tables: np.ndarray, strip: Any, out: np.ndarray) -> None:
    """The same for a matrix of bytes and a table of 256 for each row, or for each column, one behind the other.

    `strip` is 0 for rows, else how many columns are taken together, so that their tables stay in the cache.
    """
    rows, columns = out.shape
    if strip == 0:
        for i in range(rows):
            for j in range(columns):
                out[i, j] = tables[(np.uintp(i) << np.uintp(8)) | np.uintp(codes[i, j])]
    else:
        for first in range(0, columns, strip):
            last = min(first + strip, columns)
            for i in range(rows):
                here, there = codes[i, first:last], out[i, first:last]
                at = np.uintp(first) << np.uintp(8)
                for j in range(there.size):
                    there[j] = tables[at | np.uintp(here[j])]
                    at += np.uintp(256)


def round_f32(bits: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """f32 by its bits, rounded to odd to bfloat16 and from there by a table; see `engine.cast`."""
    for i in range(bits.size):
        u = np.uint64(bits[i])
        out[i] = table[(u | ((u & np.uint64(0xFFFF)) + np.uint64(0xFFFF))) >> np.uint64(16)]


def round_f64(x: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """f64, rounded to odd to bfloat16 by way of the nearest f32, and from there by a table."""
    for i in range(x.size):
        nearest = np.float32(x[i])
        u, back = np.uint64(np.float32(nearest).view(np.uint32)), np.float64(nearest)
        if back != x[i] and u & np.uint64(0xFFFF) == 0:
            # It ends on a number of bfloat16, which it is not: the last bit is set of the one towards zero.
            if abs(back) > abs(x[i]):
                u -= np.uint64(1)
            u |= np.uint64(1)
        out[i] = table[(u | ((u & np.uint64(0xFFFF)) + np.uint64(0xFFFF))) >> np.uint64(16)]


def transitions(totals: np.ndarray, rows: np.ndarray, table: np.ndarray, kept: np.ndarray) -> None:
    """Each total, a code, is replaced by what the table has for it and the next element of its column, in turn.

    Eight columns go side by side, as each lookup waits for the one before. The totals after each step are kept if there
    is room for as many.
    """
    steps, width = rows.shape
    is_kept = kept.shape[0] == steps
    first = 0
    while first + 8 <= width:
        t0, t1, t2, t3 = totals[first], totals[first + 1], totals[first + 2], totals[first + 3]
        t4, t5, t6, t7 = totals[first + 4], totals[first + 5], totals[first + 6], totals[first + 7]
        part = rows[:, first : first + 8]
        for i in range(steps):
            t0, t1 = table[t0, part[i, 0]], table[t1, part[i, 1]]
            t2, t3 = table[t2, part[i, 2]], table[t3, part[i, 3]]
            t4, t5 = table[t4, part[i, 4]], table[t5, part[i, 5]]
            t6, t7 = table[t6, part[i, 6]], table[t7, part[i, 7]]
            if is_kept:
                kept[i, first], kept[i, first + 1], kept[i, first + 2], kept[i, first + 3] = t0, t1, t2, t3
                kept[i, first + 4], kept[i, first + 5], kept[i, first + 6], kept[i, first + 7] = t4, t5, t6, t7
        totals[first], totals[first + 1], totals[first + 2], totals[first + 3] = t0, t1, t2, t3
        totals[first + 4], totals[first + 5], totals[first + 6], totals[first + 7] = t4, t5, t6, t7
        first += 8
    for j in range(first, width):
        t = totals[j]
        for i in range(steps):
            t = table[t, rows[i, j]]
            if is_kept:
                kept[i, j] = t
        totals[j] = t
