"""Cases of CHLO's ops whose operands broadcast."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from minihlo.ops.op import Op, lookup
from tests import oracle, oracle_chlo
from tests.oracle import FORMATS, Value, decode, encode

from .catalog import cases, stem
from .chunk import Chunk
from .elementwise import both, held_code, on_pairs
from .numbers import TESTED, Codes, array, is_left_open, specials

_LAST = "broadcast_dimensions = array<i64: 1>"


#: CHLO names the functions that it has in this form: not every function of two numbers is one of them.
_NAMES = [f"chlo.broadcast_{n}" for n in (*oracle.BINARY, *oracle_chlo.BINARY, "next_after")]


@cases(*(name for name in _NAMES if lookup(name) is not None))
def broadcasting(op: Op, element: str) -> Iterator[Chunk]:
    """A column and a row (in every other format the row is a vector along a named dimension); a size of 0."""
    name = op.name.removeprefix("chlo.broadcast_")
    fmt = FORMATS[element]
    if name == "next_after":
        function = functools.partial(oracle_chlo.next_after, fmt)
        rows, columns = list(specials(element)[:4]), list(specials(element)[1:4])
    else:
        values = oracle_chlo.BINARY.get(name) or oracle.BINARY[name]
        function = _encode(fmt, values)
        rows, columns = _clean_product(element, values)
    chunk = Chunk(f"{stem(op.name)}_{element}")
    m, n = len(rows), len(columns)
    column, row = array(rows, (m, 1)), array(columns, (1, n))

    def test(x: Codes, y: Codes, attributes: str, whole_x: Codes, whole_y: Codes) -> None:
        operands = both(chunk, element, x, y)
        whole = np.broadcast_arrays(whole_x, whole_y)
        r = chunk.apply(op.name, operands, (whole[0].shape, element), attributes=attributes)
        chunk.expect(r, on_pairs(function, *whole))

    test(*((column, row, "") if TESTED.index(element) % 2 else (column, array(columns), _LAST)), column, row)
    scalar = array(rows[0], ())
    if TESTED.index(element) % 3 == 0:
        test(scalar, array(columns), "broadcast_dimensions = array<i64>", scalar, array(columns))
    nothing = array([], (0, 1))
    test(nothing, array(columns), _LAST, nothing, row)
    yield chunk


def _encode(fmt: oracle.Format, function: Callable[[Value, Value], Value]) -> Callable[[int, int], int]:
    return lambda a, b: encode(fmt, function(decode(fmt, a), decode(fmt, b)))


def _clean_product(element: str, function: Callable[[Value, Value], Value]) -> tuple[list[int], list[int]]:
    """Rows and columns, none of whose pairs has a result that the format leaves open: as many pairs as there are."""
    fmt = FORMATS[element]
    numbers = (1.0, 2.0, 0.5, 3.0, 1.5, 4.0, -1.0, -2.0, 0.0, -0.5, math.inf)
    codes = [c for c in (held_code(element, x) for x in numbers) if c is not None]

    @functools.cache
    def is_clean(a: int, b: int) -> bool:
        return not is_left_open(element, function(decode(fmt, a), decode(fmt, b)))

    best: tuple[list[int], list[int]] = [], []
    for n in (3, 2, 1):
        for columns in itertools.combinations(codes, n):
            rows = [a for a in codes if all(is_clean(a, b) for b in columns)][:4]
            if len(rows) * n > len(best[0]) * len(best[1]):
                best = rows, list(columns)
    return best
