"""Reductions of windows, and scatters to the elements selected in them, in the order of `ops.reductions.window`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.op import OpError
from ...ops.reductions import window
from ...ops.reductions.axes import Axis
from ..program import Operation
from .folds import Combiner, Order, to_elements
from .loops import loop
from .rewrite import Emulation
from .rules import emulates
from .scatters import update_rows
from .tensor import I32, Tensor, concatenate, constant, iota, where, write

#: Windows of up to so many elements are combined by as many operations, written one after the other.
#: tuning: maxima of 3×3 windows of 8×64×64×16 f8E4M3FN take 0.9 ms so, 22 ms by reduce_window.
_UNROLLED = 16

Axes = Sequence[Axis]


def pad(x: Tensor, value: Tensor, axes: Axes) -> Tensor:
    """Return the tensor with its padding, and the holes of dilation, around the elements that windows touch."""
    low, high, interior = [a.low for a in axes], [], [a.base_dilation - 1 for a in axes]
    for a, n in zip(axes, x.shape, strict=True):
        reach = (a.count - 1) * a.stride + (a.window - 1) * a.window_dilation + 1
        high.append(reach - a.low - (max(n - 1, 0) * a.base_dilation + (n > 0)))
    return x.pad(value, low, high, interior)


def view(x: Tensor, place: Sequence[int | Tensor], axes: Axes) -> Tensor:
    """Return the element at a place of each window of a padded tensor."""
    if any(isinstance(p, Tensor) for p in place):
        starts = [
            p * a.window_dilation if isinstance(p, Tensor) else constant(p, I32)
            for p, a in zip(place, axes, strict=True)
        ]
        x, place = x.window(starts, [(a.count - 1) * a.stride + 1 for a in axes]), [0] * len(axes)
    for d, (p, a) in enumerate(zip(place, axes, strict=True)):
        assert isinstance(p, int)
        first = p * a.window_dilation
        x = x.slice(d, first, first + (a.count - 1) * a.stride + 1, a.stride)
    return x


def places(axes: Axes) -> list[tuple[int, ...]]:
    """Return the places of a window in row-major order."""
    return list(itertools.product(*(range(a.window) for a in axes)))


@emulates("reduce_window")
def reduce_window(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Windows folded in order; large ones as prefixes or as trees, where the interpreter does so."""
    count = len(operands) // 2
    combiner, call = Combiner.of(e, operation.regions[0], count), e.call(operation)
    elements, types = combiner.elements, [v.type for v in operation.operands]
    values = to_elements(e, operands, types, elements * 2)
    if not any(t.is_minifloat for t in elements):
        return e.rewritten(operation, values, combiner.region)
    arrays, inits = values[:count], values[count:]
    axes = window.axes_of_call(call, len(arrays[0].shape))(arrays[0].shape)
    shape = [a.count for a in axes]
    starts = [i.broadcast(shape) for i in inits]
    if 0 in shape:
        return starts
    if combiner.order is not None:
        return _select(combiner, combiner.order, arrays[0], inits[0], axes)
    prefixes = _prefixes(combiner, arrays, inits, operation, axes)
    if prefixes is not None:
        return prefixes
    padded = [pad(x, i, axes) for x, i in zip(arrays, inits, strict=True)]
    if combiner.body.vectorised is not None and e.policy.rounding != "stochastic" and window.are_large(axes):
        return _fold_as_tree(combiner, padded, inits, axes)
    if combiner.is_drawn:
        rows = [concatenate([view(x, p, axes).expand(0) for p in places(axes)], 0) for x in padded]
        return combiner.fold(starts, rows)
    # All windows from the left at the same time.
    return _for_each_place(lambda p, *t: combiner.step(*t, *(view(x, p, axes) for x in padded)), starts, axes)


def _select(combiner: Combiner, order: Order, x: Tensor, init: Tensor, axes: Axes) -> list[Tensor]:
    """Return the selected element of each window by integers."""
    keys = order.keys(pad(x, init, axes), [d for d, a in enumerate(axes) if a.window > 1])
    (name, least), shape = order.choice(keys), [a.count for a in axes]
    if math.prod(a.window for a in axes) <= _UNROLLED:
        found, *others = [view(keys, p, axes) for p in places(axes)]
        for other in others:
            found = found.elementwise(name, found, other)
    else:
        sizes, strides, dilations = ([getattr(a, n) for a in axes] for n in ("window", "stride", "window_dilation"))
        found = write(
            "reduce_window", keys.element, shape, keys, constant(least, keys.element), body=name,
            window_dimensions=sizes, window_strides=strides, window_dilations=dilations,
        )  # fmt: skip
    return combiner.step(init.broadcast(shape), order.codes(combiner.e, found))


