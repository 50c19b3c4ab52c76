"""Exact products of integers by the matrix tiles of a processor (Intel AMX): eight registers of 16 rows of 64 bytes.

An instruction adds the products of 16 x 64 and 64 x 16 bytes to 16 x 16 sums of 32 bits, in the time of one for 16
products of f64. Numbers of more than a byte are given as digits, bytes with a sign, whose products are summed apart for
each power of 256. So every sum is exact, and the order of addition is free.

Operands are packed first (`pack`): for each 16 lines, 64 columns and digit a tile. `multiply` then takes some tiles of
the result at a time. numba has no such instructions, so `_step` writes them as assembly. It is imported only where
numba is in use, and called only where the operating system lets this process use the tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .instructions import (
    _intrinsic,
    _ir,
    _types,
    choose,
    inner,
    load_8,
    load_32,
    numba,
    shift,
    shift_left,
    store_8,
    store_32,
)
from .loops import encode

_u8, _u32, _u64, _i32, _f32, _f64 = np.uint8, np.uint32, np.uint64, np.int32, np.float32, np.float64

#: The lines of a tile and its bytes in a line; what a tile takes; how many registers there are, and how many of them
#: sums may take: two at least hold operands.
LINES, WIDTH, BYTES, _REGISTERS, _SUMS = 16, 64, 1024, 8, 6
#: The most digits of one operand, and of both together.
DIGITS, BOTH = 4, _SUMS + 1
#: What `multiply` writes: f64, f32 rounded to nearest or to odd, 32-bit integers, the codes of a minifloat.
F64, NEAREST, ODD, I32, CODES = range(5)


def blocks(digits: int, others: int) -> tuple[int, int]:
    """How many tiles of lines and of columns are summed at a time: enough sums that none waits for the one before."""
    powers = digits + others - 1
    return (2, 2) if powers == 1 else (2, 1) if powers <= _SUMS // 2 else (1, 1)


def _text(digits: int, others: int) -> str:
    """The instructions that add the products of one column of tiles.

    The operands are the addresses of two lines of tiles of each operand, and the bytes of a line.
    """
    high, wide = blocks(digits, others)
    powers = digits + others - 1
    left = [((i, d), (j, e)) for i in range(high) for j in range(wide) for d in range(digits) for e in range(others)]
    free = list(range(high * wide * powers, _REGISTERS))
    held: dict[tuple[str, int, int], int] = {}
    lines, latest = [], -1

    def uses(tile: tuple[str, int, int]) -> int:
        return sum((tile[1:] == pair[0]) if tile[0] == "x" else (tile[1:] == pair[1]) for pair in left)

    def total(pair: tuple[tuple[int, int], tuple[int, int]]) -> int:
        (i, d), (j, e) = pair
        return (i * wide + j) * powers + d + e

    while left:
        # The product with the fewest loads, if possible of another sum than the one before.
        pair = min(left, key=lambda p: ((("x", *p[0]) not in held) + (("y", *p[1]) not in held), total(p) == latest))
        for tile in (("x", *pair[0]), ("y", *pair[1])):
            if tile not in held:
                if not free:
                    needed = {("x", *pair[0]), ("y", *pair[1])}
                    free.append(held.pop(min((t for t in held if t not in needed), key=uses)))
                held[tile] = free.pop()
                at = tile[1] + (2 if tile[0] == "y" else 0)
                lines.append(f"tileloadd {tile[2] * BYTES}(${at},$4,1), %tmm{held[tile]}")
        latest = total(pair)
        lines.append(f"tdpbssd %tmm{held['y', *pair[1]]}, %tmm{held['x', *pair[0]]}, %tmm{latest}")
        left.remove(pair)
    return "\n".join(lines)


def _assembly(builder: Any, text: str, args: list[Any], clobbered: tuple[str, ...]) -> None:
    kind = _ir.FunctionType(_ir.VoidType(), [a.type for a in args])
    lost = [f"~{{{name}}}" for name in ("memory", *clobbered)]
    builder.asm(kind, text, ",".join(["r"] * len(args) + lost), args, side_effect=True)


def _instructions(text: str, count: int, *constants: int, clobbered: tuple[str, ...] = ()) -> Any:
    """Assembly on addresses: so many, and some constants behind them."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        _assembly(builder, text, [*args, *(_ir.Constant(_ir.IntType(64), c) for c in constants)], clobbered)
        return context.get_dummy_value()

    address = _types.int64
    if count == 0:
        return _intrinsic(lambda _context: (_types.void(), generate))
    if count == 1:
        return _intrinsic(lambda _context, _a: (_types.void(address), generate))
    return _intrinsic(lambda _context, _a, _b, _c, _d: (_types.void(*[address] * 4), generate))


