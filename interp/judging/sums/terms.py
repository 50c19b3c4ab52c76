"""The terms of a sum, exact in f64: of products, convolutions, reductions and scatters.

Terms are made only for the requested results, a row for each, so that large sums can be examined in blocks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ....ops.movement.gather import integers
from ....ops.products.einsum import labels_of
from ....ops.products.ragged_dot import group_of_place
from ....ops.reductions.axes import Axis, windows
from ....ops.reductions.scatter import targets
from ....ops.reductions.select_and_scatter import chosen_places
from ....ops.types import TensorType
from ...program import Operation
from ..wide import sole_op_name, widen

#: Number of terms examined together: 32 MiB of f64.
BLOCK = 1 << 22

Arrays = Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Terms:
    """The terms of every result of an op.

    `rows(flat)` is f64[len(flat), n], n at most `count`: for each result, by its flat index, the terms in the order of
    the specification. A missing term is neutral: -0 in a sum, 1 in a product.
    """

    count: int
    rows: Callable[[np.ndarray], np.ndarray]
    extent: tuple[int, ...] = ()  #: for a reduction, the sizes of the reduced dimensions
    #: For products of two numbers, the factors: f64[len(flat), n] each.
    factors: Callable[[np.ndarray], tuple[np.ndarray, ...]] | None = None

    @classmethod
    def of_factors(cls, count: int, factors: Callable[[np.ndarray], tuple[np.ndarray, ...]]) -> Terms:
        """Products of two factors each."""

        def rows(flat: np.ndarray) -> np.ndarray:
            x, y = factors(flat)
            return np.multiply(x, y, out=x)

        return cls(count, rows, factors=factors)

    def blocks(self, flat: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions in `flat` with the rows of these results, in blocks."""
        step = max(BLOCK // max(self.count, 1), 1)
        for first in range(0, len(flat), step):
            at = np.arange(first, min(first + step, len(flat)))
            with np.errstate(all="ignore"):
                yield at, self.rows(flat[at])


def terms_of(operation: Operation, operands: Arrays) -> Terms | None:
    """The terms of a sum, or of a product of many; None for another op, or if they are unavailable."""
    values = [widen(x, v.type) for x, v in zip(operands, operation.operands, strict=True)]
    if any(np.iscomplexobj(v) for v in values):
        return None
    make = _MAKERS.get(operation.name.rpartition(".")[2])
    return make(operation, values) if make else None


# -- products ----------------------------------------------------------------------------------------------------------


def _product(operation: Operation, values: list[np.ndarray]) -> Terms:
    """dot and dot_general, as an einsum."""
    lhs, rhs = values
    numbers = operation.attributes.get("dot_dimension_numbers")
    if numbers is None:
        numbers = {"lhs_contracting_dimensions": (lhs.ndim - 1,), "rhs_contracting_dimensions": (0,)}
    batch, summed = (
        [integers(numbers, f"{side}_{kind}_dimensions") for side in ("lhs", "rhs")]
        for kind in ("batching", "contracting")
    )
    names = [[f"l{d}" for d in range(lhs.ndim)], [f"r{d}" for d in range(rhs.ndim)]]
    for kind, pairs in (("b", batch), ("k", summed)):
        for i, (x, y) in enumerate(zip(*pairs, strict=True)):
            names[0][x] = names[1][y] = f"{kind}{i}"
    free = [[n for n in side if n[0] in "lr"] for side in names]
    output = [*(f"b{i}" for i in range(len(batch[0]))), *free[0], *free[1]]
    return _labelled_products(values, names, output, [f"k{i}" for i in range(len(summed[0]))])


def _einsum(operation: Operation, values: list[np.ndarray]) -> Terms:
    config = str(operation.attributes["einsum_config"])
    inputs, _, out = config.replace(" ", "").partition("->")
    names = [list(labels_of(config, t, x.ndim)) for t, x in zip(inputs.split(","), values, strict=True)]
    unnamed = max(sum(not n.isalpha() for n in side) for side in names)
    output = list(labels_of(config, out, len(out.replace("...", "")) + unnamed * ("..." in out)))
    summed = [n for n in dict.fromkeys(n for side in names for n in side) if n not in output]
    return _labelled_products(values, names, output, summed)


def _labelled_products(values: list[np.ndarray], names: list[list[str]], output: list[str], summed: list[str]) -> Terms:
    """Products of the elements of one or two operands with named dimensions, summed over some of these."""
    sizes = {n: x.shape[d] for x, side in zip(values, names, strict=True) for d, n in enumerate(side)}
    shape, depth = tuple(sizes[n] for n in output), tuple(sizes[n] for n in summed)
    matrices, free = [], []
    for x, side in zip(values, names, strict=True):
        strides = _strides(x.shape)
        mine = [n for n in output if n in side]
        offsets = [
            _offsets([sum(s for n, s in zip(side, strides, strict=True) if n == name) for name in kept], extent)
            for kept, extent in ((mine, [sizes[n] for n in mine]), (summed, depth))
        ]
        matrices.append(x.reshape(-1)[offsets[0][:, None] + offsets[1]])
        free.append([output.index(n) for n in mine])

    def factors(flat: np.ndarray) -> tuple[np.ndarray, ...]:
        at = np.unravel_index(flat, shape) if shape else ()
        found = []
        for matrix, dims in zip(matrices, free, strict=True):
            which = np.zeros(len(flat), np.intp)
            for d in dims:
                which = which * shape[d] + at[d]
            found.append(matrix[which])
        return tuple(found)

    if len(matrices) == 1:
        return Terms(math.prod(depth), lambda flat: factors(flat)[0])
    return Terms.of_factors(math.prod(depth), factors)


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _offsets(strides: Sequence[int], extent: Sequence[int]) -> np.ndarray:
    """Flat offsets of all positions of some dimensions."""
    found = np.zeros(1, np.intp)
    for stride, n in zip(strides, extent, strict=True):
        found = (found[:, None] + stride * np.arange(n)).reshape(-1)
    return found


def _ragged_dot(operation: Operation, values: list[np.ndarray]) -> Terms | None:
    numbers = operation.attributes["ragged_dot_dimension_numbers"]
    lhs, rhs, sizes = values
    x_batch, x_sum = (integers(numbers, f"lhs_{n}_dimensions") for n in ("batching", "contracting"))
    y_batch, y_sum = (integers(numbers, f"rhs_{n}_dimensions") for n in ("batching", "contracting"))
    (ragged,), groups = integers(numbers, "lhs_ragged_dimensions"), integers(numbers, "rhs_group_dimensions")
    x_free = tuple(d for d in range(lhs.ndim) if d not in x_batch + x_sum)
    y_free = tuple(d for d in range(rhs.ndim) if d not in y_batch + y_sum + groups)
    batch, free, depth = (tuple(lhs.shape[d] for d in dims) for dims in (x_batch, x_free, x_sum))
    b, m, k = (math.prod(s) for s in (batch, free, depth))
    count, n = sizes.shape[-1], math.prod(rhs.shape[d] for d in y_free)
    x = lhs.transpose(x_batch + x_free + x_sum).reshape(b, m, k)
    y = rhs.transpose(groups + y_batch + y_free + y_sum).reshape(count if groups else 1, b, n, k)
    if ragged in x_batch:
        group = np.zeros((b, 1), np.intp)
    else:
        kind, extent = (x_sum, depth) if ragged in x_sum else (x_free, free)
        group = group_of_place(sizes, (*batch, *extent), len(batch) + kind.index(ragged)).reshape(b, -1)

    def factors(flat: np.ndarray) -> tuple[np.ndarray, ...]:
        if ragged in x_sum:
            g, i, r, c = np.unravel_index(flat, (count, b, m, n))
            inside = group[i] == g[:, None]  # of elements outside a product of -0
            return np.where(inside, x[i, r], -0.0), np.where(inside, y[0, i, c], 0.0)
        i, r, c = np.unravel_index(flat, (b, m, n))
        g = group[i, r] if groups else np.zeros(len(flat), np.intp)
        there = g < len(y)  # a position in no group has no terms
        inside = there[:, None]
        return np.where(inside, x[i, r], 0.0), np.where(inside, y[np.where(there, g, 0), i, c], 0.0)

    return Terms.of_factors(k, factors)


def _convolution(operation: Operation, values: list[np.ndarray]) -> Terms:
    attributes = operation.attributes
    numbers = attributes["dimension_numbers"]
    sides = [
        tuple(
            int(v)
            for name in (f"{side}_{first}_dimension", f"{side}_{second}_dimension", f"{side}_spatial_dimensions")
            for v in np.ravel(numbers[name])
        )
        for side, first, second in (
            ("input", "batch", "feature"),
            ("kernel", "output_feature", "input_feature"),
            ("output", "batch", "feature"),
        )
    ]
    x, y = values[0].transpose(sides[0]), values[1].transpose(sides[1])
    spatial = x.ndim - 2
    stride, x_dilation, y_dilation = (
        _list(attributes, name, 1, spatial) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    padding = _list(attributes, "padding", 0, 2 * spatial) if len(values) == 2 else values[2].reshape(-1).tolist()
    reversal = _list(attributes, "window_reversal", 0, spatial)
    features, batches = (int(attributes.get(f"{kind}_group_count", 1)) for kind in ("feature", "batch"))
    result = operation.results[0].type
    assert isinstance(result, TensorType)
    shape = tuple(int(n or 0) for n in result.shape)
    outputs, inputs = y.shape[:2]
    kernel = y.shape[2:]
    x_strides, batch = _strides(x.shape), len(x) // batches
    places = np.indices((*kernel, inputs)).reshape(spatial + 1, -1)
    weights = np.moveaxis(y, 1, -1).reshape(outputs, -1)
    flat_x = np.append(x.reshape(-1), 0.0)  # the last stands for padding

    def factors(flat: np.ndarray) -> tuple[np.ndarray, ...]:
        at = np.unravel_index(flat, shape)
        b, f, *where = (at[d] for d in sides[2])
        group = f // max(outputs // (features * batches), 1)
        b = b + group * batch if batches > 1 else b
        first = group * inputs if features > 1 else np.zeros_like(group)
        found = (b * x_strides[0] + first * x_strides[1])[:, None] + places[-1] * x_strides[1]
        inside = np.ones(found.shape, bool)
        for d in range(spatial):
            taps = kernel[d] - 1 - places[d] if reversal[d] else places[d]
            place = (where[d] * stride[d] - padding[2 * d])[:, None] + taps * y_dilation[d]
            source, rest = np.divmod(place, x_dilation[d]) if x_dilation[d] > 1 else (place, 0)
            inside &= (rest == 0) & (source >= 0) & (source < x.shape[2 + d])
            found += source * x_strides[2 + d]
        return flat_x[np.where(inside, found, -1)], weights[f]

    return Terms.of_factors(weights.shape[1], factors)


def _list(attributes: dict, name: str, default: int, length: int) -> list[int]:
    found = np.ravel(attributes.get(name, ()))
    return [int(v) for v in found] if len(found) else [default] * length


# -- folds -------------------------------------------------------------------------------------------------------------


def _neutral(operation: Operation) -> float:
    return 1.0 if sole_op_name(operation.regions[-1]) == "stablehlo.multiply" else -0.0


def _with_init(init: np.ndarray, rows: np.ndarray, neutral: float) -> np.ndarray:
    """Rows that begin with the initial value, unless it is neutral."""
    if float(init) == neutral and rows.shape[1]:
        return rows
    return np.concatenate([np.full((len(rows), 1), float(init)), rows], axis=1)


def _reduce(operation: Operation, values: list[np.ndarray]) -> Terms | None:
    if len(values) != 2:
        return None
    x, init = values
    dimensions = tuple(sorted(integers(operation.attributes, "dimensions")))
    kept = [d for d in range(x.ndim) if d not in dimensions]
    matrix = x.transpose([*kept, *dimensions]).reshape(math.prod(x.shape[d] for d in kept), -1)
    neutral = _neutral(operation)
    extent = tuple(x.shape[d] for d in dimensions)
    return Terms(matrix.shape[1] + 1, lambda flat: _with_init(init, matrix[flat], neutral), extent)


def axes_of(operation: Operation, shape: Sequence[int]) -> list[Axis]:
    """The axes of the windows of reduce_window and select_and_scatter."""
    attributes, rank = operation.attributes, len(shape)
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    window, strides, base, dilations = (_list(attributes, name, 1, rank) for name in names)
    padding = _list(attributes, "padding", 0, 2 * rank)
    rest = zip(shape, window, strides, padding[::2], padding[1::2], base, dilations, strict=True)
    return [Axis(*each) for each in rest]


def _reduce_window(operation: Operation, values: list[np.ndarray]) -> Terms | None:
    if len(values) != 2:
        return None
    x, init = values
    axes, neutral = axes_of(operation, x.shape), _neutral(operation)
    views = windows(np.arange(x.size).reshape(x.shape), -1, axes)
    rank, shape = x.ndim, tuple(a.count for a in axes)
    views = views.transpose(*range(rank, 2 * rank), *range(rank))
    flat_x = np.append(x.reshape(-1), neutral)
    count = math.prod(a.window for a in axes)

    def rows(flat: np.ndarray) -> np.ndarray:
        places = views[np.unravel_index(flat, shape)].reshape(len(flat), count) if rank else np.zeros((1, 1), np.intp)
        return _with_init(init, flat_x[places], neutral)

    return Terms(count + 1, rows)


def _scatter(operation: Operation, values: list[np.ndarray]) -> Terms | None:
    places = targets_of(operation, values)
    if places is None:
        return None
    neutral = _neutral(operation)
    is_select = operation.name.endswith("select_and_scatter")
    updates = values[1] if is_select else values[-1]
    first = np.broadcast_to(values[2], values[0].shape) if is_select else values[0]
    order = np.argsort(places, kind="stable")
    order = order[np.searchsorted(places[order], 0) :]  # updates that are within bounds
    bounds = np.searchsorted(places[order], np.arange(first.size + 1))
    flat_updates = np.append(updates.reshape(-1), neutral)
    order = np.append(order, updates.size)

    def rows(flat: np.ndarray) -> np.ndarray:
        counts = bounds[flat + 1] - bounds[flat]
        step = np.arange(int(counts.max(initial=0)))
        inside = step < counts[:, None]
        which = order[np.where(inside, bounds[flat][:, None] + step, -1)]
        return np.concatenate([first.reshape(-1)[flat][:, None], flat_updates[which]], axis=1)

    return Terms(int(np.diff(bounds).max(initial=0)) + 1, rows)


def targets_of(operation: Operation, values: Arrays) -> np.ndarray | None:
    """For each update of a scatter, or source of a select_and_scatter, its flat position in the result; -1 for none."""
    if operation.name.endswith(".scatter"):
        if len(values) != 3:
            return None
        x, indices, updates = values
        return targets(operation.attributes["scatter_dimension_numbers"], x.shape, indices, updates.shape)
    x, (select, _) = values[0], operation.regions
    compare = _COMPARISONS.get(str(select.operations[0].attributes.get("comparison_direction")))
    is_plain = sole_op_name(select) == "stablehlo.compare" and select.operations[0].operands == select.arguments[:2]
    if compare is None or not is_plain:
        return None
    return chosen_places(lambda a, b: (compare(a, b),), x, axes_of(operation, x.shape)).reshape(-1)


_COMPARISONS = {"GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less}

_MAKERS: dict[str, Callable[[Operation, list[np.ndarray]], Terms | None]] = {
    "dot": _product,
    "dot_general": _product,
    "einsum": _einsum,
    "unary_einsum": _einsum,
    "ragged_dot": _ragged_dot,
    "convolution": _convolution,
    "dynamic_conv": _convolution,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "scatter": _scatter,
    "select_and_scatter": _scatter,
}
