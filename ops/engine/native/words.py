"""Exact products of whole numbers by the processor's sums of 16-bit products (AVX-512 VNNI), as text for LLVM.

One instruction adds 32 products of words to 16 sums of 32 bits; in the same time there are 8 products of f64.

A number that needs more than 16 bits is split into two: a *high* word, and a *low* word in a unit of its own. Most
numbers have one of the two only: where few have low words, these are multiplied where they are, and nowhere else. So
the numbers of an operand are kept in pairs, which an instruction takes together, and pairs with low words in lists
(`word_packs.py`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from . import code
from .word_packs import COLUMNS, ROWS, list_pair
from .writer import Writer

#: The kinds of results that `multiply` writes: f64, f32 rounded to nearest even or to odd, 32-bit integers.
F64, NEAREST, ODD, I32 = range(4)
#: The products in which one word or both are low.
PASSES = 3

_INTS, _DOUBLES = "<16 x i32>", "<8 x double>"
_ADD_PRODUCTS = "x86.avx512.vpdpwssd.512"


def _multiply(kind: int) -> str:
    """`run` of the addresses of the four sets of words, of their lists, of the lists' lengths, and so on."""
    t = Writer(
        "ptr left_high",
        "ptr left_low",
        "ptr right_high",
        "ptr right_low",
        "ptr all",
        "ptr left_lists",
        "ptr right_lists",
        "ptr left_counts",
        "ptr right_counts",
        "i64 pairs",
        "i64 used",
        "i64 rows",
        "i64 columns",
        "i64 first_group",
        "i64 last_group",
        "i64 first_panel",
        "i64 last_panel",
        "ptr units",
        "ptr out",
    )
    totals = t.room(f"[{ROWS * COLUMNS} x double]", align=64)
    kept = {name: t.room(f"[{PASSES} x ptr]") for name in ("left", "right", "left_list", "right_list")}
    lengths = t.room(f"[{PASSES} x i64]")
    # The pairs of the tile at hand that have low words on both sides, and their places among those on the right.
    shared, shared_pairs, shared_places = t.room("i64"), *(t.room("i32, i64 %pairs") for _ in range(2))
    waiting = t.room("i64")
    sums = [[t.room(_INTS) for _ in range(2)] for _ in range(ROWS)]
    group_size, panel_size = (t.multiply("%pairs", 4 * n) for n in (ROWS, COLUMNS))
    list_size = t.multiply("%pairs", 4)
    item = {F64: 8}.get(kind, 4)
    with (
        t.loop("panel", "%first_panel", "%last_panel") as panel,
        t.loop("group", "%first_group", "%last_group") as group,
    ):
        a_offset, b_offset = t.multiply(group, group_size), t.multiply(panel, panel_size)
        a_list = t.at("%left_lists", t.multiply(group, list_size))
        b_list = t.at("%right_lists", t.multiply(panel, list_size))
        a_count = t.load("i64", t.at("%left_counts", group, "i64"))
        b_count = t.load("i64", t.at("%right_counts", panel, "i64"))
        a_high, a_low = t.at("%left_high", a_offset), t.at("%left_low", a_offset)
        b_high, b_low = t.at("%right_high", b_offset), t.at("%right_low", b_offset)
        # Low words on the right lie one behind the other: pair n of the list is the n-th.
        t.store("i64 0", shared)
        few = t.value(f"select i1 {t.value(f'icmp eq i64 {a_count}, 0')}, i64 0, i64 {b_count}")
        with t.loop("listed", "0", few) as listed:
            pair = t.load("i32", t.at(b_list, listed, "i32"))
            size = t.value(f"mul i64 {t.value(f'zext i32 {pair} to i64')}, {4 * ROWS}")
            words = t.load("<8 x i32>", t.at(a_low, size), align=4)
            any_set = t.call("i32", "vector.reduce.or.v8i32", f"<8 x i32> {words}")
            number = t.load("i64", shared)
            t.store(f"i32 {pair}", t.at(shared_pairs, number, "i32"))
            list_pair(t, shared_places, shared, listed, any_set)
        both = t.load("i64", shared)
        t.store("i64 0", waiting)
        passes = (
            (a_low, b_high, a_list, a_list, a_count),
            (a_high, b_low, b_list, "%all", b_count),
            (a_low, b_low, shared_pairs, shared_places, both),
        )
        for i, (a, b, a_places, b_places, count) in enumerate(passes):
            told = zip(kept.values(), (a, b, a_places, b_places), strict=True)
            for place, value in told:
                t.store(f"ptr {value}", t.at(place, 8 * i))
            t.store(f"i64 {count}", t.at(lengths, 8 * i))
        _clear(t, sums)
        with t.loop("step", "0", "%used") as step:
            _multiply_pair(
                t,
                t.at(a_high, t.multiply(step, 4 * ROWS)),
                t.at(b_high, t.multiply(step, 4 * COLUMNS)),
                sums,
            )
        _total(t, sums, t.load("double", "%units"), totals, is_first=True)
        _clear(t, sums)
        with t.loop("pass", "0", str(PASSES)) as which:
            offset = t.multiply(which, 8)
            a, b, a_places, b_places = (t.load("ptr", t.at(place, offset)) for place in kept.values())
            count = t.load("i64", t.at(lengths, offset))
            with t.loop("n", "0", count) as n:
                places = []
                for base, size in ((a_places, 4 * ROWS), (b_places, 4 * COLUMNS)):
                    number = t.load("i32", t.at(base, n, "i32"))
                    places.append(t.value(f"mul i64 {t.value(f'zext i32 {number} to i64')}, {size}"))
                _multiply_pair(t, t.at(a, places[0]), t.at(b, places[1]), sums)
            # Sums go on as long as the unit stays.
            pending = t.load("i64", waiting)
            pending = t.add(pending, count)
            t.store(f"i64 {pending}", waiting)
            unit, following = (t.load("double", t.at(t.at("%units", offset), 8 * i)) for i in (1, 2))
            is_last = t.value(f"fcmp one double {unit}, {following}")
            is_ready = t.value(f"and i1 {is_last}, {t.value(f'icmp ne i64 {pending}, 0')}")
            with t.when(is_ready, "added"):
                _total(t, sums, unit, totals, is_first=False)
                _clear(t, sums)
                t.store("i64 0", waiting)
        start, first = t.multiply(panel, COLUMNS), t.multiply(group, ROWS)
        left = t.smaller(t.subtract("%rows", first), ROWS)
        mask = t.first(COLUMNS, t.subtract("%columns", start))
        with t.loop("row", "0", left) as row:
            at = t.multiply(t.add(first, row), "%columns")
            target = t.at("%out", t.multiply(t.add(at, start), item))
            source = t.at(totals, t.multiply(row, 8 * COLUMNS))
            for part in range(4):
                total = t.load(_DOUBLES, t.at(source, 64 * part), align=64)
                here = t.shuffle("i1", COLUMNS, mask, "poison", list(range(8 * part, 8 * part + 8)))
                name, of = _rounded(t, total, kind)
                place = t.at(target, 8 * item * part)
                t.call("void", f"masked.store.{name}.p0", of, f"ptr {place}", "i32 4", f"<8 x i1> {here}")
    t.end("i64 0")
    return t.text()


