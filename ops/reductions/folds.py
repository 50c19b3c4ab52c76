"""Folds: the body of a reduction applied along the first axis of arrays, from initial values.

The specification lets an implementation choose the order: any binary tree over the elements in their order. A fold goes
step by step, `accumulator = body(accumulator, element)`, each step rounded to the body's element type, or in any order
that gives the same bits. The folds of `long_fold_of` combine neighbours in pairs instead; see `PAIRS_FROM`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..cast import wrap
from ..op import Body, Call, OpError, kernel_of, lookup
from ..ordering import is_nan, of_total_keys, total_keys
from ..tables import Tabulated
from ..traits import Combining, Run
from ..types import ElementType, Kind, TensorType

#: Takes and returns tuples of arrays: the accumulators and then the elements in, the new accumulators out.
Step = Callable[..., tuple[Any, ...]]
#: Takes the region, which is called with scalars; the first accumulators, of shape (columns,); and the elements, of
#: shape (steps, columns), neither of which is 0. Gives the last accumulators.
Fold = Callable[[Step, Sequence[np.ndarray], Sequence[np.ndarray]], tuple[np.ndarray, ...]]

#: From this number of elements on, a body of several ops combines neighbours in pairs, and the pairs in pairs; last,
#: the initial value with the result (`Body.pairs`). It decides how floats are rounded.
PAIRS_FROM = 32


def body_elements(body: Body, count: int) -> list[ElementType]:
    """The element types of a reduction's body over `count` values. Raises OpError where it is no such body."""
    types = [t for t in (*body.arguments, *body.results) if isinstance(t, TensorType) and t.shape == ()]
    elements = [t.element for t in types[2 * count :]]
    if len(body.results) != count or [t.element for t in types] != elements * 3:
        raise OpError(f"the body has type {body} (expected one that takes {2 * count} scalars and returns {count})")
    return elements


def fold_of(call: Call, body: Body) -> Fold:
    """The fold of a body in order."""
    elements, step = _elements(body), body.vectorised
    if len(elements) == 1:
        fold = _fold_of_op(call, body, elements[0])
        if fold is not None:
            return fold
    if step is None:
        return _fold_elements
    if call.policy.rounding == "stochastic":
        return _fold_with_draws(call, body, step)
    if body.parts:
        return _fold_separately(call, body, fold_of)
    if len(elements) == 1 and elements[0].is_minifloat and call.tables:
        return _fold_by_table(call, body, elements[0])
    return _fold_by_steps(step)


def long_fold_of(call: Call, body: Body) -> Fold:
    """The fold of a body over at least `PAIRS_FROM` elements."""
    is_drawn, elements = call.policy.rounding == "stochastic", _elements(body)
    if body.vectorised is None or not body.pairs or (len(elements) == 1 and elements[0].is_minifloat and not is_drawn):
        return fold_of(call, body)
    if body.parts and not is_drawn:
        return _fold_separately(call, body, long_fold_of)
    return fold_by_halves(body.vectorised)


def _elements(body: Body) -> list[ElementType]:
    return [t.element for t in body.results if isinstance(t, TensorType)]


def combining_of(body: Body) -> Combining | None:
    """The traits of a body that is a single op of two operands; None where there are none."""
    record = lookup(body.sole_op) if body.sole_op else None
    return None if record is None else record.traits.combining


def ufunc_of(call: Call, body: Body, element: ElementType) -> np.ufunc | None:
    """A body of a single op as numpy's function that gives its bits step by step; None where there is none."""
    combining = combining_of(body)
    if combining is None:
        return None
    if element.kind is Kind.BOOL:
        return combining.of_booleans or combining.ufunc
    if not _is_inexact(element):
        return combining.ufunc
    is_rounded_so = element.is_complex or element.bits >= 32 or call.policy.rounding == "nearest_even"
    return combining.ufunc if combining.on_floats and is_rounded_so and not element.is_minifloat else None


def _is_inexact(element: ElementType) -> bool:
    return element.is_float or element.is_complex


def rounds_once(call: Call, body: Body) -> bool:
    """Whether all steps of a fold count as one rounding, whose draws belong to the elements of the operand."""
    (element, *others) = _elements(body)
    is_narrow = element.is_float and element.bits <= 16 and not others
    return call.policy.rounding == "stochastic" and body.sole_op is not None and is_narrow


def _fold_of_op(call: Call, body: Body, element: ElementType) -> Fold | None:
    """The fold of a body that is an op of numpy, or that gives the larger or the smaller float; None of others."""
    combining, ufunc = combining_of(body), ufunc_of(call, body, element)
    if combining is not None and combining.largest is not None and _is_inexact(element):
        exact = _function_of_op(call, body, element)
        by_halves = fold_by_halves(lambda x, y: (exact(x, y),))
        return by_halves if element.is_complex else _fold_extreme(element, combining.largest, exact, by_halves)
    if combining is None or ufunc is None:
        return None
    if _is_inexact(element):
        return lambda _, starts, rows: (_fold_in_order(ufunc, starts[0], rows[0]),)
    wide = element.working_dtype

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        start, x = (v.astype(wide, copy=False) for v in (starts[0], rows[0]))
        total = (
            ufunc(start, ufunc.reduce(x, axis=0, dtype=wide))
            if combining.any_order
            else _fold_in_order(ufunc, start, x)
        )
        return (wrap(total, element) if wide != element.dtype else total,)

    return fold


