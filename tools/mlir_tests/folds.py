"""Cases of ops that fold many numbers by a body: reduce, windows, scan. Each step is rounded, in order, as written.

The orders that the specification leaves open give the same here: the values are such that every partial sum is a number
of the format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from minihlo.ops.op import Op
from tests.oracle import FORMATS, decode
from tests.windows import Windows

from .catalog import cases, stem
from .chunk import Chunk, body, integer_list, tensor
from .numbers import Codes, array, codes_of, format_value, is_nan, literal, share, some_codes, specials, step

ANY_ORDER = "Each step of a sum is a number of the format, so that every order of steps gives the same."


def terms(element: str, *shape: int) -> Codes:
    """Numbers few of which are added at a time, so that all sums are exact, in any order."""
    if not FORMATS[element].is_signed:
        raise ValueError(f"{element} has no exact sums of more than two numbers")
    numbers = (1, -1, 0.5, 1.5, -0.5, 1, 0, -1)
    return codes_of(element, [numbers[i % 8] for i in range(math.prod(shape))]).reshape(shape)


def fold(function: Callable[[int, int], int], first: int, codes: Codes) -> int:
    total = first
    for c in codes.ravel():
        total = function(total, c)
    return total


def _fill(element: str, op: str) -> int:
    """The neutral element, or the smallest number if there is none."""
    fmt = FORMATS[element]
    if op == "add":
        return 0
    if op == "multiply":
        return codes_of(element, 1).item()
    ends = (0, fmt.max_code) if not fmt.is_signed else (fmt.max_code | fmt.sign_bit, fmt.max_code)
    if fmt.has_infinity:
        ends = (fmt.max_code + 1) | fmt.sign_bit, fmt.max_code + 1
    return ends[0] if op == "maximum" else ends[1]


def _bodies(element: str) -> list[str]:
    return ["add", "maximum", "minimum"] if FORMATS[element].is_signed else ["maximum", "minimum", "multiply"]


def _operand(element: str, op: str, *shape: int) -> Codes:
    """For `maximum` and `minimum` any numbers (and one NaN), for `add` exact terms, for `multiply` ones and twos."""
    if op == "add":
        return terms(element, *shape)
    if op == "multiply":
        return codes_of(element, [(1, 2)[i % 2] for i in range(math.prod(shape))]).reshape(shape)
    result = some_codes(element, *shape, start=2)
    if shape and result.size:
        flat = result.ravel()
        for i, c in enumerate(flat):  # one NaN at most, in the first place
            if is_nan(element, c):
                flat[i] = 1
        nans = [c for c in specials(element) if is_nan(element, c)]
        flat[:1] = nans[:1] or flat[:1]
    return result


@cases("reduce")
def reduce(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"reduce_{element}", ANY_ORDER)
    for name in _bodies(element):
        function, first = step(element, name), _fill(element, name)
        layouts = (((2, 2, 3), (0, 2)), ((6,), (0,)), ((2, 0), (1,)), ((3,), ()))
        for shape, dims in layouts[: {"add": 4, "maximum": 2}.get(name, 1)]:
            x = _operand(element, name, *shape)
            kept = tuple(d for d in range(len(shape)) if d not in dims)
            expected = np.empty([shape[d] for d in kept], object)
            for index in np.ndindex(expected.shape):
                part = x[tuple(index[kept.index(d)] if d in kept else slice(None) for d in range(len(shape)))]
                expected[index] = fold(function, first, array(part))
            operands = [chunk.constant(x, element), chunk.constant(array(first, ()), element, "init")]
            r = chunk.apply(
                op.name, operands, (expected.shape, element), attributes=f"dimensions = {integer_list(dims)}",
                regions=body(element, name),
            )  # fmt: skip
            chunk.expect(r, expected)
    yield chunk
    if FORMATS[element].is_signed:
        yield _in_order(op, element)


def _in_order(op: Op, element: str) -> Chunk:
    """A sum that depends on the order, and on whether each step is rounded."""
    fmt = FORMATS[element]
    large, half = codes_of(element, 2).item(), codes_of(element, math.ldexp(1.0, -fmt.mantissa_bits)).item()
    add = step(element, "add")
    others = add(add(half, half), large)
    chunk = Chunk(
        f"reduce_{element}_in_order_open",
        "2, and twice half of its last place: the order is open. Expected is that of the elements, from the initial "
        f"value, each step rounded. Legal too is {literal(element, others)} ({format_value(element, others)}), where "
        "the halves are added first.",
    )
    x = array([large, half, half])
    operands = [chunk.constant(x, element), chunk.constant(array(0, ()), element, "init")]
    attributes = "dimensions = array<i64: 0>"
    r = chunk.apply(op.name, operands, ((), element), attributes=attributes, regions=body(element, "add"))
    chunk.expect(r, array(fold(add, 0, x), ()))
    return chunk


# -- windows -----------------------------------------------------------------------------------------------------------


def _windows(
    shape: tuple[int, ...], case: dict[str, list[int]]
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...] | None]]]:
    """Each window's place, and the places of its elements in row-major order: None for padding and holes."""
    ones, flat = [1] * len(shape), case.get("padding", [0] * (2 * len(shape)))
    names = ("window_strides", "base_dilations", "window_dilations")
    strides, base, dilation = (tuple(case.get(n, ones)) for n in names)
    padding = tuple(zip(flat[::2], flat[1::2], strict=True))
    w = Windows(shape, tuple(case["window_dimensions"]), strides, padding, base, dilation)
    for window in np.ndindex(w.counts):
        yield window, [w.element(window, inner) for inner in np.ndindex(w.window)]


