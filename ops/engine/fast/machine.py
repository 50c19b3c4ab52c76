"""A machine for groups of elementwise ops: numba compiles it once, and every group is a small program for it.

The rule. Elements are taken in blocks that stay in the nearest cache; for each op of the program a loop runs over the
block. Nothing is compiled for a single group. Functions without an exact finite form are computed in f64 and rounded
(`functions.py`); where that could differ from rounding the exact value the machine stops, and numpy's way does that
block.

It is imported only where numba is in use.
"""

from __future__ import annotations

import numpy as np

from . import opcodes as op
from .instructions import call, elements_of, knows_arrays, numba
from .integers import compare_words, convert_words, whole_numbers
from .loops import (
    arithmetic,
    compare,
    convert_halves,
    encode,
    load,
    look_up,
    pair,
    repeat,
    store,
    unary,
    words,
)
from .octets import KNOWN, PLANES, lay_planes
from .registers import GAP
from .remainders import remainders
from .row_loops import add_rows, arithmetic_by_row, by_rows, fold_down, fold_rows

__all__ = ["knows_arrays", "run", "signature"]

_u32, _u64, _f32 = np.uint32, np.uint64, np.float32


def run(where, code, segments, constants, leaves, along, starts, tables, parameters, outs, totals, room):
    """The blocks from one to another; the number of the block where it stopped, or of the one after the last.

    `where` is (first block, last, rows, columns, rows of a block, columns of a block, registers, columns of a piece of
    a block, rows that are folded into one row of totals or 0 where each is folded into a number, from how many elements
    tables are laid out as planes, the address of a function that adds up long rows or 0); `code` the program, whose
    first registers hold `constants`, and `segments` its parts; `along` whether a leaf varies along a row, and `starts`
    the place in the leaf where each row begins. Leaves, tables and outputs are contiguous arrays, given by their
    objects (`id`). `room` is for the registers.
    """
    first, last, rows, columns, high, wide, inner = where[0], where[1], where[2], where[3], where[4], where[5], where[7]
    # A little longer than a piece, so that the registers' elements do not all fall on the same places of a cache.
    stride = high * inner + GAP
    registers = room[: where[6] * stride].reshape(where[6], stride)
    bits = registers.view(_u32)
    place, row_bytes = _u64(registers.ctypes.data), _u64(registers.strides[0])
    for i in range(constants.size):
        bits[i, :] = constants[i]
    across = (columns + wide - 1) // wide
    planes = np.empty((tables.size if KNOWN and (last - first) * high * wide >= where[9] else 0, PLANES), np.uint8)
    for p in range(code.shape[0] if planes.size else 0):
        if code[p, 0] == op.LOAD_TABLE_F32:
            lay_planes(elements_of(tables[code[p, 3]]), _u64(planes[code[p, 3]].ctypes.data))
    for block in range(first, last):
        row, start = block // across * high, block % across * wide
        height, end = min(high, rows - row), min(start + wide, columns)
        for s in range(segments.shape[0]):
            on_rows = segments[s, 2] == op.OF_ROWS
            if segments[s, 2] == op.ONCE and block > first:
                continue
            for piece in range(1 if on_rows else (end - start + inner - 1) // inner):
                column = start + piece * inner
                length = min(inner, end - column)
                width = 1 if on_rows else length
                n = height * width
                for p in range(segments[s, 0], segments[s, 1]):
                    kind, to, a = code[p, 0], code[p, 1] + piece * code[p, 7], code[p, 2] + piece * code[p, 8]
                    b, c, d = code[p, 3] + piece * code[p, 9], code[p, 4] + piece * code[p, 10], code[p, 5]
                    if kind < op.STORE_32:
                        begin = starts[a, row]
                        whole = height == 1 or starts[a, row + height - 1] - begin == (height - 1) * width
                        leaf, table = elements_of(leaves[a]), elements_of(tables[b])
                        laid = _u64(planes[b].ctypes.data) if planes.size and kind == op.LOAD_TABLE_F32 else _u64(0)
                        if not along[a]:
                            repeat(kind, leaf, table, bits, to, starts, a, row, height, width)
                        elif whole:
                            load(kind, leaf, table, laid, bits, to, starts, a, row, 1, column, n)
                        else:
                            load(kind, leaf, table, laid, bits, to, starts, a, row, height, column, width)
                    elif kind < op.ADD:
                        out = elements_of(outs[to])
                        if on_rows:
                            store(kind, bits, a, _u64(0), out, _u64(row), height)
                        elif width == columns:
                            store(kind, bits, a, _u64(0), out, _u64(row * columns), n)
                        else:
                            for i in range(height):
                                store(kind, bits, a, _u64(i * width), out, _u64((row + i) * columns + column), width)
                    elif kind == op.REMAINDER:
                        remainders(registers, bits, to, a, b, n)
                    elif kind < op.NEGATE:
                        arithmetic(kind, registers, to, a, b, n)
                    elif kind < op.EQ:
                        unary(kind, registers, bits, to, a, n)
                    elif kind < op.SELECT:
                        compare(kind, registers, bits, to, a, b, n)
                    elif kind < op.ENCODE:
                        if op.ROUND_F16 <= kind <= op.TO_F16 and convert_halves(kind, registers, bits, to, a, n):
                            continue
                        words(kind, bits, to, a, b, c, n)
                    elif kind == op.ENCODE:
                        encode(parameters[b], bits, to, a, n)
                    elif kind < op.PAIR_F32:
                        look_up(kind, elements_of(tables[b]), bits, to, a, n)
                    elif kind < op.EXP:
                        pair(kind, elements_of(tables[c]), d, code[p, 6], bits, to, a, b, n)
                    elif kind < op.ADD_WORDS:
                        if call(parameters[b, 0], place + _u64(a) * row_bytes, place + _u64(to) * row_bytes, n):
                            return block
                    elif kind < op.EQ_WORDS:
                        whole_numbers(kind, bits, to, a, b, n)
                    elif kind < op.OF_SIGNED:
                        compare_words(kind, bits, to, a, b, n)
                    elif kind < op.SUM_ROW:
                        convert_words(kind, registers, bits, to, a, n)
                    elif kind < op.ADD_BY_ROW:
                        by_rows(kind, registers, bits, to, a, height, width, where[10])
                    elif kind < op.FOLD_ADD:
                        arithmetic_by_row(kind, registers, to, a, b, height, width)
                    elif where[8]:
                        fold_down(kind, registers, a, totals, (row, column), height, where[8], columns, width)
                    elif kind == op.FOLD_ADD:
                        add_rows(registers, a, totals, row, height, width, where[10])
                    else:
                        fold_rows(kind == op.FOLD_MAXIMUM, registers, bits, a, totals, row, height, width)
    return last


def signature():
    """The types of what `run` takes."""
    t = numba.types
    numbers, grid = t.Array(t.int64, 1, "C", readonly=True), t.Array(t.int64, 2, "C", readonly=True)
    words, totals = t.Array(t.uint32, 1, "C", readonly=True), t.Array(t.float32, 1, "C")
    return t.int64(numbers, grid, grid, words, numbers, numbers, grid, numbers, grid, numbers, totals, totals)