def _fold_extreme(element: ElementType, largest: bool, exact: Run, by_halves: Fold) -> Fold:
    """Find the largest or smallest float of each column by numbers or integers; where these leave it open by halves."""
    choose = np.maximum if largest else np.minimum

    def fold(region: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        if element.bits >= 32:
            found = choose.reduce(rows[0], axis=0)
            is_open = (found == 0) | (found != found)  # numpy takes either of two zeros
        else:  # NaN is above all numbers of its sign
            keys = _in_its_layout(lambda x: total_keys(x, element), rows[0])
            low, high = (of_total_keys(f.reduce(keys, axis=0), element) for f in (np.minimum, np.maximum))
            found, is_open = high if largest else low, is_nan(low, element) | is_nan(high, element)
        result, left = np.array(exact(starts[0], found)), np.flatnonzero(is_open)
        if left.size:
            some = [np.ascontiguousarray(x[..., left]) for x in (starts[0], rows[0])]
            result[left] = by_halves(region, some[:1], some[1:])[0]
        return (result,)

    return fold


def _in_its_layout(function: Run, x: np.ndarray) -> np.ndarray:
    """The elements of an array by themselves, in an array that lies in memory as it does."""
    return function(x.T).T if x.flags.f_contiguous else function(x)


def _function_of_op(call: Call, body: Body, element: ElementType) -> Run:
    """The kernel of the single op of a body on arrays."""
    t = TensorType((None, None), element)
    return kernel_of(call.like(body.sole_op or "", (t, t), (t,), **body.sole_attributes))


def _fold_in_order(ufunc: np.ufunc, start: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Step by step: numpy's reduction would sum a single column in pairs.

    Its running products of complex numbers are rounded in other ways than those of arrays.
    """
    (steps, width), is_complex = rows.shape, rows.dtype.kind == "c"
    use = np.empty((steps + 1, max(width, 1 + is_complex)), rows.dtype)
    use[0], use[1:] = start, rows
    if width == 1 and not is_complex:
        return ufunc.accumulate(use, axis=0, out=use)[-1]
    if ufunc is np.add:  # whose own initial value would change a sum of -0
        return ufunc.reduce(use, axis=0, initial=-use.dtype.type(0))[:width]
    return ufunc.reduce(use, axis=0)[:width]


def _fold_by_table(call: Call, body: Body, element: ElementType) -> Fold:
    """Fold a body of one minifloat by the table of its results for all pairs of codes."""
    table = pair_table(call, body, element)

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return broadcast_like([table.fold(starts[0], np.ascontiguousarray(rows[0]))], starts)

    return fold


def pair_table(call: Call, body: Body, element: ElementType, swaps: bool = False) -> Tabulated:
    """The next accumulator for each accumulator and element; with `swaps` the body takes the element first."""
    step, function = body.vectorised, None
    assert step is not None
    if swaps:
        return Tabulated(lambda total, x: step(x, total)[0], (element, element), element.dtype)
    if body.sole_op is not None:  # it has a table already, for all of its uses
        function = _function_of_op(call, body, element)
    is_table = isinstance(function, Tabulated)
    return function if is_table else Tabulated(lambda total, x: step(total, x)[0], (element, element), element.dtype)


def _fold_by_steps(step: Step) -> Fold:
    """Fold any elementwise body, one row at a time."""

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        totals = tuple(starts)
        for row in zip(*map(np.ascontiguousarray, rows), strict=True):
            totals = step(*totals, *row)
        return broadcast_like(totals, starts)

    return fold


def _fold_with_draws(call: Call, body: Body, step: Step) -> Fold:
    """Fold an elementwise body under stochastic rounding; see `rounds_once`."""
    fold, is_one = _fold_by_steps(step), rounds_once(call, body)

    def run(region: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        with call.random.one_rounding(call.policy) if is_one else contextlib.nullcontext():
            return fold(region, starts, rows)

    return run


def fold_by_halves(step: Step) -> Fold:
    """Combine neighbours in pairs, and the pairs in pairs. For an associative body this equals the steps in order."""

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        values = tuple(rows)
        while (length := len(values[0])) > 1:
            first, second = ([v[i : length // 2 * 2 : 2] for v in values] for i in (0, 1))
            pairs = broadcast_like(step(*first, *second), first)
            values = tuple(np.concatenate((p, v[-1:])) if length % 2 else p for p, v in zip(pairs, values, strict=True))
        return broadcast_like(step(*starts, *(v[0] for v in values)), starts)

    return fold


def broadcast_like(results: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a step in the shape of its operands: a constant has no dimensions."""
    pairs = zip(results, operands, strict=True)
    return tuple([r if getattr(r, "shape", ()) == x.shape else np.broadcast_to(r, x.shape) for r, x in pairs])


def _fold_separately(call: Call, body: Body, fold_of_part: Callable[[Call, Body], Fold]) -> Fold:
    """Fold accumulators that do not depend on each other, each by a fold of its own."""
    folds = [(fold_of_part(call, part), part.vectorised) for part in body.parts]

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        parts = zip(folds, starts, rows, strict=True)
        return tuple([run(step, (start,), (x,))[0] for (run, step), start, x in parts])  # type: ignore[arg-type]

    return fold


def _fold_elements(region: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Fold any body, called with scalars."""
    results = [np.empty(s.shape, s.dtype) for s in starts]
    for i in range(len(starts[0])):
        # With the ellipsis an element is an array: the scalars of ml_dtypes' types are not what kernels take.
        totals = tuple([s[i, ...] for s in starts])
        for j in range(len(rows[0])):
            totals = region(*totals, *(x[j, i, ...] for x in rows))
        for result, total in zip(results, totals, strict=True):
            result[i] = total
    return tuple(results)
