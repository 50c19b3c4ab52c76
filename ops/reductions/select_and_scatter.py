"""Scatters to the element that is selected in each window of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..cast import cast
from ..op import BY_BODY, Call, Run, op
from ..require import require, require_shape
from ..traits import OpTraits
from ..types import Kind, TensorType
from .axes import Axis, windows
from .folds import body_elements
from .scatter_update import scatter_update
from .window import Axes, axes_of_call, body_of, window_runs

Shape = tuple[int, ...]
Select = Callable[..., tuple[Any, ...]]
#: An element of each window, and its flat index in the operand: -1 for padding.
Step = tuple[np.ndarray, np.ndarray]


@op(
    "select_and_scatter",
    values="regions",
    accuracy=BY_BODY,
    operands=3,
    traits=OpTraits(is_pure=True, folds=True, body_runs=window_runs),
)
def select_and_scatter(call: Call) -> Run:
    """Each source goes to the element selected in its window of the operand, and is combined there by a body.

    The first element of a window is the selected one until it loses to a later one, in row-major order; padding is
    never selected, and the source of a window without any other element goes nowhere. Sources of one element are
    combined, after the initial value, in their order.

    (C1, C3) One element type for operand, source and the scalar initial value. (C2) The source has an element for each
    window. (C4, C6, C8) A number, or pair for padding, for each dimension. (C5, C7) which are positive. (C9) select
    takes two scalars and gives an i1. (C10) scatter takes and gives scalars. (C11, C12) The result has the operand's
    shape and scatter's element type.
    """
    operand, source, init = (call.tensor(i) for i in range(3))
    selects, scatters = body_of(call, 0), body_of(call, 1)
    (element,) = body_elements(scatters, 1)
    scalar = TensorType((), operand.element)
    require(source.element == operand.element, f"source is {source} (expected of {operand.element})")
    require(init == scalar, f"init_value is {init} (expected {scalar})")
    is_choice = (
        len(selects.results) == 1 and isinstance(r := selects.results[0], TensorType) and r.element.kind is Kind.BOOL
    )
    require(is_choice and selects.arguments == (scalar, scalar), f"select must take two {scalar} and give a tensor<i1>")
    require(call.result().element == element, f"the result is {call.result()} (expected of {element})")
    require_shape(call, operand.shape)
    axes_of = axes_of_call(call, len(operand.shape))
    if operand.is_static and source.is_static:
        expected = tuple(a.count for a in axes_of(call.operand_shape()))
        require(source.shape == expected, f"source is {source} (should have shape {list(expected)})")
    apply, step = scatter_update(call, scatters), selects.vectorised

    def kernel(regions: tuple[Select, ...], *values: np.ndarray) -> np.ndarray:
        x, sources, init = values
        axes = axes_of(x.shape)
        if operand.element != element:
            sources, init = (cast(v, operand.element, element, call.policy) for v in (sources, init))
        chosen = chosen_places(step or regions[0], x, axes, is_vectorised=step is not None).reshape(-1)
        there = np.flatnonzero(chosen >= 0)
        result = np.full(x.size, init, element.dtype)
        apply(regions[1], (result,), chosen[there], (sources.reshape(-1).take(there),))
        return result.reshape(x.shape)

    return kernel


def chosen_places(select: Select, x: np.ndarray, axes: Axes, is_vectorised: bool = True) -> np.ndarray:
    """The flat index of the element selected in each window, -1 where it has none but padding.

    `select` takes the best elements so far and the next ones: arrays, or scalars where it is not vectorised.
    """
    keeps = select if is_vectorised else _one_by_one(select)
    if all(a.window <= a.size for a in axes):
        places = windows(np.arange(x.size).reshape(x.shape), -1, axes)
        window, shape = places.shape[: len(axes)], places.shape[len(axes) :]
        elements = windows(x, 0, axes)
        steps = ((elements[index], places[index]) for index in np.ndindex(window))
        return _chosen(keeps, steps, shape, x.dtype)
    shape = tuple(a.count for a in axes)
    if 0 in shape or not x.size:
        return np.full(shape, -1)
    # A larger window has padding: step through the elements that it holds, once for windows that hold the same.
    distinct = [np.unique(_held(a), axis=1, return_inverse=True) for a in axes]
    held = [pairs for pairs, _ in distinct]
    chosen = _chosen(keeps, _by_element(x, held), tuple(pairs.shape[1] for pairs in held), x.dtype)
    return chosen[np.ix_(*(which.reshape(-1) for _, which in distinct))]


def _chosen(select: Select, steps: Iterator[Step], shape: Shape, dtype: np.dtype[Any]) -> np.ndarray:
    best, at = np.zeros(shape, dtype), np.full(shape, -1)
    for candidates, there in steps:
        wins = (there >= 0) & ((at < 0) | ~np.asarray(select(best, candidates)[0]))
        best, at = np.where(wins, candidates, best), np.where(wins, there, at)
    return at


def _by_element(x: np.ndarray, held: Sequence[np.ndarray]) -> Iterator[Step]:
    """A step for each element that a window may hold. `held` is as `_held` gives it, for each dimension."""
    flat = x.reshape(-1)
    grids = [np.ix_(*rows) for rows in zip(*held, strict=True)]  # of the first elements, and of how many there are
    for index in np.ndindex(*(int(counts.max()) for _, counts in held)):
        place, is_held = np.zeros((), np.intp), np.ones((), np.bool_)
        for i, size, first, count in zip(index, x.shape, *grids, strict=True):
            place, is_held = place * size + first + i, is_held & (i < count)
        place = np.where(is_held, place, -1)
        yield flat[place], place


def _held(axis: Axis) -> np.ndarray:
    """For each window along a dimension the first element that it holds, and how many it holds."""
    is_small = axis.count * axis.stride + axis.window + abs(axis.low) < 1 << 62
    start = np.arange(axis.count, dtype=np.int64 if is_small else object) * axis.stride - axis.low
    first, end = (np.clip(v, 0, axis.size).astype(np.int64) for v in (start, start + axis.window))
    return np.stack([first, end - first])


def _one_by_one(select: Select) -> Select:
    """The same select for arrays, from one that takes scalars."""

    def each(best: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray]:
        pairs = zip(best.reshape(-1), candidates.reshape(-1), strict=True)
        keeps = [bool(select(np.asarray(b), np.asarray(c))[0]) for b, c in pairs]
        return (np.array(keeps, bool).reshape(best.shape),)

    return each
