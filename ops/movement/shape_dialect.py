"""Ops of MLIR's `shape` and `tensor` dialects with which programs compute sizes.

Producers write these for what is unknown until a program runs, and CHLO's broadcasting ops expand to them. A shape is a
list of sizes, and a size, which is of MLIR's type `index`, an i64; a witness is an i1 that is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..op import Call, Run, op
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


def _require_same(*shapes: np.ndarray) -> None:
    require(_are_same(shapes), f"shapes {_shapes_text(shapes)} differ (expected the same)")


def _witness(check: Callable[..., object]) -> Run:
    """The kernel that calls `check`, which raises OpError, and gives a witness."""

    def kernel(*values: Any) -> np.ndarray:
        check(*values)
        return _WITNESS

    return kernel


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


@op("shape.assuming", "bool", values="regions", operands=1, any_sizes=True)
def assuming(call: Call) -> Run:
    """The results of the region, which is run: a witness has not failed."""
    require(len(call.bodies) == 1 and not call.bodies[0].arguments, "must have one region, which takes nothing")
    require(len(call.bodies[0].results) == len(call.results), f"the region has type {call.bodies[0]}")
    is_single = len(call.results) == 1
    return lambda regions, _: regions[0]()[0] if is_single else regions[0]()


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


def _declare(name: str, operands: int | None, kernel: Run, check: Callable[[Call], object], doc: str) -> None:
    def bind(call: Call) -> Run:
        check(call)
        return kernel

    bind.__doc__ = doc
    op(name, operands=operands, any_sizes=True, has_effects=name.startswith("shape.cstr_"))(bind)


def _check_indexed(call: Call) -> None:
    call.tensor()
    _require_scalars(call, 1)


def _dim(x: np.ndarray, i: Any) -> np.ndarray:
    return _size(x.shape[_at(i, x.ndim)])


for _row in (
    ("shape.shape_of", 1, lambda x: _size(x.shape), Call.tensor, "The sizes of a tensor."),
    ("shape.from_extents", None, lambda *sizes: _size(sizes), _require_scalars, "The shape of these sizes."),
    ("shape.rank", 1, lambda x: _size(len(x)), _require_shapes, "How many dimensions a tensor of this shape has."),
    ("shape.num_elements", 1, lambda x: _size(math.prod(x.tolist())), _require_shapes,
     "How many elements a tensor of this shape has."),
    ("shape.get_extent", 2, lambda x, i: _size(x[_at(i, len(x))]), _check_indexed, "One size of a shape."),
    ("shape.concat", 2, lambda *shapes: np.concatenate(shapes), _require_shapes,
     "The sizes of the first shape, then those of the second."),
    ("shape.is_broadcastable", None, lambda *shapes: np.array(_broadcast(shapes) is not None), _require_shapes,
     "Whether shapes broadcast together."),
    ("shape.shape_eq", None, lambda *shapes: np.array(_are_same(shapes)), _require_shapes,
     "Whether all shapes are the same."),
    ("shape.cstr_broadcastable", None, _witness(_broadcastable), _require_shapes,
     "Fails unless the shapes broadcast together."),
    ("shape.cstr_eq", None, _witness(_require_same), _require_shapes, "Fails unless all shapes are the same."),
    ("shape.dim", 2, _dim, _check_indexed, "One size of a tensor."),
    ("tensor.dim", 2, _dim, _check_indexed, "One size of a tensor."),
):  # fmt: skip
    _declare(*_row)
