"""Ops that make, move and group values without looking at them: constants, views, copies, tuples and tokens."""

from __future__ import annotations

import math
import operator

import numpy as np

from ..cast import cast
from ..op import CORRECTLY_ROUNDED, Call, OpError, Run, op
from ..require import identity, require, require_dimensions, require_element, require_shape, result_shape, storage
from ..traits import PURE, PURE_LINEAR, OpTraits
from ..types import ELEMENT_TYPES, TokenType, TupleType

#: Of ops that move the elements of all their operands.
_MOVES_ALL = OpTraits(is_pure=True, linear=range)


@op("constant", "any foreign", operands=0, traits=PURE)
def constant(call: Call) -> Run:
    """The value of its attribute, as it stands.

    (C1) The value has the type of the result.
    """
    value, result = call.attribute("value"), call.result()
    require(isinstance(value, np.ndarray), "value must be dense elements of a known type")
    require(value.dtype == result.element.dtype, f"value is of {value.dtype} (expected {result.element.dtype})")
    require_shape(call, value.shape)
    return lambda: value


@op("iota", "integer float complex", values="numbers", accuracy=CORRECTLY_ROUNDED, operands=0, traits=PURE)
def iota(call: Call) -> Run:
    """Each element's index along one dimension; integers wrap, floats are rounded once.

    (C1) iota_dimension is a dimension of the result.
    """
    dimension, element = int(call.attribute("iota_dimension")), call.result().element
    shape = result_shape(call, (None,) * len(call.result().shape))
    require_dimensions("iota_dimension", (dimension,), len(shape))
    if 0 in shape:
        return lambda: np.empty(shape, element.dtype)
    size = shape[dimension]
    across = tuple(size if d == dimension else 1 for d in range(len(shape)))
    policy = call.policy.for_results(element)

    def kernel() -> np.ndarray:
        line = cast(np.arange(size), ELEMENT_TYPES["i64"], element, policy, call.random.draws(policy))
        return np.broadcast_to(line.reshape(across), shape)

    if policy.rounding == "stochastic":
        return kernel
    value = kernel()
    return lambda: value


