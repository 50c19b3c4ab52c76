"""Convolutions: windows of the left operand, laid out as the rows of a matrix, times the right one."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .matmul import matmul
from .minifloat.cast import cast
from .registry import BY_POLICY, Call, Kernel, OpError, op
from .shape import require, require_dimensions, require_shape
from .types import ELEMENT_TYPES
from .window import Axis, blocks, integers_or, require_positive, windows

Shape = tuple[int, ...]

#: How many shapes and paddings a use of an op remembers the index arithmetic of. A static program has one.
_SHAPES = 16

#: Elements of windows that are laid out at a time.
_BLOCK = 1 << 22


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """What each dimension is: of lhs and the result batch, feature, spatial …; of rhs output, input, spatial …"""

    lhs: Shape
    rhs: Shape
    result: Shape

    @classmethod
    def of(cls, numbers: Any, rank: int) -> _Numbers:
        """Raises OpError where a dimension is missing, or there twice."""
        if not isinstance(numbers, Mapping):
            raise OpError(f"dimension_numbers must be a structure, not {numbers!r}")
        roles = (("input", "batch", "feature"), ("kernel", "output_feature", "input_feature"), ("output", "batch", "feature"))
        found = []
        for side, first, second in roles:
            names = [f"{side}_{first}_dimension", f"{side}_{second}_dimension", f"{side}_spatial_dimensions"]
            if missing := [name for name in names if name not in numbers]:
                raise OpError(f"dimension_numbers has no {missing[0]}")
            dims = tuple(int(v) for name in names for v in np.ravel(numbers[name]))
            require(len(dims) == rank, f"{names[2]} must be {rank - 2}, as operands have rank {rank}")
            require_dimensions(f"the {side} dimensions", dims, rank)
            found.append(dims)
        return cls(*found)


@dataclasses.dataclass(frozen=True)
class _Window:
    """The attributes of the window, one of each for every spatial dimension."""

    strides: Shape
    lhs_dilation: Shape
    rhs_dilation: Shape
    reversal: Shape

    @classmethod
    def of(cls, call: Call, spatial: int) -> _Window:
        """Raises OpError where one has the wrong length, or is not positive."""
        ones = (1,) * spatial
        names = ("window_strides", "lhs_dilation", "rhs_dilation")
        lists = [integers_or(call, name, ones) for name in names]
        for name, values in zip(names, lists, strict=True):
            require_positive(name, values)
        return cls(*lists, integers_or(call, "window_reversal", (0,) * spatial))

    def axes(self, lhs: Shape, rhs: Shape, padding: Shape) -> tuple[Axis, ...]:
        """How windows lie along the spatial dimensions."""
        pads = zip(lhs, rhs, self.strides, padding[::2], padding[1::2], self.lhs_dilation, self.rhs_dilation, strict=True)
        return tuple(Axis(*each) for each in pads)


def _convolution(call: Call, padding: Shape | None) -> Kernel:
    """The kernel of a convolution; where `padding` is None it is the third operand's."""
    lhs, rhs, result = call.tensor(0), call.tensor(1), call.result()
    rank = len(lhs.shape)
    same = rank == len(rhs.shape) == len(result.shape) and rank >= 2
    require(same, f"lhs is {lhs}, rhs {rhs} and the result {result} (should be of one rank, at least 2)")
    numbers, window = _Numbers.of(call.attribute("dimension_numbers"), rank), _Window.of(call, rank - 2)
    features, batches = (int(call.attributes.get(f"{kind}_group_count", 1)) for kind in ("feature", "batch"))
    require(features > 0 and batches > 0, f"group counts {features} and {batches} must be positive")
    require(1 in (features, batches), f"feature_group_count {features} and batch_group_count {batches}: one must be 1")
    precision = call.attributes.get("precision_config")
    require(precision is None or len(precision) in (0, 2), "precision_config must be one for each of the 2 operands")
    types, policy = (lhs.element, rhs.element, result.element), call.policy
    zero = cast(np.zeros((), np.float32), ELEMENT_TYPES["f32"], lhs.element, policy)
    forward = tuple(slice(None, None, -1 if is_reversed else 1) for is_reversed in window.reversal)
    back = np.argsort(numbers.result)

    @functools.lru_cache(_SHAPES)
    def plan(lhs: Shape, rhs: Shape, padding: Shape) -> tuple[Axis, ...]:
        (batch, feature, *_), (outputs, inputs, *_) = lhs, rhs
        require(batch % batches == 0, f"lhs has batch {batch} (should be a multiple of batch_group_count {batches})")
        require(feature % features == 0, f"lhs has {feature} features (a multiple of feature_group_count {features})")
        require(inputs * features == feature, f"rhs has {inputs} input features (should be {feature} / {features})")
        divides = outputs % (features * batches) == 0
        require(divides, f"rhs has {outputs} output features (should be a multiple of the group counts)")
        axes = window.axes(lhs[2:], rhs[2:], padding)
        shape = (batch // batches, outputs, *(a.count for a in axes))
        require_shape(call, tuple(shape[i] for i in back))
        return axes

    def kernel(lhs: np.ndarray, rhs: np.ndarray, pads: np.ndarray | None = None) -> np.ndarray:
        x, y = lhs.transpose(numbers.lhs), rhs.transpose(numbers.rhs)
        given = padding if pads is None else tuple(pads.reshape(-1).tolist())
        axes = plan(x.shape, y.shape, given)
        groups = features * batches
        if batches > 1:
            x = x.reshape(groups, -1, *x.shape[1:])
        else:
            x = x.reshape(len(x), groups, -1, *x.shape[2:]).swapaxes(0, 1)
        ...

    return kernel
