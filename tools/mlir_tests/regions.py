"""Cases of ops that run regions as they are: map, while, if, case, sort; and top_k, which sorts too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from minihlo.ops.op import Op
from tests import oracle
from tests.oracle import FORMATS, decode

from .catalog import cases, stem
from .chunk import Chunk, Value, tensor
from .numbers import Codes, array, codes_of, is_nan, share, some_codes, specials, step
from .shape import MOVES


@cases("map")
def map_(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"map_{element}", "x + x * y of each pair, each step rounded; and the larger of two.")
    add, multiply, largest = (step(element, n) for n in ("add", "multiply", "maximum"))
    t = tensor((), element)
    formula = (
        f"{{\n  ^bb0(%a: {t}, %b: {t}):\n    %p = stablehlo.multiply %a, %b : {t}\n"
        f"    %q = stablehlo.add %a, %p : {t}\n    stablehlo.return %q : {t}\n  }}"
    )
    larger = (
        f"{{\n  ^bb0(%a: {t}, %b: {t}):\n    %p = stablehlo.maximum %a, %b : {t}\n    stablehlo.return %p : {t}\n  }}"
    )
    x = codes_of(element, [[1, 2, 0.5], [4, 1, 2]])
    y = codes_of(element, [[1, 1, 1], [1, 1, 1]] if not FORMATS[element].is_signed else [[0.5, 1, -1], [0, 1.5, -0.5]])
    for region, rule, (a, b) in (
        (formula, lambda a, b: add(a, multiply(a, b)), (x, y)),
        (larger, largest, (some_codes(element, 12), some_codes(element, 12, start=3))),
        (larger, largest, (array([], (0, 2)), array([], (0, 2)))),
    ):
        operands = [chunk.constant(a, element), chunk.constant(b, element, "y")]
        dims = f"dimensions = array<i64: {', '.join(map(str, range(a.ndim)))}>"
        expected = array([rule(*pair) for pair in zip(a.ravel(), b.ravel(), strict=True)], a.shape)
        chunk.expect(chunk.apply(op.name, operands, (a.shape, element), attributes=dims, regions=region), expected)
    yield chunk


# -- control ---------------------------------------------------------------------------------------------------------


@cases("while")
def while_(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(
        f"while_{element}",
        "Doubles a number for as long as it is below 4: one that is NaN is not. Then counts iterations, and moves "
        "codes.",
    )
    t = tensor((), element)
    doubling = (
        f"{{\n  ^bb0(%v: {t}):\n    %c = stablehlo.compare LT, %v, %four : ({t}, {t}) -> tensor<i1>\n"
        f"    stablehlo.return %c : tensor<i1>\n  }}, {{\n  ^bb0(%v: {t}):\n    %d = stablehlo.add %v, %v : {t}\n"
        f"    stablehlo.return %d : {t}\n  }}"
    )
    chunk.constant(codes_of(element, 4), element, "four")
    fmt = FORMATS[element]
    starts = [codes_of(element, x).item() for x in (0.5, 1, 4)] + [c for c in specials(element) if is_nan(element, c)][
        :1
    ]
    add = step(element, "add")
    for start in starts:
        x = chunk.constant(array(start, ()), element)
        expected = start
        while decode(fmt, expected) < 4:
            expected = add(expected, expected)
        chunk.expect(chunk.apply(op.name, [x], ((), element), regions=doubling), array(expected, ()))
    codes, other = some_codes(element, 6), some_codes(element, 6, start=6)
    values = [
        chunk.constant(array(0, ()), "i32", "i"),
        chunk.constant(codes, element),
        chunk.constant(other, element, "y"),
    ]
    chunk.constant(array(3, ()), "i32", "three")
    chunk.constant(array(1, ()), "i32", "one")
    heads = ", ".join(f"%v{i}: {v.type}" for i, v in enumerate(values))
    types = ", ".join(v.type for v in values)
    swapping = (
        f"{{\n  ^bb0({heads}):\n    %c = stablehlo.compare LT, %v0, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        f"    stablehlo.return %c : tensor<i1>\n  }}, {{\n  ^bb0({heads}):\n"
        f"    %n = stablehlo.add %v0, %one : tensor<i32>\n    stablehlo.return %n, %v2, %v1 : {types}\n  }}"
    )
    results = chunk.apply_all(op.name, values, [(v.shape, v.element) for v in values], regions=swapping)
    for value, expected in zip(results, (array(3, ()), other, codes), strict=True):
        chunk.expect(value, expected, every_bit=True)
    yield chunk


def _branches(values: list[Value]) -> str:
    branches = (f"{{\n    stablehlo.return {v.name} : {v.type}\n  }}" for v in values)
    return ", ".join(branches)


@cases("if", "case")
def branch(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", MOVES)
    codes = [some_codes(element, 5, start=5 * i) for i in range(3 if op.name.endswith("case") else 2)]
    values = [chunk.constant(x, element) for x in codes]
    if op.name.endswith("if"):
        chosen = [(1, "i1", 0), (0, "i1", 1)]
    else:
        chosen = [(0, "i32", 0), (1, "i32", 1), (-1, "i32", 2), (7, "i32", 2)]
    for index, t, which in chosen:
        operand = chunk.constant(array(index, ()), t, "which")
        r = chunk.apply(op.name, [operand], ((5,), element), regions=_branches(values))
        chunk.expect(r, codes[which], every_bit=True)
    # A choice that depends on a comparison with NaN and with -0.
    fmt = FORMATS[element]
    for c in [c for c in specials(element) if c in (0, fmt.sign_bit) or is_nan(element, c)][:3]:
        x = chunk.constant(array(c, ()), element)
        same = chunk.fresh("same")
        chunk.line(f"{same} = stablehlo.compare EQ, {x.name}, {x.name} : ({x.type}, {x.type}) -> tensor<i1>")
        operand = Value(same, (), "i1", "tensor<i1>")
        if op.name.endswith("case"):
            operand = chunk.apply("convert", [operand], ((), "i32"), name="which")
        truth = not is_nan(element, c)
        which = int(truth) if op.name.endswith("case") else int(not truth)
        r = chunk.apply(op.name, [operand], ((5,), element), regions=_branches(values))
        chunk.expect(r, codes[which], every_bit=True)
    yield chunk


# -- sort ------------------------------------------------------------------------------------------------------------


def _comparator(elements: list[str], direction: str, compare_type: str) -> str:
    heads = ", ".join(f"%{side}{i}: tensor<{e}>" for i, e in enumerate(elements) for side in "ab")
    t = f"tensor<{elements[0]}>"
    return (
        f"{{\n  ^bb0({heads}):\n    %c = stablehlo.compare {direction}, %a0, %b0, {compare_type} : "
        f"({t}, {t}) -> tensor<i1>\n"
        "    stablehlo.return %c : tensor<i1>\n  }"
    )


@cases("sort")
def sort(op: Op, element: str) -> Iterator[Chunk]:
    fmt = FORMATS[element]
    chunk = Chunk(
        f"sort_{element}",
        MOVES,
        "Numbers by value, where zeros of either sign are equal and stay in their order (no NaN: < is no order of "
        "them); then all codes in the total order, NaN at the ends.",
    )
    numbers = [c for c in some_codes(element, 40) if not is_nan(element, c)][:12]
    value = functools.partial(decode, fmt)
    total = functools.partial(oracle.total_order, fmt)
    _sort(chunk, op, element, array(numbers), 0, "LT", "FLOAT", sorted(numbers, key=value))
    _sort(chunk, op, element, array(numbers), 0, "GT", "FLOAT", sorted(numbers, key=value, reverse=True))
    every = [c for c in some_codes(element, 20) if fmt.nan != "sign" or c != fmt.sign_bit]
    _sort(chunk, op, element, array(every), -1, "LT", "TOTALORDER", sorted(every, key=total))
    if fmt.nan == "sign":
        chunk.note("The place of the only NaN, whose sign bit is set, is open: not here.")
    matrix = array(numbers[:6], (3, 2))
    columns = np.array([sorted(matrix[:, j], key=value) for j in range(2)], object).T
    _sort(chunk, op, element, matrix, 0, "LT", "FLOAT", columns)
    _sort(chunk, op, element, array([], (2, 0)), 1, "LT", "FLOAT", array([], (2, 0)))

    keys, places = array(numbers[:8]), array(range(8))
    order = sorted(range(8), key=lambda i: value(keys[i]))
    operands = [chunk.constant(keys, element), chunk.constant(places, "i32", "place")]
    region = _comparator([element, "i32"], "LT", "FLOAT")
    result = chunk.apply_all(
        op.name, operands, [((8,), element), ((8,), "i32")], "dimension = 0 : i64, is_stable = true", region
    )
    chunk.expect(result[0], keys[order], every_bit=True)
    chunk.expect(result[1], array(order))
    yield chunk


def _sort(
    chunk: Chunk, op: Op, element: str, x: Codes, dim: int, direction: str, compare_type: str, expected: object
) -> None:
    attributes = f"dimension = {dim} : i64, is_stable = true"
    region = _comparator([element], direction, compare_type)
    r = chunk.apply(op.name, [chunk.constant(x, element)], (x.shape, element), attributes=attributes, regions=region)
    chunk.expect(r, array(expected, x.shape), every_bit=True)


@cases("chlo.top_k")
def top_k(op: Op, element: str) -> Iterator[Chunk]:
    fmt = FORMATS[element]
    chunk = Chunk(f"{stem(op.name)}_{element}", "Largest first, of equal ones the first.")
    key: Callable[[int], int] = functools.partial(oracle.total_order, fmt)
    numbers = [c for c in some_codes(element, 40) if not is_nan(element, c) and c != fmt.sign_bit][:12]
    numbers[5] = numbers[2]
    for shape, k in share(element, (((12,), 5), ((2, 6), 3), ((2, 3), 0))):
        count = int(np.prod(shape))
        x = array(numbers[:count], shape)
        rows = x.reshape(-1, shape[-1])
        order = [sorted(range(shape[-1]), key=lambda i, row=row: -key(row[i]))[:k] for row in rows]
        results = shape[:-1] + (k,)
        result = chunk.apply_all(
            op.name, [chunk.constant(x, element)], [(results, element), (results, "i32")], f"k = {k} : i64"
        )
        chunk.expect(result[0], array([row[o] for row, o in zip(rows, order, strict=True)], results), every_bit=True)
        chunk.expect(result[1], array(order, results))
    if fmt.nan in ("ieee", "ones"):
        x = array([numbers[0], fmt.ones, numbers[1]])
        result = chunk.apply_all(op.name, [chunk.constant(x, element)], [((1,), element), ((1,), "i32")], "k = 1 : i64")
        chunk.expect(result[0], array([fmt.ones]), every_bit=True)
        chunk.expect(result[1], array([1]))
    yield chunk
