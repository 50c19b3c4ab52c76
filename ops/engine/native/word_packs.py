"""Codes laid out as 16-bit words for exact products (`words.py`), as text for LLVM.

Left: groups of 8 rows, `[group][pair][row]`, low words likewise. Right: panels of 32 columns, `[panel][pair][column]`;
of low words the listed pairs only, one behind the other. Rows, columns and numbers that are not there are zero.

Codes are looked up by the permutations of AVX-512 VBMI, 64 at a time, in a table of the low bytes of the words and one
of their high bytes. The squares of the norms of rows and of columns are formed meanwhile, as sums in f32.
"""

from __future__ import annotations

import dataclasses
import functools
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


def _looked_up(t: Writer, codes: str, mask: str, plane: int) -> list[str]:
    """The words of 64 codes as two vectors; zero where the mask is not set. A table has 256 low and 256 high bytes."""
    parts = []
    negative = t.value(f"icmp slt {_BYTES} {codes}, zeroinitializer")
    for half in range(2):
        quarters = []
        for i in range(4):
            place = t.at("%tables", 512 * plane + 256 * half + 64 * i)
            quarters.append(t.load(_BYTES, place, align=1))
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
    before = t.load(_FLOATS, total)
    t.store(f"{_FLOATS} {t.value(f'fadd {_FLOATS} {before}, {floats}')}", total)


def _keep_largest(t: Writer, place: str, candidate: str) -> None:
    before = t.load("float", place)
    is_more = t.value(f"fcmp ogt float {candidate}, {before}")
    t.store(f"float {t.value(f'select i1 {is_more}, float {candidate}, float {before}')}", place)


def list_pair(t: Writer, lists: str, count: str, pair: str, any_set: str) -> None:
    """Write the number of a pair at the end of a list, and count it if it has low words."""
    number = t.load("i64", count)
    narrow = t.value(f"trunc i64 {pair} to i32")
    t.store(f"i32 {narrow}", t.at(lists, number, "i32"))
    more = t.value(f"zext i1 {t.value(f'icmp ne i32 {any_set}, 0')} to i64")
    t.store(f"i64 {t.add(number, more)}", count)


@dataclasses.dataclass(frozen=True)
class _Part:
    """What is packed at a time, a group of rows or a panel of columns: where it begins, and where all goes."""

    first: str
    high: str
    low: str
    listed: str
    count: str  # of the pairs that are listed
    squares: list[list[str]]  # of high words and of low ones: a vector, or two


@dataclasses.dataclass(frozen=True)
class _Side:
    """How operands of one side are packed."""

    width: int  # of a part
    vectors: int  # of squares
    pack: Callable[[Writer, _Part, str], None]
    #: The sums of squares of its rows or columns, as vectors of so many, of what `pack` has added up.
    sums: Callable[[Writer, list[str]], tuple[int, list[str]]]


def _packer(side: _Side) -> str:
    t = Writer(
        "ptr codes",
        "i64 apart",
        "i64 rows",
        "i64 columns",
        "ptr tables",
        "ptr high",
        "ptr low",
        "i64 pairs",
        "ptr lists",
        "ptr counts",
        "ptr norms",
        "i64 has_low",
        "i64 begin",
        "i64 end",
    )
    squares = [[t.room(_FLOATS) for _ in range(side.vectors)] for _ in range(2)]
    count = t.room("i64")
    is_split = t.value("icmp ne i64 %has_low, 0")
    size, list_size = t.multiply("%pairs", 4 * side.width), t.multiply("%pairs", 4)
    with t.loop("part", "%begin", "%end") as part:
        for place in (*squares[0], *squares[1]):
            t.store(f"{_FLOATS} zeroinitializer", place)
        t.store("i64 0", count)
        begin = t.multiply(part, size)
        high, low = t.at("%high", begin), t.at("%low", begin)
        listed = t.at("%lists", t.multiply(part, list_size))
        side.pack(t, _Part(t.multiply(part, side.width), high, low, listed, count, squares), is_split)
        for plane in range(2):
            numbers, sums = side.sums(t, [t.load(_FLOATS, place) for place in squares[plane]])
            for x in sums:
                largest = t.call("float", f"vector.reduce.fmax.v{numbers}f32", f"<{numbers} x float> {x}")
                _keep_largest(t, t.at("%norms", 4 * plane), largest)
        t.store(f"i64 {t.load('i64', count)}", t.at("%counts", part, "i64"))
    t.end("i64 0")
    return t.text()


