"""sort: several arrays along one dimension, by any comparator, always stably; and top_k.

The comparator is called on arrays of pairs, as few times as possible. First come hypotheses: the orders of the values,
or of the total order, of the first operand, and lexicographic orders of more operands, each ascending or descending. A
hypothesis is sorted by integer keys, and holds if the comparator confirms it for all pairs of neighbours. Otherwise the
comparator decides each comparison of a merge sort, which takes all rows and runs of one width at a time.

A comparator that is a strict weak order, as the specification requires, has one stable result, so all ways agree. With
any other one (such as `<` on NaN) the result is still a permutation: elements that compare with nothing come last, in
their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..op import Call, Run, op
from ..ordering import sort_total, stable_argsort, total_keys, value_keys
from ..require import on_arrays, require, unpack
from ..traits import PURE, OpTraits, Shapes
from ..types import ELEMENT_TYPES, ElementType, TensorType

#: Whether the elements at the first positions come before those at the second: positions in the flattened rows.
Before = Callable[[np.ndarray, np.ndarray], NDArray[np.bool_]]


def _comparisons(operands: Shapes, _: Shapes, attributes: Mapping[str, Any]) -> float:
    """How often the comparator runs, if each row of n elements takes n log2(n) comparisons."""
    shape = operands[0]
    along = shape[int(attributes.get("dimension", -1))] if shape else 1
    return math.prod(shape) * math.log2(max(along, 1))


@op("sort", values="regions", traits=OpTraits(is_pure=True, body_runs=_comparisons))
def sort(call: Call) -> Run:
    """The operands put in the order of the comparator along a dimension, all by the same permutation; stable.

    (C1) there is an operand. (C2, C3) all operands and results have one shape. (C4) the dimension is from -rank to
    below rank. (C5) the comparator takes two scalars of each operand's type and gives an i1.
    """
    operands = [call.tensor(i) for i in range(len(call.operands))]
    require(operands, "expected at least one operand, got none")
    counts = f"got {len(operands)} operands and {len(call.results)} results"
    require(len(call.results) == len(operands), f"expected a result for each operand, {counts}")
    rank, dimension = len(operands[0].shape), int(call.attributes.get("dimension", -1))
    same = f"expected operands of one shape, got {', '.join(map(str, operands))}"
    require(all(len(t.shape) == rank for t in operands), same)
    require(-rank <= dimension < rank, f"expected a dimension of a tensor of rank {rank}, got {dimension}")
    elements = [t.element for t in operands]
    body, takes = call.bodies[0], tuple(TensorType((), e) for e in elements for _ in range(2))
    fits = body.arguments == takes and body.results == (TensorType((), ELEMENT_TYPES["i1"]),)
    require(fits, f"the comparator has type {body} (expected ({', '.join(map(str, takes))}) -> (tensor<i1>))")
    vectorised = body.vectorised

    def kernel(regions: tuple[Callable[..., tuple[Any]], ...], *arrays: np.ndarray) -> Any:
        length = arrays[0].shape[dimension]
        if length < 2 or arrays[0].size == 0:
            return unpack(arrays)
        moved = [np.moveaxis(x, dimension, -1) for x in arrays]
        rows = [np.ascontiguousarray(x).reshape(-1, length) for x in moved]
        alone = _sort_alone(vectorised, rows[0], elements[0]) if len(rows) == 1 else None
        if alone is not None:
            return np.moveaxis(alone.reshape(moved[0].shape), -1, dimension)
        order = _permutation(_before(vectorised, regions[0], rows), rows, elements)
        results = [np.moveaxis(x.take(order).reshape(m.shape), -1, dimension) for x, m in zip(rows, moved, strict=True)]
        return unpack(tuple(results))

    return kernel


def _before(vectorised: Callable[..., Any] | None, comparator: Callable[..., Any], rows: list[np.ndarray]) -> Before:
    """The comparator on positions: one call for all pairs if it is vectorised, else one call for each."""
    flat, step = [x.reshape(-1) for x in rows], vectorised or on_arrays(comparator, bool)

    def before(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.broadcast_to(step(*(x.take(p) for x in flat for p in (first, second)))[0], first.shape)

    return before


def _sort_alone(vectorised: Callable[..., Any] | None, rows: np.ndarray, element: ElementType) -> np.ndarray | None:
    """The sorted rows, where the comparator orders unlike codes strictly in their total order or against it.

    Equal elements then have equal codes, and no permutation is needed. None for other comparators.
    """
    if vectorised is None or element.is_complex:
        return None
    ordered = sort_total(rows, element)
    codes = ordered.view(f"u{ordered.itemsize}")
    differ = np.flatnonzero(codes[:, :-1] != codes[:, 1:])
    left, right = ordered[:, :-1].take(differ), ordered[:, 1:].take(differ)
    if not left.size:
        return ordered
    pairs = np.append(left, right[:1]), np.append(right, left[:1])  # the first pair in its other order too
    ascends = np.broadcast_to(vectorised(*pairs)[0], pairs[0].shape)
    if ascends[-1] == ascends[0]:
        return None
    if ascends[0]:
        return ordered if ascends[:-1].all() else None
    return ordered[:, ::-1] if np.all(vectorised(right, left)[0]) else None


def _permutation(before: Before, rows: list[np.ndarray], elements: list[ElementType]) -> np.ndarray:
    """The positions of the elements of each sorted row in the flattened rows."""
    for hypothesis in _hypotheses(before, rows, elements):
        if _is_sorted(before, hypothesis):
            return hypothesis
    order = _incomparable_last(before, rows[0], elements[0]) if elements[0].is_float else None
    return _merge_sort(before, *rows[0].shape) if order is None else order


def _is_sorted(before: Before, order: np.ndarray, counts: np.ndarray | None = None) -> bool:
    """Whether that is the stable order: no element comes before its left neighbour, and equal ones keep their order.

    `counts` says of each position whether its element counts; the others follow those that do.
    """
    left, right = order[:, :-1].reshape(-1), order[:, 1:].reshape(-1)
    if counts is not None:
        left, right = left[counts[right]], right[counts[right]]
    if before(right, left).any():
        return False
    swapped = np.flatnonzero(left > right)
    return bool(before(left[swapped], right[swapped]).all())


def _hypotheses(before: Before, rows: list[np.ndarray], elements: list[ElementType]) -> Iterator[np.ndarray]:
    """The orders of the first operand's values, of its total order, and of the values of the first operands in turn."""
    if elements[0].is_complex:
        return
    keys = value_keys(rows[0], elements[0])
    # One comparison distinguishes ascending from descending.
    descends = bool(before(np.array([keys.argmax()]), np.array([keys.argmin()]))[0])
    yield _lexicographic([keys], descends)
    if elements[0].is_float:
        total = total_keys(rows[0], elements[0])
        if not np.array_equal(total, keys):
            yield _lexicographic([total], descends)
    for count in range(2, len(rows) + 1):
        if elements[count - 1].is_complex:
            return
        yield _lexicographic([value_keys(x, e) for x, e in zip(rows[:count], elements, strict=False)], descends)


