"""ragged_dot: a dot product whose operands are cut along one dimension into groups of sizes known at run time."""

from __future__ import annotations

import functools
import math

import numpy as np

from ..accumulators.selection import check_accumulator
from ..cast import cast
from ..movement.gather import integers
from ..op import Call, Run, op
from ..policy import Policy
from ..require import require, require_dimensions, require_shape
from ..traits import OpTraits
from ..types import ELEMENT_TYPES
from .contraction import Contraction
from .dot import terms

Dimensions = tuple[int, ...]

_terms = functools.partial(terms, name="ragged_dot_dimension_numbers")


@op("chlo.ragged_dot", values="numbers", operands=3, traits=OpTraits(terms=_terms))
def ragged_dot(call: Call) -> Run:
    """dot_general of groups of consecutive places along one dimension of lhs; the sizes of the groups are an operand.

    The kind of that dimension determines the mode. Free: each group of places meets its own part of rhs, along a
    dimension of rhs that numbers the groups; places in no group give 0. Contracting: each group is a sum of its own,
    along a new first dimension of the result; places in no group are left out. Batching: the groups change nothing.

    Sizes are one list; or, for a free or contracting dimension, one for each place in the batching dimensions and those
    of the same kind before it. A group ends where the dimension ends; a negative size counts as 0.
    """
    numbers = call.structure("ragged_dot_dimension_numbers")
    names = ("batching", "contracting")
    x_batch, x_sum = (integers(numbers, f"lhs_{name}_dimensions") for name in names)
    y_batch, y_sum = (integers(numbers, f"rhs_{name}_dimensions") for name in names)
    ragged, groups = integers(numbers, "lhs_ragged_dimensions"), integers(numbers, "rhs_group_dimensions")
    x_shape, y_shape, sizes = (call.operand_shape(i) for i in range(3))
    for side, rank, dimensions in (("lhs", len(x_shape), x_batch + x_sum), ("rhs", len(y_shape), y_batch + y_sum)):
        require_dimensions(f"{side} batching and contracting dimensions", dimensions, rank)
    require_dimensions("lhs_ragged_dimensions", ragged, len(x_shape))
    require_dimensions("rhs_group_dimensions", groups, len(y_shape))
    x_free = tuple(d for d in range(len(x_shape)) if d not in x_batch + x_sum)
    y_free = tuple(d for d in range(len(y_shape)) if d not in y_batch + y_sum + groups)
    require(len(ragged) == 1, f"lhs_ragged_dimensions is {list(ragged)} (expected one)")
    require(
        len(groups) == int(ragged[0] in x_free) and not set(groups) & set(y_batch + y_sum),
        f"rhs_group_dimensions is {list(groups)} (expected one free dimension where that of lhs is free, else none)",
    )
    fits = sizes and call.tensor(2).element.is_integer
    require(fits, f"group_sizes is {call.tensor(2)} (expected lists of integers)")
    count = sizes[-1]
    require(not groups or y_shape[groups[0]] == count, f"rhs is {call.tensor(1)} (expected {count} groups)")
    for xs, ys in ((x_batch, y_batch), (x_sum, y_sum)):
        same = [x_shape[d] for d in xs] == [y_shape[d] for d in ys]
        require(same, f"lhs {call.tensor(0)} and rhs {call.tensor(1)} differ in batching or contracting dimensions")
    batch = tuple(x_shape[d] for d in x_batch)
    rows, terms = tuple(x_shape[d] for d in x_free), tuple(x_shape[d] for d in x_sum)
    columns = tuple(y_shape[d] for d in y_free)
    is_sum = ragged[0] in x_sum
    shape = (*((count,) if is_sum else ()), *batch, *rows, *columns)
    require_shape(call, shape)
    check_accumulator(call)
    product = Contraction.of(call).matmul
    zero = np.asarray(cast(np.zeros(()), ELEMENT_TYPES["f64"], call.result().element, Policy()))
    b, m, k, n = (math.prod(size) for size in (batch, rows, terms, columns))

    def canonical(lhs: np.ndarray, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As (batch, M, K) and (groups or nothing, batch, K, N)."""
        x = lhs.transpose(x_batch + x_free + x_sum).reshape(b, m, k)
        y = rhs.transpose(groups + y_batch + y_sum + y_free)
        return x, y.reshape(*((count,) if groups else ()), b, k, n)

    if ragged[0] in x_batch:
        require(len(sizes) == 1 or sizes[:-1] == batch[: x_batch.index(ragged[0])], _wrong_sizes(call))
        return lambda lhs, rhs, _: product(*canonical(lhs, rhs)).reshape(shape)

    kind, extent = (x_sum, terms) if is_sum else (x_free, rows)
    at = kind.index(ragged[0])
    outer = (*batch, *extent[:at])
    require(len(sizes) == 1 or sizes[:-1] == outer, _wrong_sizes(call))

    def kernel(lhs: np.ndarray, rhs: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
        x, y = canonical(lhs, rhs)
        sums = np.full((*((count,) if is_sum else ()), b, m, n), zero)
        group = group_of_place(group_sizes, (*batch, *extent), len(batch) + at).reshape(b, -1)
        shared = len(sizes) == 1  # then the groups of all batches are the same
        for i in range(min(b, 1) if shared else b):
            which = slice(None) if shared else slice(i, i + 1)
            for g in range(count):
                places = np.flatnonzero(group[i] == g)
                if is_sum:
                    sums[g, which] = product(x[which, :, places], y[which, places])
                elif places.size:
                    sums[which, places] = product(x[which, places], y[g, which])
        return sums.reshape(shape)

    return kernel


def _wrong_sizes(call: Call) -> str:
    return f"group_sizes is {call.tensor(2)} (expected one list, or one for each place in the dimensions outside)"


def group_of_place(sizes: np.ndarray, extent: Dimensions, at: int) -> np.ndarray:
    """The group of each place, by the sizes along dimension `at` of `extent`; their number for a place in none."""
    wide = sizes if sizes.itemsize == 8 else sizes.astype(np.int64)
    ends = np.cumsum(np.clip(wide, 0, extent[at]).astype(np.int64), axis=-1)
    places = np.arange(extent[at])
    group = (places[:, None] >= ends[..., None, :]).sum(-1)  # as (outer…, place) or (place)
    return np.broadcast_to(group.reshape(*group.shape, *[1] * (len(extent) - at - 1)), extent)
