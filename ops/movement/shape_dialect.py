"""Ops of MLIR's `shape` and `tensor` dialects with which programs compute sizes.

Producers write these for what is unknown until a program runs, and CHLO's broadcasting ops expand to them. A shape is a
list of sizes, and a size, which is of MLIR's type `index`, an i64; a witness is an i1 that is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..op import BY_BODY, Call, Run, op
from ..require import require, shape_text
from ..types import ELEMENT_TYPES, TensorType

_WITNESS = np.array(True)


def _size(n: Any) -> np.ndarray:
    return np.array(n, np.int64)


def _require_shapes(call: Call) -> None:
    for i in range(len(call.operands)):
        t = call.tensor(i)
        require(len(t.shape) == 1 and t.element.is_integer, f"operand {i} is {t} (expected a list of sizes)")


def _require_scalars(call: Call, first: int = 0) -> None:
    for i in range(first, len(call.operands)):
        t = call.tensor(i)
        require(t.shape == () and t.element.is_integer, f"operand {i} is {t} (expected an index)")


def _at(index: Any, count: int) -> int:
    """An index into `count` things."""
    require(0 <= index < count, f"index {index} is out of bounds (expected from 0 to {count - 1})")
    return int(index)


# -- shapes ------------------------------------------------------------------------------------------------------------


@op("shape.shape_of", operands=1, any_sizes=True)
def shape_of(call: Call) -> Run:
    """The sizes of a tensor."""
    call.tensor()
    return lambda x: _size(x.shape)


@op("shape.const_shape", operands=0)
def const_shape(call: Call) -> Run:
    """The sizes in the attribute `shape`."""
    sizes = _size(call.integers("shape"))
    return lambda: sizes


@op("shape.const_size", operands=0)
def const_size(call: Call) -> Run:
    """The size in the attribute `value`."""
    size = _size(int(call.attribute("value")))
    return lambda: size


def _same(call: Call) -> Run:
    """The operand, whose type has another name."""
    require(len(call.operands) == len(call.results) == 1, "takes one value and gives it")
    result = call.result()
    require(result.element == call.tensor().element, f"the result is {result}")

    def kernel(x: np.ndarray) -> np.ndarray:
        require(result.admits(x.shape), f"the result has shape {list(x.shape)}, which does not fit {result}")
        return x

    return kernel


for _name, _doc in (
    ("shape.to_extent_tensor", "A shape as a tensor."),
    ("shape.from_extent_tensor", "A tensor as a shape."),
    ("shape.value_as_shape", "A tensor as a shape."),
    ("shape.index_to_size", "An index as a size."),
    ("shape.size_to_index", "A size as an index."),
    ("tensor.cast", "The same tensor with a type in which other sizes are known."),
):

    def _bind(call: Call) -> Run:
        return _same(call)

    _bind.__doc__ = _doc
    op(_name, operands=1, any_sizes=True)(_bind)


@op("shape.from_extents", any_sizes=True)
def from_extents(call: Call) -> Run:
    """The shape of these sizes."""
    _require_scalars(call)
    return lambda *sizes: _size(sizes)


@op("shape.rank", operands=1, any_sizes=True)
def rank(call: Call) -> Run:
    """How many dimensions a tensor of this shape has."""
    _require_shapes(call)
    return lambda shape: _size(len(shape))


@op("shape.num_elements", operands=1, any_sizes=True)
def num_elements(call: Call) -> Run:
    """How many elements a tensor of this shape has."""
    _require_shapes(call)
    return lambda shape: _size(math.prod(shape.tolist()))


@op("shape.get_extent", operands=2, any_sizes=True)
def get_extent(call: Call) -> Run:
    """One size of a shape."""
    _require_scalars(call, 1)
    return lambda shape, i: _size(shape[_at(i, len(shape))])


@op("shape.concat", operands=2, any_sizes=True)
def concat(call: Call) -> Run:
    """The sizes of the first shape, then those of the second."""
    _require_shapes(call)
    return lambda *shapes: np.concatenate(shapes)


def _broadcast(shapes: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The shape that all broadcast to, aligned at the last dimension as in numpy; None where they do not."""
    common: list[int] = []
    for shape in shapes:
        sizes = shape.tolist()[::-1]
        common += [1] * (len(sizes) - len(common))
        for i, n in enumerate(sizes):
            if n != 1 and common[i] not in (1, n):
                return None
            common[i] = n if n != 1 else common[i]
    return tuple(common[::-1])


def _shapes_text(shapes: Sequence[np.ndarray]) -> str:
    return " and ".join(shape_text(tuple(shape.tolist())) for shape in shapes)


def _are_same(shapes: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(shapes[0], shape) for shape in shapes)


def _broadcastable(*shapes: np.ndarray) -> tuple[int, ...]:
    result = _broadcast(shapes)
    require(result is not None, f"shapes {_shapes_text(shapes)} do not broadcast together")
    return result or ()


