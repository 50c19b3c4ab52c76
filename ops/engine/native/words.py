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
        "left_high",
        "left_low",
        "right_high",
        "right_low",
        "all",
        "left_lists",
        "right_lists",
        "left_counts",
        "right_counts",
        "pairs",
        "used",
        "rows",
        "columns",
        "first_group",
        "last_group",
        "first_panel",
        "last_panel",
        "units",
        "out",
    )
    pointers = ("left_high", "left_low", "right_high", "right_low", "all", "left_lists", "right_lists")
    left_high, left_low, right_high, right_low, every, left_lists, right_lists = (t.pointer(p) for p in pointers)
    left_counts, right_counts, units, out = (t.pointer(p) for p in ("left_counts", "right_counts", "units", "out"))
    totals = t.value(f"alloca [{ROWS * COLUMNS} x double], align 64")
    kept = {name: t.value(f"alloca [{PASSES} x ptr]") for name in ("left", "right", "left_list", "right_list")}
    lengths = t.value(f"alloca [{PASSES} x i64]")
    # The pairs of the tile at hand that have low words on both sides, and their places among those on the right.
    shared, shared_pairs, shared_places = t.value("alloca i64"), *(t.value("alloca i32, i64 %pairs") for _ in range(2))
    waiting = t.value("alloca i64")
    sums = [[t.value(f"alloca {_INTS}") for _ in range(2)] for _ in range(ROWS)]
    group_size, panel_size = (t.value(f"mul i64 %pairs, {4 * n}") for n in (ROWS, COLUMNS))
    list_size = t.value("mul i64 %pairs, 4")
    item = {F64: 8}.get(kind, 4)
    with (
        t.loop("panel", "%first_panel", "%last_panel") as panel,
        t.loop("group", "%first_group", "%last_group") as group,
    ):
        a_offset, b_offset = t.value(f"mul i64 {group}, {group_size}"), t.value(f"mul i64 {panel}, {panel_size}")
        a_list = t.at(left_lists, t.value(f"mul i64 {group}, {list_size}"))
        b_list = t.at(right_lists, t.value(f"mul i64 {panel}, {list_size}"))
        a_count = t.value(f"load i64, ptr {t.value(f'getelementptr i64, ptr {left_counts}, i64 {group}')}")
        b_count = t.value(f"load i64, ptr {t.value(f'getelementptr i64, ptr {right_counts}, i64 {panel}')}")
        a_high, a_low = t.at(left_high, a_offset), t.at(left_low, a_offset)
        b_high, b_low = t.at(right_high, b_offset), t.at(right_low, b_offset)
        # Low words on the right lie one behind the other: pair n of the list is the n-th.
        t.line(f"store i64 0, ptr {shared}")
        few = t.value(f"select i1 {t.value(f'icmp eq i64 {a_count}, 0')}, i64 0, i64 {b_count}")
        with t.loop("listed", "0", few) as listed:
            pair = t.value(f"load i32, ptr {t.value(f'getelementptr i32, ptr {b_list}, i64 {listed}')}")
            size = t.value(f"mul i64 {t.value(f'zext i32 {pair} to i64')}, {4 * ROWS}")
            words = t.value(f"load <8 x i32>, ptr {t.at(a_low, size)}, align 4")
            any_set = t.call("i32", "vector.reduce.or.v8i32", f"<8 x i32> {words}")
            number = t.value(f"load i64, ptr {shared}")
            t.line(f"store i32 {pair}, ptr {t.value(f'getelementptr i32, ptr {shared_pairs}, i64 {number}')}")
            list_pair(t, shared_places, shared, listed, any_set)
        both = t.value(f"load i64, ptr {shared}")
        t.line(f"store i64 0, ptr {waiting}")
        passes = (
            (a_low, b_high, a_list, a_list, a_count),
            (a_high, b_low, b_list, every, b_count),
            (a_low, b_low, shared_pairs, shared_places, both),
        )
        for i, (a, b, a_places, b_places, count) in enumerate(passes):
            told = zip(kept.values(), (a, b, a_places, b_places), strict=True)
            for place, value in told:
                t.line(f"store ptr {value}, ptr {t.at(place, str(8 * i))}")
            t.line(f"store i64 {count}, ptr {t.at(lengths, str(8 * i))}")
        _clear(t, sums)
        with t.loop("step", "0", "%used") as step:
            _multiply_pair(
                t,
                t.at(a_high, t.value(f"mul i64 {step}, {4 * ROWS}")),
                t.at(b_high, t.value(f"mul i64 {step}, {4 * COLUMNS}")),
                sums,
            )
        _total(t, sums, t.value(f"load double, ptr {units}"), totals, is_first=True)
        _clear(t, sums)
        with t.loop("pass", "0", str(PASSES)) as which:
            offset = t.value(f"mul i64 {which}, 8")
            a, b, a_places, b_places = (t.value(f"load ptr, ptr {t.at(place, offset)}") for place in kept.values())
            count = t.value(f"load i64, ptr {t.at(lengths, offset)}")
            with t.loop("n", "0", count) as n:
                places = []
                for base, size in ((a_places, 4 * ROWS), (b_places, 4 * COLUMNS)):
                    number = t.value(f"load i32, ptr {t.value(f'getelementptr i32, ptr {base}, i64 {n}')}")
                    places.append(t.value(f"mul i64 {t.value(f'zext i32 {number} to i64')}, {size}"))
                _multiply_pair(t, t.at(a, places[0]), t.at(b, places[1]), sums)
            # Sums go on as long as the unit stays.
            pending = t.value(f"load i64, ptr {waiting}")
            pending = t.value(f"add i64 {pending}, {count}")
            t.line(f"store i64 {pending}, ptr {waiting}")
            unit, following = (t.value(f"load double, ptr {t.at(t.at(units, offset), str(8 * i))}") for i in (1, 2))
            is_last = t.value(f"fcmp one double {unit}, {following}")
            is_ready = t.value(f"and i1 {is_last}, {t.value(f'icmp ne i64 {pending}, 0')}")
            t.line(f"br i1 {is_ready}, label %added, label %skipped")
            t.block("added")
            _total(t, sums, unit, totals, is_first=False)
            _clear(t, sums)
            t.line(f"store i64 0, ptr {waiting}")
            t.line("br label %skipped")
            t.block("skipped")
        start, first = t.value(f"mul i64 {panel}, {COLUMNS}"), t.value(f"mul i64 {group}, {ROWS}")
        left = t.call("i64", "smin.i64", f"i64 {t.value(f'sub i64 %rows, {first}')}", f"i64 {ROWS}")
        mask = t.first(COLUMNS, t.value(f"sub i64 %columns, {start}"))
        with t.loop("row", "0", left) as row:
            at = t.value(f"mul i64 {t.value(f'add i64 {first}, {row}')}, %columns")
            target = t.at(out, t.value(f"mul i64 {t.value(f'add i64 {at}, {start}')}, {item}"))
            source = t.at(totals, t.value(f"mul i64 {row}, {8 * COLUMNS}"))
            for part in range(4):
                total = t.value(f"load {_DOUBLES}, ptr {t.at(source, str(64 * part))}, align 64")
                here = t.shuffle("i1", COLUMNS, mask, "poison", list(range(8 * part, 8 * part + 8)))
                name, of = _rounded(t, total, kind)
                place = t.at(target, str(8 * item * part))
                t.call("void", f"masked.store.{name}.p0", of, f"ptr {place}", "i32 4", f"<8 x i1> {here}")
    return t.text()


