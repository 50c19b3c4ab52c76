"""Ops whose result's shape is computed: each is its static counterpart, bound once the sizes are known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..op import CORRECTLY_ROUNDED, Call, Run, kernel_of, op
from ..require import require, require_dimensions, require_element, require_shape
from ..types import ELEMENT_TYPES, TensorType

Sizes = tuple[int, ...]


def _bound_late(call: Call, name: str, moved: int, resolve: Callable[..., tuple[Sizes, dict[str, Any]]]) -> Run:
    """The kernel of op `name` on the first `moved` operands; the others are lists of integers.

    `resolve` takes the shape of the first operand, if one is moved, and these lists, and gives the result's shape and
    the op's attributes.
    """
    expected = call.result()
    for i in range(moved, len(call.operands)):
        t = call.tensor(i)
        require(len(t.shape) == 1 and t.element.is_integer, f"operand {i} is {t} (expected a list of integers)")

    @functools.lru_cache
    def bound(shapes: tuple[Sizes, ...], lists: tuple[Sizes, ...]) -> Run:
        shape, attributes = resolve(*shapes[:1], *lists)
        fits = min(shape, default=0) >= 0 and expected.admits(shape)
        require(fits, f"the result has shape {list(shape)}, which does not fit {expected}")
        result = TensorType(shape, expected.element)
        if not expected.is_static:
            call.reserve(result)
        types = [TensorType(s, call.tensor(i).element) for i, s in enumerate(shapes)]
        return kernel_of(call.like(name, types, (result,), **attributes))

    def kernel(*values: np.ndarray) -> np.ndarray:
        shapes = tuple(x.shape for x in values[:moved])
        return bound(shapes, tuple(tuple(v.tolist()) for v in values[moved:]))(*values[:moved])

    return kernel


def _require_lists(call: Call, first: int) -> None:
    """The operands from `first` on must be lists, with an element for each dimension of the first operand."""
    rank = len(call.tensor().shape)
    for i in range(first, len(call.operands)):
        t = call.tensor(i)
        require(t.shape in ((rank,), (None,)), f"operand {i} is {t} (expected {rank} elements)")


@op("dynamic_broadcast_in_dim", operands=2, any_sizes=True)
def dynamic_broadcast_in_dim(call: Call) -> Run:
    """The operand repeated along new dimensions and along those of size 1, to a shape that is computed.

    (C1) One element type. (C2-C5) broadcast_dimensions as of broadcast_in_dim. (C7) A size for each dimension of the
    result. (C8-C10) known expanding and nonexpanding dimensions are dimensions of the operand, none twice.
    """
    require_element(call)
    known = [
        int(d)
        for name in ("known_expanding_dimensions", "known_nonexpanding_dimensions")
        for d in np.ravel(call.attributes.get(name, ()))
    ]
    require_dimensions("known dimensions", tuple(known), len(call.tensor().shape))
    dimensions = call.integers("broadcast_dimensions")
    return _bound_late(call, "broadcast_in_dim", 1, lambda _, sizes: (sizes, {"broadcast_dimensions": dimensions}))


@op("dynamic_iota", "integer", values="numbers", accuracy=CORRECTLY_ROUNDED, operands=1, any_sizes=True)
def dynamic_iota(call: Call) -> Run:
    """Each element's index along one dimension, in a shape that is computed.

    (C1) iota_dimension is a dimension of the result. (C2) A size for each dimension of the result.
    """
    dimension = int(call.attribute("iota_dimension"))
    return _bound_late(call, "iota", 0, lambda sizes: (sizes, {"iota_dimension": dimension}))


@op("dynamic_pad", operands=5, any_sizes=True)
def dynamic_pad(call: Call) -> Run:
    """The operand with values put between, before and after its elements, or elements cut off; amounts are operands.

    (C1) One element type; the padding value is a scalar. (C2) An amount for each dimension. (C3) interior_padding is
    not negative. (C4) The result's shape is what that makes.
    """
    require_element(call, call.tensor(1))
    _require_lists(call, 2)

    def resolve(shape: Sizes, low: Sizes, high: Sizes, interior: Sizes) -> tuple[Sizes, dict[str, Any]]:
        axes = zip(shape, low, high, interior, strict=True)
        padded = tuple(a + n + max(n - 1, 0) * between + b for n, a, b, between in axes)
        return padded, {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": interior}

    return _bound_late(call, "pad", 2, resolve)


@op("dynamic_reshape", operands=2, any_sizes=True)
def dynamic_reshape(call: Call) -> Run:
    """The same elements, in order, in a shape that is computed.

    (C1) One element type. (C2) As many elements as before. (C4) A size for each dimension of the result.
    """
    require_element(call)
    return _bound_late(call, "reshape", 1, lambda _, sizes: (sizes, {}))


@op("real_dynamic_slice", operands=4, any_sizes=True, has_section=False)
def real_dynamic_slice(call: Call) -> Run:
    """The elements between computed bounds, with a stride, in each dimension, as slice takes them."""
    require_element(call)
    _require_lists(call, 1)

    def resolve(_: Sizes, starts: Sizes, limits: Sizes, strides: Sizes) -> tuple[Sizes, dict[str, Any]]:
        require(min(strides, default=1) > 0, f"expected positive strides, got {list(strides)}")
        bounds = zip(starts, limits, strides, strict=True)
        shape = tuple(len(range(*b)) for b in bounds)
        return shape, {"start_indices": starts, "limit_indices": limits, "strides": strides}

    return _bound_late(call, "slice", 1, resolve)


@op("get_dimension_size", operands=1, any_sizes=True)
def get_dimension_size(call: Call) -> Run:
    """The size of a dimension, as an i32.

    (C1) dimension is one of the operand's.
    """
    t, dimension = call.tensor(), int(call.attribute("dimension"))
    require_dimensions("dimension", (dimension,), len(t.shape))
    fits = call.result() == TensorType((), ELEMENT_TYPES["i32"])
    require(fits, f"the result is {call.result()} (expected tensor<i32>)")
    return lambda x: np.array(x.shape[dimension], np.int32)


@op("set_dimension_size", operands=2, any_sizes=True, has_section=False)
def set_dimension_size(call: Call) -> Run:
    """The first elements along a dimension; the number is an operand.

    XLA keeps the memory of the rest. Here a dimension has one size: where the result's type gives one, it must be it.
    """
    t, size, dimension = call.tensor(), call.tensor(1), int(call.attribute("dimension"))
    require_element(call)
    require_dimensions("dimension", (dimension,), len(t.shape))
    require(size.shape == () and size.element.is_integer, f"the size is {size} (expected a scalar integer)")
    require_shape(call, tuple(None if d == dimension else n for d, n in enumerate(t.shape)))
    result, before = call.result(), (slice(None),) * dimension

    def kernel(x: np.ndarray, size: np.ndarray) -> np.ndarray:
        n, most = int(size), x.shape[dimension]
        require(0 <= n <= most, f"size {n} of a dimension of {most} (expected from 0 to {most})")
        kept = x[(*before, slice(n))]
        require(result.admits(kept.shape), f"size {n} does not fit the result {result}")
        return kept

    return kernel