@op("shape.broadcast", any_sizes=True)
def broadcast(call: Call) -> Run:
    """The shape that all broadcast to, aligned at the last dimension."""
    _require_shapes(call)
    result = call.result()

    def kernel(*shapes: np.ndarray) -> np.ndarray:
        size = _size(_broadcastable(*shapes))
        require(result.admits(size.shape), f"the result has {len(size)} sizes, which does not fit {result}")
        return size

    return kernel


@op("shape.is_broadcastable", any_sizes=True)
def is_broadcastable(call: Call) -> Run:
    """Whether shapes broadcast together."""
    _require_shapes(call)
    return lambda *shapes: np.array(_broadcast(shapes) is not None)


@op("shape.shape_eq", any_sizes=True)
def shape_eq(call: Call) -> Run:
    """Whether all shapes are the same."""
    _require_shapes(call)
    return lambda *shapes: np.array(_are_same(shapes))


# -- witnesses ---------------------------------------------------------------------------------------------------------


def _witness(check: Callable[..., object]) -> Run:
    """The kernel that calls `check`, which raises OpError, and gives a witness."""

    def kernel(*values: Any) -> np.ndarray:
        check(*values)
        return _WITNESS

    return kernel


@op("shape.cstr_broadcastable", any_sizes=True, has_effects=True)
def cstr_broadcastable(call: Call) -> Run:
    """Fails unless the shapes broadcast together."""
    _require_shapes(call)
    return _witness(_broadcastable)


@op("shape.cstr_eq", any_sizes=True, has_effects=True)
def cstr_eq(call: Call) -> Run:
    """Fails unless all shapes are the same."""
    _require_shapes(call)
    return _witness(
        lambda *shapes: require(_are_same(shapes), f"shapes {_shapes_text(shapes)} differ (expected the same)")
    )


@op("shape.cstr_require", "bool", operands=1, has_effects=True)
def cstr_require(call: Call) -> Run:
    """Fails, with the message `msg`, unless the operand is true."""
    message = str(call.attributes.get("msg", "what is required does not hold"))
    return _witness(lambda holds: require(holds, message))


@op("shape.const_witness", operands=0, has_effects=True)
def const_witness(call: Call) -> Run:
    """A witness; fails where the attribute `passing` is false."""
    passing = bool(call.attribute("passing"))
    return _witness(lambda: require(passing, "the witness does not pass"))


@op("shape.assuming_all", "bool")
def assuming_all(call: Call) -> Run:
    """One witness for several."""
    require(call.result() == TensorType((), ELEMENT_TYPES["i1"]), f"the result is {call.result()}")
    return lambda *_: _WITNESS


@op("shape.assuming", "bool", values="regions", accuracy=BY_BODY, operands=1, any_sizes=True)
def assuming(call: Call) -> Run:
    """The results of the region, which is run: a witness has not failed."""
    require(len(call.bodies) == 1 and not call.bodies[0].arguments, "must have one region, which takes nothing")
    require(len(call.bodies[0].results) == len(call.results), f"the region has type {call.bodies[0]}")
    is_single = len(call.results) == 1
    return lambda regions, _: regions[0]()[0] if is_single else regions[0]()


# -- tensors -----------------------------------------------------------------------------------------------------------


def _dim(call: Call) -> Run:
    """One size of a tensor."""
    _require_scalars(call, 1)
    call.tensor()
    return lambda x, i: _size(x.shape[_at(i, x.ndim)])


op("tensor.dim", operands=2, any_sizes=True)(_dim)
op("shape.dim", operands=2, any_sizes=True)(_dim)


@op("tensor.rank", operands=1, any_sizes=True)
def tensor_rank(call: Call) -> Run:
    """How many dimensions a tensor has."""
    size = _size(len(call.tensor().shape))
    return lambda _: size


@op("tensor.from_elements")
def from_elements(call: Call) -> Run:
    """The tensor of these elements, in order."""
    shape, element = call.shape(), call.result().element
    require(len(call.operands) == math.prod(shape), f"{len(call.operands)} elements do not fill {call.result()}")
    scalar = TensorType((), element)
    require(all(t == scalar for t in call.operands), f"the elements must be {element}")
    return lambda *elements: np.array(elements, element.dtype).reshape(shape)


@op("tensor.extract", any_sizes=True)
def extract(call: Call) -> Run:
    """One element of a tensor."""
    t = call.tensor()
    require(len(call.operands) == 1 + len(t.shape), f"takes an index for each dimension of {t}")
    _require_scalars(call, 1)
    require(call.result() == TensorType((), t.element), f"the result is {call.result()} (expected {t.element})")
    return lambda x, *indices: x[(*(_at(i, n) for i, n in zip(indices, x.shape, strict=True)), ...)]