def _attributes(rank: int, case: dict[str, list[int]]) -> str:
    lists = [f"{n} = {integer_list(v)}" for n, v in case.items() if n != "padding"]
    if "padding" in case:
        pairs = [case["padding"][2 * d : 2 * d + 2] for d in range(rank)]
        lists.append(f"padding = dense<{pairs}> : tensor<{rank}x2xi64>")
    return ", ".join(lists)


_WINDOWS: tuple[tuple[tuple[int, ...], dict[str, list[int]]], ...] = (
    ((8,), {"window_dimensions": [3], "window_strides": [2]}),
    ((3, 4), {"window_dimensions": [2, 2], "padding": [1, 0, 0, 1], "window_strides": [1, 2]}),
    ((4,), {"window_dimensions": [2], "base_dilations": [2], "window_dilations": [2], "padding": [0, 1]}),
    ((2,), {"window_dimensions": [3]}),
)


@cases("reduce_window")
def reduce_window(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"reduce_window_{element}", ANY_ORDER)
    for name in _bodies(element)[:2]:
        function, first = step(element, name), _fill(element, name)
        for shape, case in share(element, _WINDOWS) if name == _bodies(element)[0] else _WINDOWS[:1]:
            x = _operand(element, name, *shape)
            results = {w: fold(function, first, array([first if m is None else x[m] for m in members], (len(members),)))
                     for w, members in _windows(shape, case)}  # fmt: skip
            result = tuple(n + 1 for n in max(results)) if results else (0,) * len(shape)
            operands = [chunk.constant(x, element), chunk.constant(array(first, ()), element, "init")]
            attributes = _attributes(len(shape), case)
            r = chunk.apply(op.name, operands, (result, element), attributes=attributes, regions=body(element, name))
            chunk.expect(r, array(list(results.values()), result))
    yield chunk


@cases("select_and_scatter")
def select_and_scatter(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(
        f"select_and_scatter_{element}",
        "To the largest of each window (the first of equal ones), where sources are added: " + ANY_ORDER.lower(),
    )
    fmt, t = FORMATS[element], tensor((), element)
    select = (
        f"{{\n  ^bb0(%a: {t}, %b: {t}):\n    %c = stablehlo.compare GE, %a, %b : ({t}, {t}) -> tensor<i1>\n"
        "    stablehlo.return %c : tensor<i1>\n  }"
    )
    combine = "add" if fmt.is_signed else "multiply"
    function, first = step(element, combine), _fill(element, combine)
    for shape, case in share(
        element,
        (
            ((6,), {"window_dimensions": [3], "window_strides": [3]}),
            ((5,), {"window_dimensions": [2]}),
            ((4, 4), {"window_dimensions": [2, 2], "window_strides": [2, 2], "padding": [1, 1, 0, 0]}),
        ),
    ):
        numbers = (1, 4, 2, 3, 0.5, 2, 1, 1.5) if fmt.is_signed else (1, 4, 2, 8, 0.5, 2, 1, 16)
        x = codes_of(element, [numbers[(3 * i) % 8] for i in range(math.prod(shape))]).reshape(shape)
        windows = list(_windows(shape, case))
        result = tuple(n + 1 for n in max(w for w, _ in windows))
        source = _operand(element, combine, *result)
        expected = np.full(shape, first, object)
        for window, members in windows:
            inside = [m for m in members if m is not None]
            chosen = inside[0]
            for m in inside[1:]:
                chosen = chosen if decode(fmt, x[chosen]) >= decode(fmt, x[m]) else m
            expected[chosen] = function(expected[chosen], source[window])
        operands = [chunk.constant(x, element), chunk.constant(source, element, "source")]
        operands.append(chunk.constant(array(first, ()), element, "init"))
        regions = f"{select}, {body(element, combine)}"
        attributes = _attributes(len(shape), case)
        r = chunk.apply(op.name, operands, (shape, element), attributes=attributes, regions=regions)
        chunk.expect(r, expected)
    yield chunk


@cases("chlo.scan")
def scan(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", "Each step is rounded, in order: the sums so far, and the last one.")
    name = "add" if FORMATS[element].is_signed else "multiply"
    function, first = step(element, name), _fill(element, name)
    for shape, dim, backwards in (((6,), 0, False), ((2, 3), 1, False), ((6,), 0, True), ((3,), 0, False)):
        x = _operand(element, name, *shape)
        if shape == (3,) and name == "add":  # where a sum rounded once would be more
            x = codes_of(element, [2, *[math.ldexp(1.0, -FORMATS[element].mantissa_bits)] * 2])
        rows = x.reshape(-1, shape[-1])
        order = range(shape[-1] - 1, -1, -1) if backwards else range(shape[-1])
        sums = np.empty(rows.shape, object)
        for i, row in enumerate(rows):
            total = first
            for j in order:
                total = sums[i, j] = function(row[j], total)
        part = shape[:-1]
        last = array([row[order[-1]] for row in sums], part)
        init = array([first] * len(rows), part)
        operands = [chunk.constant(x, element), chunk.constant(init, element, "init")]
        t = tensor(part, element)
        region = (
            f"{{\n  ^bb0(%a: {t}, %b: {t}):\n    %s = stablehlo.{name} %a, %b : {t}\n"
            f"    stablehlo.return %s, %s : {t}, {t}\n  }}"
        )
        attributes = f"dimension = {dim} : i64, is_reverse = {'true' if backwards else 'false'}"
        attributes += ", operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>"
        result = chunk.apply_all(op.name, operands, [(shape, element), (part, element)], attributes, region)
        chunk.expect(result[0], sums.reshape(shape))
        chunk.expect(result[1], last)
    yield chunk
