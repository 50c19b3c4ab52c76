"""ragged_dot: a dot product whose operands are cut along one dimension into groups of sizes told at run time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .minifloat.cast import cast
from .policy import Policy
from .registry import BY_POLICY, Call, Kernel, OpError, lookup, op
from .types import ELEMENT_TYPES, TensorType

#: A part of an operand or result: for each dimension a slice.
Part = dict[int, slice]


@op("chlo.ragged_dot", values="numbers", accuracy=BY_POLICY, operands=3)
def ragged_dot(call: Call) -> Kernel:
    """dot_general of each group: along one dimension of lhs, the first so many places, then the next so many ….

    What the ragged dimension is in the product tells the mode. A free one: each group of rows meets its own rhs, found
    along the group dimension of rhs. A contracting one: each group of terms is a sum of its own, along a new first
    dimension of the result. A batching one: the groups change nothing, but places after the last one are zero, as they
    are for free dimensions. Sizes are one list, or one list for each place in the batching dimensions and in those of
    the ragged one's kind before it. Groups that reach beyond the end are cut off there; negative sizes count as 0.
    """
    numbers = call.attribute("ragged_dot_dimension_numbers")
    if not isinstance(numbers, Mapping):
        raise OpError(f"ragged_dot_dimension_numbers must be a structure, not {numbers!r}")
    lhs, rhs, sizes, result = call.tensor(0), call.tensor(1), call.tensor(2), call.result()
    d = _Dimensions(numbers, lhs, rhs, sizes)
    dot = _dot(call, d)
    element = result.element
    zero = np.asarray(cast(np.zeros(()), ELEMENT_TYPES["f64"], element, Policy()))

    def kernel(x: np.ndarray, y: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
        found = np.empty(d.result_shape(x.shape, y.shape, group_sizes.shape), element.dtype)
        found[...] = zero
        for group, x_part, y_part, place in d.parts(x.shape, group_sizes):
            y_cut = _cut(y, y_part)
            if d.group is not None:
                y_cut = y_cut.take(group, axis=d.group)
            found[d.place(found.ndim, place)] = dot(_cut(x, x_part), y_cut)
        return found

    return kernel