def _codes(t: Writer, row: str, column: str, count: int, mask: str) -> tuple[str, str]:
    """So many codes of a row from a column on, zero where a mask is not set or the row is not there; and where not."""
    is_there = t.value(f"icmp slt i64 {row}, %rows")
    here = t.value(f"select i1 {is_there}, <{count} x i1> {mask}, <{count} x i1> zeroinitializer")
    place = t.at(t.at("%codes", t.multiply(row, "%apart")), column)
    return _masked_bytes(t, count, place, here), here


def _pack_group(t: Writer, part: _Part, is_split: str) -> None:
    """64 columns of 8 rows at a time; the pairs with low words are listed after."""
    with t.loop("column", "0", "%columns", 2 * PAIRS) as column:
        mask = t.first(2 * PAIRS, t.subtract("%columns", column))
        found = [_codes(t, t.add(part.first, r), column, 2 * PAIRS, mask) for r in range(ROWS)]
        offset = t.multiply(column, 2 * ROWS)
        _put_rows(t, found, 0, t.at(part.high, offset), part.squares[0][0])
        with t.when(is_split, "split"):
            _put_rows(t, found, 1, t.at(part.low, offset), part.squares[1][0])
    with t.when(is_split, "listed"), t.loop("pair", "0", "%pairs") as pair:
        words = t.load("<8 x i32>", t.at(part.low, t.multiply(pair, 4 * ROWS)), align=4)
        any_set = t.call("i32", "vector.reduce.or.v8i32", f"<8 x i32> {words}")
        list_pair(t, part.listed, part.count, pair, any_set)


def _sums_of_rows(t: Writer, totals: list[str]) -> tuple[int, list[str]]:
    (total,) = totals
    halves = [t.shuffle("float", 16, total, "poison", list(range(i, i + ROWS))) for i in (0, ROWS)]
    return ROWS, [t.value(f"fadd <{ROWS} x float> {halves[0]}, {halves[1]}")]


def _put_rows(t: Writer, codes: list[tuple[str, str]], plane: int, out: str, squares: str) -> None:
    """Write the words of 8 rows pair by pair: three times, the rows are joined element by element."""
    words = [_looked_up(t, found, mask, plane) for found, mask in codes]
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
            t.store(f"{_INTS} {pairs}", t.at(out, 64 * (ROWS * half + k)), align=4)
            _add_squares(t, squares, pairs)


def _pack_panel(t: Writer, part: _Part, is_split: str) -> None:
    """Two rows of 32 columns at a time, which are a pair of each column."""
    mask = t.first(COLUMNS, t.subtract("%columns", part.first))
    lanes = [i // 2 + i % 2 * COLUMNS for i in range(2 * COLUMNS)]
    used = t.value(f"sdiv i64 {t.add('%rows', 1)}, 2")
    with t.loop("pair", "0", used) as pair:
        rows = [_codes(t, t.add(t.multiply(pair, 2), i), part.first, COLUMNS, mask) for i in range(2)]
        found = t.shuffle("i8", COLUMNS, rows[0][0], rows[1][0], lanes)
        here = t.shuffle("i1", COLUMNS, rows[0][1], rows[1][1], lanes)
        out = t.at(part.high, t.multiply(pair, 4 * COLUMNS))
        _put_columns(t, _looked_up(t, found, here, 0), out, part.squares[0])
        with t.when(is_split, "split"):
            out = t.at(part.low, t.multiply(t.load("i64", part.count), 4 * COLUMNS))
            words = _looked_up(t, found, here, 1)
            _put_columns(t, words, out, part.squares[1])
            either = t.value(f"or {_INTS} {words[0]}, {words[1]}")
            any_set = t.call("i32", "vector.reduce.or.v16i32", f"{_INTS} {either}")
            list_pair(t, part.listed, part.count, pair, any_set)


def _put_columns(t: Writer, words: list[str], out: str, squares: list[str]) -> None:
    for i, pairs in enumerate(words):
        t.store(f"{_INTS} {pairs}", t.at(out, 64 * i), align=4)
        _add_squares(t, squares[i], pairs)


def _sums_of_columns(_: Writer, totals: list[str]) -> tuple[int, list[str]]:
    return COLUMNS // 2, totals


#: What packers take: see `_packer`.
OPERANDS = 14


@functools.cache
def packers() -> tuple[Callable[..., int], Callable[..., int]]:
    """What packs left operands and right ones."""
    left = _Side(ROWS, 1, _pack_group, _sums_of_rows)
    right = _Side(COLUMNS, 2, _pack_panel, _sums_of_columns)
    return code.compiled(_packer(left), OPERANDS), code.compiled(_packer(right), OPERANDS)