_configure = _instructions("ldtilecfg ($0)", 1)
_release = _instructions("tilerelease", 0)
_clear = _instructions("\n".join(f"tilezero %tmm{i}" for i in range(_SUMS)), 0)
_keep = _instructions("\n".join(f"tilestored %tmm{i}, {i * BYTES}($0,$1,1)" for i in range(_SUMS)), 1, WIDTH)
#: 64 bytes, those that a mask has, by a table of 256; of the others zero.
_look_up = _instructions(
    """kmovq $3, %k1
vmovdqu8 ($0), %zmm0{%k1}{z}
vpmovb2m %zmm0, %k2
vmovdqu8 ($1), %zmm1
vmovdqu8 128($1), %zmm3
vmovdqa64 %zmm0, %zmm2
vpermi2b 64($1), %zmm1, %zmm0
vpermi2b 192($1), %zmm3, %zmm2
vmovdqu8 %zmm2, %zmm0{%k2}
vmovdqu8 %zmm0, %zmm0{%k1}{z}
vmovdqu8 %zmm0, ($2)""",
    4,
    clobbered=("zmm0", "zmm1", "zmm2", "zmm3", "k1", "k2"),
)
_STEPS = {
    (d, e): _instructions(_text(d, e), 4, WIDTH)
    for d in range(1, DIGITS + 1)
    for e in range(1, DIGITS + 1)
    if d + e <= BOTH
}
_step_11, _step_12, _step_13, _step_14 = (_STEPS[1, e] for e in (1, 2, 3, 4))
_step_21, _step_22, _step_23, _step_24 = (_STEPS[2, e] for e in (1, 2, 3, 4))
_step_31, _step_32, _step_33, _step_34 = (_STEPS[3, e] for e in (1, 2, 3, 4))
_step_41, _step_42, _step_43 = (_STEPS[4, e] for e in (1, 2, 3))


@inner
def _step(kind, a, b, c, d):
    """Add the products of one column of tiles; `kind` has the digits of both operands, in tens and ones."""
    if kind == 11:
        _step_11(a, b, c, d)
    elif kind == 12:
        _step_12(a, b, c, d)
    elif kind == 13:
        _step_13(a, b, c, d)
    elif kind == 14:
        _step_14(a, b, c, d)
    elif kind == 21:
        _step_21(a, b, c, d)
    elif kind == 22:
        _step_22(a, b, c, d)
    elif kind == 23:
        _step_23(a, b, c, d)
    elif kind == 24:
        _step_24(a, b, c, d)
    elif kind == 31:
        _step_31(a, b, c, d)
    elif kind == 32:
        _step_32(a, b, c, d)
    elif kind == 33:
        _step_33(a, b, c, d)
    elif kind == 34:
        _step_34(a, b, c, d)
    elif kind == 41:
        _step_41(a, b, c, d)
    elif kind == 42:
        _step_42(a, b, c, d)
    else:
        _step_43(a, b, c, d)


@inner
def _arrange(start, next_line, next_column, height, width, by_column, tile):
    """The codes of a tile in the order of its bytes, from 16 lines that do not lie as they should.

    A word of `tile` is four columns of a line. With `by_column` the next line's follow, else the line's next.
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
    """Pack some blocks of 16 lines of codes as tiles, block after block, of each 64 columns after the other.

    x: codes (batch, lines, columns). tables: for each digit that of every code. by_column: whether a word of a tile has
    four columns of a line and is followed by the next line's, else by the next columns'. out: words, from block `first`
    on. What lies beyond the lines and the columns is zero.
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
                    _look_up(source, entries + 256 * digit, at + BYTES * digit + WIDTH * row, mask)
            at += BYTES * digits
    return tile[0]  # so that it lives as long as its address is in use


