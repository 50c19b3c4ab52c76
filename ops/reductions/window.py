"""Windows that slide over a tensor, and reductions of each."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..batch import Batch, Batched, before
from ..cast import cast
from ..engine.blocks import blocks, for_each
from ..engine.lookup import Table
from ..engine.ranks import minifloat_ranks
from ..engine.speed import tuning
from ..op import BY_BODY, Body, Call, Run, lookup, op
from ..require import require, require_shape
from ..traits import OpTraits, Shapes
from ..types import TensorType
from .axes import Axis, Shape, laid_out, windows
from .body_folds import choices_of_body
from .folds import body_elements, fold_of
from .host_folds import combining_of, running_of
from .overlapping import Drawn, Prefixes, are_large, by_tree
from .padded_windows import PaddedWindows

Axes = Sequence[Axis]


def integers_or(call: Call, name: str, default: Sequence[int]) -> Shape:
    """An attribute as a list of integers; the default where it is absent. Raises OpError for another length."""
    numbers = call.integers(name) if name in call.attributes else tuple(default)
    require(len(numbers) == len(default), f"{name} {list(numbers)} must have {len(default)} numbers")
    return numbers


def require_positive(name: str, values: Sequence[int]) -> None:
    """Raise OpError where a value is not above zero."""
    require(all(v > 0 for v in values), f"expected positive {name}, got {list(values)}")


def axes_of_call(call: Call, rank: int) -> Callable[[Shape], tuple[Axis, ...]]:
    """A function that gives the windows along each dimension of a tensor of a given shape."""
    ones = (1,) * rank
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    window, strides, base, dilations = lists = [integers_or(call, name, ones) for name in names]
    for name, values in zip(names, lists, strict=True):
        require_positive(name, values)
    padding = integers_or(call, "padding", (0,) * (2 * rank))
    rest = tuple(zip(window, strides, padding[::2], padding[1::2], base, dilations, strict=True))
    return functools.lru_cache(tuning().shapes)(
        lambda shape: tuple(Axis(n, *others) for n, others in zip(shape, rest, strict=True))
    )


def window_runs(_: Shapes, results: Shapes, attributes: Mapping[str, Any]) -> float:
    """How often the body runs: for each window one time less than it has elements."""
    window = math.prod(np.ravel(attributes.get("window_dimensions", 1)).tolist())
    return math.prod(results[0]) * max(window - 1, 1)


def _batched(batch: Batch) -> Batched | None:
    """The op for many turns at once: along the leading dimension windows have size 1."""
    ones = {"window_dimensions": 1, "window_strides": 1, "base_dilations": 1, "window_dilations": 1}
    return before(len(batch.operands) // 2, **ones, padding=(0, 0))(batch)


@op(
    "reduce_window",
    values="regions",
    accuracy=BY_BODY,
    traits=OpTraits(is_pure=True, folds=True, linear=range, body_runs=window_runs, batch=_batched),
)
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
    require(
        count and len(call.operands) == 2 * count,
        f"expected inputs and as many initial values, got {len(call.operands)} operands",
    )
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
    fold, sources = fold_of(call, body), [t.element for t in inputs] * 2
    by_rank = extreme_of(call, body)
    step, prefixes, combining = body.vectorised, None, combining_of(body.sole_op)
    if step is not None and count == 1:
        drawn = None
        if call.policy.rounding == "stochastic":
            commutes = combining is not None and combining.any_order
            drawn = Drawn(choices_of_body(call, body), commutes, call.random, call.policy)
        prefixes = Prefixes(step, elements[0], running_of(call, body.sole_op, elements[0]), drawn)
    is_float = elements[0].is_float and elements[0].bits >= 16
    is_sum = count == 1 and combining is not None and combining.ufunc is np.add
    is_extreme = count == 1 and combining is not None and combining.largest is not None
    host = combining.ufunc if combining is not None and is_extreme and is_float and elements[0].bits >= 32 else None
    skips = is_sum and (elements[0].is_integer or (is_float and call.policy.rounding == "nearest_even"))
    if call.policy.rounding == "stochastic":
        step = None  # which would round the same elements anew for each window

    def kernel(regions: tuple[Callable[..., tuple[np.ndarray, ...]], ...], *values: np.ndarray) -> Any:
        pairs = zip(values, sources, elements * 2, strict=True)
        values = tuple(v if s == e else cast(v, s, e, call.policy) for v, s, e in pairs)
        axes = axes_of(values[0].shape)
        size = math.prod(a.window for a in axes)
        folded = prefixes.results(values[0], values[1], axes) if prefixes is not None else None
        if folded is not None:
            return folded
        if size <= tuning().window_few and math.prod(a.count for a in axes) >= tuning().window_many:
            folded = by_rank(values[0], values[1], axes) if by_rank is not None else None
            if folded is not None:
                return folded
            if step is not None:
                if skips and any(a.base_dilation > 1 for a in axes) and not any(values[1].tobytes()):
                    folded = _by_phase(step, values[0], values[1], tuple(axes))
                    if folded is not None:
                        return folded
                folded = _place_by_place(step, values[:count], values[count:], axes, host)
                return folded[0] if count == 1 else folded
        if step is not None:
            padded = PaddedWindows(lambda totals, rows: fold(regions[0], totals, rows), values[count:], axes)
            folded = padded.results(values[:count])
            if folded is not None:
                return folded[0] if count == 1 else folded
            if are_large(axes):
                folded = by_tree(step, values[:count], values[count:], axes)
                return folded[0] if count == 1 else folded
        views = [windows(x, init, axes) for x, init in zip(values[:count], values[count:], strict=True)]
        window, shape = views[0].shape[: len(axes)], views[0].shape[len(axes) :]
        folded = tuple(np.empty(shape, x.dtype) for x in views)
        for columns in blocks(shape, tuning().window_block // math.prod(window)) if 0 not in shape else ():
            width = math.prod(s.stop - s.start for s in columns)
            totals = [np.broadcast_to(init, width) for init in values[count:]]
            for rows in blocks(window, tuning().window_block // width):
                totals = fold(regions[0], totals, [v[rows + columns].reshape(-1, width) for v in views])
            for result, total in zip(folded, totals, strict=True):
                result[columns] = total.reshape(result[columns].shape)
        return folded[0] if count == 1 else folded

    return kernel


def _place_by_place(
    step: Callable[..., tuple[np.ndarray, ...]],
    arrays: Sequence[np.ndarray],
    inits: Sequence[np.ndarray],
    axes: Axes,
    host: np.ufunc | None = None,
) -> tuple[np.ndarray, ...]:
    """Fold all windows at the same time: the first element of each, then the second, and so on.

    `host` is numpy's maximum or minimum where the body is that of f32 or f64: the same but for zeros and NaN.
    """
    views = [windows(x, init, axes) for x, init in zip(arrays, inits, strict=True)]
    window, shape = views[0].shape[: len(axes)], views[0].shape[len(axes) :]
    totals_ = tuple(np.empty(shape, x.dtype) for x in views)

    loses = -np.inf if host is np.maximum else np.inf
    is_tried = host is not None and inits[0].item() == loses and math.prod(window) > 1

    def work(part: tuple[slice, ...]) -> None:
        places, into = [(*place, *part, ...) for place in np.ndindex(window)], [t[(*part, ...)] for t in totals_]
        chosen: Any = ...
        if host is not None and is_tried:
            chosen = _extremes(host, [views[0][place] for place in places], into[0])
            if chosen is None:
                return
        totals = tuple(inits)
        for place in places:
            totals = step(*totals, *(v[place][chosen] for v in views))
        for result, total in zip(into, totals, strict=True):
            result[chosen] = total

    for_each(list(blocks(shape, tuning().window_part)), work, totals_[0].size * math.prod(window))
    return totals_


def _extremes(host: np.ufunc, elements: Sequence[np.ndarray], total: np.ndarray) -> Any:
    """Put numpy's extremes of arrays into `total`; the indices where they may be wrong, None if nowhere.

    A zero of the sign that wins is right whatever the order, and so is what is neither a zero nor NaN.
    """
    host(elements[0], elements[1], out=total)
    for others in elements[2:]:
        host(total, others, out=total)
    zero = total.dtype.type(-0.0 if host is np.maximum else 0.0)
    words = f"u{total.itemsize}"
    doubtful = (total.view(words) == zero.view(words)) | (total != total)
    count = np.count_nonzero(doubtful)
    return None if not count else np.nonzero(doubtful) if count <= doubtful.size >> 5 else ...


def _by_phase(
    step: Callable[..., tuple[np.ndarray, ...]], x: np.ndarray, init: np.ndarray, axes: tuple[Axis, ...]
) -> np.ndarray | None:
    """Sums, from +0, of windows over elements with gaps between them: those of one phase have gaps at the same places.

    What is added at a gap is +0, which changes no sum that began with +0: rounded to nearest, none is -0. None where
    there are many phases, or much padding.
    """
    if math.prod(min(a.base_dilation, a.count) for a in axes) > tuning().window_few:
        return None
    around, phases = _phases(axes)
    if math.prod(a.count for a in around) > 2 * (x.size + math.prod(a.count for a in axes)):
        return None
    laid, total_ = laid_out(x, init, around), np.full([a.count for a in axes], init, x.dtype)
    for results, places in phases:
        total = init
        for place in places:
            (total,) = step(total, laid[place])
        total_[results] = total
    return total_


_Places = tuple[slice, ...]


@functools.lru_cache(256)
def _phases(axes: tuple[Axis, ...]) -> tuple[list[Axis], list[tuple[_Places, list[_Places]]]]:
    """The padding around the elements; for each phase its windows, and the elements that they have, place by place."""
    each: list[list[tuple[slice, list[slice]]]] = []
    around = []
    for axis in axes:
        # Windows `phase`, `phase + base_dilation`, …: number m has its elements at `m * stride` and these.
        starts = []
        for phase in range(min(axis.base_dilation, axis.count)):
            places = [phase * axis.stride + k * axis.window_dilation - axis.low for k in range(axis.window)]
            starts.append([p // axis.base_dilation for p in places if p % axis.base_dilation == 0])
        steps = [(len(range(p, axis.count, axis.base_dilation)) - 1) * axis.stride + 1 for p in range(len(starts))]
        low = max([0, *(-p for places in starts for p in places)])
        ends = [p + reach for places, reach in zip(starts, steps, strict=True) for p in places]
        around.append(Axis(axis.size, 1, 1, low, max([0, *(end - axis.size for end in ends)])))
        each.append(
            [
                (slice(phase, None, axis.base_dilation), [slice(low + p, low + p + reach, axis.stride) for p in places])
                for phase, (places, reach) in enumerate(zip(starts, steps, strict=True))
            ]
        )
    phases = []
    for parts in itertools.product(*each):
        places = [*itertools.product(*(places for _, places in parts))]
        phases.append((tuple([results for results, _ in parts]), places))
    return around, phases


def extreme_of(call: Call, body: Body) -> Callable[[np.ndarray, np.ndarray, Axes], np.ndarray | None] | None:
    """The largest or smallest of each window, if that is what the body gives and the elements are minifloats."""
    combining = combining_of(body.sole_op)
    largest = None if combining is None else combining.largest
    t = body.results[0]
    if largest is None or len(body.results) > 1 or not isinstance(t, TensorType) or not t.element.is_minifloat:
        return None
    record = lookup(body.sole_op or "")
    assert record is not None
    combine = record.function(call.like(record.name, (TensorType((None,), t.element),) * 2, (t,)))
    results: dict[tuple[bytes, bool], Table] = {}  # for each initial value, what becomes of each rank, or each key

    def extreme(x: np.ndarray, init: np.ndarray, axes: Axes) -> np.ndarray | None:
        ranks = minifloat_ranks(t.element, largest)
        codes, fill_code = np.ascontiguousarray(x).view(np.uint8), init.reshape(1).view(np.uint8)
        (ranked, fill), is_ranked = ranks.comparable(codes, fill_code)
        for d, axis in enumerate(axes):  # one dimension after the other; the last has the shortest runs of neighbours
            if axis != Axis(axis.size, 1):
                alone = [axis if i == d else Axis(n, 1) for i, n in enumerate(ranked.shape)]
                view = windows(ranked, fill[0], alone).reshape(axis.window, *(a.count for a in alone))
                ranked = view[0]
                for other in view[1:]:
                    ranked = np.maximum(ranked, other)
        if is_ranked and len(ranks.values) - ranks.nan > 1 and (ranked >= ranks.nan).any():
            return None  # which NaN it is goes by their order
        key = init.tobytes(), is_ranked
        if key not in results:
            results[key] = Table(combine(init.reshape(1), ranks.values if is_ranked else ranks.of_key))
        return results[key].at(ranked)

    return extreme


def body_of(call: Call, index: int) -> Body:
    """A region of an op. Raises OpError where it is missing."""
    require(index < len(call.bodies), f"expected {index + 1} or more regions, got {len(call.bodies)}")
    return call.bodies[index]
