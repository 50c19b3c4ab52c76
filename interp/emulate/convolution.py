"""Convolutions, einsum and ragged dots of minifloats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.cast import cast
from ...ops.minifloat.formats import Format
from ...ops.op import OpError
from ...ops.policy import Policy
from ...ops.products.convolution import Numbers, Window
from ...ops.products.einsum import dimensions_of
from ...ops.products.exact import exact_type_of_formats
from ...ops.tables import all_codes
from ...ops.types import ELEMENT_TYPES, ElementType
from ..program import Operation
from .products import Sums, contract_matrices, sums_of
from .rewrite import Emulation, emulates, refuses
from .rounding import exact_of_float
from .tensor import I1, UI32, Tensor, concatenate, constant, fill, insert, integers, iota, type_of, where

_F32 = ELEMENT_TYPES["f32"]

refuses("its padding is only known at run time (give the types of the arguments)", "dynamic_conv")


@emulates("convolution")
def convolution(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Windows of the left operand, as the rows of a matrix, times the right one."""
    call, attributes = e.call(operation), operation.attributes
    lhs, rhs = operands
    spatial = len(lhs.shape) - 2
    numbers = Numbers.of(attributes["dimension_numbers"], spatial + 2)
    window = Window.of(call, spatial)
    padding = tuple(map(int, np.ravel(attributes.get("padding", (0, 0) * spatial))))
    groups = [int(attributes.get(f"{kind}_group_count", 1)) for kind in ("feature", "batch")]
    x, y = lhs.transpose(numbers.lhs), rhs.transpose(numbers.rhs)
    y = y.reverse(*(2 + i for i, r in enumerate(window.reversal) if r)) if any(window.reversal) else y
    sums = sums_of(e, operation)
    found = _direct(sums, x, y, window, padding) if groups == [1, 1] else None
    if found is None:
        found = _by_windows(sums, x, y, window, padding, *groups)
    return [found.transpose([numbers.result.index(d) for d in range(spatial + 2)])]