def _clear(t: Writer, sums: list[list[str]]) -> None:
    for place in (place for row in sums for place in row):
        t.store(f"{_INTS} zeroinitializer", place)


def _multiply_pair(t: Writer, own: str, other: str, sums: list[list[str]]) -> None:
    """Add the products of a pair of 8 rows and 32 columns."""
    columns = [t.load(_INTS, t.at(other, 64 * c), align=4) for c in range(2)]
    for r in range(ROWS):
        pair = t.splat("i32", 16, t.load("i32", t.at(own, 4 * r)))
        for c in range(2):
            before = t.load(_INTS, sums[r][c])
            after = t.call(_INTS, _ADD_PRODUCTS, *(f"{_INTS} {x}" for x in (before, pair, columns[c])))
            t.store(f"{_INTS} {after}", sums[r][c])


def _total(t: Writer, sums: list[list[str]], unit: str, totals: str, is_first: bool) -> None:
    """Write the sums, in a unit, to the exact totals in f64, or add them."""
    scale = t.splat("double", 8, unit)
    for r, c, half in itertools.product(range(ROWS), range(2), range(2)):
        part = t.shuffle("i32", 16, t.load(_INTS, sums[r][c]), "poison", list(range(8 * half, 8 * half + 8)))
        wide = t.value(f"sitofp <8 x i32> {part} to {_DOUBLES}")
        more = t.value(f"fmul {_DOUBLES} {wide}, {scale}")
        place = t.at(totals, 64 * (4 * r + 2 * c + half))
        if not is_first:
            more = t.value(f"fadd {_DOUBLES} {t.load(_DOUBLES, place, align=64)}, {more}")
        t.store(f"{_DOUBLES} {more}", place, align=64)


def _rounded(t: Writer, total: str, kind: int) -> tuple[str, str]:
    """Eight exact sums as a kind of result: the name of their type in instructions, and the type with its value."""
    if kind == F64:
        return "v8f64", f"{_DOUBLES} {total}"
    if kind == I32:
        return "v8i32", f"<8 x i32> {t.value(f'fptosi {_DOUBLES} {total} to <8 x i32>')}"
    near = t.value(f"fptrunc {_DOUBLES} {total} to <8 x float>")
    if kind == NEAREST:
        return "v8f32", f"<8 x float> {near}"
    back = t.value(f"fpext <8 x float> {near} to {_DOUBLES}")
    is_rounded = t.value(f"fcmp one {_DOUBLES} {back}, {total}")
    sizes = [t.call(_DOUBLES, "fabs.v8f64", f"{_DOUBLES} {x}") for x in (back, total)]
    is_above = t.value(f"zext <8 x i1> {t.value(f'fcmp ogt {_DOUBLES} {sizes[0]}, {sizes[1]}')} to <8 x i32>")
    bits = t.value(f"bitcast <8 x float> {near} to <8 x i32>")
    toward = t.value(f"sub <8 x i32> {bits}, {is_above}")
    odd = t.value(f"or <8 x i32> {toward}, {t.splat('i32', 8, '1')}")
    return "v8i32", f"<8 x i32> {t.value(f'select <8 x i1> {is_rounded}, <8 x i32> {odd}, <8 x i32> {bits}')}"


@functools.cache
def multiplier(kind: int) -> Callable[..., int]:
    """What multiplies packed operands and writes results of a kind."""
    return code.compiled(_multiply(kind), 19)
