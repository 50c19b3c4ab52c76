"""Cases of ops that move elements to computed places: slices, gathers, scatters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minihlo.ops.op import Op
from tests.oracle import FORMATS
from tests.places import Numbers

from .catalog import cases, stem
from .chunk import Chunk, body, integer_list
from .numbers import Codes, array, codes_of, share, some_codes, step
from .shape import moving

Shape = tuple[int, ...]


def clip(start: int, size: int, n: int) -> int:
    return min(max(int(start), 0), n - size)


@cases("dynamic_slice")
def dynamic_slice(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for shape, starts, sizes, index in share(
        element,
        (
            ((12,), (5,), (6,), "i64"),
            ((3, 4), (1, 9), (2, 2), "i32"),
            ((3, 4), (-5, 1), (1, 3), "i8"),
            ((3,), (1,), (0,), "ui32"),
        ),
    ):
        x = some_codes(element, *shape)
        operands = [chunk.constant(x, element), *(chunk.constant(array(s, ()), index, "start") for s in starts)]
        at = [clip(s, size, n) for s, size, n in zip(starts, sizes, shape, strict=True)]
        expected = x[tuple(slice(a, a + size) for a, size in zip(at, sizes, strict=True))] if shape else x
        attributes = f"slice_sizes = {integer_list(sizes)}"
        chunk.expect(chunk.apply(op.name, operands, (sizes, element), attributes=attributes), expected, every_bit=True)
    yield chunk


@cases("dynamic_update_slice")
def dynamic_update_slice(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for shape, starts, sizes in share(
        element,
        (
            ((12,), (5,), (6,)),
            ((3, 4), (-1, 9), (2, 2)),
            ((3,), (1,), (0,)),
        ),
    ):
        x, update = some_codes(element, *shape), some_codes(element, *sizes, start=13)
        operands = [chunk.constant(x, element), chunk.constant(update, element, "update")]
        operands += [chunk.constant(array(s, ()), "i64", "start") for s in starts]
        at = [clip(s, size, n) for s, size, n in zip(starts, sizes, shape, strict=True)]
        expected = x.copy()
        expected[tuple(slice(a, a + size) for a, size in zip(at, sizes, strict=True))] = update
        chunk.expect(chunk.apply(op.name, operands, (shape, element)), expected, every_bit=True)
    yield chunk


# -- gather ------------------------------------------------------------------------------------------------------------

#: Shapes of operand and indices, the indices, the dimension numbers and the slice sizes.
GATHERS: tuple[dict[str, Any], ...] = (
    {  # rows of a matrix; an index out of bounds takes the nearest row
        "shape": (3, 4), "indices": [[2], [-1], [7], [0]], "offset_dims": [1], "collapsed_slice_dims": [0],
        "start_index_map": [0], "index_vector_dim": 1, "sizes": (1, 4),
    },
    {  # windows at two coordinates, whose order is turned round
        "shape": (4, 3), "indices": [[[0, 2], [1, 3]], [[2, 0], [0, 9]]], "offset_dims": [0, 2],
        "collapsed_slice_dims": [], "start_index_map": [1, 0], "index_vector_dim": 2, "sizes": (2, 2),
    },
    {  # batching dimensions
        "shape": (2, 3, 2), "indices": [[[1], [0]], [[2], [2]]], "offset_dims": [2], "collapsed_slice_dims": [1],
        "operand_batching_dims": [0], "start_indices_batching_dims": [0], "start_index_map": [1],
        "index_vector_dim": 2, "sizes": (1, 1, 2),
    },
    {  # scalars as index vectors; no window at all
        "shape": (6,), "indices": [5, 0, 3], "offset_dims": [], "collapsed_slice_dims": [0],
        "start_index_map": [0], "index_vector_dim": 1, "sizes": (1,),
    },
)  # fmt: skip


def _dims(case: dict[str, Any], name: str) -> list[int]:
    return case.get(name, [])


def gather_elements(x: Codes, case: dict[str, Any]) -> Codes:
    """Element by element, as in the specification."""
    indices = np.array(case["indices"])
    names = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims")
    dims = [tuple(_dims(case, n)) for n in (*names, "start_index_map")]
    numbers = Numbers(x.shape, case["sizes"], *dims, case["index_vector_dim"], indices.shape)
    result = np.empty(numbers.whole, object)
    for place in np.ndindex(numbers.whole):
        result[place] = x[numbers.element(place, indices, clamp=True)]
    return result


@cases("gather", "dynamic_gather")
def gather(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    is_dynamic = op.name.endswith("dynamic_gather")
    names = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims")
    for case in share(element, GATHERS):
        x = some_codes(element, *case["shape"])
        operands = [chunk.constant(x, element), chunk.constant(array(np.array(case["indices"])), "i64", "start")]
        lists = [f"{n} = {_dims(case, n)}" for n in (*names, "start_index_map") if _dims(case, n)]
        numbers = f"#stablehlo.gather<{', '.join(lists)}, index_vector_dim = {case['index_vector_dim']}>"
        attributes = f"dimension_numbers = {numbers}, indices_are_sorted = false"
        if is_dynamic:
            operands.append(chunk.constant(array(case["sizes"]), "i64", "sizes"))
        else:
            attributes += f", slice_sizes = {integer_list(case['sizes'])}"
        expected = gather_elements(x, case)
        chunk.expect(
            chunk.apply(op.name, operands, (expected.shape, element), attributes=attributes), expected, every_bit=True
        )
    yield chunk


@cases("torch_index_select")
def torch_index_select(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for shape, index, dim, batch in share(
        element,
        (
            ((3, 4), [2, 0, 7], 0, 0),
            ((3, 4), [[1, 3], [0, 0]], 1, 0),
            ((2, 3), [[2, 0], [1, 1]], 1, 1),
        ),
    ):
        x, places = some_codes(element, *shape), np.array(index)
        if batch:
            expected = array([[x[b, i] for i in row] for b, row in enumerate(places.tolist())])
        else:
            expected = np.take(x, np.minimum(places, shape[dim] - 1), dim)
        operands = [chunk.constant(x, element), chunk.constant(array(places), "i64", "index")]
        attributes = f"dim = {dim} : i64, batch_dims = {batch} : i64"
        chunk.expect(
            chunk.apply(op.name, operands, (expected.shape, element), attributes=attributes), expected, every_bit=True
        )
    yield chunk


# -- scatter -----------------------------------------------------------------------------------------------------------


@cases("scatter")
def scatter(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(
        f"{stem(op.name)}_{element}",
        "Where several updates go to one place, their order is open: those here give the same in any order.",
    )
    small = [1, 1, 2, 4] if not FORMATS[element].is_signed else [1, -1, 0.5, 2]
    x, updates = some_codes(element, 3, 4), some_codes(element, 2, 4, start=11)

    # Whole rows written over; the one out of bounds changes nothing.
    expected = x.copy()
    expected[2] = updates[0]
    _scatter(chunk, op, element, x, [[2], [3]], updates, expected, "return", {
        "update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": 1})  # fmt: skip

    # Elements added; two go to one place.
    plain = codes_of(element, [small[0], small[3], small[0], small[3]])
    added, places = codes_of(element, [small[3], small[3], 1, 2]), [1, 3, 0, 0]
    add = step(element, "add")
    expected = plain.copy()
    for place, update in zip(places, added, strict=True):
        expected[place] = add(expected[place], update)
    _scatter(chunk, op, element, plain, places, added, expected, "add", {
        "update_window_dims": [], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": 1})  # fmt: skip

    # The larger of what is there and of each window, NaN winning; windows of two by one.
    largest = step(element, "maximum")
    y, more = some_codes(element, 3, 3, start=3), some_codes(element, 2, 2, start=2)
    expected = y.copy()
    for n, (i, j) in enumerate([(0, 1), (1, 2)]):
        for d in range(2):
            expected[i + d, j] = largest(expected[i + d, j], more[n, d])
    _scatter(chunk, op, element, y, [[0, 1], [1, 2]], more, expected, "maximum", {
        "update_window_dims": [1], "inserted_window_dims": [1], "scatter_dims_to_operand_dims": [0, 1],
        "index_vector_dim": 1})  # fmt: skip

    # Batching dimensions.
    z, one = some_codes(element, 2, 3), some_codes(element, 2, 1, start=6)
    expected = z.copy()
    expected[0, 2], expected[1, 0] = one[0, 0], one[1, 0]
    _scatter(chunk, op, element, z, [[[2]], [[0]]], one, expected, "return", {
        "update_window_dims": [], "inserted_window_dims": [1], "input_batching_dims": [0],
        "scatter_indices_batching_dims": [0], "scatter_dims_to_operand_dims": [1], "index_vector_dim": 2})  # fmt: skip
    yield chunk


def _scatter(
    chunk: Chunk,
    op: Op,
    element: str,
    x: Codes,
    indices: Any,
    updates: Codes,
    expected: Codes,
    combine: str,
    numbers: dict[str, Any],
) -> None:
    places = array(np.array(indices))
    operands = [
        chunk.constant(x, element),
        chunk.constant(places, "i32", "indices"),
        chunk.constant(updates, element, "updates"),
    ]
    listed = ", ".join(f"{name} = {value}" for name, value in numbers.items() if value != [])
    region = return_one(element, 1) if combine == "return" else body(element, combine)
    attributes = f"scatter_dimension_numbers = #stablehlo.scatter<{listed}>"
    r = chunk.apply(op.name, operands, (x.shape, element), attributes=attributes, regions=region)
    chunk.expect(r, expected, every_bit=combine == "return")


def return_one(element: str, which: int) -> str:
    """A region of two scalars that returns one of them."""
    t = f"tensor<{element}>"
    return f"{{\n  ^bb0(%arg0: {t}, %arg1: {t}):\n    stablehlo.return %arg{which} : {t}\n  }}"
