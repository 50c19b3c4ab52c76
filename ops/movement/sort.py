"""sort: several arrays along one dimension, by any comparator, always stably.

A comparator that goes by a first operand of 8 bits alone is asked about all pairs of codes there are; if it is a strict
weak order its codes have ranks, and rows of them are sorted by counting.

Another comparator over arrays (`Body.vectorised`) is asked as few times as can be. First a guess: the order of the
first operand's values, computed by numpy, and one call of the comparator for each pair of neighbours, whether that is
the order it wants. If the guess is wrong, a merge sort that puts each question to all pairs of a level at once.

For a comparator that is a strict weak order, as the specification asks, there is one stable result, so all ways agree.
Any other comparator (such as `<` where there are NaN) still gives a permutation, but which one is left open: what it
cannot compare with anything comes last, in the order in which it was.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..batch import Batch, Batched
from ..engine.amortised import Amortised
from ..engine.lookup import Table, all_of
from ..engine.speed import tuning
from ..op import BY_BODY, Call, OpError, Run, op
from ..ordering import total_keys, value_keys
from ..traits import OpTraits, Shapes
from ..types import ElementType, Kind, TensorType

#: Whether the elements at the first positions come before those at the second: positions in the flattened rows.
Before = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _comparisons(operands: Shapes, _: Shapes, attributes: Mapping[str, Any]) -> float:
    """How often the comparator runs, if each row of n elements takes n log2(n) comparisons."""
    shape = operands[0]
    along = shape[int(attributes.get("dimension", -1))] if shape else 1
    return math.prod(shape) * math.log2(max(along, 1))


def _batched(batch: Batch) -> Batched:
    """Many at once; a dimension that is counted from the last one stays."""
    dimension = int(batch.attributes.get("dimension", -1))
    return Batched({"dimension": dimension + (dimension >= 0)})


@op("sort", values="regions", accuracy=BY_BODY, traits=OpTraits(is_pure=True, body_runs=_comparisons, batch=_batched))
def sort(call: Call) -> Run:
    """The operands put in the order of the comparator along a dimension, all by the same permutation; stable.

    (C1) there is an operand. (C2, C3) all operands and results have one shape. (C4) the dimension is from -rank to
    below rank. (C5) the comparator takes two scalars of each operand's type and gives an i1.
    """
    operands = [call.tensor(i) for i in range(len(call.operands))]
    if not operands:
        raise OpError("expected at least one operand, got none")
    if len(call.results) != len(operands):
        raise OpError(
            f"expected a result for each operand, got {len(operands)} operands and {len(call.results)} results"
        )
    rank, dimension = len(operands[0].shape), int(call.attributes.get("dimension", -1))
    if any(len(t.shape) != rank for t in operands):
        raise OpError(f"expected operands of one shape, got {', '.join(map(str, operands))}")
    if not -rank <= dimension < rank:
        raise OpError(f"expected a dimension of a tensor of rank {rank}, got {dimension}")
    elements = [t.element for t in operands]
    _check_comparator(call, elements)
    vectorised = call.bodies[0].vectorised
    order_of_codes: Amortised[list[_Order | None]] | None = None  # in a list, since there may be no order
    if vectorised is not None and _goes_by_codes(call, elements[0]):
        order_of_codes = Amortised(lambda: [_order_of_codes(vectorised, elements)], lambda: tuning().sort_worth)

    def kernel(regions: tuple[Callable[..., tuple[Any]], ...], *arrays: np.ndarray) -> Any:
        length = arrays[0].shape[dimension]
        moved = [_moved(x, dimension, -1) for x in arrays]
        rows = [np.ascontiguousarray(x).reshape(-1, length) if x.size else x for x in moved]
        if length < 2 or arrays[0].size == 0:
            return arrays[0] if len(arrays) == 1 else arrays
        places = order_of_codes.get(arrays[0].size) if order_of_codes is not None else None
        ranks = None if places is None else places[0]
        if ranks is not None and len(arrays) == 1:
            return _moved(ranks.sorted(rows[0]).reshape(moved[0].shape), -1, dimension)
        if ranks is not None:
            order = ranks.argsort(rows[0].view(np.uint8))
            order += np.arange(0, order.size, length)[:, None]
        else:
            order = _permutation(vectorised, rows, elements) if vectorised else _one_by_one(regions[0], rows)
        results = [x.take(order).reshape(m.shape) for x, m in zip(rows, moved, strict=True)]
        results = [_moved(x, -1, dimension) for x in results]
        return results[0] if len(arrays) == 1 else tuple(results)

    return kernel


def _moved(x: np.ndarray, source: int, target: int) -> np.ndarray:
    """The array with one dimension in another place; numpy takes 3 µs to find that it is there."""
    return x if (source - target) % x.ndim == 0 else np.moveaxis(x, source, target)


def _check_comparator(call: Call, elements: list[ElementType]) -> None:
    body = call.bodies[0]
    takes = tuple(TensorType((), e) for e in elements for _ in range(2))
    gives = body.results[0] if len(body.results) == 1 else None
    is_boolean = isinstance(gives, TensorType) and gives.shape == () and gives.element.kind is Kind.BOOL
    if body.arguments != takes or not is_boolean:
        raise OpError(f"the comparator has type {body} (expected ({', '.join(map(str, takes))}) -> (tensor<i1>))")


def _permutation(comparator: Callable[..., Any], rows: list[np.ndarray], elements: list[ElementType]) -> np.ndarray:
    """Where the elements of each sorted row stand in the flattened rows."""
    flat = [x.reshape(-1) for x in rows]

    def before(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        pairs = [x.take(p) for x in flat for p in (first, second)]
        found = np.asarray(comparator(*pairs)[0])
        return found if found.shape == first.shape else np.broadcast_to(found, first.shape)

    if rows[0].size * rows[0].shape[1] <= tuning().sort_pairs:
        order = _by_pairs(before, *rows[0].shape)
        if order is not None:
            return order
    for guess in _guesses(before, rows, elements):
        if _is_sorted(before, guess):
            return guess
    guess = _incomparable_last(before, rows[0], elements[0]) if elements[0].is_float else None
    return _merge_sort(before, *rows[0].shape) if guess is None else guess


def _by_pairs(before: Before, count: int, length: int) -> np.ndarray | None:
    """The stable order of rows of few elements, each of which is compared with each; None where there is no order."""
    first, second = _pairs(count, length)
    table = before(first, second).reshape(count, length, length)
    ranks = np.add.reduce(table, 1)
    if not np.array_equal(table, ranks[:, :, None] < ranks[:, None, :]):
        return None
    order = ranks.argsort(1, kind="stable")
    return order if count == 1 else order + np.arange(0, count * length, length)[:, None]


@functools.lru_cache(64)
def _pairs(count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of the first and the second of all pairs of elements of each row."""
    places = np.arange(count * length).reshape(count, length)
    return places.repeat(length), places[:, None].repeat(length, 1).reshape(-1)


