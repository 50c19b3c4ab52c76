"""Exact products of integers by the matrix tiles of a processor (Intel AMX), compiled by numba.

`pack` writes each operand as tiles: one for each 16 rows, 64 columns and digit. `multiply` forms the products of a few
tiles at a time and adds them up. Every sum is exact, so the order of addition does not matter.

The instructions are in `tile_instructions.py`. This module is imported only where numba is in use, and its functions
are called only where the operating system lets this process use the tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .instructions import (
    choose,
    inner,
    load_8,
    load_32,
    numba,
    shift,
    shift_arithmetic,
    shift_left,
    store_8,
    store_32,
)
from .loops import encode
from .tile_instructions import (
    BYTES,
    LINES,
    SUMS,
    WIDTH,
    blocks,
    clear,
    configure,
    look_up,
    release,
    step,
    store_sums,
)

__all__ = ["LINES", "WIDTH", "blocks", "multiply", "pack", "signatures"]

_u8, _u32, _u64, _i32, _f32, _f64 = np.uint8, np.uint32, np.uint64, np.int32, np.float32, np.float64

#: The kinds of results that `multiply` writes: f64, f32 rounded to nearest or to odd, 32-bit integers, minifloat codes.
F64, NEAREST, ODD, I32, CODES = range(5)


@inner
def _arrange(start, next_line, next_column, height, width, by_column, tile):
    """Copy the codes of 16 rows into `tile`, in the order in which an instruction reads them.

    A 32-bit word of `tile` holds four neighbouring columns of a row. With `by_column` the same columns of the next row
    follow, otherwise the next columns of the same row.
    """
    one, four = (1, LINES) if by_column else (LINES, 1)
    if height < LINES or width < WIDTH:
        tile[:] = 0
        octets = tile.view(_u8)
        for k in range(width):
            for i in range(height):
                code = load_8(_u64(start + i * next_line + k * next_column), _u64(0))
                octets[4 * (i * one + k // 4 * four) + k % 4] = _u8(code)
    elif next_column == 1:
        for i in range(LINES):
            line = _u64(start + i * next_line)
            for k in range(WIDTH // 4):
                tile[i * one + k * four] = load_32(line, _u64(k))
    else:
        for k in range(WIDTH // 4):
            a = _u64(start + 4 * k * next_column)
            b, c, d = a + _u64(next_column), a + _u64(2 * next_column), a + _u64(3 * next_column)
            for i in range(LINES):
                at = _u64(i * next_line)
                low = load_8(a, at) | shift_left(load_8(b, at), _u32(8))
                high = load_8(c, at) | shift_left(load_8(d, at), _u32(8))
                tile[i * one + k * four] = low | shift_left(high, _u32(16))


def pack(x, tables, digits, by_column, first, last, out):
    """Write codes as tiles: block after block of 16 rows, and in each block 64 columns after the other.

    Beyond the last row and the last column the tiles are zero.

    Args:
        x: codes of shape (batch, rows, columns).
        tables: for each digit a row with that digit of every code.
        digits: the number of digits.
        by_column: the order of the words of a tile, as for `_arrange`.
        first: the first block to write.
        last: the block to stop before.
        out: the tiles as 32-bit words, beginning with those of block `first`.
    """
    lines, columns = x.shape[1], x.shape[2]
    across = (lines + LINES - 1) // LINES
    next_batch, next_line, next_column = x.strides[0], x.strides[1], x.strides[2]
    place, entries, at = x.ctypes.data, tables.ctypes.data, out.ctypes.data
    tile = np.empty(BYTES // 4, _u32)
    for block in range(first, last):
        line = block % across * LINES
        height = min(LINES, lines - line)
        for column in range(0, columns, WIDTH):
            width = min(WIDTH, columns - column)
            codes = place + block // across * next_batch + line * next_line + column * next_column
            is_laid = next_column == 1 and not by_column
            if not is_laid:
                _arrange(codes, next_line, next_column, height, width, by_column, tile)
                codes = tile.ctypes.data
            for row in range(LINES):
                if by_column:
                    count = max(min(width - 4 * row, 4), 0)  # of the columns of this row
                    mask = shift(_u32(15), _u32(4 - count)) * _u64(0x1111111111111111)
                    if height < LINES:
                        mask = mask & ((_u64(1) << _u64(4 * height)) - _u64(1))
                else:
                    mask = _u64(0xFFFFFFFFFFFFFFFF) >> _u64(WIDTH - width)
                    if row >= height:
                        mask = _u64(0)
                source = codes + row * (next_line if is_laid else WIDTH)
                for digit in range(digits):
                    look_up(source, entries + 256 * digit, at + BYTES * digit + WIDTH * row, mask)
            at += BYTES * digits
    return tile[0]  # so that it lives as long as its address is in use


@inner
def _total(sums, tile, powers, scale, totals):
    """Add the sums of all powers of 256 of one tile of results, times `scale`. Every addition is exact."""
    first = tile * powers
    if powers == 1:
        for j in range(LINES * LINES):
            totals[j] = _f64(sums[first, j]) * scale
    elif powers <= 3:
        middle, by_2 = _f64(256.0) * scale, _f64(65536.0) * scale if powers == 3 else 0.0
        for j in range(LINES * LINES):
            high = _f64(sums[first + powers - 1, j]) * by_2
            totals[j] = (high + _f64(sums[first + 1, j]) * middle) + _f64(sums[first, j]) * scale
    else:
        by_3 = 16777216.0 * scale
        by_4, by_5 = by_3 * 256.0 if powers > 4 else 0.0, by_3 * 65536.0 if powers > 5 else 0.0
        for j in range(LINES * LINES):
            high = _f64(sums[5, j]) * by_5 + _f64(sums[4, j]) * by_4
            high = (high + _f64(sums[3, j]) * by_3) + _f64(sums[2, j]) * (65536.0 * scale)
            totals[j] = (high + _f64(sums[1, j]) * (256.0 * scale)) + _f64(sums[0, j]) * scale


@inner
def _narrow(sums, first, powers, words):
    """Add the sums of up to three powers of 256 as words of 32 bits; whether none of them is 2**30 or more."""
    count = LINES * LINES
    over = _u32(0)
    if powers == 1:
        for j in range(count):
            words[j] = sums[first, j]
        return True
    if powers == 2:
        for j in range(count):
            s0, s1 = sums[first, j], sums[first + 1, j]
            high = _u32(s1 + shift_arithmetic(s0, _u32(8)))
            over = _u32(over | _u32(high ^ shift_arithmetic(high, _u32(31))))
            words[j] = _u32(shift_left(s1, _u32(8)) + s0)
        return over < _u32(1 << 21)
    for j in range(count):
        s0, s1, s2 = sums[first, j], sums[first + 1, j], sums[first + 2, j]
        middle = _u32(s1 + shift_arithmetic(s0, _u32(8)))
        high = _u32(s2 + shift_arithmetic(middle, _u32(8)))
        over = _u32(over | _u32(high ^ shift_arithmetic(high, _u32(31))))
        words[j] = _u32(_u32(shift_left(s2, _u32(16)) + shift_left(s1, _u32(8))) + s0)
    return over < _u32(1 << 13)


@inner
def _odd_of_words(words, scale, floats):
    """Round integers of less than 2**30 times a power of two to f32, to odd; the results are zero or normal numbers."""
    for j in range(LINES * LINES):
        word = words[j]
        near = _f32(_i32(word))
        beyond = _u32(_u32(_i32(near)) - word)
        u = near.view(_u32)
        # Rounding went away from zero where what is beyond has the sign of the number.
        is_away = shift(_u32(_u32(beyond ^ word) ^ _u32(0x80000000)), _u32(31))
        odd = _u32(_u32(u - is_away) | _u32(1))
        floats[0, j] = _f32(_u32(choose(beyond == _u32(0), u, odd)).view(_f32) * scale)


@inner
def _odd(totals, bits):
    """Round f64 to f32, to odd, and write the bits. The numbers are zero or in the range of normal f32."""
    for j in range(LINES * LINES):
        u = _f64(totals[j]).view(_u64)
        size = u & _u64(0x7FFFFFFFFFFFFFFF)
        sticky = choose((size & _u64(0x1FFFFFFF)) != _u64(0), _u32(1), _u32(0))
        near = _u32(_u64(size >> _u64(29)) - _u64(896 << 23)) | sticky
        sign = _u32(_u64(u >> _u64(32))) & _u32(0x80000000)
        bits[0, j] = choose(size == _u64(0), _u32(0), near) | sign


@inner
def _put(kind, bits, halves, start, step, height, width):
    """Write so many rows and columns of the results of a tile; `step` bytes are from one row to the next."""
    for r in range(height):
        at, begin = _u64(start + r * step), r * LINES
        if kind == F64:
            for e in range(2 * width):
                store_32(at, _u64(e), halves[2 * begin + e])
        elif kind == CODES and width == LINES:  # of a known number the compiler makes one instruction
            for e in range(LINES):
                store_8(at, _u64(e), bits[1, begin + e])
        elif kind == CODES:
            for e in range(width):
                store_8(at, _u64(e), bits[1, begin + e])
        elif width == LINES:
            for e in range(LINES):
                store_32(at, _u64(e), bits[0, begin + e])
        else:
            for e in range(width):
                store_32(at, _u64(e), bits[0, begin + e])


def multiply(x, y, shapes, scale, kind, how, configuration, scratch, out):
    """Multiply packed operands and write some blocks of rows of the result.

    Args:
        x: tiles of the left operand, from `pack`.
        y: tiles of the right operand, transposed, from `pack`.
        shapes: rows, columns, tiles in a sum, digits of x, digits of y, first block, block to stop before, how many
            tiles may have sums of more than 32 bits before sums of 32 bits are no longer tried. A block has as many
            rows of tiles as `blocks` says; the blocks of one batch follow those of the one before.
        scale: a power of two by which the sums are multiplied.
        kind: the kind of the results, `F64` and so on.
        how: how to round to a minifloat, for `encode`.
        configuration: the configuration of the tile registers.
        scratch: memory for all sums.
        out: the bytes of the results, of shape (batch, rows, columns).
    """
    lines, columns, depth, digits, others = shapes[0], shapes[1], shapes[2], shapes[3], shapes[4]
    powers = digits + others - 1
    high = 2 if powers <= SUMS // 2 else 1
    wide = 2 if powers == 1 else 1
    down, across = (lines + LINES - 1) // LINES, (columns + LINES - 1) // LINES
    groups = (down + high - 1) // high
    item = 8 if kind == F64 else 1 if kind == CODES else 4
    x_bytes, y_bytes = depth * digits * BYTES, depth * others * BYTES
    x_at, y_at, kept = x.ctypes.data, y.ctypes.data, scratch.ctypes.data
    totals, bits = np.empty(LINES * LINES, _f64), np.empty((2, LINES * LINES), _u32)
    words, sums, narrow_scale = np.empty(LINES * LINES, _u32), scratch.view(_u32), _f32(scale)
    floats, halves, target = bits.view(_f32), totals.view(_u32), out.ctypes.data
    # How many more tiles may turn out not to have narrow sums: for these both ways are taken.
    tries = shapes[7] if kind != F64 and powers <= 3 else 0
    configure(configuration.ctypes.data)
    for group in range(shapes[5], shapes[6]):
        batch, m = group // groups, group % groups * high
        a = x_at + (batch * down + m) * x_bytes
        b = a + x_bytes if m + 1 < down else a
        for n in range(0, across, wide):
            c = y_at + (batch * across + n) * y_bytes
            d = c + y_bytes if n + 1 < across else c
            clear()
            for k in range(depth):
                step(
                    digits * 10 + others,
                    a + k * digits * BYTES,
                    b + k * digits * BYTES,
                    c + k * others * BYTES,
                    d + k * others * BYTES,
                )
            store_sums(kept)
            for i in range(min(high, down - m)):
                for j in range(min(wide, across - n)):
                    is_narrow = tries > 0 and _narrow(sums, (i * wide + j) * powers, powers, words)
                    if not is_narrow:
                        tries -= 1
                        _total(scratch, i * wide + j, powers, scale, totals)
                    if kind == NEAREST:
                        if is_narrow:
                            for e in range(LINES * LINES):
                                floats[0, e] = _f32(_f32(_i32(words[e])) * narrow_scale)
                        else:
                            for e in range(LINES * LINES):
                                floats[0, e] = _f32(totals[e])
                    elif kind == I32:
                        if is_narrow:
                            for e in range(LINES * LINES):
                                bits[0, e] = words[e]
                        else:
                            for e in range(LINES * LINES):
                                bits[0, e] = _u32(_i32(totals[e]))
                    elif kind != F64:
                        if is_narrow:
                            _odd_of_words(words, narrow_scale, floats)
                        else:
                            _odd(totals, bits)
                        if kind == CODES:
                            encode(how, bits, 1, 0, LINES * LINES)
                    line, column = (m + i) * LINES, (n + j) * LINES
                    width, height = min(LINES, columns - column), min(LINES, lines - line)
                    start = target + ((batch * lines + line) * columns + column) * item
                    _put(kind, bits, halves, start, columns * item, height, width)
    release()


def signatures() -> tuple[Any, Any]:
    """The types of what `pack` and `multiply` take."""
    t = numba.types
    codes, table = t.Array(t.uint8, 3, "A", readonly=True), t.Array(t.uint8, 2, "C", readonly=True)
    number, tiles = t.int64, t.Array(t.uint32, 1, "C")
    numbers = t.Array(t.int64, 1, "C", readonly=True)
    return (
        t.uint32(codes, table, number, t.boolean, number, number, tiles),
        t.void(
            tiles,
            tiles,
            numbers,
            t.float64,
            number,
            numbers,
            t.Array(t.uint8, 1, "C", readonly=True),
            t.Array(t.int32, 2, "C"),
            t.Array(t.uint8, 1, "C"),
        ),
    )