def _clear(t: Writer, sums: list[list[str]]) -> None:
    for place in (place for row in sums for place in row):
        t.line(f"store {_INTS} zeroinitializer, ptr {place}")


def _multiply_pair(t: Writer, own: str, other: str, sums: list[list[str]]) -> None:
    """Add the products of a pair of 8 rows and 32 columns."""
    columns = [t.value(f"load {_INTS}, ptr {t.at(other, str(64 * c))}, align 4") for c in range(2)]
    for r in range(ROWS):
        pair = t.splat("i32", 16, t.value(f"load i32, ptr {t.at(own, str(4 * r))}"))
        for c in range(2):
            before = t.value(f"load {_INTS}, ptr {sums[r][c]}")
            after = t.call(_INTS, _ADD_PRODUCTS, *(f"{_INTS} {x}" for x in (before, pair, columns[c])))
            t.line(f"store {_INTS} {after}, ptr {sums[r][c]}")


def _total(t: Writer, sums: list[list[str]], unit: str, totals: str, is_first: bool) -> None:
    """Write the sums, in a unit, to the exact totals in f64, or add them."""
    scale = t.splat("double", 8, unit)
    for r, c, half in itertools.product(range(ROWS), range(2), range(2)):
        part = t.shuffle(
            "i32", 16, t.value(f"load {_INTS}, ptr {sums[r][c]}"), "poison", list(range(8 * half, 8 * half + 8))
        )
        wide = t.value(f"sitofp <8 x i32> {part} to {_DOUBLES}")
        more = t.value(f"fmul {_DOUBLES} {wide}, {scale}")
        place = t.at(totals, str(64 * (4 * r + 2 * c + half)))
        if not is_first:
            more = t.value(f"fadd {_DOUBLES} {t.value(f'load {_DOUBLES}, ptr {place}, align 64')}, {more}")
        t.line(f"store {_DOUBLES} {more}, ptr {place}, align 64")


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
