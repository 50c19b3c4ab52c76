"""Cases of ops that choose among numbers: compare, select, clamp."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from minihlo.ops.op import Op
from tests import oracle
from tests.oracle import FORMATS, decode

from .catalog import cases, stem
from .chunk import Chunk, Value
from .elementwise import pairs_of
from .numbers import Codes, array, canonical_nan, each, each_bool, some_codes, specials, spread

_PLACE_OF_NAN = (
    "Whether the only NaN comes first or last in the total order: its code has the sign bit set, and stands alone. "
    "Expected is last."
)


def _total(element: str, test: Callable[[int, int], bool], x: Codes, y: Codes) -> Codes:
    fmt = FORMATS[element]
    keys = [[oracle.total_order(fmt, c) for c in side.ravel()] for side in (x, y)]
    return array([int(test(a, b)) for a, b in zip(*keys, strict=True)], x.shape)


def _all_directions(chunk: Chunk, element: str, x: Codes, y: Codes, compare_type: str) -> None:
    operands = [chunk.constant(x, element, "x"), chunk.constant(y, element, "y")]
    for direction, test in oracle.COMPARE.items():
        if compare_type == "TOTALORDER" and direction in ("NE", "LE", "GT"):
            continue  # which the others tell
        op = f"compare {direction},"
        result = chunk.fresh(direction.lower())
        types = f"({operands[0].type}, {operands[1].type}) -> {operands[0].type.replace(element, 'i1')}"
        chunk.line(f"{result} = stablehlo.{op} {operands[0].name}, {operands[1].name}, {compare_type} : {types}")
        value = Value(result, x.shape, "i1", operands[0].type.replace(element, "i1"))
        is_total = compare_type == "TOTALORDER"
        chunk.expect(value, _total(element, test, x, y) if is_total else each_bool(element, test, x, y))


@cases("compare")
def compare(_: Op, element: str) -> Iterator[Chunk]:
    fmt = FORMATS[element]
    chunk = Chunk(f"compare_{element}")
    ends = [specials(element)[:8], [c for c in specials(element) if oracle.is_nan_code(fmt, c)]]
    near = [(c, c ^ 1) for c in spread(range(fmt.max_code), 4)]
    pairs = spread(list(dict.fromkeys([*pairs_of(element, "maximum"), *itertools.product(*ends)])), 32)
    pairs = list(dict.fromkeys([*near, *pairs]))
    sides = [array(side) for side in zip(*pairs, strict=True)]
    _all_directions(chunk, element, sides[0], sides[1], "FLOAT")
    _all_directions(chunk, element, array([], (3, 0)), array([], (3, 0)), "FLOAT")
    yield chunk

    pairs = spread(list(itertools.product(specials(element), repeat=2)), 32)
    only_nan = {canonical_nan(element)} if fmt.nan == "sign" else set()
    plain = [p for p in pairs if not only_nan & set(p)]
    chunk = Chunk(f"compare_{element}_total_order", "-NaN, -inf, …, -0, +0, …, inf, NaN; NaN by their codes.")
    sides = [array(side) for side in zip(*plain, strict=True)]
    _all_directions(chunk, element, sides[0], sides[1], "TOTALORDER")
    yield chunk
    if only_nan:
        chunk = Chunk(f"compare_{element}_total_order_open", _PLACE_OF_NAN)
        sides = [array(side) for side in zip(*[p for p in pairs if only_nan & set(p)], strict=True)]
        _all_directions(chunk, element, sides[0], sides[1], "TOTALORDER")
        yield chunk


@cases("chlo.broadcast_compare")
def broadcast_compare(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}")
    codes = spread(specials(element), 6)
    x, y = array(codes, (len(codes), 1)), array(codes[1:4] + codes[-1:])
    left, right = chunk.constant(x, element, "x"), chunk.constant(y, element, "y")
    for direction, test in oracle.COMPARE.items():
        attributes = (
            f"broadcast_dimensions = array<i64: 1>, comparison_direction = #chlo<comparison_direction {direction}>, "
            "compare_type = #chlo<comparison_type FLOAT>"
        )
        r = chunk.apply(op.name, [left, right], ((len(codes), 4), "i1"), attributes=attributes)
        chunk.expect(r, each_bool(element, test, x, y))
    yield chunk


@cases("select")
def select(_: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"select_{element}", "Elements are moved, so every bit of them counts, NaN's payload too.")
    x, y = some_codes(element, 16), some_codes(element, 16, start=7)
    pred = array([(i * 5 // 3) % 2 for i in range(16)])
    shapes = [(pred, x, y), (pred[:6].reshape(2, 3), x[6:12].reshape(2, 3), y[6:12].reshape(2, 3))]
    shapes += [(pred[:0], x[:0], y[:0])] + [(array(p, ()), x[:4], y[:4]) for p in (0, 1)]
    shapes += [(array(1, ()), array(x[9], ()), array(y[9], ()))]
    for p, a, b in shapes:
        operands = [chunk.constant(p, "i1", "pred"), chunk.constant(a, element, "x"), chunk.constant(b, element, "y")]
        r = chunk.apply("select", operands, (a.shape, element))
        chunk.expect(r, np.where(p.astype(bool), a, b), every_bit=True)
    yield chunk


@cases("chlo.broadcast_select")
def broadcast_select(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", "Elements are moved, so every bit of them counts, NaN's payload too.")
    x, y, p = some_codes(element, 3, 4), some_codes(element, 1, 4, start=5), array([1, 0, 0, 1])
    for pred, a, b in ((p, x, y), (array(1, ()), y, x), (p[:3].reshape(3, 1), x, array(y[0, 2], ()))):
        operands = [chunk.constant(pred, "i1", "pred"), chunk.constant(a, element), chunk.constant(b, element, "y")]
        r = chunk.apply(op.name, operands, ((3, 4), element))
        chunk.expect(r, np.broadcast_to(np.where(pred.astype(bool), a, b), (3, 4)), every_bit=True)
    yield chunk


@cases("clamp")
def clamp(_: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"clamp_{element}", "Not below min, then not above max, so that max wins where they cross.")
    fmt = FORMATS[element]
    codes = array(specials(element))

    def test(low: Codes, x: Codes, high: Codes) -> None:
        names = zip((low, x, high), ("min", "x", "max"), strict=True)
        operands = [chunk.constant(v, element, name) for v, name in names]
        chunk.expect(chunk.apply("clamp", operands, (x.shape, element)), each(element, oracle.clamp, low, x, high))

    numbers = [c for c in codes if not math.isnan(decode(fmt, c))]
    ordered = sorted(numbers, key=lambda c: (decode(fmt, c), c != fmt.sign_bit))
    a, b, nan = ordered[len(ordered) // 3], ordered[-2], codes[-1]
    test(array(a, ()), codes, array(b, ()))
    few = array(spread(list(codes), 6))
    for low, high in ((b, a), (nan, b)):
        test(array(low, ()), few, array(high, ()))
    triples = spread(list(itertools.product(spread(list(codes), 5), repeat=3)), 20)
    low, x, high = (array(side) for side in zip(*triples, strict=True))
    test(low, x, high)
    test(array(a, ()), array(numbers[0], ()), array(b, ()))
    test(array(a, ()), array([], (0, 2)), array(b, ()))
    yield chunk
