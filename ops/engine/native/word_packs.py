"""Codes laid out as 16-bit words for exact products (`words.py`), as text for LLVM.

Left: groups of 8 rows, `[group][pair][row]`, low words likewise. Right: panels of 32 columns, `[panel][pair][column]`;
of low words the listed pairs only, one behind the other. Rows, columns and numbers that are not there are zero.

Codes are looked up by the permutations of AVX-512 VBMI, 64 at a time, in a table of the low bytes of the words and one
of their high bytes. The squares of the norms of rows and of columns are formed meanwhile, as sums in f32.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from . import code
from .writer import Writer

#: The rows of a group, the columns of a panel, and the pairs that are packed at a time.
ROWS, COLUMNS, PAIRS = 8, 32, 32

_BYTES, _WORDS, _INTS, _FLOATS = "<64 x i8>", "<32 x i16>", "<16 x i32>", "<16 x float>"
_PERMUTE = "x86.avx512.vpermi2var.qi.512"


def _masked_bytes(t: Writer, count: int, place: str, mask: str) -> str:
    """So many bytes; those that are not in the mask are not read, and zero."""
    operands = f"ptr {place}", "i32 1", f"<{count} x i1> {mask}", f"<{count} x i8> zeroinitializer"
    return t.call(f"<{count} x i8>", f"masked.load.v{count}i8.p0", *operands)


def _looked_up(t: Writer, codes: str, mask: str, tables: str, plane: int) -> list[str]:
    """The words of 64 codes as two vectors; zero where the mask is not set. A table has 256 low and 256 high bytes."""
    parts = []
    negative = t.value(f"icmp slt {_BYTES} {codes}, zeroinitializer")
    for half in range(2):
        quarters = []
        for i in range(4):
            place = t.at(tables, str(512 * plane + 256 * half + 64 * i))
            quarters.append(t.value(f"load {_BYTES}, ptr {place}, align 1"))
        of = [f"{_BYTES} {x}" for x in (*quarters, codes)]
        found = [t.call(_BYTES, _PERMUTE, of[k], of[4], of[k + 1]) for k in (0, 2)]
        either = t.value(f"select <64 x i1> {negative}, {_BYTES} {found[1]}, {_BYTES} {found[0]}")
        parts.append(t.value(f"select <64 x i1> {mask}, {_BYTES} {either}, {_BYTES} zeroinitializer"))
    words = []
    for first in (0, 32):
        places = [p for i in range(first, first + 32) for p in (i, i + 64)]
        joined = t.shuffle("i8", 64, parts[0], parts[1], places)
        words.append(t.value(f"bitcast {_BYTES} {joined} to {_INTS}"))
    return words


def _add_squares(t: Writer, total: str, pairs: str) -> None:
    words = t.value(f"bitcast {_INTS} {pairs} to {_WORDS}")
    sums = t.call(_INTS, "x86.avx512.pmaddw.d.512", f"{_WORDS} {words}", f"{_WORDS} {words}")
    floats = t.value(f"sitofp {_INTS} {sums} to {_FLOATS}")
    before = t.value(f"load {_FLOATS}, ptr {total}")
    t.line(f"store {_FLOATS} {t.value(f'fadd {_FLOATS} {before}, {floats}')}, ptr {total}")


def _keep_largest(t: Writer, place: str, candidate: str) -> None:
    before = t.value(f"load float, ptr {place}")
    is_more = t.value(f"fcmp ogt float {candidate}, {before}")
    t.line(f"store float {t.value(f'select i1 {is_more}, float {candidate}, float {before}')}, ptr {place}")


def list_pair(t: Writer, lists: str, count: str, pair: str, any_set: str) -> None:
    """Write the number of a pair at the end of a list, and count it if it has low words."""
    number = t.value(f"load i64, ptr {count}")
    narrow = t.value(f"trunc i64 {pair} to i32")
    t.line(f"store i32 {narrow}, ptr {t.value(f'getelementptr i32, ptr {lists}, i64 {number}')}")
    more = t.value(f"zext i1 {t.value(f'icmp ne i32 {any_set}, 0')} to i64")
    t.line(f"store i64 {t.value(f'add i64 {number}, {more}')}, ptr {count}")


def _left() -> str:
    t = Writer(
        "codes", "apart", "rows", "length", "tables", "high", "low", "pairs", "lists", "counts", "norms", "has_low"
    )
    names = ("codes", "tables", "high", "low", "lists", "counts", "norms")
    codes, tables, high, low, lists, counts, norms = (t.pointer(name) for name in names)
    squares = [t.value(f"alloca {_FLOATS}") for _ in range(2)]
    count = t.value("alloca i64")
    is_split = t.value("icmp ne i64 %has_low, 0")
    groups = t.value(f"sdiv i64 {t.value(f'add i64 %rows, {ROWS - 1}')}, {ROWS}")
    size = t.value(f"mul i64 %pairs, {4 * ROWS}")
    list_size = t.value("mul i64 %pairs, 4")
    with t.loop("group", "0", groups) as group:
        for place in squares:
            t.line(f"store {_FLOATS} zeroinitializer, ptr {place}")
        begin = t.value(f"mul i64 {group}, {size}")
        first = t.value(f"mul i64 {group}, {ROWS}")
        with t.loop("column", "0", "%length", 2 * PAIRS) as column:
            mask = t.first(64, t.value(f"sub i64 %length, {column}"))
            found, masks = [], []
            for r in range(ROWS):
                row = t.value(f"add i64 {first}, {r}")
                is_there = t.value(f"icmp slt i64 {row}, %rows")
                here = t.value(f"select i1 {is_there}, <64 x i1> {mask}, <64 x i1> zeroinitializer")
                place = t.at(t.at(codes, t.value(f"mul i64 {row}, %apart")), column)
                found.append(_masked_bytes(t, 64, place, here))
                masks.append(here)
            offset = t.value(f"add i64 {begin}, {t.value(f'mul i64 {column}, {2 * ROWS}')}")
            _put_rows(t, found, masks, tables, 0, t.at(high, offset), squares[0])
            t.line(f"br i1 {is_split}, label %split, label %whole")
            t.block("split")
            _put_rows(t, found, masks, tables, 1, t.at(low, offset), squares[1])
            t.line("br label %whole")
            t.block("whole")
        for plane in range(2):
            total = t.value(f"load {_FLOATS}, ptr {squares[plane]}")
            halves = [t.shuffle("float", 16, total, "poison", list(range(i, i + 8))) for i in (0, 8)]
            sums = t.value(f"fadd <8 x float> {halves[0]}, {halves[1]}")
            largest = t.call("float", "vector.reduce.fmax.v8f32", f"<8 x float> {sums}")
            _keep_largest(t, t.at(norms, str(4 * plane)), largest)
        t.line(f"br i1 {is_split}, label %listed, label %unlisted")
        t.block("listed")
        t.line(f"store i64 0, ptr {count}")
        own, group_list = t.at(low, begin), t.at(lists, t.value(f"mul i64 {group}, {list_size}"))
        with t.loop("pair", "0", "%pairs") as pair:
            words = t.value(f"load <8 x i32>, ptr {t.at(own, t.value(f'mul i64 {pair}, {4 * ROWS}'))}, align 4")
            any_set = t.call("i32", "vector.reduce.or.v8i32", f"<8 x i32> {words}")
            list_pair(t, group_list, count, pair, any_set)
        number = t.value(f"load i64, ptr {count}")
        t.line(f"store i64 {number}, ptr {t.value(f'getelementptr i64, ptr {counts}, i64 {group}')}")
        t.line("br label %unlisted")
        t.block("unlisted")
    return t.text()


def _put_rows(t: Writer, codes: list[str], masks: list[str], tables: str, plane: int, out: str, squares: str) -> None:
    """Write the words of 8 rows pair by pair: three times, the rows are joined element by element."""
    words = [_looked_up(t, c, m, tables, plane) for c, m in zip(codes, masks, strict=True)]
    for half in range(2):
        rows = [w[half] for w in words]
        for _ in range(3):
            joined = []
            for k in range(ROWS // 2):
                for start in (0, 8):
                    places = [p for i in range(start, start + 8) for p in (i, i + 16)]
                    joined.append(t.shuffle("i32", 16, rows[k], rows[k + ROWS // 2], places))
            rows = joined
        for k, pairs in enumerate(rows):
            t.line(f"store {_INTS} {pairs}, ptr {t.at(out, str(64 * (ROWS * half + k)))}, align 4")
            _add_squares(t, squares, pairs)


def _right() -> str:
    t = Writer(
        "codes",
        "apart",
        "length",
        "columns",
        "tables",
        "high",
        "low",
        "pairs",
        "lists",
        "counts",
        "norms",
        "has_low",
        "begin",
        "end",
    )
    names = ("codes", "tables", "high", "low", "lists", "counts", "norms")
    codes, tables, high, low, lists, counts, norms = (t.pointer(name) for name in names)
    squares = [[t.value(f"alloca {_FLOATS}") for _ in range(2)] for _ in range(2)]
    count = t.value("alloca i64")
    is_split = t.value("icmp ne i64 %has_low, 0")
    size = t.value(f"mul i64 %pairs, {4 * COLUMNS}")
    list_size = t.value("mul i64 %pairs, 4")
    used = t.value(f"sdiv i64 {t.value('add i64 %length, 1')}, 2")
    lanes = [i // 2 + i % 2 * COLUMNS for i in range(2 * COLUMNS)]
    with t.loop("panel", "%begin", "%end") as panel:
        for place in (*squares[0], *squares[1]):
            t.line(f"store {_FLOATS} zeroinitializer, ptr {place}")
        t.line(f"store i64 0, ptr {count}")
        start = t.value(f"mul i64 {panel}, {COLUMNS}")
        mask = t.first(COLUMNS, t.value(f"sub i64 %columns, {start}"))
        begin = t.value(f"mul i64 {panel}, {size}")
        panel_list = t.at(lists, t.value(f"mul i64 {panel}, {list_size}"))
        with t.loop("pair", "0", used) as pair:
            rows, masks = [], []
            for i in range(2):
                row = t.value(f"add i64 {t.value(f'mul i64 {pair}, 2')}, {i}")
                is_there = t.value(f"icmp slt i64 {row}, %length")
                here = t.value(f"select i1 {is_there}, <32 x i1> {mask}, <32 x i1> zeroinitializer")
                place = t.at(t.at(codes, t.value(f"mul i64 {row}, %apart")), start)
                rows.append(_masked_bytes(t, 32, place, here))
                masks.append(here)
            found = t.shuffle("i8", 32, rows[0], rows[1], lanes)
            here = t.shuffle("i1", 32, masks[0], masks[1], lanes)
            out = t.at(high, t.value(f"add i64 {begin}, {t.value(f'mul i64 {pair}, {4 * COLUMNS}')}"))
            for i, words in enumerate(_looked_up(t, found, here, tables, 0)):
                t.line(f"store {_INTS} {words}, ptr {t.at(out, str(64 * i))}, align 4")
                _add_squares(t, squares[0][i], words)
            t.line(f"br i1 {is_split}, label %split, label %whole")
            t.block("split")
            number = t.value(f"load i64, ptr {count}")
            out = t.at(low, t.value(f"add i64 {begin}, {t.value(f'mul i64 {number}, {4 * COLUMNS}')}"))
            lows = _looked_up(t, found, here, tables, 1)
            for i, words in enumerate(lows):
                t.line(f"store {_INTS} {words}, ptr {t.at(out, str(64 * i))}, align 4")
                _add_squares(t, squares[1][i], words)
            either = t.value(f"or {_INTS} {lows[0]}, {lows[1]}")
            any_set = t.call("i32", "vector.reduce.or.v16i32", f"{_INTS} {either}")
            list_pair(t, panel_list, count, pair, any_set)
            t.line("br label %whole")
            t.block("whole")
        for plane, half in itertools.product(range(2), range(2)):
            place = squares[plane][half]
            total = t.value(f"load {_FLOATS}, ptr {place}")
            largest = t.call("float", "vector.reduce.fmax.v16f32", f"{_FLOATS} {total}")
            _keep_largest(t, t.at(norms, str(4 * plane)), largest)
        number = t.value(f"load i64, ptr {count}")
        t.line(f"store i64 {number}, ptr {t.value(f'getelementptr i64, ptr {counts}, i64 {panel}')}")
    return t.text()


@functools.cache
def packers() -> tuple[Callable[..., int], Callable[..., int]]:
    """What packs left operands and right ones."""
    return code.compiled(_left(), 12), code.compiled(_right(), 14)
