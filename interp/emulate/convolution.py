"""Convolutions, einsum and ragged dots of minifloats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.cast import cast
from ...ops.op import OpError
from ...ops.policy import ACCUMULATIONS, Policy
from ...ops.products.convolution import Numbers, Window
from ...ops.products.einsum import dimensions_of
from ...ops.products.exact import exact_type_of_formats
from ...ops.types import ELEMENT_TYPES
from ..program import CONSTANT, Operation
from .products import Sums, contract_matrices, decoded
from .rewrite import Emulation, attributes_of, carrier, emulates
from .rounding import code_type
from .tensor import HIGHEST, I32, I64, Tensor, concatenate, constant, iota, where, write

_F32 = ELEMENT_TYPES["f32"]


@emulates("convolution")
def convolution(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Windows of the left operand times the right one, by a convolution of the device or as the rows of a matrix."""
    spatial = len(operands[0].shape) - 2
    padding = np.ravel(operation.attributes.get("padding", (0, 0) * spatial)).tolist()
    found = _direct(e, operation, operands, padding)
    return [_convolve(e, operation, operands, padding) if found is None else found]


@emulates("dynamic_conv")
def dynamic_conv(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """A convolution whose padding is an operand: a constant."""
    *sides, padding = operands
    owner: Any = padding.value.owner
    value = owner.attributes["value"] if getattr(owner, "name", "") == CONSTANT else None
    if value is None:
        raise OpError("expected a padding that is a constant, got one that is known at run time")
    return [_convolve(e, operation, sides, np.ravel(np.array(ir.DenseIntElementsAttr(value))).tolist())]


def _convolve(e: Emulation, operation: Operation, operands: Sequence[Tensor], padding: Sequence[int]) -> Tensor:
    """Return a convolution by windows."""
    (lhs, rhs), rank = operands, len(operands[0].shape)
    numbers, window = (
        Numbers.of(operation.attributes["dimension_numbers"], rank),
        Window.of(e.call(operation), rank - 2),
    )
    groups = [int(operation.attributes.get(f"{kind}_group_count", 1)) for kind in ("feature", "batch")]
    x, y = lhs.transpose(numbers.lhs), rhs.transpose(numbers.rhs)
    y = y.reverse(*(2 + i for i, r in enumerate(window.reversal) if r)) if any(window.reversal) else y
    found = _by_windows(Sums.of(e, operation), x, y, window, padding, *groups)
    return found.transpose([numbers.result.index(d) for d in range(rank)])


def _by_windows(
    sums: Sums, x: Tensor, y: Tensor, window: Window, padding: Sequence[int], features: int, batches: int
) -> Tensor:
    """Return a convolution as a product of matrices: (batch, features, spatial…) by (outputs, inputs, spatial…)."""
    padded, zero = _padded(sums, x, window, padding, (0, 1, *range(2, len(x.shape))))
    kernel, space = y.shape[2:], padded.shape[2:]
    reach = [(k - 1) * d + 1 if k else 0 for k, d in zip(kernel, window.rhs_dilation, strict=True)]
    counts = [(n - r) // s + 1 if n >= r and n else 0 for n, r, s in zip(space, reach, window.strides, strict=True)]
    batch, depth, outputs = x.shape[0], x.shape[1], y.shape[0]
    rows, inner = math.prod(counts), depth // features
    windows = []
    for place in itertools.product(*map(range, kernel)) if rows else ():
        part = padded
        for i, (k, d, s, n) in enumerate(zip(place, window.rhs_dilation, window.strides, counts, strict=True)):
            part = part.slice(2 + i, k * d, k * d + max((n - 1) * s + 1, 0), s)
        windows.append(part.reshape((1, *part.shape)))
    if not windows or not rows:
        windows = [constant(zero, x.element, (0, batch, depth, *counts))]
    stacked = concatenate(windows, 0)
    places = stacked.shape[0]
    matrix = stacked.reshape((places, batches, batch // batches, features, inner, rows))
    matrix = matrix.transpose((1, 3, 2, 5, 0, 4)).reshape((features * batches, batch // batches * rows, places * inner))
    each = outputs // (features * batches)
    weights = y.reshape((features * batches, each, y.shape[1], math.prod(kernel)))
    weights = weights.transpose((0, 3, 2, 1)).reshape((features * batches, math.prod(kernel) * y.shape[1], each))
    if not places * inner:
        weights = constant(0, y.element, (features * batches, 0, each))
    found = sums.matmul(matrix, weights).reshape((features * batches, batch // batches, rows, each))
    return found.transpose((1, 0, 3, 2)).reshape((batch // batches, outputs, *counts))


def _padded(sums: Sums, x: Tensor, window: Window, padding: Sequence[int], order: Sequence[int]) -> tuple[Tensor, int]:
    """Return the left operand with zeros around and between its elements, and their code; `order` has the dimensions of
    batch, feature and space.
    """
    zero = cast(np.zeros((), np.float32), _F32, sums.lhs, Policy()).view(np.uint8) if sums.lhs.is_minifloat else 0
    low, high, interior = ([0] * len(x.shape) for _ in range(3))
    for i, d in enumerate(order[2:]):
        low[d], high[d], interior[d] = padding[2 * i], padding[2 * i + 1], window.lhs_dilation[i] - 1
    return x.pad(constant(zero, x.element), low, high, interior), int(zero)


def _direct(e: Emulation, operation: Operation, operands: Sequence[Tensor], padding: Sequence[int]) -> Tensor | None:
    """Return a convolution by the device's own, in a type that holds every partial sum; None where there is none.

    Codes are padded before: the device must not decide what zeros of the padding do to what is not finite.
    """
    (x, y), sums, source, rank = operands, Sums.of(e, operation), e.source.mlir(operation), len(operands[0].shape)
    if not sums.are_minifloats or not (sums.lhs.format.has_zero and sums.rhs.format.has_zero) or source is None:
        return None
    policy, numbers = e.policy, Numbers.of(operation.attributes["dimension_numbers"], rank)
    shape = tuple(ir.RankedTensorType(source.results[0].type).shape)
    terms = math.prod(y.shape) // max(y.shape[numbers.rhs[0]], 1)
    compute, attributes = exact_type_of_formats(sums.lhs, sums.rhs, terms), attributes_of(source)
    if not policy.sums_exactly or policy.rounding == "down" or not sums.result.is_float or compute is None:
        return None
    if rank < 3 or 0 in (*x.shape, *y.shape, *shape):
        return None
    x, _ = _padded(sums, x, Window.of(e.call(operation), rank - 2), padding, numbers.lhs)
    attributes["precision_config"] = HIGHEST
    for name in ("padding", "lhs_dilation"):
        attributes.pop(name, None)
    values = [decoded(e, v, t, compute) for v, t in ((x, sums.lhs), (y, sums.rhs))]
    found = sums.plain_sums(write("convolution", compute, shape, *values, **attributes))
    if policy.rounding != "stochastic":
        return sums.round_sums(found)
    # Draws are in the order of batch, spatial and output feature, the features of groups outermost.
    batch, feature, *space = numbers.result
    count = math.prod(int(operation.attributes.get(f"{kind}_group_count", 1)) for kind in ("feature", "batch"))
    split = found.transpose((batch, feature, *space))
    split = split.reshape((split.shape[0], count, split.shape[1] // count, *split.shape[2:]))
    order = (1, 0, *range(3, rank + 1), 2)
    rounded = sums.round_sums(split.transpose(order)).transpose([order.index(d) for d in range(rank + 1)])
    rounded = rounded.reshape([shape[d] for d in numbers.result])
    return rounded.transpose([numbers.result.index(d) for d in range(rank)])


@emulates("einsum", "unary_einsum")
def einsum(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Products of elements whose labels agree, summed over the labels that the output lacks."""
    call = e.call(operation)
    labels, output = dimensions_of(call)
    element, sums = call.tensor(0).element, Sums.of(e, operation)
    if len(labels) == 1:
        one = np.asarray(cast(np.ones(()), ELEMENT_TYPES["f64"], element, Policy()))
        labels = [(), *labels]
        operands = [constant(one.view(np.uint8) if element.is_minifloat else one, operands[0].element), *operands]
    (left, x), (right, y) = (_diagonal(names, v) for names, v in zip(labels, operands, strict=True))
    for name in [n for n in left if n not in right and n not in output]:
        y, right = y.expand(len(y.shape), x.shape[left.index(name)]), (*right, name)
    for name in [n for n in right if n not in left and n not in output]:
        x, left = x.expand(len(x.shape), y.shape[right.index(name)]), (*left, name)
    batch = [n for n in left if n in right and n in output]
    summed = [n for n in left if n in right and n not in output]
    x_free, y_free = [n for n in left if n not in right], [n for n in right if n not in left]
    found = contract_matrices(
        sums, x, y, *([[side.index(n) for n in names] for names in group] for side, group in (
            (left, (batch, x_free, summed)), (right, (batch, summed, y_free)),
        ))
    )  # fmt: skip
    dimensions = [*batch, *x_free, *y_free]
    return [found.transpose([dimensions.index(n) for n in output])]


def _diagonal(names: Sequence[str], x: Tensor) -> tuple[tuple[str, ...], Tensor]:
    """Return a tensor of elements whose indices agree where labels do, and the label of each dimension."""
    names = tuple(names)
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            bits = x.bits(code_type(x.element.format)) if x.element.is_float else x
            agrees = iota(I32, x.shape, first).equals(iota(I32, x.shape, second))
            x = where(agrees, bits, 0).reduce("or", 0, [second]).bits(x.element)
            names = (*names[:second], *names[second + 1 :])
    return names, x


@emulates("chlo.ragged_dot")
def ragged_dot(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Dots of groups of consecutive places along one dimension of lhs."""
    lhs, rhs, sizes = operands
    numbers = operation.attributes["ragged_dot_dimension_numbers"]
    x_batch, x_sum, y_batch, y_sum = (
        [int(d) for d in numbers.get(f"{side}_{kind}_dimensions", ())]
        for side in ("lhs", "rhs")
        for kind in ("batching", "contracting")
    )
    (ragged,) = [int(d) for d in numbers.get("lhs_ragged_dimensions", ())]
    groups = [int(d) for d in numbers.get("rhs_group_dimensions", ())]
    x_free = [d for d in range(len(lhs.shape)) if d not in x_batch + x_sum]
    y_free = [d for d in range(len(rhs.shape)) if d not in y_batch + y_sum + groups]
    sums = Sums.of(e, operation)
    if ragged in x_batch:
        return [contract_matrices(sums, lhs, rhs, (x_batch, x_free, x_sum), (y_batch, y_sum, y_free))]
    is_sum, by_unit = ragged in x_sum, e.policy.accumulate not in ACCUMULATIONS
    has_zero = all(t.format.has_zero for t in (sums.lhs, sums.rhs) if t.is_float)
    if e.policy.rounding == "stochastic" or (is_sum and (by_unit or not has_zero)):
        raise OpError("expected another rounding than stochastic, and no accumulator of sums whose length is open")
    kind, count, extent = x_sum if is_sum else x_free, sizes.shape[-1], lhs.shape[ragged]
    at = kind.index(ragged)
    # The dimensions that sizes differ in, and then that of the groups.
    where_in_x, where_in_y = ([*b, *k[: at + 1]] for b, k in ((x_batch, kind), (y_batch, y_sum)))
    if len(sizes.shape) == 1:
        where_in_x, where_in_y = where_in_x[-1:], where_in_y[-1:]
    sizes = sizes.at_least(0).at_most(min(extent, sizes.element.range[1])).to(I64)
    shape = (*sizes.shape[:-1], extent)
    place, end = iota(I64, shape, len(shape) - 1), constant(0, I64, shape[:-1])
    parts: list[Tensor] = []
    zero = np.asarray(cast(np.zeros(()), ELEMENT_TYPES["f64"], sums.result, Policy()))
    nothing = constant(
        zero.view(np.uint8) if sums.result.is_minifloat else zero, carrier(sums.result), e.call(operation).shape()
    )
    for g in range(count):
        begin, end = end, end + sizes.slice(len(shape) - 1, g, g + 1).reshape(shape[:-1])
        inside = (place >= begin.expand(len(shape) - 1, extent)) & (place < end.expand(len(shape) - 1, extent))
        if is_sum:
            x, y = (
                where(inside.transpose(np.argsort(dims)).broadcast(v.shape, sorted(dims)), v, 0)
                for v, dims in ((lhs, where_in_x), (rhs, where_in_y))
            )
            parts.append(contract_matrices(sums, x, y, (x_batch, x_free, x_sum), (y_batch, y_sum, y_free)).expand(0))
            continue
        other = rhs.slice(groups[0], g, g + 1)
        other = other.reshape([n for d, n in enumerate(rhs.shape) if d != groups[0]])
        moved = [[d - (d > groups[0]) for d in dims] for dims in (y_batch, y_sum, y_free)]
        part = contract_matrices(sums, lhs, other, (x_batch, x_free, x_sum), moved)
        order = [*x_batch, *x_free]
        chosen = inside.broadcast(part.shape, [order.index(d) for d in where_in_x])
        parts = [where(chosen, part, parts[0] if parts else nothing)]
    return [concatenate(parts, 0) if is_sum and parts else parts[0] if parts else nothing]
