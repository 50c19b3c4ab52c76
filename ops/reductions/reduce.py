"""reduce, and the folds it is made of: a body applied along an axis, step by step, as fast as the same bits allow.

The specification lets an implementation choose the order: any binary tree over the elements in their order. Here it is
that of the source: the accumulator starts as the init value and takes the elements in row-major order,
`accumulator = body(accumulator, element)`, each step rounded to the body's element type. A fold takes any short cut
only where that gives the same numbers. Bodies of several ops reduce long rows in pairs instead, see `PAIRS_FROM`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..batch import Batch, Batched, along
from ..engine import half_extremes
from ..engine.blocks import apart, blocks, for_each
from ..engine.cast import cast, wrap
from ..engine.compiled import Kernels, kernels
from ..engine.ranks import minifloat_ranks
from ..engine.speed import tuning
from ..engine.stochastic import Choices, Steps
from ..engine.transitions import TransitionTable
from ..kernel import Combining, Facts, Shapes
from ..registry import BY_BODY, Body, Call, OpError, Run, lookup, op
from ..types import ElementType, Kind, TensorType
from .choosing import choose, key_of

#: Takes and returns tuples of arrays: the accumulators and then the elements in, the new accumulators out.
Step = Callable[..., tuple[Any, ...]]
#: Folds arrays along their first axis into accumulators of the shape that is left.
Fold = Callable[[Step, Sequence[np.ndarray], Sequence[np.ndarray]], tuple[np.ndarray, ...]]

#: Up to so many accumulators numpy's running sum is taken, which is quicker; else so many columns at a time, which fit
#: the first-level cache as f32. No tuning: a part of a single column would be summed in pairs.
_FEW, _COLUMNS = 8, 128

#: So many elements, or more, a body of several ops joins as neighbours in pairs, and the pairs in pairs; the init value
#: comes first of all (`Body.pairs`). No tuning: it decides how floats are rounded. In order and in pairs, ms: Welford's
#: mean and variance of 200 numbers 0.25 and 0.12, of 10**5 53 and 1.5; `logaddexp` of 200 4.1 and 0.3.
PAIRS_FROM = 32
#: Elements of a row that are joined to `_PART >> _LEVELS` at a time, while they are in the cache. A row that is cut at
#: multiples of a power of two gives the same tree.
_PART, _LEVELS = 1 << 15, 9


def _additions(operands: Shapes, results: Shapes, _: Mapping[str, Any]) -> float:
    """How often the body runs: once for each element but the first of each sum."""
    return max(math.prod(operands[0]) - math.prod(results[0]), 0)


def _batched(batch: Batch) -> Batched | None:
    """Many reductions: those along a dimension do not see the others."""
    return along("dimensions", single=len(batch.operands) // 2)(batch)


@op(
    "reduce",
    values="regions",
    accuracy=BY_BODY,
    facts=Facts(is_pure=True, folds=True, linear=range, body_runs=_additions, batch=_batched),
)
def reduce(call: Call) -> Run:
    """The elements along dimensions combined by the body, from the init value, in row-major order.

    From `PAIRS_FROM` elements on, a body of several ops combines neighbours in pairs, and the pairs in pairs.

    (C1) the inputs have one shape. (C3) as many init values and results as inputs. (C4, C5) the dimensions are distinct
    and below the rank. (C6) the body takes and gives scalars; inputs are converted to their element types. (C7) the
    results have the dimensions that are left. (C8) and the body's element types.
    """
    body, dimensions, count = call.bodies[0], call.integers("dimensions"), len(call.operands) // 2
    if count == 0 or len(call.operands) != 2 * count or len(call.results) != count:
        raise OpError(f"expected 2N operands and N results, got {len(call.operands)} and {len(call.results)}")
    inputs = [call.tensor(i) for i in range(count)]
    rank = len(inputs[0].shape)
    if any(len(t.shape) != rank for t in inputs):
        raise OpError(f"expected inputs of one shape, got {', '.join(map(str, inputs))}")
    if len(set(dimensions)) < len(dimensions) or not all(0 <= d < rank for d in dimensions):
        raise OpError(f"expected distinct dimensions of a tensor of rank {rank}, got {list(dimensions)}")
    elements = body_elements(body, count)
    sources = [call.tensor(i).element for i in range(2 * count)]
    order = [*sorted(dimensions), *(d for d in range(rank) if d not in dimensions)]
    short, long, folded = fold_of(call, body), _long_fold_of(call, body), len(dimensions)
    is_cast, is_moved = sources != elements * 2, order != [*range(rank)]

    def kernel(regions: tuple[Step, ...], *values: np.ndarray) -> Any:
        if is_cast:
            values = tuple(
                cast(v, s, e, call.policy) if s != e else v
                for v, s, e in zip(values, sources, elements * 2, strict=True)
            )
        arrays, inits = values[:count], values[count:]
        if is_moved:
            arrays = [x.transpose(order) for x in arrays]
        shape = arrays[0].shape
        kept = shape[folded:]
        steps, width = math.prod(shape[:folded]), math.prod(kept)
        rows = [x.reshape(steps, width) for x in arrays]
        starts = [_repeated(init, width) for init in inits]
        fold = short if steps < PAIRS_FROM else long
        results = fold(regions[0], starts, rows) if steps and width else [s.copy() for s in starts]
        results = tuple(np.asarray(r).reshape(kept) for r in results)
        return results[0] if count == 1 else results

    return kernel


def _repeated(init: np.ndarray, width: int) -> np.ndarray:
    """An init value for each accumulator; repeated where that costs less than `broadcast_to`, but of bytes."""
    is_copied = width <= tuning().reduce_small and init.dtype.itemsize > 1
    return init.reshape(1).repeat(width) if is_copied else np.broadcast_to(init, width)


@dataclasses.dataclass(frozen=True)
class Folding:
    """A reduction of one tensor by a single op, as those see it who run it together with other ops."""

    dimensions: tuple[int, ...]
    element: ElementType
    fold: Fold
    largest: bool | None  #: whether it gives the largest or the smallest, None of other ops
    combine: Run  #: the op itself, on arrays
    facts: Facts  #: of the op


def folding(call: Call) -> Folding | None:
    """What a valid reduction is, None where it is not as plain as that."""
    if len(call.operands) != 2 or call.policy.rounding == "stochastic":
        return None
    body, name = call.bodies[0], call.bodies[0].sole_op or ""
    (element,) = body_elements(body, 1)
    if any(call.tensor(i).element != element for i in range(2)):
        return None
    fold, record = _fold_of_op(call, name, element) if name else None, lookup(name)
    if fold is None or record is None or record.facts.combining is None:
        return None
    t = TensorType((None,), element)
    combine = record.function(call.like(name, (t, t), (t,)))
    return Folding(
        tuple(sorted(call.integers("dimensions"))), element, fold, record.facts.combining.largest, combine, record.facts
    )


def body_elements(body: Body, count: int) -> list[ElementType]:
    """The element types of a reduction's body over `count` values. Raises OpError where it is no such body."""
    types = [t for t in (*body.arguments, *body.results) if isinstance(t, TensorType) and t.shape == ()]
    elements = [t.element for t in types[2 * count :]]
    if len(body.results) != count or [t.element for t in types] != elements * 3:
        raise OpError(f"the body has type {body} (expected one that takes {2 * count} scalars and returns {count})")
    return elements