def _by_windows(
    sums: Sums, x: Tensor, y: Tensor, window: Window, padding: Sequence[int], features: int, batches: int
) -> Tensor:
    """Return a convolution as a product of matrices: (batch, features, spatial…) by (outputs, inputs, spatial…)."""
    zero = cast(np.zeros((), np.float32), _F32, sums.lhs, Policy()).view(np.uint8) if sums.lhs.is_minifloat else 0
    interior = [0, 0, *(d - 1 for d in window.lhs_dilation)]
    padded = x.pad(constant(zero, x.element), [0, 0, *padding[::2]], [0, 0, *padding[1::2]], interior)
    kernel, space = y.shape[2:], padded.shape[2:]
    reach = [(k - 1) * d + 1 if k else 0 for k, d in zip(kernel, window.rhs_dilation, strict=True)]
    counts = [(n - r) // s + 1 if n >= r and n else 0 for n, r, s in zip(space, reach, window.strides, strict=True)]
    batch, depth, outputs = x.shape[0], x.shape[1], y.shape[0]
    rows, inner = math.prod(counts), depth // features
    windows = []
    for place in itertools.product(*map(range, kernel)):
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


def _direct(sums: Sums, x: Tensor, y: Tensor, window: Window, padding: Sequence[int]) -> Tensor | None:
    """Return a convolution by the device's own, in a type that holds every partial sum; None where there is none.

    The device must not decide what zeros of the padding do to what is not finite: NaN is left out, and put where a
    window or a kernel has it. Formats with infinities go by windows.
    """
    formats = [t.format for t in (sums.lhs, sums.rhs) if t.is_minifloat]
    policy = sums.e.policy
    if len(formats) < 2 or any(f.has_infinity or not f.has_zero for f in formats) or 0 in (*x.shape, *y.shape):
        return None
    if not policy.sums_exactly or policy.rounding == "down" or not sums.result.is_float:
        return None
    compute = exact_type_of_formats(sums.lhs, sums.rhs, math.prod(y.shape[1:]))
    if compute is None:
        return None
    spatial = range(len(x.shape) - 2)
    dims = ", ".join(map(str, spatial))
    order = f"#stablehlo.conv<[b, f, {dims}]x[o, i, {dims}]->[b, f, {dims}]>" if spatial else None
    if order is None:
        return None
    pads = np.array(padding, np.int64).reshape(-1, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(y.shape[2:], window.rhs_dilation, strict=True)]
    sizes = [(n - 1) * d + 1 + int(p.sum()) for n, d, p in zip(x.shape[2:], window.lhs_dilation, pads, strict=True)]
    counts = [(n - r) // s + 1 if n >= r else 0 for n, r, s in zip(sizes, reach, window.strides, strict=True)]
    shape = (x.shape[0], y.shape[0], *counts)
    if 0 in shape:
        return None
    highest = "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"
    op = insert(
        "convolution",
        [type_of(compute, shape)],
        [_finite(sums.e, v, t, compute).value for v, t in ((x, sums.lhs), (y, sums.rhs))],
        {
            "dimension_numbers": order,
            "window_strides": integers(window.strides),
            "padding": ir.DenseElementsAttr.get(pads),
            "lhs_dilation": integers(window.lhs_dilation),
            "rhs_dilation": integers(window.rhs_dilation),
            "feature_group_count": "1 : i64",
            "batch_group_count": "1 : i64",
            "precision_config": highest,
        },
    )
    found = Tensor(op.results[0], compute, shape)
    found = where(found.equals(0), constant(0, compute, shape), found)
    is_nan = _where_nan(sums, x, y, window, pads, shape)
    if is_nan is not None:
        found = where(is_nan, constant(math.nan, compute, shape), found)
    return sums.round(exact_of_float(found), found)


def _finite(e: Emulation, x: Tensor, t: ElementType, wide: ElementType) -> Tensor:
    values = cast(all_codes(t), t, wide, Policy())
    return e.table(np.where(np.isfinite(values), values, 0).astype(wide.dtype), wide).take(x.to(UI32))


def _where_nan(
    sums: Sums, x: Tensor, y: Tensor, window: Window, pads: np.ndarray, shape: Sequence[int]
) -> Tensor | None:
    """Return where a window or its kernel has NaN; None where no format has it."""
    parts = []
    if _has_nan(sums.lhs.format):
        mask = _is_nan(sums.e, x, sums.lhs).any([1])
        op = insert(
            "reduce_window",
            [type_of(I1, (shape[0], *shape[2:]))],
            [mask.value, constant(False, I1).value],
            {
                "window_dimensions": integers([1, *y.shape[2:]]),
                "window_strides": integers([1, *window.strides]),
                "base_dilations": integers([1, *window.lhs_dilation]),
                "window_dilations": integers([1, *window.rhs_dilation]),
                "padding": ir.DenseElementsAttr.get(np.concatenate([np.zeros((1, 2), np.int64), pads])),
            },
            1,
        )
        scalar = type_of(I1, ())
        fill(op.regions[0], [scalar, scalar], lambda a, b: [insert("or", [scalar], [a, b]).results[0]])
        found = Tensor(op.results[0], I1, (shape[0], *shape[2:]))
        parts.append(found.broadcast(shape, [d for d in range(len(shape)) if d != 1]))
    if _has_nan(sums.rhs.format):
        mask = _is_nan(sums.e, y, sums.rhs).any(range(1, len(y.shape)))
        parts.append(mask.broadcast(shape, [1]))
    return None if not parts else parts[0] if len(parts) == 1 else parts[0] | parts[1]


def _has_nan(fmt: Format) -> bool:
    return fmt.nan_code is not None


def _is_nan(e: Emulation, x: Tensor, t: ElementType) -> Tensor:
    return e.table(np.isnan(all_codes(t).astype(np.float32)), I1).take(x.to(UI32))


@emulates("einsum", "unary_einsum")
def einsum(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Products of elements whose labels agree, summed over the labels that the output lacks."""
    call = e.call(operation)
    labels, output = dimensions_of(call)
    if any(len(set(names)) < len(names) for names in labels):
        raise OpError("expected labels that no operand repeats")
    element = call.tensor(0).element
    if len(labels) == 1:
        one = cast(np.ones(()), ELEMENT_TYPES["f64"], element, Policy())
        labels, operands = [(), *labels], [constant(np.asarray(one).view(np.uint8), operands[0].element), *operands]
    (left, right), (x, y) = labels, operands
    for mine, theirs, swap in ((left, right, False), (right, left, True)):
        lone = [n for n in mine if n not in theirs and n not in output]
        for name in lone:
            size = (y if swap else x).shape[mine.index(name)]
            if swap:
                x, left = x.expand(len(x.shape), size), (*left, name)
            else:
                y, right = y.expand(len(y.shape), size), (*right, name)
    batch = [n for n in left if n in right and n in output]
    summed = [n for n in left if n in right and n not in output]
    x_free, y_free = [n for n in left if n not in right], [n for n in right if n not in left]
    types = [call.tensor(i).element for i in range(len(call.operands))]
    sums = Sums(e, types[0], types[-1], call.result().element)
    found = contract_matrices(
        sums, x, y, *([[side.index(n) for n in names] for names in group] for side, group in (
            (left, (batch, x_free, summed)), (right, (batch, summed, y_free)),
        ))
    )  # fmt: skip
    dimensions = [*batch, *x_free, *y_free]
    return [found.transpose([dimensions.index(n) for n in output])]


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
    sums = sums_of(e, operation)
    if ragged in x_batch:
        return [contract_matrices(sums, lhs, rhs, (x_batch, x_free, x_sum), (y_batch, y_sum, y_free))]
    if len(sizes.shape) != 1 or e.policy.rounding == "stochastic":
        raise OpError("expected one list of group sizes, and another rounding than stochastic")
    count, extent = sizes.shape[0], lhs.shape[ragged]
    place, end = iota(sizes.element, (extent,)), constant(0, sizes.element)
    parts: list[Tensor] = []
    total: Tensor | None = None
    for g in range(count):
        begin, end = end, end + sizes.slice(0, g, g + 1).reshape(()).at_least(0).at_most(extent)
        inside = (place >= begin) & (place < end)
        if ragged in x_sum:
            masked = [
                where(inside.broadcast(v.shape, [d]), v, 0)
                for v, d in ((lhs, ragged), (rhs, y_sum[x_sum.index(ragged)]))
            ]
            part = contract_matrices(sums, *masked, (x_batch, x_free, x_sum), (y_batch, y_sum, y_free))
            parts.append(part.expand(0))
            continue
        other = rhs.slice(groups[0], g, g + 1)
        other = other.reshape([n for d, n in enumerate(rhs.shape) if d != groups[0]])
        moved = [[d - (d > groups[0]) for d in dims] for dims in (y_batch, y_sum, y_free)]
        part = contract_matrices(sums, lhs, other, (x_batch, x_free, x_sum), moved)
        at = len(x_batch) + x_free.index(ragged)
        chosen = inside.broadcast(part.shape, [at])
        total = where(chosen, part, 0 if total is None else total)
    if ragged in x_sum:
        return [concatenate(parts, 0)]
    assert total is not None
    return [total]
