"""Convolutions of minifloats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.cast import cast
from ...ops.op import OpError
from ...ops.policy import Policy
from ...ops.products.convolution import Numbers, Window
from ...ops.products.exact import exact_type_of_formats
from ..program import Operation
from .products import Sums, decoded
from .rewrite import Emulation
from .rules import attributes_of, emulates
from .tensor import F32, HIGHEST, Tensor, concatenate, constant, where, write


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
    padding = e.binder.constant_of(operation.operands[2])
    if padding is None:
        raise OpError("expected a padding that is a constant, got one that is known at run time")
    return [_convolve(e, operation, operands[:2], np.ravel(padding).tolist())]


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
    zero = cast(np.zeros((), np.float32), F32, sums.lhs, Policy()).view(np.uint8) if sums.lhs.is_minifloat else 0
    low, high, interior = ([0] * len(x.shape) for _ in range(3))
    for i, d in enumerate(order[2:]):
        low[d], high[d], interior[d] = padding[2 * i], padding[2 * i + 1], window.lhs_dilation[i] - 1
    return x.pad(constant(zero, x.element), low, high, interior), int(zero)


def _direct(e: Emulation, operation: Operation, operands: Sequence[Tensor], padding: Sequence[int]) -> Tensor | None:
    """Return a convolution by the device's own, in a type that holds every partial sum; None where there is none.

    The device must not decide what zeros of the padding do to a kernel that is not finite: infinities meet them as
    numbers of the operand, and NaN is put where the kernel has it.
    """
    (x, y), sums, source, rank = operands, Sums.of(e, operation), e.source.mlir(operation), len(operands[0].shape)
    if not sums.are_minifloats or not (sums.lhs.format.has_zero and sums.rhs.format.has_zero) or source is None:
        return None
    policy, numbers = e.policy, Numbers.of(operation.attributes["dimension_numbers"], rank)
    shape = tuple(ir.RankedTensorType(source.results[0].type).shape)
    terms = math.prod(y.shape) // max(y.shape[numbers.rhs[0]], 1)
    compute, attributes = exact_type_of_formats(sums.lhs, sums.rhs, terms), attributes_of(source)
    # Zeros rounded down, and the order of draws, are those of a matrix.
    as_matrix = not policy.sums_exactly or policy.rounding in ("down", "stochastic") or not sums.result.is_float
    if as_matrix or compute is None or rank < 3 or 0 in (*x.shape, *y.shape, *shape):
        return None
    has_infinity = sums.lhs.format.has_infinity or sums.rhs.format.has_infinity
    if has_infinity:
        x, _ = _padded(sums, x, Window.of(e.call(operation), rank - 2), padding, numbers.lhs)
        attributes = {k: v for k, v in attributes.items() if k not in ("padding", "lhs_dilation")}
    attributes["precision_config"] = HIGHEST
    values = [decoded(e, v, t, compute) for v, t in ((x, sums.lhs), (y, sums.rhs))]
    found = write("convolution", compute, shape, *values, **attributes)
    if not has_infinity and sums.rhs.format.nan_code is not None:
        has_nan = values[1].differs(values[1]).any(numbers.rhs[1:]).broadcast(shape, [numbers.result[1]])
        found = where(has_nan, math.nan, found)
    return sums.round_sums(sums.plain_sums(found))