@inner
def _total(sums, tile, powers, scale, totals):
    """The sums of all powers of 256 of a tile of results, times the scale. All steps are exact, from the highest on."""
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
def _odd(totals, bits):
    """f64 rounded to odd to f32, as bits: zero, or in the range of normal numbers."""
    for j in range(LINES * LINES):
        u = _f64(totals[j]).view(_u64)
        size = u & _u64(0x7FFFFFFFFFFFFFFF)
        sticky = choose((size & _u64(0x1FFFFFFF)) != _u64(0), _u32(1), _u32(0))
        near = _u32(_u64(size >> _u64(29)) - _u64(896 << 23)) | sticky
        sign = _u32(_u64(u >> _u64(32))) & _u32(0x80000000)
        bits[0, j] = choose(size == _u64(0), _u32(0), near) | sign


def multiply(x, y, shapes, scale, kind, how, configuration, scratch, out):
    """Products of packed operands into some blocks of lines of the result.

    x, y: tiles as `pack` makes them. shapes: (lines, columns, tiles of a sum, digits of x, digits of y, first block,
    last) where a block is as many tiles of lines as `blocks` says, and those of a batch follow each other. scale: what
    the sums are multiplied by, a power of two. kind: of the results (`F64` …). how: what `encode` takes. configuration:
    of the tile registers. scratch: room for all sums. out: the bytes of the results (batch, lines, columns).
    """
    lines, columns, depth, digits, others = shapes[0], shapes[1], shapes[2], shapes[3], shapes[4]
    powers = digits + others - 1
    high = 2 if powers <= _SUMS // 2 else 1
    wide = 2 if powers == 1 else 1
    down, across = (lines + LINES - 1) // LINES, (columns + LINES - 1) // LINES
    groups = (down + high - 1) // high
    item = 8 if kind == F64 else 1 if kind == CODES else 4
    x_bytes, y_bytes = depth * digits * BYTES, depth * others * BYTES
    x_at, y_at, kept = x.ctypes.data, y.ctypes.data, scratch.ctypes.data
    totals, bits = np.empty(LINES * LINES, _f64), np.empty((2, LINES * LINES), _u32)
    floats, halves, target = bits.view(_f32), totals.view(_u32), out.ctypes.data
    _configure(configuration.ctypes.data)
    for group in range(shapes[5], shapes[6]):
        batch, m = group // groups, group % groups * high
        a = x_at + (batch * down + m) * x_bytes
        b = a + x_bytes if m + 1 < down else a
        for n in range(0, across, wide):
            c = y_at + (batch * across + n) * y_bytes
            d = c + y_bytes if n + 1 < across else c
            _clear()
            for k in range(depth):
                _step(
                    digits * 10 + others,
                    a + k * digits * BYTES,
                    b + k * digits * BYTES,
                    c + k * others * BYTES,
                    d + k * others * BYTES,
                )
            _keep(kept)
            for i in range(min(high, down - m)):
                for j in range(min(wide, across - n)):
                    _total(scratch, i * wide + j, powers, scale, totals)
                    if kind == NEAREST:
                        for e in range(LINES * LINES):
                            floats[0, e] = _f32(totals[e])
                    elif kind == I32:
                        for e in range(LINES * LINES):
                            bits[0, e] = _u32(_i32(totals[e]))
                    elif kind != F64:
                        _odd(totals, bits)
                        if kind == CODES:
                            encode(how, bits, 1, 0, LINES * LINES)
                    line, column = (m + i) * LINES, (n + j) * LINES
                    width = min(LINES, columns - column)
                    for r in range(min(LINES, lines - line)):
                        at = target + ((batch * lines + line + r) * columns + column) * item
                        if kind == CODES:
                            for e in range(width):
                                store_8(_u64(at), _u64(e), bits[1, r * LINES + e])
                        elif kind == F64:
                            for e in range(2 * width):
                                store_32(_u64(at), _u64(e), halves[2 * r * LINES + e])
                        else:
                            for e in range(width):
                                store_32(_u64(at), _u64(e), bits[0, r * LINES + e])
    _release()


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
