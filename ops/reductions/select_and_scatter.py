"""Scatters to the element that is selected in each window of a tensor."""

from __future__ import annotations

import math

import numpy as np

from ..cast import cast
from ..op import Call, Run, op
from ..require import on_arrays, require, require_shape
from ..traits import OpTraits
from ..types import ELEMENT_TYPES, TensorType
from .axes import Axis
from .folds import Step, body_elements
from .scatter_update import scatter_update
from .window import Axes, axes_of_call, body_of, window_runs


@op(
    "select_and_scatter", values="regions", operands=3, traits=OpTraits(is_pure=True, folds=True, body_runs=window_runs)
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
    fits = selects.arguments == (scalar, scalar) and selects.results == (TensorType((), ELEMENT_TYPES["i1"]),)
    require(fits, f"select must take two {scalar} and give a tensor<i1>")
    require(call.result().element == element, f"the result is {call.result()} (expected of {element})")
    require_shape(call, operand.shape)
    axes_of = axes_of_call(call, len(operand.shape))
    if operand.is_static and source.is_static:
        expected = tuple(a.count for a in axes_of(call.operand_shape()))
        require(source.shape == expected, f"source is {source} (should have shape {list(expected)})")
    apply, step = scatter_update(call, scatters), selects.vectorised

    def kernel(regions: tuple[Step, ...], *values: np.ndarray) -> np.ndarray:
        x, sources, init = map(np.asarray, values)
        axes = axes_of(x.shape)
        sources, init = (cast(v, operand.element, element, call.policy) for v in (sources, init))
        chosen = chosen_places(step or on_arrays(regions[0], bool), x, axes).reshape(-1)
        there = np.flatnonzero(chosen >= 0)
        result = np.full(x.size, init, element.dtype)
        apply(regions[1], (result,), chosen[there], (sources.reshape(-1).take(there),))
        return result.reshape(x.shape)

    return kernel


def chosen_places(select: Step, x: np.ndarray, axes: Axes) -> np.ndarray:
    """The flat index of the element selected in each window, -1 where it has none but padding.

    `select` takes arrays of the best elements so far and of the next ones.
    """
    counts = tuple([a.count for a in axes])
    if 0 in counts or not x.size:
        return np.full(counts, -1)
    firsts, held, kinds = zip(*map(_held_elements, axes), strict=True) if axes else ((), (), ())
    shape, most = tuple(map(len, firsts)), tuple([int(h.max()) for h in held])
    best, chosen = np.zeros(shape, x.dtype), np.zeros(shape, np.min_scalar_type(math.prod(most)))
    # The first element that each window holds, then the second, and so on; `chosen` counts them from 1.
    for number, index in enumerate(np.ndindex(most), 1):
        places = [np.minimum(f + i, n - 1) for f, i, n in zip(firsts, index, x.shape, strict=True)]
        candidates = x[(*np.ix_(*places), ...)]
        wins = ~np.asarray(select(best, candidates)[0]) | (chosen == 0)
        is_held = [i < h for i, h in zip(index, held, strict=True)]
        for part in np.meshgrid(*is_held, indexing="ij", sparse=True):
            wins = wins & part
        best = np.where(wins, candidates, best)
        chosen = np.maximum(chosen, wins * chosen.dtype.type(number))
    if 0 in most:
        return np.full(counts, -1)
    # From the number of an element in its window to its place in the operand.
    places, has_none = np.zeros((), np.intp), chosen == 0
    for i, first, size in zip(np.unravel_index(chosen - ~has_none, most), np.ix_(*firsts), x.shape, strict=True):
        places = places * size + first + i
    return np.where(has_none, -1, places)[np.ix_(*kinds)]


def _held_elements(axis: Axis) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The elements in windows along a dimension, without padding.

    Returns:
        The first element and the number of elements of each kind of windows that hold the same, and for each window the
        number of its kind.
    """
    is_small = axis.count * axis.stride + axis.window + abs(axis.low) < 1 << 62
    start = np.arange(axis.count, dtype=np.int64 if is_small else object) * axis.stride - axis.low
    first, end = (np.clip(v, 0, axis.size).astype(np.int64) for v in (start, start + axis.window))
    is_new = np.concatenate(([True], (first[1:] != first[:-1]) | (end[1:] != end[:-1])))
    return first[is_new], (end - first)[is_new], np.cumsum(is_new) - 1