def _for_each_place(step: Callable[..., list[Tensor]], state: Sequence[Tensor], axes: Axes) -> list[Tensor]:
    """Apply `step(place, *state)` for the places of a window in order: in a loop, if they are many."""
    if math.prod(a.window for a in axes) <= _UNROLLED:
        for p in places(axes):
            state = step(p, *state)
        return list(state)

    def body(index: Tensor, *state: Tensor) -> list[Tensor]:
        place: list[Tensor] = []
        for a in reversed(axes):
            place.insert(0, index % a.window)
            index = index // a.window
        return step(place, *state)

    return loop(math.prod(a.window for a in axes), body, state)


def _prefixes(
    combiner: Combiner, arrays: Sequence[Tensor], inits: Sequence[Tensor], operation: Operation, axes: Axes
) -> list[Tensor] | None:
    """Return windows that hold all elements up to a place, or large ones from a place on, as one running fold."""
    along, compute = [d for d, a in enumerate(axes) if a != Axis(a.size, 1)], combiner.body.vectorised
    if len(along) != 1 or len(arrays) != 1 or compute is None or not arrays[0].size:
        return None
    (d,), (x,), (init,) = along, arrays, inits
    axis, reach = axes[d], axes[d].window - 1
    forward = axis == Axis(axis.size, axis.window, low=reach)
    is_large = window.are_large(axes)
    if not (forward or (axis == Axis(axis.size, axis.window, high=reach) and is_large)) or axis.window < axis.size:
        return None
    first = combiner.e.binder.constant_of(operation.operands[1])
    if first is None and (is_large or combiner.is_drawn):
        raise OpError("expected a constant as the initial value of windows that share most elements, got another one")
    if first is None or np.asarray(compute(first, first)[0]).tobytes() != first.tobytes():
        return None
    order = [d, *(i for i in range(len(x.shape)) if i != d)]
    rows = x.transpose(order)
    commutes = combiner.body.sole_op in ("stablehlo.add", "stablehlo.multiply")
    rows = rows if forward else rows.reverse(0)
    step = combiner.step if forward else lambda total, row: combiner.step(row, total)
    start, together = init.broadcast(rows.shape[1:]), combiner.rounds_once and (forward or commutes)
    _, (found,) = combiner.run([start], [rows], True, step, together)
    found = found if forward else found.reverse(0)
    return [found.transpose([order.index(i) for i in range(len(order))])]


def _fold_as_tree(combiner: Combiner, padded: Sequence[Tensor], inits: Sequence[Tensor], axes: Axes) -> list[Tensor]:
    """Return windows by folds of 1, 2, 4, ... neighbours, the last dimension first."""
    parts = list(padded)
    for d in reversed(range(len(axes))):
        parts = window.fold_along(
            lambda *v: tuple(combiner.step(*v)), [_arrange(p, d, axes[d]) for p in parts], d, axes[d]
        )
    return combiner.step(*(i.broadcast(parts[0].shape) for i in inits), *parts)


def _arrange(x: Tensor, d: int, axis: Axis) -> Tensor:
    """Return a padded tensor with a dimension as `Axis.layout` says."""
    if axis.layout[3]:
        return x
    starts = [w * axis.window_dilation for w in range(axis.window)]
    views = [x.slice(d, s, s + (axis.count - 1) * axis.stride + 1, axis.stride).expand(d + 1) for s in starts]
    return concatenate(views, d + 1).reshape([*x.shape[:d], axis.count * axis.window, *x.shape[d + 1 :]])


@emulates("select_and_scatter")
def select_and_scatter(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The place of the selected element of each window; then its source is combined there, in order."""
    x, source, init = operands
    select, scatter = e.prepare(operation.regions[0]), Combiner.of(e, operation.regions[1])
    axes = window.axes_of_call(e.call(operation), len(x.shape))(x.shape)
    types = [v.type for v in operation.operands]
    source, init = to_elements(e, [source, init], types[1:], scatter.elements * 2)
    result = init.broadcast((x.size,))
    shape = tuple([a.count for a in axes])
    if 0 in shape or not x.size:
        return [result.reshape(x.shape)]
    values = pad(x, constant(0, x.element), axes)
    indices = pad(iota(I32, (x.size,)).reshape(x.shape), constant(-1, I32), axes)
    best, chosen = constant(0, x.element, shape), constant(-1, I32, shape)

    def step(place: Sequence[int | Tensor], best: Tensor, chosen: Tensor) -> list[Tensor]:
        candidate, index = view(values, place, axes), view(indices, place, axes)
        (stays,) = e.apply(select, [best, candidate])
        stays = stays if stays.shape == shape else stays.broadcast(shape)
        wins = (~stays | (chosen < 0)) & (index >= 0)
        return [where(wins, candidate, best), where(wins, index, chosen)]

    _, chosen = _for_each_place(step, [best, chosen], axes)
    found = update_rows(scatter, [result], chosen.reshape((source.size,)), [source.reshape((source.size,))])
    return [found[0].reshape(x.shape)]
