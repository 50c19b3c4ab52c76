"""Convolutions of minifloats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.op import OpError
from ...ops.products.convolution import Numbers, Window
from ...ops.products.exact import exact_type_of_formats
from ...ops.reductions.axes import Axis
from ..program import Operation
from .products import Sums, decoded
from .rewrite import Emulation
from .rules import attributes_of, emulates, number_of
from .tensor import HIGHEST, Tensor, concatenate, constant, where, write
from .windows import pad, places, view


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
    numbers = Numbers.of(operation.attributes["dimension_numbers"], rank)
    window = Window.of(e.call(operation), rank - 2)
    groups = [int(operation.attributes.get(f"{kind}_group_count", 1)) for kind in ("feature", "batch")]
    x, y = lhs.transpose(numbers.lhs), rhs.transpose(numbers.rhs)
    y = y.reverse(*(2 + i for i, r in enumerate(window.reversal) if r)) if any(window.reversal) else y
    found = _by_windows(Sums.of(e, operation), x, y, window, padding, *groups)
    return found.transpose([numbers.result.index(d) for d in range(rank)])


def _by_windows(
    sums: Sums, x: Tensor, y: Tensor, window: Window, padding: Sequence[int], features: int, batches: int
) -> Tensor:
    """Return a convolution as a product of matrices: (batch, features, spatial…) by (outputs, inputs, spatial…)."""
    axes = _axes(x.shape, range(len(x.shape)), y.shape[2:], window, padding)
    batch, depth, *counts = [a.count for a in axes]
    rows, outputs, inner = math.prod(counts), y.shape[0], depth // features
    padded = pad(x, number_of(0.0, sums.lhs), axes) if rows else x
    windows = [view(padded, place, axes).expand(0) for place in places(axes)] if rows else []
    stacked = concatenate(windows or [constant(0, x.element, (0, batch, depth, *counts))], 0)
    size = stacked.shape[0]
    matrix = stacked.reshape((size, batches, batch // batches, features, inner, rows))
    matrix = matrix.transpose((1, 3, 2, 5, 0, 4)).reshape((features * batches, batch // batches * rows, size * inner))
    each = outputs // (features * batches)
    weights = y.reshape((features * batches, each, y.shape[1], math.prod(y.shape[2:]))).transpose((0, 3, 2, 1))
    weights = weights.reshape((features * batches, math.prod(y.shape[1:]), each))
    if not size * inner:
        weights = constant(0, y.element, (features * batches, 0, each))
    found = sums.matmul(matrix, weights).reshape((features * batches, batch // batches, rows, each))
    return found.transpose((1, 0, 3, 2)).reshape((batch // batches, outputs, *counts))


def _axes(
    shape: Sequence[int], order: Sequence[int], kernel: Sequence[int], window: Window, padding: Sequence[int]
) -> list[Axis]:
    """Return the windows along each dimension of the left operand; `order` has those of batch, feature and space."""
    axes = [Axis(n, 1) for n in shape]
    for d, axis in zip(order[2:], window.axes([shape[d] for d in order[2:]], kernel, tuple(padding)), strict=True):
        axes[d] = axis
    return axes


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
        window, kernel = Window.of(e.call(operation), rank - 2), [y.shape[d] for d in numbers.rhs[2:]]
        x = pad(x, number_of(0.0, sums.lhs), _axes(x.shape, numbers.lhs, kernel, window, padding))
        attributes = {k: v for k, v in attributes.items() if k not in ("padding", "lhs_dilation")}
    attributes["precision_config"] = HIGHEST
    values = [decoded(e, v, t, compute) for v, t in ((x, sums.lhs), (y, sums.rhs))]
    found = write("convolution", compute, shape, *values, **attributes)
    if not has_infinity and sums.rhs.format.nan_code is not None:
        has_nan = values[1].differs(values[1]).any(numbers.rhs[1:]).broadcast(shape, [numbers.result[1]])
        found = where(has_nan, math.nan, found)
    return sums.round_sums(sums.plain_sums(found))