@op("reshape", operands=1, traits=PURE_LINEAR)
def reshape(call: Call) -> Run:
    """The same elements, in order, in another shape.

    (C1) One element type. (C2) As many elements as before.
    """
    require_element(call)
    old, new = call.tensor(), call.result()
    expected = new.shape
    if old.is_static and expected.count(None) == 1:
        rest = math.prod(n for n in expected if n is not None)
        require(rest > 0 and old.size % rest == 0, f"{old} does not fill {new}")
        expected = tuple(old.size // rest if n is None else n for n in expected)
    shape = result_shape(call, expected)
    require(not old.is_static or old.size == math.prod(shape), f"{old} does not have the size of {new}")
    return lambda x: x.reshape(shape)


@op("transpose", operands=1, traits=PURE_LINEAR)
def transpose(call: Call) -> Run:
    """The dimensions in another order.

    (C1) One element type. (C2) permutation orders the operand's dimensions. (C3) The result's shape is in that order.
    """
    require_element(call)
    permutation, shape = call.integers("permutation"), call.tensor().shape
    fits = sorted(permutation) == list(range(len(shape)))
    require(fits, f"expected a permutation of the {len(shape)} dimensions of {call.tensor()}, got {list(permutation)}")
    require_shape(call, tuple(shape[d] for d in permutation))
    return lambda x: x.transpose(permutation)


@op("broadcast_in_dim", operands=1, traits=PURE_LINEAR)
def broadcast_in_dim(call: Call) -> Run:
    """The operand repeated along new dimensions and along those of size 1.

    (C1) One element type. (C2) A broadcast dimension for each of the operand's. (C3) Each is a dimension of the result.
    (C4) None twice. (C5) Each dimension of the operand has size 1 or the result's size there.
    """
    require_element(call)
    return _broadcast(call, call.integers("broadcast_dimensions"), "broadcast_dimensions")


@op("broadcast", operands=1, traits=PURE_LINEAR, has_section=False)
def broadcast(call: Call) -> Run:
    """The operand repeated along new leading dimensions; an older form of broadcast_in_dim."""
    require_element(call)
    sizes, shape = call.integers("broadcast_sizes"), call.tensor().shape
    require_shape(call, sizes + shape)
    return _broadcast(call, tuple(range(len(sizes), len(sizes) + len(shape))), "broadcast_sizes")


def _broadcast(call: Call, dimensions: tuple[int, ...], name: str) -> Run:
    old, known = call.operand_shape(), list(call.result().shape)
    fits = len(dimensions) == len(old)
    require(fits, f"expected {name} for each dimension of {call.tensor()}, got {list(dimensions)}")
    require_dimensions(name, dimensions, len(known))
    for n, d in zip(old, dimensions, strict=True):
        known[d] = n if known[d] is None else known[d]
    shape = result_shape(call, tuple(known))
    spread = [1] * len(shape)
    for n, d in zip(old, dimensions, strict=True):
        require(n in (1, shape[d]), f"dimension of size {n} cannot become size {shape[d]} (expected 1 or {shape[d]})")
        spread[d] = n
    order = tuple(int(d) for d in np.argsort(dimensions, kind="stable"))
    in_order = order == tuple(range(len(order)))

    return lambda x: np.broadcast_to((x if in_order else x.transpose(order)).reshape(spread), shape)


@op("concatenate", traits=_MOVES_ALL)
def concatenate(call: Call) -> Run:
    """The operands one after another along a dimension.

    (C1), (C5) One element type. (C2) One shape but for that dimension. (C3) At least one operand. (C4) dimension is one
    of theirs. (C6) The result is as long there as they are together.
    """
    require(call.operands, "expected at least one operand, got none")
    tensors = [call.tensor(i) for i in range(len(call.operands))]
    require_element(call, *tensors)
    dimension, first = int(call.attribute("dimension")), tensors[0].shape
    require_dimensions("dimension", (dimension,), len(first))
    total: int | None = 0
    for t in tensors:
        others = [(a, b) for d, (a, b) in enumerate(zip(t.shape, first, strict=False)) if d != dimension]
        fits = len(t.shape) == len(first) and all(a == b or None in (a, b) for a, b in others)
        require(fits, f"{t} does not fit {tensors[0]} (only dimension {dimension} may differ)")
        n = t.shape[dimension]
        total = None if n is None or total is None else total + n
    require_shape(call, (*first[:dimension], total, *first[dimension + 1 :]))
    return lambda *arrays: np.concatenate(arrays, dimension)


@op("reverse", operands=1, traits=PURE_LINEAR)
def reverse(call: Call) -> Run:
    """The elements in the opposite order along some dimensions.

    (C1) The operand and the result have one type. (C2) dimensions are not repeated. (C3) Each is one of the operand's.
    """
    require_element(call)
    dimensions, shape = call.integers("dimensions"), call.tensor().shape
    require_dimensions("dimensions", dimensions, len(shape))
    require_shape(call, shape)
    index = tuple(slice(None, None, -1 if d in dimensions else None) for d in range(len(shape)))
    return lambda x: x[index]


@op("pad", operands=2, traits=_MOVES_ALL)
def pad(call: Call) -> Run:
    """The operand with a value put between its elements, then before and after them, or elements cut off there.

    (C1) One element type; the padding value is a scalar. (C2) An amount for each dimension. (C3) interior_padding is
    not negative. (C4) The result's shape is what that makes.
    """
    value, element = call.tensor(1), call.tensor().element
    require_element(call, value)
    require(value.shape == (), f"expected a scalar as the padding value, got {value}")
    old = call.operand_shape()
    low, high, interior = (
        call.integers(name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    for amounts in (low, high, interior):
        fits = len(amounts) == len(old)
        require(fits, f"expected padding for each dimension of {call.tensor()}, got {list(amounts)}")
    require(min(interior, default=0) >= 0, f"expected interior_padding of at least 0, got {list(interior)}")
    axes = list(zip(old, low, high, interior, strict=True))
    shape = tuple(n + a + max(n - 1, 0) * between + b for n, a, b, between in axes)
    require(min(shape, default=0) >= 0, f"the padding makes the shape {list(shape)} (no size may be negative)")
    require_shape(call, shape)

    source, target = (), ()
    for (n, start, _, between), size in zip(axes, shape, strict=True):
        step = between + 1
        first = max(0, -(start // step))  # the first element that is not cut off, and the number of those
        count = max(0, min(n - 1, (size - 1 - start) // step) - first + 1)
        source += (slice(first, first + count),)
        target += (slice(start + first * step, start + (first + count) * step, step),)
    moved = storage(element)

    def kernel(x: np.ndarray, value: np.ndarray) -> np.ndarray:
        result = np.full(shape, value.view(moved), moved)
        result[target] = x.view(moved)[source]
        return result.view(element.dtype)

    return kernel


@op("tuple", any_sizes=True)
def tuple_(call: Call) -> Run:
    """The operands as one value.

    (C1) The result's type lists theirs.
    """
    fits = call.results == (TupleType(call.operands),)
    require(fits, f"expected a result of {TupleType(call.operands)}, got {', '.join(map(str, call.results))}")
    return lambda *values: values


@op("get_tuple_element", operands=1, any_sizes=True)
def get_tuple_element(call: Call) -> Run:
    """One element of a tuple.

    (C1) index numbers an element. (C2) The result has that element's type.
    """
    (t,), index = call.operands, int(call.attribute("index"))
    if not isinstance(t, TupleType):
        raise OpError(f"expected a tuple as the operand, got {t}")
    require(0 <= index < len(t.elements), f"expected the index of an element of {t}, got {index}")
    fits = call.results == (t.elements[index],)
    require(fits, f"expected a result of {t.elements[index]}, got {', '.join(map(str, call.results))}")
    return operator.itemgetter(index)


@op("optimization_barrier", any_sizes=True, traits=PURE)
def optimization_barrier(call: Call) -> Run:
    """The operands as they are.

    (C1) The results have their types.
    """
    require(call.operands == call.results, "the results must have the operands' types")
    return identity if len(call.operands) == 1 else lambda *values: values


def _token(call: Call) -> Run:
    for t in (*call.operands, *call.results):
        require(isinstance(t, TokenType), f"expected tokens, got {t}")
    return lambda *_: None


@op("after_all")
def after_all(call: Call) -> Run:
    """A token that depends on all operands."""
    return _token(call)


@op("create_token", operands=0, has_section=False)
def create_token(call: Call) -> Run:
    """A new token."""
    return _token(call)