def _lexicographic(keys: list[np.ndarray], descends: bool = False) -> np.ndarray:
    """The stable order of each row by the first keys, then by the next ones; positions in the flattened rows."""
    (count, length), keys = keys[0].shape, [~key for key in keys] if descends else keys
    order = stable_argsort(keys[-1])
    for key in reversed(keys[:-1]):
        order = np.take_along_axis(order, stable_argsort(np.take_along_axis(key, order, 1)), 1)
    return order + np.arange(0, count * length, length)[:, None]


def _incomparable_last(before: Before, rows: np.ndarray, element: ElementType) -> np.ndarray | None:
    """The order by value with NaN last, if the comparator wants it for numbers and never puts NaN before or after."""
    is_nan = np.asarray(rows != rows).reshape(-1)
    nan, number = np.flatnonzero(is_nan), np.flatnonzero(~is_nan)
    if not (nan.size and number.size):
        return None
    pairs = np.resize(number, max(nan.size, number.size)), np.resize(nan, max(nan.size, number.size))
    if before(*pairs).any() or before(*pairs[::-1]).any():
        return None
    keys = value_keys(rows, element)
    of_numbers = keys.reshape(-1)[number]
    if before(number[[of_numbers.argmax()]], number[[of_numbers.argmin()]])[0]:
        keys = np.where(is_nan.reshape(rows.shape), np.iinfo(keys.dtype).max, ~keys)
    order = _lexicographic([keys])
    return order if _is_sorted(before, order, ~is_nan) else None