# -- by ranks of codes -----------------------------------------------------------------------------------------------


def _goes_by_codes(call: Call, element: ElementType) -> bool:
    """Whether the comparator depends on elements of 8 bits or less of the first operand alone."""
    reads = call.bodies[0].reads
    has_codes = (element.is_minifloat or element.bits == 8) and call.policy.rounding != "stochastic"
    return has_codes and reads is not None and reads <= {0, 1}


def _order_of_codes(comparator: Callable[..., Any], elements: list[ElementType]) -> _Order | None:
    """The order that a comparator puts the codes of the first operand in, None where it is no strict weak order."""
    codes = all_of(elements[0], 8)
    # Of the other operands the comparator depends on none: any will do.
    others = [np.zeros(1, e.dtype) for e in elements[1:] for _ in range(2)]
    before = comparator(np.repeat(codes, 256), np.tile(codes, 256), *others)[0]
    before = np.broadcast_to(before, 1 << 16).reshape(256, 256)
    ranks = before.sum(axis=0, dtype=np.int32)
    if not np.array_equal(before, ranks[:, None] < ranks):
        return None
    return _Order(np.unique(ranks, return_inverse=True)[1].astype(np.uint8), 1 << elements[0].bits)


class _Order:
    """The order of codes of 8 bits by their ranks; codes that the comparator takes for equal share one.

    Long rows are sorted by counting their codes; those that share a rank are put in their places as they stood. Where
    many do, and in short rows, numpy sorts the ranks. Measured, counted and by ranks: one row of 10**6 codes 2.7 ms and
    6.3, 1,024 rows of 256 codes 25 ms and 2.4.
    """

    def __init__(self, ranks: np.ndarray, codes: int) -> None:
        """Of so many codes there are ranks; a byte has those of fewer bits in its lower ones."""
        self._ranks = Table(ranks)
        some = ranks[:codes]
        self._codes = np.argsort(some, kind="stable").astype(np.uint8)
        self._of_rank = self._codes[np.unique(some[self._codes], return_index=True)[1]]
        self._shared = [np.flatnonzero(some == r) for r in np.flatnonzero(np.bincount(some) > 1)]

    def sorted(self, rows: np.ndarray) -> np.ndarray:
        """Each of the rows sorted."""
        codes, (count, length) = rows.view(np.uint8), rows.shape
        result, step = np.empty_like(codes), max(tuning().sort_at_once // length, 1)
        if length >= tuning().sort_counted:
            for row, order in zip(codes, result, strict=True):
                order[...] = self._counted(row)
        else:
            for first in range(0, count, step):
                result[first : first + step] = self._by_rank(codes[first : first + step])
        return result.view(rows.dtype)

    def _by_rank(self, codes: np.ndarray) -> np.ndarray:
        """Some rows."""
        if self._shared:
            return np.take_along_axis(codes, self.argsort(codes), axis=1)
        return self._of_rank.take(np.sort(self._ranks.at(codes), axis=1, kind="stable"))

    def _counted(self, codes: np.ndarray) -> np.ndarray:
        """One row."""
        counts, ranks = np.bincount(codes, minlength=256), self._ranks.entries
        together = [same for same in self._shared if np.count_nonzero(counts[same]) > 1]
        if len(together) > tuning().sort_together:
            return codes.take(self.argsort(codes))
        result = np.repeat(self._codes, counts[self._codes])
        for same in together:
            first, is_here = counts[ranks < ranks[same[0]]].sum(), np.zeros(256, bool)
            is_here[same] = True
            result[first : first + counts[same].sum()] = codes[is_here.take(codes)]
        return result

    def argsort(self, codes: np.ndarray) -> np.ndarray:
        """The places of each row's codes in their order."""
        return np.argsort(self._ranks.at(codes), axis=-1, kind="stable")


# -- guessing ------------------------------------------------------------------------------------------------------


def _guesses(before: Before, rows: list[np.ndarray], elements: list[ElementType]) -> Iterator[np.ndarray]:
    """Permutations that a comparator may well want: by the first operand or by all in turn, ascending or descending."""
    if elements[0].is_complex:
        return
    keys = value_keys(rows[0], elements[0])
    # One comparison distinguishes ascending from descending.
    ends = np.array([keys.argmax()]), np.array([keys.argmin()])
    descends = bool(before(*ends)[0])
    offsets = np.arange(0, keys.size, keys.shape[1])[:, None]
    yield _stable_order(keys, descends) + offsets
    if elements[0].is_float:
        total = total_keys(rows[0], elements[0])
        if not (total == keys).all():
            yield _stable_order(total, descends) + offsets
    if len(rows) > 1 and not elements[1].is_complex:
        order = _stable_order(value_keys(rows[1], elements[1]), descends)
        order = np.take_along_axis(order, _stable_order(np.take_along_axis(keys, order, 1), descends), 1)
        yield order + offsets


def _incomparable_last(before: Before, rows: np.ndarray, element: ElementType) -> np.ndarray | None:
    """The order by value with NaN last, if that is what the comparator wants of numbers and it has no place for NaN."""
    is_nan = rows != rows
    nan, number = np.flatnonzero(is_nan), np.flatnonzero(~is_nan)
    if not (nan.size and number.size):
        return None
    pairs = np.resize(number, max(nan.size, number.size)), np.resize(nan, max(nan.size, number.size))
    if before(*pairs).any() or before(*pairs[::-1]).any():
        return None
    keys = value_keys(rows, element).reshape(-1)
    ends = number[[keys[number].argmax()]], number[[keys[number].argmin()]]
    offsets = np.arange(0, rows.size, rows.shape[1])[:, None]
    order = _stable_order(keys.reshape(rows.shape), bool(before(*ends)[0]))
    order = (
        np.take_along_axis(order, np.argsort(np.take_along_axis(is_nan, order, 1), axis=1, kind="stable"), 1) + offsets
    )
    left, right = order[:, :-1].reshape(-1), order[:, 1:].reshape(-1)
    both = ~is_nan.reshape(-1)[right]  # and so the left one is a number too
    left, right = left[both], right[both]
    swapped = left > right
    return order if not before(right, left).any() and before(left[swapped], right[swapped]).all() else None


def _stable_order(keys: np.ndarray, descends: bool) -> np.ndarray:
    """The stable order of each row, as positions in the row."""
    if descends:
        keys = ~keys
    if keys.itemsize != 4:  # below that numpy sorts by digits
        return np.argsort(keys, axis=1, kind="stable")
    # Key and position in one integer: sorting those is several times quicker than a stable argsort.
    wide = keys.astype(np.int64) - (1 << 31 if keys.dtype.kind == "u" else 0)
    packed = (wide << 32) | np.arange(keys.shape[1])
    packed.sort(axis=1)
    return packed & 0xFFFFFFFF


def _is_sorted(before: Before, order: np.ndarray) -> bool:
    """Whether that is the stable order: no element comes before its left neighbour, and equal ones are as they were."""
    left, right = order[:, :-1].reshape(-1), order[:, 1:].reshape(-1)
    if before(right, left).any():
        return False
    swapped = np.flatnonzero(left > right)
    return bool(before(left[swapped], right[swapped]).all())


# -- merging -------------------------------------------------------------------------------------------------------


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


def _one_by_one(comparator: Callable[..., tuple[Any]], rows: Sequence[np.ndarray]) -> np.ndarray:
    """The order by a comparator of scalars."""
    count, length = rows[0].shape
    order = np.empty((count, length), np.int64)
    for i in range(count):
        cells = [[x[i, j, ...] for x in rows] for j in range(length)]

        def compare(a: int, b: int, cells: list[list[np.ndarray]] = cells) -> int:
            # Sorting asks only whether one is less than another.
            return -bool(comparator(*(v for pair in zip(cells[a], cells[b], strict=True) for v in pair))[0])

        order[i] = sorted(range(length), key=functools.cmp_to_key(compare))
    return order + np.arange(0, count * length, length)[:, None]