def fold_of(call: Call, body: Body) -> Fold:
    """How to fold a body. The arrays have two axes, neither of length 0: the one to fold along and the one to keep.

    The accumulators have the length of the second, as do the results. The step given to the fold is the region itself
    and is called with scalars.
    """
    elements = _elements(body)
    if body.sole_op is not None and len(elements) == 1:
        fold = _fold_of_op(call, body.sole_op, elements[0])
        if fold is not None:
            return fold
    if body.vectorised is None:
        return _one_by_one
    if call.policy.rounding == "stochastic":
        return _drawn(call, body, elements)
    if body.selects and _is_associative(body.vectorised, elements):
        return _by_key(body.vectorised, elements)
    if body.parts:
        return _apart([(fold_of(call, part), part) for part in body.parts])
    return _vectorised(body.vectorised, elements)


def _elements(body: Body) -> list[ElementType]:
    return [t.element for t in body.results if isinstance(t, TensorType)]


def _long_fold_of(call: Call, body: Body) -> Fold:
    """How to fold at least `PAIRS_FROM` elements."""
    is_code = len(body.results) == 1 and all(isinstance(t, TensorType) and t.element.is_minifloat for t in body.results)
    is_drawn = call.policy.rounding == "stochastic"
    if body.vectorised is None or not body.pairs or (is_code and not is_drawn):  # codes run along a transition table
        return fold_of(call, body)
    if body.parts and not is_drawn:
        return _apart([(_long_fold_of(call, part), part) for part in body.parts])
    if body.selects and not is_drawn and _is_associative(body.vectorised, _elements(body)):
        return fold_of(call, body)
    return _by_halves(body.vectorised, is_drawn)


