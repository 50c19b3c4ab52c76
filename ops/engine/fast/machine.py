"""A machine for groups of elementwise ops: numba compiles it once, and every group is a small program for it.

The rule. Elements are taken in blocks that stay in the nearest cache; for each op of the program a loop runs over the
block. Nothing is compiled for a single group. Functions without an exact finite form are computed in f64 and rounded;
where that could differ from rounding the exact value the machine stops, and numpy's way does that block.

It is imported only where numba is in use.
"""

from __future__ import annotations

import numpy as np

from . import opcodes as op
from .instructions import choose, elements_of, inner, knows_arrays, numba
from .loops import (
    add_rows,
    arithmetic,
    compare,
    encode,
    fold_down,
    fold_rows,
    load,
    look_up,
    pair,
    repeat,
    store,
    unary,
    words,
)

__all__ = ["knows_arrays", "run", "signature"]

_u32, _u64, _f32, _f64 = np.uint32, np.uint64, np.float32, np.float64

_LOG2_E, _LN_2_HIGH, _LN_2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
#: Added and taken away again, it rounds to a whole number, which then stands in the last bits.
_ROUNDS = 6755399441055744.0
#: Bounds on the relative errors in f64: of `_exp` less than 2**-46, of `_rsqrt` less than 2**-51.
_EXP_BELOW, _EXP_ABOVE = 1.0 - 2.0**-45, 1.0 + 2.0**-45
_BELOW, _ABOVE = 1.0 - 2.0**-48, 1.0 + 2.0**-48


@inner
def _exp(x, to, a, n):
    """The exponential; not 0 if any result is doubtful or NaN."""
    doubtful = _u32(0)
    for j in range(n):
        v = _f64(x[a, j])
        v = choose(v < -200.0, -200.0, v)
        v = choose(v > 200.0, 200.0, v)
        shifted = v * _LOG2_E + _ROUNDS
        turns = shifted - _ROUNDS
        r = (v - turns * _LN_2_HIGH) - turns * _LN_2_LOW
        p = 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        power = _u64((_f64(shifted).view(_u64) + _u64(1023)) << _u64(52)).view(_f64)
        y = p * power
        low, high = _f32(y * _EXP_BELOW), _f32(y * _EXP_ABOVE)
        differ = _u32(low.view(_u32) ^ high.view(_u32))
        doubtful = _u32(doubtful | choose(low != low, _u32(1), differ))
        x[to, j] = low
    return doubtful


@inner
def _rsqrt(x, to, a, n):
    doubtful = _u32(0)
    for j in range(n):
        y = 1.0 / np.sqrt(_f64(x[a, j]))
        low, high = _f32(y * _BELOW), _f32(y * _ABOVE)
        differ = _u32(low.view(_u32) ^ high.view(_u32))
        doubtful = _u32(doubtful | choose(low != low, _u32(1), differ))
        x[to, j] = low
    return doubtful


def run(where, code, constants, leaves, along, starts, tables, parameters, outs, totals):
    """The blocks from one to another; the number of the block where it stopped, or of the one after the last.

    `where` is (first block, last, rows, columns, rows of a block, columns of a block, registers, ops for the first
    block only, rows that are folded into one row of totals or 0 where each is folded into a number); `code` the
    program, whose first registers hold `constants`; `along` whether a leaf varies along a row, and `starts` the place
    in the leaf where each row begins. Leaves, tables and outputs are contiguous arrays, given by their objects (`id`).
    """
    first, last, rows, columns, high, wide, once = where[0], where[1], where[2], where[3], where[4], where[5], where[7]
    # A little longer than a block, so that the registers' elements do not all fall on the same places of a cache.
    registers = np.empty((where[6], high * wide + 16), _f32)
    bits = registers.view(_u32)
    for i in range(constants.size):
        bits[i, :] = constants[i]
    pieces = (columns + wide - 1) // wide
    for block in range(first, last):
        row, column = block // pieces * high, block % pieces * wide
        height, width = min(high, rows - row), min(wide, columns - column)
        n = height * width
        for p in range(0 if block == first else once, code.shape[0]):
            kind, to, a, b, c, d = code[p, 0], code[p, 1], code[p, 2], code[p, 3], code[p, 4], code[p, 5]
            if kind < op.STORE_32:
                begin = starts[a, row]
                whole = height == 1 or starts[a, row + height - 1] - begin == (height - 1) * width
                leaf, table = elements_of(leaves[a]), elements_of(tables[b])
                if not along[a]:
                    repeat(kind, leaf, table, bits, to, starts, a, row, height, width)
                elif whole:
                    load(kind, leaf, table, bits, to, starts, a, row, 1, column, n)
                else:
                    load(kind, leaf, table, bits, to, starts, a, row, height, column, width)
            elif kind < op.ADD:
                parts, length = (1, n) if width == columns else (height, width)
                out = elements_of(outs[to])
                for i in range(parts):
                    store(kind, bits, a, _u64(i * length), out, _u64((row + i) * columns + column), length)
            elif kind < op.NEGATE:
                arithmetic(kind, registers, to, a, b, n)
            elif kind < op.EQ:
                unary(kind, registers, bits, to, a, n)
            elif kind < op.SELECT:
                compare(kind, registers, bits, to, a, b, n)
            elif kind < op.ENCODE:
                words(kind, bits, to, a, b, c, n)
            elif kind == op.ENCODE:
                encode(parameters[b], bits, to, a, n)
            elif kind < op.PAIR_F32:
                look_up(kind, elements_of(tables[b]), bits, to, a, n)
            elif kind < op.EXP:
                pair(kind, elements_of(tables[c]), d, code[p, 6], bits, to, a, b, n)
            elif kind < op.FOLD_ADD:
                doubtful = _exp(registers, to, a, n) if kind == op.EXP else _rsqrt(registers, to, a, n)
                if doubtful:
                    return block
            elif where[8]:
                fold_down(kind, registers, a, totals, (row, column), height, where[8], columns, width)
            elif kind == op.FOLD_ADD:
                add_rows(registers, a, totals, row, height, width)
            else:
                fold_rows(kind, registers, to, a, totals, row, height, width)
    return last


def signature():
    """The types of what `run` takes."""
    t = numba.types
    numbers, grid = t.Array(t.int64, 1, "C", readonly=True), t.Array(t.int64, 2, "C", readonly=True)
    words, totals = t.Array(t.uint32, 1, "C", readonly=True), t.Array(t.float32, 1, "C")
    return t.int64(numbers, grid, words, numbers, numbers, grid, numbers, grid, numbers, totals)
