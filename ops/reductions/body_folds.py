"""Folds of bodies of several operations: step by step, by a table, in pairs, or by a key."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..engine.blocks import blocks, for_each
from ..engine.speed import tuning
from ..engine.stochastic import Choices
from ..engine.stochastic_runs import Steps
from ..engine.transitions import TransitionTable
from ..op import Body, Call, lookup
from ..types import ElementType, Kind, TensorType
from .choosing import choose, key_of
from .fold import Fold, Step

#: `_PART` elements of a row are combined to `_PART >> _LEVELS` while they are in the cache. Rows are cut at
#: multiples of a power of two, so that the order of the steps is the same as without parts.
_PART, _LEVELS = 1 << 15, 9


def by_steps(step: Step, elements: list[ElementType], is_table: bool = True) -> Fold:
    """Fold any elementwise body, one slice at a time; bodies of one minifloat by a transition table, where it pays."""
    transitions = None
    if is_table and len(elements) == 1 and elements[0].is_minifloat:
        transitions = TransitionTable(lambda total, element: step(total, element)[0], elements[0], elements[0])

    def fold(scalar: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        steps, width = rows[0].shape
        if transitions is not None and transitions.is_worth(steps, width):
            totals = transitions.along(starts[0].view(np.uint8), rows[0].view(np.uint8))
            return (totals.view(elements[0].dtype),)
        if width == 1:
            return one_by_one(scalar, starts, rows)
        totals = tuple(starts)
        for slices in zip(*map(np.ascontiguousarray, rows), strict=True):
            totals = step(*totals, *slices)
        return tuple(np.broadcast_to(t, width) for t in totals)

    return fold


def choices_of_body(call: Call, body: Body) -> Callable[[], Choices | Steps] | None:
    """The stochastic rounding of a body of one op of two floats of up to 16 bits; None for other bodies."""
    if call.policy.rounding != "stochastic" or body.sole_op is None or len(body.results) != 1:
        return None
    record, t = lookup(body.sole_op), body.results[0]
    if record is None or not isinstance(t, TensorType) or not (t.element.is_float and t.element.bits <= 16):
        return None
    return record.kernel(call.like(body.sole_op, (t, t), (t,))).choices


def drawn(call: Call, body: Body, elements: list[ElementType]) -> Fold:
    """Fold an elementwise body under stochastic rounding.

    Where the body is a single op, the random numbers belong to the elements of the operand. Other bodies draw new
    numbers in each step.
    """
    step, choices = body.vectorised, choices_of_body(call, body)
    assert step is not None
    if choices is None:
        return by_steps(step, elements, is_table=False)
    codes = elements[0].format.code_dtype

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        draws = call.random.draws(call.policy)
        assert draws is not None
        totals = choices().along(starts[0].view(codes), rows[0].view(codes), draws)
        return (totals.view(elements[0].dtype),)

    return fold


#: Numbers in every order that three can have, both zeros and NaN of both signs among them.
_ORDERS = (-1.0, -0.0, 0.0, 1.0, 2.0, 4.0, np.nan, -np.nan)
#: The largest number of combinations to try: it limits the time that binding a body takes.
_MOST_TRIED = 1 << 20


def is_associative(step: Step, elements: Sequence[ElementType]) -> bool:
    """Whether a body that selects by comparisons is associative, bit for bit.

    What it selects depends only on the order of its arguments, so it is enough to try all orders of three.
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


def by_key(step: Step, elements: Sequence[ElementType]) -> Fold:
    """Fold an associative body that selects: only the elements with the largest key, if it has a key."""
    halves = by_halves(step)
    key = key_of(step, elements, [_every_order(e) for e in elements])
    if key is None:
        return halves

    def fold(scalar: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return choose(key, step, elements[key.place], starts, rows, lambda s, r: halves(scalar, s, r))

    return fold


def by_halves(step: Step, is_drawn: bool = False) -> Fold:
    """Combine neighbours in pairs, and the pairs in pairs. For an associative body this equals the steps in order.

    Under stochastic rounding (`is_drawn`) rows are not cut into parts, as each step draws for all pairs at once.
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


def separate(folds: Sequence[tuple[Fold, Body]]) -> Fold:
    """Fold accumulators that do not depend on each other, each by a fold of its own."""

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(
            run(part.vectorised, (start,), (x,))[0]  # pyright: ignore[reportArgumentType]
            for (run, part), start, x in zip(folds, starts, rows, strict=True)
        )

    return fold


def one_by_one(step: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Fold any body, called with scalars."""
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
