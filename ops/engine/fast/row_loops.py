"""The loops of the machine over rows: sums, maxima and minima of rows and of columns, and ops with a number a row.

Sums go from left to right, or from the first row to the last, as numpy's are made to.
"""

from __future__ import annotations

import numpy as np

from . import opcodes as op
from .instructions import (
    call,
    inner,
    larger,
    largest_signed,
    largest_word,
    shift_arithmetic,
    smaller,
    smallest_signed,
    wide_vectors,
)
from .loops import round_f16, to_bf16

_u32, _f32 = np.uint32, np.float32
_REST, _INFINITE = 0x7FFFFFFF, 0x7F800000
#: Of an index that is not signed the compiler knows that it does not count from the end.
_at = np.uint64


@inner
def arithmetic_by_row(kind, x, to, a, b, rows, width):
    """Ops on two f32, of which the second is a number for each row."""
    wide_vectors()
    for i in range(rows):
        y, begin = x[b, _at(i)], _at(i * width)
        if kind == op.ADD_BY_ROW:
            for j in range(width):
                x[to, begin + _at(j)] = x[a, begin + _at(j)] + y
        elif kind == op.SUBTRACT_BY_ROW:
            for j in range(width):
                x[to, begin + _at(j)] = x[a, begin + _at(j)] - y
        elif kind == op.MULTIPLY_BY_ROW:
            for j in range(width):
                x[to, begin + _at(j)] = x[a, begin + _at(j)] * y
        else:
            for j in range(width):
                x[to, begin + _at(j)] = x[a, begin + _at(j)] / y


@inner
def add_rows(x, a, totals, first, rows, width, adding):
    """Each row into its total, from left to right; eight rows side by side, since each sum waits for the one before.

    Others are added by the function at the address `adding`, see `native.ordered_sums`, if that is not 0.
    """
    wide_vectors()
    i = 0
    while i + 8 <= rows:
        t0, t1, t2, t3 = totals[first + i], totals[first + i + 1], totals[first + i + 2], totals[first + i + 3]
        t4, t5, t6, t7 = totals[first + i + 4], totals[first + i + 5], totals[first + i + 6], totals[first + i + 7]
        begin, step = _at(i * width), _at(width)
        for j in range(width):
            at = begin + _at(j)
            t0 = t0 + x[a, at]
            t1 = t1 + x[a, at + step]
            t2 = t2 + x[a, at + _at(2) * step]
            t3 = t3 + x[a, at + _at(3) * step]
            t4 = t4 + x[a, at + _at(4) * step]
            t5 = t5 + x[a, at + _at(5) * step]
            t6 = t6 + x[a, at + _at(6) * step]
            t7 = t7 + x[a, at + _at(7) * step]
        totals[first + i], totals[first + i + 1], totals[first + i + 2], totals[first + i + 3] = t0, t1, t2, t3
        totals[first + i + 4], totals[first + i + 5], totals[first + i + 6], totals[first + i + 7] = t4, t5, t6, t7
        i += 8
    elements, sums = _at(x.ctypes.data) + _at(a) * _at(x.strides[0]), _at(totals.ctypes.data)
    for k in range(i, rows):
        row, total = elements + _at(4 * k * width), sums + _at(4 * (first + k))
        if adding and not call(adding, row, total, width):
            continue
        t = totals[first + k]
        for j in range(width):
            t = t + x[a, _at(k * width) + _at(j)]
        totals[first + k] = t


@inner
def add_halves(is_f16, x, to, a, rows, width):
    """Each row into its total, from left to right, each sum rounded to f16 or bf16; eight rows side by side."""
    for first in range(0, rows, 8):
        last = min(first + 8, rows)
        if is_f16:
            for j in range(width):
                for i in range(first, last):
                    total = x[to, _at(i)] + x[a, _at(i * width) + _at(j)]
                    x[to, _at(i)] = _u32(round_f16(_f32(total).view(_u32))).view(_f32)
        else:
            for j in range(width):
                for i in range(first, last):
                    total = x[to, _at(i)] + x[a, _at(i * width) + _at(j)]
                    x[to, _at(i)] = _u32(to_bf16(_f32(total).view(_u32))).view(_f32)


@inner
def turned(word):
    """A word whose order as a signed number is that of the f32, with -0 below +0; turned again it is the f32."""
    return _u32(word ^ _u32(shift_arithmetic(word, _u32(31)) & _u32(_REST)))


@inner
def fold_rows(is_largest, x, bits, a, totals, first, rows, width):
    """The largest or smallest of each row and its total; of several NaN the first."""
    wide_vectors()
    for i in range(rows):
        t, at = totals[first + i], _at(i * width)
        word = _f32(t).view(_u32)
        best, size = turned(word), _u32(word & _u32(_REST))
        if is_largest:
            for j in range(width):
                word = bits[a, at + _at(j)]
                best, size = largest_signed(best, turned(word)), largest_word(size, _u32(word & _u32(_REST)))
        else:
            for j in range(width):
                word = bits[a, at + _at(j)]
                best, size = smallest_signed(best, turned(word)), largest_word(size, _u32(word & _u32(_REST)))
        if size > _u32(_INFINITE):
            for j in range(width):
                t = larger(t, x[a, at + _at(j)])
            totals[first + i] = t
        else:
            totals[first + i] = _u32(turned(best)).view(_f32)


@inner
def by_rows(kind, x, bits, to, a, rows, width, adding):
    """Pieces of rows into a number for each; or numbers to pieces of rows."""
    wide_vectors()
    if kind == op.START_ROW:
        for i in range(rows):
            bits[to, _at(i)] = bits[a, 0]
    elif kind == op.ALONG_ROW:
        for i in range(rows):
            word, begin = bits[a, _at(i)], _at(i * width)
            for j in range(width):
                bits[to, begin + _at(j)] = word
    elif kind == op.SUM_ROW_BF16 or kind == op.SUM_ROW_F16:
        add_halves(kind == op.SUM_ROW_F16, x, to, a, rows, width)
    elif kind == op.SUM_ROW:
        add_rows(x, a, x[to], 0, rows, width, adding)
    else:
        fold_rows(kind == op.MAXIMUM_ROW, x, bits, a, x[to], 0, rows, width)


@inner
def fold_down(kind, x, a, totals, first, rows, into, columns, width):
    """Rows into the totals of their columns, one after the other. `into` rows that follow each other have the same
    totals, of so many columns; those of the part begin at `first`, its row and column."""
    wide_vectors()
    row, column = first
    for i in range(rows):
        at, begin = _at(i * width), _at((row + i) // into * columns + column)
        if kind == op.FOLD_ADD:
            for j in range(width):
                totals[begin + _at(j)] = totals[begin + _at(j)] + x[a, at + _at(j)]
        elif kind == op.FOLD_MAXIMUM:
            for j in range(width):
                totals[begin + _at(j)] = larger(totals[begin + _at(j)], x[a, at + _at(j)])
        else:
            for j in range(width):
                totals[begin + _at(j)] = smaller(totals[begin + _at(j)], x[a, at + _at(j)])