def combining_of(name: str | None) -> Combining | None:
    """What is known of an op as one that combines two operands; None where there is no such op, or nothing is known."""
    record = lookup(name) if name else None
    return None if record is None else record.facts.combining


def _fold_of_op(call: Call, name: str, element: ElementType) -> Fold | None:
    """The fold of a single op, None where there is no better one than step by step."""
    combining = combining_of(name)
    if combining is None:
        return None
    if not (element.is_float or element.is_complex):
        ufunc = (element.kind is Kind.BOOL and combining.of_booleans) or combining.ufunc
        return _whole(ufunc, element) if combining.any_order else None
    if combining.largest is not None:
        record, t = lookup(name), TensorType((None, None), element)
        assert record is not None
        return _extreme(combining.largest, record.function(call.like(name, (t, t), (t,))), element)
    return _in_order(combining.ufunc, element) if _is_host(call, combining, element) else None


def _is_host(call: Call, combining: Combining, element: ElementType) -> bool:
    """Whether numpy's function gives the op's bits on a type of floats or complex numbers."""
    # Products of complex numbers are rounded differently in numpy's scalar and vector code.
    is_host = element.is_complex and combining.ufunc is np.add
    if element.is_float and not element.is_minifloat:
        is_host = element.bits >= 32 or call.policy.rounding == "nearest_even"
    return is_host and combining.on_floats