def _merge_sort(before: Before, count: int, length: int) -> np.ndarray:
    """A stable merge sort of `count` rows, all pairs of runs of one width at a time."""
    order = np.arange(count * length).reshape(count, length)
    width = 1
    while width < length:
        order = _merge(before, order, width)
        width *= 2
    return order


def _merge(before: Before, order: np.ndarray, width: int) -> np.ndarray:
    """Joins each pair of sorted runs of `width`; the last run of a row may be shorter, and may have no partner."""
    count, length = order.shape
    columns = np.arange(length)
    is_right = columns // width % 2 == 1
    columns = columns[is_right]
    begin = columns // (2 * width) * (2 * width)  # where the left run begins that each right element is to join
    right = order[:, columns]
    # How many of the left run stay before each right element: a binary search in all runs at once.
    staying, step = np.zeros(right.shape, np.int64), width
    while step:
        probe = begin + np.minimum(staying + step, width) - 1
        left = np.take_along_axis(order, probe, 1)
        stays = ~before(right.reshape(-1), left.reshape(-1)).reshape(right.shape)
        staying += step * (stays & (staying + step <= width))
        step >>= 1
    # The running maximum changes nothing, unless the comparator contradicts itself: then it keeps this a permutation.
    slots = np.maximum.accumulate(begin + staying, axis=1) + (columns - begin - width)
    is_taken = np.zeros((count, length), bool)
    np.put_along_axis(is_taken, slots, True, 1)
    merged = np.empty_like(order)
    np.put_along_axis(merged, slots, right, 1)
    merged[~is_taken] = order[:, ~is_right].reshape(-1)
    return merged


@op("chlo.top_k", "bool integer float", values="numbers", operands=1, traits=PURE)
def top_k(call: Call) -> Run:
    """The k largest elements along the last dimension, and their indices. Equal elements keep their order.

    The smallest where an attribute `largest`, which custom calls have for this op, is false.
    Floats are in total order, as XLA sorts them: NaN, infinity, …, +0, -0, …, -infinity, -NaN.
    """
    operand, count = call.tensor(), int(call.attribute("k"))
    values, indices = call.result(0), call.result(1)
    length = operand.shape[-1] if operand.shape else 0
    fits = operand.shape and count >= 0 and (length is None or count <= length)
    require(fits, f"k is {count} (expected at most the size of the last dimension of {operand})")
    shape = (*operand.shape[:-1], count)
    for name, t, element in (("values", values, operand.element), ("indices", indices, indices.element)):
        expected = TensorType(shape, element)
        require(t.element == element and t.agrees(expected), f"{name} is {t} (expected {expected})")
    is_wide = indices.element.is_integer and indices.element.bits >= 32
    require(is_wide, f"indices is {indices} (expected of element type i32)")
    index_dtype, is_largest = indices.element.dtype, call.attributes.get("largest", True)

    def kernel(x: np.ndarray) -> Any:
        rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1]) if x.size else x.reshape(-1, max(x.shape[-1], 1))
        keys = total_keys(rows, operand.element)
        order = stable_argsort(~keys if is_largest else keys)[:, :count]
        shape = (*x.shape[:-1], count)
        taken = np.take_along_axis(rows, order, 1).reshape(shape)
        return taken, order.astype(index_dtype).reshape(shape)

    return kernel
