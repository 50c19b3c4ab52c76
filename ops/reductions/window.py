"""Windows that slide over a tensor, and reductions of each.

To fold each window by itself takes as many steps as all windows have elements. Two methods take fewer:

- Windows that hold all elements up to a place (`jnp.cumsum`) are the intermediate results of one fold from the left,
  bit for bit. Large ones that hold all elements from a place on are those of a fold from the right, which begins with
  the last element and the initial value.
- Other large windows that overlap are combined from folds of 1, 2, 4, ... neighbours: a tree over the elements of a
  window in their order. The specification leaves the order open (StableHLO 1.10, `reduce_window` and `reduce`). A body
  whose rounding depends on the order gives other bits than the fold from the left, as with any compiler.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..cast import cast, wrap
from ..op import Body, Call, Run, op
from ..ordering import is_nan, of_total_keys, total_keys
from ..require import require, require_shape, unpack
from ..traits import OpTraits, Shapes
from ..types import ElementType, TensorType
from .axes import Axis, Shape, pad_windows, windows
from .folds import (
    Fold,
    Step,
    body_elements,
    broadcast_like,
    combining_of,
    fold_of,
    pair_table,
    rounds_once,
    ufunc_of,
)

Axes = Sequence[Axis]
Values = Sequence[np.ndarray]

#: Windows of more elements than the first number are combined from what they share, if all windows together have at
#: least the second number times as many elements as the operand. Others are folded from the left. These decide the
#: order of rounding, and so the results.
_LARGE, _OVERLAP = 128, 4


def integers_or(call: Call, name: str, default: Sequence[int]) -> Shape:
    """An attribute as a list of integers; the default where it is absent. Raises OpError for another length."""
    numbers = call.integers(name) if name in call.attributes else tuple(default)
    require(len(numbers) == len(default), f"{name} {list(numbers)} must have {len(default)} numbers")
    return numbers


def positive_lists(call: Call, names: Sequence[str], rank: int) -> list[Shape]:
    """Attributes of a number above zero for each dimension; ones where absent. Raises OpError for other numbers."""
    lists = [integers_or(call, name, (1,) * rank) for name in names]
    for name, values in zip(names, lists, strict=True):
        require(all(v > 0 for v in values), f"expected positive {name}, got {list(values)}")
    return lists


def axes_of_call(call: Call, rank: int) -> Callable[[Shape], tuple[Axis, ...]]:
    """A function that gives the windows along each dimension of a tensor of a given shape."""
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    window, strides, base, dilations = positive_lists(call, names, rank)
    padding = integers_or(call, "padding", (0,) * (2 * rank))
    rest = tuple(zip(window, strides, padding[::2], padding[1::2], base, dilations, strict=True))
    return functools.lru_cache(lambda shape: tuple([Axis(n, *others) for n, others in zip(shape, rest, strict=True)]))


def window_runs(_: Shapes, results: Shapes, attributes: Mapping[str, Any]) -> float:
    """How often the body runs: for each window one time less than it has elements."""
    window = math.prod(np.ravel(attributes.get("window_dimensions", 1)).tolist())
    return math.prod(results[0]) * max(window - 1, 1)


@op("reduce_window", values="regions", traits=OpTraits(is_pure=True, folds=True, linear=range, body_runs=window_runs))
def reduce_window(call: Call) -> Run:
    """Each result is a window of the operand folded by a body: the initial value with the first element, and so on.

    Windows are folded in row-major order, one step after the other; padding and the holes of dilation are initial
    values too.

    (C1) As many inputs as initial values and results. (C2) One shape for all inputs. (C3) Initial values are scalars of
    the inputs' types. (C4, C6, C8, C10, C12) A number, or pair for padding, for each dimension. (C5, C7, C9, C11)
    Sizes, strides and dilations are positive. (C13) The body takes and gives scalars. (C14 to C16) The results have one
    shape, which the windows determine, and the body's element types.
    """
    count = len(call.operands) // 2
    fits = count and len(call.operands) == 2 * count
    require(fits, f"expected inputs and as many initial values, got {len(call.operands)} operands")
    inputs, inits = ([call.tensor(i + first) for i in range(count)] for first in (0, count))
    body = body_of(call, 0)
    elements = body_elements(body, count)
    require(len(call.results) == count, f"has {len(call.results)} results (expected {count})")
    results = [call.result(i) for i in range(count)]
    for x, init, result, element in zip(inputs, inits, results, elements, strict=True):
        require(x.shape == inputs[0].shape, f"inputs {x} and {inputs[0]} differ in shape")
        require(init == TensorType((), x.element), f"an initial value is {init} (expected tensor<{x.element}>)")
        require(result == TensorType(results[0].shape, element), f"a result is {result} (expected of {element})")
    axes_of = axes_of_call(call, len(inputs[0].shape))
    if inputs[0].is_static:
        require_shape(call, tuple(a.count for a in axes_of(call.operand_shape())))
    fold, step, sources = fold_of(call, body), body.vectorised, [t.element for t in inputs] * 2
    prefixes = _prefixes_of(call, body, elements[0]) if step is not None and count == 1 else None
    combining = combining_of(body) if count == 1 and elements[0].is_minifloat else None
    largest = None if combining is None else combining.largest
    # Under stochastic rounding all steps are of one fold, so that elements are rounded together.
    together = None if call.policy.rounding == "stochastic" else step

    def kernel(regions: tuple[Step, ...], *values: np.ndarray) -> Any:
        pairs = zip(values, sources, elements * 2, strict=True)
        values = tuple([np.asarray(cast(v, s, e, call.policy)) for v, s, e in pairs])
        arrays, inits, axes = values[:count], values[count:], axes_of(values[0].shape)
        folded = prefixes(arrays[0], inits[0], axes) if prefixes is not None else None
        if folded is None:
            call.reserve(TensorType(tuple([a.layout[0] for a in axes]), elements[0]))  # with the padding
        if folded is None and largest is not None:
            folded = _extremes(np.maximum if largest else np.minimum, elements[0], arrays[0], inits[0], axes)
        if folded is None:
            folded = _fold_windows(fold, regions[0], together, arrays, inits, axes)
        return unpack(folded)

    return kernel


def _extremes(
    choose: np.ufunc, element: ElementType, x: np.ndarray, init: np.ndarray, axes: Axes
) -> tuple[np.ndarray, ...] | None:
    """The largest or smallest number of each window, by keys in the total order. None where there is a NaN."""
    keys, first = total_keys(x, element), total_keys(init, element)
    ends = np.stack([first, *(f.reduce(keys, axis=None, initial=int(first)) for f in (np.minimum, np.maximum))])
    if is_nan(of_total_keys(ends, element), element).any():  # NaN is beyond all numbers
        return None

    def fold(_: Any, starts: Values, rows: Values) -> tuple[np.ndarray]:
        return (choose(starts[0], choose.reduce(rows[0], axis=0)),)

    (found,) = _fold_windows(fold, None, lambda x, y: (choose(x, y),), [keys], [first], axes)
    return (of_total_keys(found, element),)


def _fold_windows(
    fold: Fold, region: Any, step: Step | None, arrays: Values, inits: Values, axes: Axes
) -> tuple[np.ndarray, ...]:
    """Fold windows by the methods that are not of one running fold."""
    if step is not None and are_large(axes):
        # By folds of 1, 2, 4, ... neighbours, the last dimension first.
        parts = tuple([pad_windows(x, init, axes) for x, init in zip(arrays, inits, strict=True)])
        for d in reversed(range(len(axes))):
            parts = fold_along(step, parts, d, axes[d])
        return broadcast_like(step(*inits, *parts), parts)
    return _fold_in_order(fold, region, step, arrays, inits, axes)


def _fold_in_order(
    fold: Fold, region: Step, step: Step | None, arrays: Values, inits: Values, axes: Axes
) -> tuple[np.ndarray, ...]:
    """Fold windows from the left; with a step all at the same time, if they are many."""
    views = [windows(x, init, axes) for x, init in zip(arrays, inits, strict=True)]
    window, shape = views[0].shape[: len(axes)], views[0].shape[len(axes) :]
    places, width = math.prod(window), math.prod(shape)
    if step is not None and places <= width:
        totals = tuple(inits)
        for place in np.ndindex(window):
            totals = step(*totals, *(v[(*place, ...)] for v in views))
    elif width:
        rows = [v.reshape(places, width) for v in views]
        totals = fold(region, [np.broadcast_to(init, (width,)) for init in inits], rows)
        totals = tuple([np.asarray(t).reshape(shape) for t in totals])
    else:
        totals = tuple(inits)
    return tuple([np.broadcast_to(t, shape) for t in totals])


def _prefixes_of(
    call: Call, body: Body, element: ElementType
) -> Callable[[np.ndarray, np.ndarray, Axes], tuple[np.ndarray] | None]:
    """Prefix and suffix windows along one dimension, as one running fold.

    The function gives None where windows are of another kind, or another method is to fold them.
    """
    step, combining, is_drawn = body.vectorised, combining_of(body), call.policy.rounding == "stochastic"
    assert step is not None
    ufunc, commutes = ufunc_of(call, body, element), combining is not None and combining.any_order
    if not (element.is_float or commutes) or (element.is_complex and ufunc is not np.add):
        ufunc = None  # numpy's running products of complex numbers are rounded in other ways than those of arrays
    has_tables = element.is_minifloat and call.tables and not is_drawn
    tables = [pair_table(call, body, element, swaps) for swaps in (False, True)] if has_tables else []

    def running(rows: np.ndarray, init: np.ndarray, forward: bool) -> np.ndarray | None:
        """The accumulators after each row."""
        if ufunc is not None:
            if not (forward or commutes):
                return None
            wide = element.working_dtype
            x = rows.astype(wide)
            ufunc(init.astype(wide), x[:1], out=x[:1])
            ufunc.accumulate(x, axis=0, out=x)
            return wrap(x, element) if wide != element.dtype else x
        if not (is_drawn or element.is_minifloat):
            return None
        start = np.broadcast_to(init, rows.shape[1:])
        if tables:
            tables[not forward].fold(start, rows, trail := np.empty(rows.shape, rows.dtype))
            return trail
        is_one = rounds_once(call, body) and (forward or commutes)
        with call.random.one_rounding(call.policy) if is_one else contextlib.nullcontext():
            totals = np.empty(rows.shape, rows.dtype)
            for i, row in enumerate(rows):
                totals[i] = start = step(*((start, row) if forward else (row, start)))[0]
        return totals

    def prefixes(x: np.ndarray, init: np.ndarray, axes: Axes) -> tuple[np.ndarray] | None:
        along = [d for d, axis in enumerate(axes) if axis != Axis(axis.size, 1)]
        if len(along) != 1 or x.size == 0:
            return None
        (d,) = along
        axis, reach = axes[d], axes[d].window - 1
        forward = axis == Axis(axis.size, axis.window, low=reach)
        backward = axis == Axis(axis.size, axis.window, high=reach) and are_large(axes)
        if not (forward or backward) or axis.window < axis.size:
            return None
        # Windows are padded with initial values, which must make no difference.
        with call.random.aside(np.random.SeedSequence(0)) if is_drawn else contextlib.nullcontext():
            if np.asarray(step(init, init)[0]).tobytes() != init.tobytes():
                return None
        rows = np.moveaxis(x, d, 0).reshape(axis.size, -1)
        folded = running(rows if forward else rows[::-1], init, forward)
        if folded is None:
            return None
        folded = folded if forward else folded[::-1]
        return (np.moveaxis(folded.reshape(axis.size, *np.delete(x.shape, d)), 0, d),)

    return prefixes


def are_large(axes: Axes) -> bool:
    """Whether windows are combined from what they share: see `_LARGE`."""
    if 0 in (counts := [a.count for a in axes]) or math.prod(a.window for a in axes) <= _LARGE:
        return False
    length = math.prod(a.layout[0] for a in axes)
    return math.prod(counts) * math.prod(a.window for a in axes) >= _OVERLAP * length


def fold_along(step: Step, parts: Any, d: int, axis: Axis) -> Any:
    """The windows along one dimension of arrays, or of what is sliced as these are, of elements and padding."""
    _, inner, outer, _ = axis.layout
    span = (axis.count - 1) * outer + 1

    def cut(first: int, span: int, stride: int) -> list[Any]:
        return [p[(slice(None),) * d + (slice(first, first + span, stride),)] for p in parts]

    totals: Any = None
    done, length = 0, 1  # elements of each window in `totals`, and of each fold in `parts`
    while True:
        if axis.window & length:
            pieces = cut(done * inner, span, outer)
            totals = tuple(pieces) if totals is None else broadcast_like(step(*totals, *pieces), pieces)
            done += length
        if done == axis.window:
            return totals
        shift = length * inner
        count = parts[0].shape[d] - shift
        left, right = cut(0, count, 1), cut(shift, count, 1)
        parts = broadcast_like(step(*left, *right), left)
        length *= 2


def body_of(call: Call, index: int) -> Body:
    """A region of an op. Raises OpError where it is missing."""
    require(index < len(call.bodies), f"expected {index + 1} or more regions, got {len(call.bodies)}")
    return call.bodies[index]