@dataclasses.dataclass(frozen=True)
class Running:
    """The accumulators after each step of a fold along the first axis, by numpy's own running fold."""

    ufunc: np.ufunc
    dtype: np.dtype  #: to compute in
    narrow: ElementType | None  #: the integers of fewer bits that the results are wrapped to
    commutes: bool  #: whether the operands of a step can change places

    def __call__(self, init: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """From the initial value along rows, (steps, columns); the result has that shape."""
        x = rows.astype(self.dtype)
        self.ufunc(init.astype(self.dtype), x[:1], out=x[:1])
        self.ufunc.accumulate(x, axis=0, out=x)
        return wrap(x, self.narrow) if self.narrow is not None else x


def running_of(call: Call, name: str | None, element: ElementType) -> Running | None:
    """The running fold of a single op; None where numpy has none that gives its bits."""
    combining = combining_of(name)
    if combining is None:
        return None
    if element.is_float or element.is_complex:
        if combining.largest is not None or not _is_host(call, combining, element):
            return None
        return Running(combining.ufunc, element.dtype, None, combining.any_order)
    if not combining.any_order:
        return None
    ufunc = (element.kind is Kind.BOOL and combining.of_booleans) or combining.ufunc
    narrow, dtype = _in_bytes(element)
    return Running(ufunc, dtype, element if narrow else None, True)


def _in_bytes(element: ElementType) -> tuple[bool, np.dtype]:
    """Whether a type of integers has fewer bits than a byte, and the type that numpy computes in."""
    narrow = 1 < element.bits < 8
    return narrow, np.dtype(np.int8 if element.kind is Kind.SIGNED else np.uint8) if narrow else element.dtype


def _whole(ufunc: np.ufunc, element: ElementType) -> Fold:
    """Integers and booleans, in whatever order numpy likes."""
    narrow, wide = _in_bytes(element)

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        start, x = (v.astype(wide, copy=False) for v in (starts[0], rows[0]))
        total = ufunc(start, ufunc.reduce(x, axis=0, dtype=wide))
        return (wrap(total, element) if narrow else total,)

    return fold


def _extreme(largest: bool, exact: Run, element: ElementType) -> Fold:
    """Maxima and minima of floats, which have no order: but -0 is below +0, and of several NaN the first is given."""
    ufunc, has_host = np.maximum if largest else np.minimum, element.is_float and element.bits >= 32
    of_ranks: dict[bytes, np.ndarray] = {}  # for each code to start from, what becomes of each rank

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        start, x = starts[0], rows[0]
        if has_host:
            result = ufunc(start, ufunc.reduce(x, axis=0))
            # numpy's own reduction does not distinguish zeros, nor NaN.
            doubtful = (result == 0) | (result != result)
            if np.count_nonzero(doubtful):
                result[doubtful] = exact(start[doubtful], _paired(exact, x[:, doubtful]))
            return (result,)
        if element.is_minifloat and x.size >= tuning().reduce_ranks:
            ranks = minifloat_ranks(element, largest)
            extremes = ranks.extreme(x.view(np.uint8))
            if start.strides != (0,):
                return (exact(start, ranks.values.take(extremes)),)
            code = start[:1].tobytes()
            if code not in of_ranks:
                of_ranks[code] = exact(start[:1], ranks.values)
            return (of_ranks[code].take(extremes),)
        if element.bits == 16 and len(x) > 1 and element.is_float:
            extremes, with_nan = half_extremes.extreme(x, element, largest)
            if 2 * len(with_nan) <= x.shape[1]:
                result = exact(start, extremes)
                if len(with_nan):
                    result[with_nan] = exact(start[with_nan], _paired(exact, x[:, with_nan]))
                return (result,)
        return (exact(start, _paired(exact, x)),)

    return fold


def _paired(exact: Run, x: np.ndarray) -> np.ndarray:
    """The slices joined in pairs of neighbours, and the pairs in pairs."""
    while len(x) > 1:
        pairs = exact(x[: len(x) - 1 : 2], x[1::2])
        x = np.concatenate((pairs, x[-1:])) if len(x) % 2 else pairs
    return x[0]


def _in_order(ufunc: np.ufunc, element: ElementType) -> Fold:
    """Sums and products of the host's floats, each step after the other.

    numpy adds up along an axis in pairs where the elements lie side by side, and in order where its steps are slices.
    """

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        total, x = starts[0], rows[0]
        (steps, width), now = x.shape, tuning()
        is_compiled = ufunc is np.add and x.dtype == np.float32 and width >= _FEW
        compiled = kernels(x.size) if is_compiled else None
        if compiled is not None and x.T.flags.c_contiguous:
            return (_add_rows(compiled, total, x.T),)
        if width <= _FEW:
            return (_running(ufunc, total, x),)
        if x.size <= tuning().reduce_small:
            use = np.empty((steps + 1, width), element.dtype)
            use[0], use[1:] = total, x
            return (ufunc.reduce(use, axis=0),)
        if width >= now.reduce_long and x.strides[1] == x.itemsize:
            total = total.copy()
            for row in x:
                ufunc(total, row, out=total)
            return (total,)
        result = np.empty(width, element.dtype)
        # Of about the same width: a single column numpy would add up in pairs.
        parts = -(-width // _COLUMNS)
        ends = [width * i // parts for i in range(parts + 1)]
        step = max(now.reduce_block // _COLUMNS, 1)

        def work(columns: tuple[int, int]) -> None:
            here = slice(*columns)
            use = np.empty((min(step, steps) + 1, columns[1] - columns[0]), element.dtype)
            use[0] = total[here]
            for first in range(0, steps, step):
                count = min(step, steps - first)
                use[1 : count + 1] = apart(x[first : first + count, here])
                use[0] = ufunc.reduce(use[: count + 1], axis=0)
            result[here] = use[0]

        for_each(list(itertools.pairwise(ends)), work, x.size)
        return (result,)

    return fold


def _add_rows(compiled: Kernels, totals: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The sum of each row, by several threads."""
    totals = totals.copy()

    def work(block: tuple[slice, ...]) -> None:
        compiled.add_rows(totals[block], rows[block])

    for_each(list(blocks(totals.shape, max(_COLUMNS // 2, 8))), work, rows.size)
    return totals


def _running(ufunc: np.ufunc, total: np.ndarray, x: np.ndarray) -> np.ndarray:
    """By numpy's running sum, for few accumulators."""
    block = max(tuning().reduce_block // len(total), 1)
    running = np.empty((len(total), min(block, len(x)) + 1), total.dtype)
    for begin in range(0, len(x), block):
        part = x[begin : begin + block]
        use = running[:, : len(part) + 1]
        use[:, 0], use[:, 1:] = total, part.T
        total = ufunc.accumulate(use, axis=1)[:, -1]
    return total


def _vectorised(step: Step, elements: list[ElementType], is_table: bool = True) -> Fold:
    """Any elementwise body: a step for each slice, on all accumulators at once; or by a table, if it is one."""
    transitions = None
    if is_table and len(elements) == 1 and elements[0].is_minifloat:
        transitions = TransitionTable(lambda total, element: step(total, element)[0], elements[0], elements[0])

    def fold(scalar: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        steps, width = rows[0].shape
        if transitions is not None and transitions.is_worth(steps, width):
            totals = transitions.along(starts[0].view(np.uint8), rows[0].view(np.uint8))
            return (totals.view(elements[0].dtype),)
        if width == 1:
            return _one_by_one(scalar, starts, rows)
        totals = tuple(starts)
        for slices in zip(*map(np.ascontiguousarray, rows), strict=True):
            totals = step(*totals, *slices)
        return tuple(np.broadcast_to(t, width) for t in totals)

    return fold


def choices_of_body(call: Call, body: Body) -> Callable[[], Choices | Steps] | None:
    """Gives what runs along arrays by a body of one op of two floats of up to 16 bits; None of other bodies."""
    if call.policy.rounding != "stochastic" or body.sole_op is None or len(body.results) != 1:
        return None
    record, t = lookup(body.sole_op), body.results[0]
    if record is None or not isinstance(t, TensorType) or not (t.element.is_float and t.element.bits <= 16):
        return None
    return record.kernel(call.like(body.sole_op, (t, t), (t,))).choices


def _drawn(call: Call, body: Body, elements: list[ElementType]) -> Fold:
    """An elementwise body under stochastic rounding: all steps of one op are one rounding, of which the elements have
    the places that they have in the operand; of other bodies each step rounds anew."""
    step, choices = body.vectorised, choices_of_body(call, body)
    assert step is not None
    if choices is None:
        return _vectorised(step, elements, is_table=False)
    codes = elements[0].format.code_dtype

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        draws = call.random.draws(call.policy)
        assert draws is not None
        totals = choices().along(starts[0].view(codes), rows[0].view(codes), draws)
        return (totals.view(elements[0].dtype),)

    return fold


#: Numbers in every order that three can have, both zeros and NaN of both signs among them.
_ORDERS = (-1.0, -0.0, 0.0, 1.0, 2.0, 4.0, np.nan, -np.nan)
#: Combinations that are tried at most, when a body is bound: a limit of time.
_MOST_TRIED = 1 << 20


def _is_associative(step: Step, elements: Sequence[ElementType]) -> bool:
    """Whether a body that chooses by comparisons gives the same for all ways to set brackets.

    What it chooses depends on the order of its arguments alone, so all orders of three are a proof.
    """
    choices = [_every_order(e) for e in elements]
    count = math.prod(map(len, choices))
    if 0 in map(len, choices) or count**3 > _MOST_TRIED:
        return False
    places = np.indices([count] * 3).reshape(3, -1)
    laid = [c.reshape(-1) for c in np.meshgrid(*choices, indexing="ij")]
    a, b, c = (tuple(v[p] for v in laid) for p in places)
    with np.errstate(all="ignore"):
        left, right = step(*step(*a, *b), *c), step(*a, *step(*b, *c))
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(left, right, strict=True))


def _every_order(element: ElementType) -> np.ndarray:
    """Elements of a type in every order that three can have. Empty for types whose elements are in none."""
    if element.kind is Kind.BOOL:
        return np.array([False, True])
    if element.is_integer:
        return np.array([-1, 0, 1] if element.kind is Kind.SIGNED else [0, 1, 2]).astype(element.dtype)
    return np.array(_ORDERS if element.is_float else ()).astype(element.dtype)


def _by_key(step: Step, elements: Sequence[ElementType]) -> Fold:
    """An associative body that chooses: among the elements with the largest key alone, if it has one."""
    halves = _by_halves(step)
    key = key_of(step, elements, [_every_order(e) for e in elements])
    if key is None:
        return halves

    def fold(scalar: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return choose(key, step, elements[key.place], starts, rows, lambda s, r: halves(scalar, s, r))

    return fold


def _by_halves(step: Step, is_drawn: bool = False) -> Fold:
    """Neighbours in pairs, and the pairs in pairs. An associative body gives the results of the steps in order.

    What is rounded by random numbers is not cut into parts: each step draws for all pairs at once.
    """

    def joined(values: tuple[np.ndarray, ...], levels: int) -> tuple[np.ndarray, ...]:
        for _ in range(levels):
            length = len(values[0])
            if length == 1:
                break
            pairs = step(*(v[: length - 1 : 2] for v in values), *(v[1::2] for v in values))
            pairs = tuple(np.broadcast_to(p, (length // 2, *v.shape[1:])) for p, v in zip(pairs, values, strict=True))
            if length % 2:
                pairs = tuple(np.concatenate((p, v[-1:])) for p, v in zip(pairs, values, strict=True))
            values = pairs
        return values

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        steps, width = rows[0].shape
        if steps >= 2 * _PART and not is_drawn:
            # The first levels of all parts, so that the rest is a short row.
            short = [np.empty((-(-steps >> _LEVELS), width), s.dtype) for s in starts]

            def shorten(place: tuple[int, int]) -> None:
                first, column = place
                done = joined(tuple(x[first : first + _PART, column : column + 1] for x in rows), _LEVELS)
                for out, part in zip(short, done, strict=True):
                    out[first >> _LEVELS : (first >> _LEVELS) + len(part), column : column + 1] = part

            for_each([(i, j) for j in range(width) for i in range(0, steps, _PART)], shorten, steps * width)
            rows, steps = short, len(short[0])
        results = tuple(np.empty(width, s.dtype) for s in starts)

        def work(part: tuple[slice, ...]) -> None:
            values = joined(tuple(x[:, *part] for x in rows), steps.bit_length())
            for result, total in zip(results, step(*(s[part] for s in starts), *(v[0] for v in values)), strict=True):
                result[part] = total

        if is_drawn:
            work((slice(0, width),))
        else:
            for_each(list(blocks((width,), max(tuning().reduce_block // steps, 1))), work, steps * width)
        return results

    return fold


def _apart(folds: Sequence[tuple[Fold, Body]]) -> Fold:
    """Accumulators that have nothing to do with each other, each by a fold of its own."""

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(
            run(part.vectorised, (start,), (x,))[0]  # pyright: ignore[reportArgumentType]
            for (run, part), start, x in zip(folds, starts, rows, strict=True)
        )

    return fold


def _one_by_one(step: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Any body at all, on scalars."""
    results = [np.empty(s.shape, s.dtype) for s in starts]
    for i in range(len(starts[0])):
        totals = tuple(s[i, ...] for s in starts)
        for cells in zip(*(_cells(x[:, i]) for x in rows), strict=True):
            totals = step(*totals, *cells)
        for result, total in zip(results, totals, strict=True):
            result[i] = total
    return tuple(results)


def _cells(x: np.ndarray) -> list[np.ndarray]:
    """The elements as arrays of rank 0: the scalars of ml_dtypes' types are not what kernels take."""
    return [x[i, ...] for i in range(len(x))]
