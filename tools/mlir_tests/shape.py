"""Cases of ops that move elements to fixed places. Every bit counts, so NaN's payload has to arrive as it was."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from minihlo.ops.op import Op

from .catalog import cases, stem
from .chunk import Chunk, Value, integer_list
from .numbers import Codes, array, share, some_codes

MOVES = "Elements are moved, so every bit of them counts, NaN's payload too."


def move(chunk: Chunk, element: str, op: str, operands: list[Codes], expected: Codes, attributes: str = "") -> None:
    """One use of an op on floats."""
    values = [chunk.constant(x, element) for x in operands]
    r = chunk.apply(op, values, (expected.shape, element), attributes=attributes)
    chunk.expect(r, expected, every_bit=True)


def moving(op: Op, element: str) -> Chunk:
    return Chunk(f"{stem(op.name)}_{element}", MOVES)


@cases("broadcast")
def broadcast(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for sizes, shape in share(element, (((2,), (6,)), ((2, 2), ()), ((0,), (2,)), ((1, 2), (2, 2)))):
        x = some_codes(element, *shape)
        expected = np.broadcast_to(x, sizes + shape)
        move(chunk, element, op.name, [x], expected, f"broadcast_sizes = {integer_list(sizes)}")
    yield chunk


@cases("broadcast_in_dim")
def broadcast_in_dim(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    uses = (
        ((6,), (1,), (2, 6)),
        ((2, 1), (0, 1), (2, 3)),
        ((2, 3), (2, 0), (3, 1, 2)),
        ((1,), (0,), (0,)),
    )
    for shape, dims, result in share(element, uses):
        x = some_codes(element, *shape, start=len(dims))
        expected = broadcast_to_dims(x, dims, result)
        move(chunk, element, op.name, [x], expected, f"broadcast_dimensions = {integer_list(dims)}")
    yield chunk


def broadcast_to_dims(x: Codes, dims: tuple[int, ...], result: tuple[int, ...]) -> Codes:
    """Element by element, as in the specification."""
    results = np.empty(result, object)
    for index in np.ndindex(result):
        results[index] = x[tuple(0 if n == 1 else index[d] for d, n in zip(dims, x.shape, strict=True))]
    return results


@cases("concatenate")
def concatenate(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for dim, shapes in ((0, [(6,), (0,), (4,)]), (1, [(2, 2), (2, 1), (2, 3)])):
        parts = [some_codes(element, *s, start=5 * i) for i, s in enumerate(shapes)]
        move(chunk, element, op.name, parts, np.concatenate(parts, dim), f"dimension = {dim} : i64")
    yield chunk


@cases("reshape")
def reshape(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for old, new in share(element, (((12,), (2, 3, 2)), ((2, 4), (4, 2)), ((1, 1), ()), ((0, 3), (5, 0)))):
        x = some_codes(element, *old)
        move(chunk, element, op.name, [x], x.reshape(new))
    yield chunk


@cases("transpose")
def transpose(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for shape, order in share(element, (((3, 4), (1, 0)), ((2, 3, 2), (2, 0, 1)), ((0, 3), (1, 0)), ((), ()))):
        x = some_codes(element, *shape)
        expected = np.empty([shape[d] for d in order], object)
        for index in np.ndindex(shape):
            expected[tuple(index[d] for d in order)] = x[index]
        move(chunk, element, op.name, [x], expected, f"permutation = {integer_list(order)}")
    yield chunk


@cases("reverse")
def reverse(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for shape, dims in share(element, (((12,), (0,)), ((2, 4), (1,)), ((2, 3), (1, 0)), ((0, 2), (0,)))):
        x = some_codes(element, *shape)
        expected = array([x[tuple(n - 1 - i if d in dims else i for d, (i, n) in enumerate(zip(index, shape)))]  # noqa: B905
                          for index in np.ndindex(shape)], shape)  # fmt: skip
        move(chunk, element, op.name, [x], expected, f"dimensions = {integer_list(dims)}")
    yield chunk


def pad_elements(x: Codes, fill: int, low: list[int], high: list[int], interior: list[int]) -> Codes:
    """Element by element, as in the specification."""
    shape = [a + max(n + max(n - 1, 0) * between, 0) + b for a, n, b, between in zip(low, x.shape, high, interior)]  # noqa: B905
    result = np.full(shape, fill, object)
    for index in np.ndindex(x.shape):
        place = tuple(a + i * (between + 1) for a, i, between in zip(low, index, interior, strict=True))
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            result[place] = x[index]
    return result


#: Low, high, interior padding of shapes.
PADDINGS = (
    ((5,), [1], [2], [0]),
    ((3,), [-1], [1], [1]),
    ((2, 3), [1, 0], [0, -1], [0, 1]),
    ((0, 2), [1, 0], [1, 0], [3, 0]),
)


@cases("pad")
def pad(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for i, (shape, low, high, interior) in enumerate(share(element, PADDINGS)):
        x, fill = some_codes(element, *shape), some_codes(element, 1, start=3 + 5 * i)[0]
        operands = [chunk.constant(x, element), chunk.constant(array(fill, ()), element, "fill")]
        expected = pad_elements(x, fill, low, high, interior)
        attributes = ", ".join(
            f"{name} = {integer_list(amounts)}"
            for name, amounts in (
                ("edge_padding_low", low),
                ("edge_padding_high", high),
                ("interior_padding", interior),
            )
        )
        chunk.expect(
            chunk.apply(op.name, operands, (expected.shape, element), attributes=attributes), expected, every_bit=True
        )
    yield chunk


#: Starts, limits and strides of slices of shapes.
SLICES = (
    ((16,), (3,), (15,), (3,)),
    ((3, 4), (1, 0), (3, 4), (1, 2)),
    ((4,), (2,), (2,), (1,)),
    ((), (), (), ()),
)


@cases("slice")
def slice_(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for shape, starts, limits, strides in share(element, SLICES):
        x = some_codes(element, *shape)
        names = ("start_indices", starts), ("limit_indices", limits), ("strides", strides)
        attributes = ", ".join(f"{name} = {integer_list(numbers)}" for name, numbers in names)
        move(chunk, element, op.name, [x], slice_elements(x, starts, limits, strides), attributes)
    yield chunk


def slice_elements(x: Codes, starts: tuple[int, ...], limits: tuple[int, ...], strides: tuple[int, ...]) -> Codes:
    ranges = [range(*bounds) for bounds in zip(starts, limits, strides, strict=True)]
    return array([x[place] for place in itertools.product(*ranges)], tuple(map(len, ranges)))


@cases("optimization_barrier")
def optimization_barrier(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    x, y = some_codes(element, 12), some_codes(element, 2, 2, start=9)
    operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
    result = chunk.apply_all(op.name, operands, [((12,), element), ((2, 2), element)])
    for value, codes in zip(result, (x, y), strict=True):
        chunk.expect(value, codes, every_bit=True)
    yield chunk


@cases("get_tuple_element")
def get_tuple_element(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    x, y = some_codes(element, 12), some_codes(element, 2, 2, start=9)
    operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
    types = ", ".join(v.type for v in operands)
    made = Value(chunk.fresh("tuple"), (), "", f"tuple<{types}>")
    names = ", ".join(v.name for v in operands)
    chunk.line(f"{made.name} = stablehlo.tuple {names} : {made.type}")
    for i, codes in enumerate((x, y)):
        r = chunk.apply(op.name, [made], (codes.shape, element), attributes=f"index = {i} : i32")
        chunk.expect(r, codes, every_bit=True)
    yield chunk


@cases("after_all")
def after_all(_: Op, element: str) -> Iterator[Chunk]:
    """Its tokens carry no numbers: only their joining with those of an outfeed is visible."""
    chunk = Chunk(f"after_all_{element}", "Tokens have no value: this has to run, and leave the operand as it is.")
    codes = some_codes(element, 8)
    x = chunk.constant(codes, element)
    token = "!stablehlo.token"
    chunk.line(f"%start = stablehlo.create_token : {token}")
    takes = f"({x.type}, {token}) -> {token}"
    chunk.line(f'%sent = "stablehlo.outfeed"({x.name}, %start) {{outfeed_config = ""}} : {takes}')
    chunk.line(f"%joined = stablehlo.after_all %start, %sent : {token}")
    chunk.expect(x, codes, every_bit=True)
    yield chunk
