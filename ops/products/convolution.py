"""Convolutions: windows of the left operand, copied as the rows of a matrix, times the right one."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..accumulators.product import is_exact
from ..accumulators.selection import accumulator_of, check_accumulator
from ..cast import cast
from ..op import Call, OpError, Run, op
from ..policy import Policy
from ..reductions.axes import Axis, windows
from ..reductions.window import integers_or, positive_lists
from ..require import require, require_dimensions, require_shape
from ..traits import OpTraits, Shapes
from ..types import ELEMENT_TYPES
from .contraction import Contraction

Shape = tuple[int, ...]

#: The elements of windows that are copied at a time: a bound on memory, and part of the definition of a sum in f32.
_BLOCK = 1 << 18


@dataclasses.dataclass(frozen=True)
class Numbers:
    """The role of each dimension: of lhs and the result batch, feature, spatial …; of rhs output, input, spatial …"""

    lhs: Shape
    rhs: Shape
    result: Shape

    @classmethod
    def of(cls, numbers: Mapping[str, Any], rank: int) -> Numbers:
        """Raises OpError where a dimension is missing, or there twice."""
        roles = (
            ("input", "batch", "feature"),
            ("kernel", "output_feature", "input_feature"),
            ("output", "batch", "feature"),
        )
        read = []
        for side, first, second in roles:
            names = [f"{side}_{first}_dimension", f"{side}_{second}_dimension", f"{side}_spatial_dimensions"]
            if missing := [name for name in names if name not in numbers]:
                raise OpError(f"expected all fields of dimension_numbers, got none for {missing[0]}")
            dims = tuple(int(v) for name in names for v in np.ravel(numbers[name]))
            require(len(dims) == rank, f"{names[2]} must be {rank - 2}, as operands have rank {rank}")
            require_dimensions(f"the {side} dimensions", dims, rank)
            read.append(dims)
        return cls(*read)


@dataclasses.dataclass(frozen=True)
class Window:
    """The attributes of the window, one of each for every spatial dimension."""

    strides: Shape
    lhs_dilation: Shape
    rhs_dilation: Shape
    reversal: Shape

    @classmethod
    def of(cls, call: Call, spatial: int) -> Window:
        """Raises OpError where one has the wrong length, or is not positive."""
        names = ("window_strides", "lhs_dilation", "rhs_dilation")
        strides, lhs, rhs = positive_lists(call, names, spatial)
        return cls(strides, lhs, rhs, integers_or(call, "window_reversal", (0,) * spatial))

    def axes(self, lhs: Sequence[int], rhs: Sequence[int], padding: Shape) -> tuple[Axis, ...]:
        """The windows along the spatial dimensions."""
        pads = zip(
            lhs, rhs, self.strides, padding[::2], padding[1::2], self.lhs_dilation, self.rhs_dilation, strict=True
        )
        return tuple(Axis(*each) for each in pads)


def _convolution(call: Call, has_padding: bool) -> Run:
    """The kernel of a convolution, with the padding of its attribute, or else with that of a third operand."""
    lhs, rhs, result = call.tensor(0), call.tensor(1), call.result()
    rank = len(lhs.shape)
    same = rank == len(rhs.shape) == len(result.shape) and rank >= 2
    require(same, f"lhs is {lhs}, rhs {rhs} and the result {result} (expected of one rank, at least 2)")
    numbers, window = Numbers.of(call.structure("dimension_numbers"), rank), Window.of(call, rank - 2)
    padding = integers_or(call, "padding", (0, 0) * (rank - 2)) if has_padding else None
    features, batches = (int(call.attributes.get(f"{kind}_group_count", 1)) for kind in ("feature", "batch"))
    require(features > 0 and batches > 0, f"expected positive group counts, got {features} and {batches}")
    require(
        1 in (features, batches),
        f"expected one group count to be 1, got feature_group_count {features} and batch_group_count {batches}",
    )
    precision = call.attributes.get("precision_config")
    require(precision is None or len(precision) in (0, 2), "expected a precision_config for each of the 2 operands")
    check_accumulator(call)
    contraction = Contraction.of(call)
    back = tuple(numbers.result.index(d) for d in range(rank))
    zero = cast(np.zeros((), np.float32), ELEMENT_TYPES["f32"], lhs.element, Policy())

    def axes_of(lhs: Shape, rhs: Shape, padding: Shape) -> tuple[Axis, ...]:
        (batch, feature, *space), (outputs, inputs, *kernel) = lhs, rhs
        require(batch % batches == 0, f"lhs has batch {batch} (expected a multiple of batch_group_count {batches})")
        require(inputs * features == feature, f"rhs has {inputs} input features (expected {feature} / {features})")
        divides = outputs % (features * batches) == 0
        require(divides, f"rhs has {outputs} output features (expected a multiple of {features * batches} groups)")
        axes = window.axes(space, kernel, padding)
        shape = (batch // batches, outputs, *(a.count for a in axes))
        require_shape(call, tuple(shape[i] for i in back))
        return axes

    if padding is not None and lhs.is_static and rhs.is_static:
        axes_of(*(tuple(t.shape[d] for d in dims) for t, dims in ((lhs, numbers.lhs), (rhs, numbers.rhs))), padding)  # type: ignore[arg-type]

    # A sum is the same without products with zero where no step draws bits, nor is one of a chip; one that rounds down
    # has a zero's sign by all its terms.
    types = contraction.lhs, contraction.rhs, contraction.result
    record = accumulator_of(call.policy, *types) if all(t.is_float for t in types) else None
    has_order = call.policy.rounding in ("stochastic", "down") or (record is not None and not is_exact(record))
    drops_zeros = not has_order and bool(zero == 0)

    def kernel(lhs: np.ndarray, rhs: np.ndarray, pads: np.ndarray | None = None) -> np.ndarray:
        x, y = lhs.transpose(numbers.lhs), rhs.transpose(numbers.rhs)
        axes = axes_of(x.shape, y.shape, padding or () if pads is None else tuple(pads.reshape(-1).tolist()))
        has_phases = drops_zeros and any(a.base_dilation > 1 for a in axes)
        if has_phases and (contraction.rhs.is_float or contraction.rhs.is_complex):
            has_phases = bool(np.isfinite(y).all())
        multiply = _products_by_phase if has_phases else _products
        products = multiply(contraction, _by_group(x, features, batches), y, zero, axes, window.reversal)
        # group, batch, spatial, feature -> batch, group and feature, spatial
        products = products.transpose(1, 0, rank, *range(2, rank))
        return products.reshape(len(products), len(y), *products.shape[3:]).transpose(back)

    return kernel


def _products(
    contraction: Contraction,
    x: np.ndarray,
    y: np.ndarray,
    zero: Any,
    axes: tuple[Axis, ...],
    reversal: Shape,
) -> np.ndarray:
    """The convolution, as an array of group, batch, spatial and output feature: windows are the rows of a matrix.

    They are copied so many at a time as are quick to multiply, or all at once where roundings draw bits, in order.
    """
    groups, batch, features = x.shape[0], x.shape[1], x.shape[-1]
    counts, outputs = (batch, *(a.count for a in axes)), len(y) // groups
    depth = features * math.prod(a.window for a in axes)
    rows, sums = math.prod(counts), np.empty((groups, *counts, outputs), contraction.result.dtype)
    if not sums.size or not depth:  # however large the windows are
        if sums.size:
            sums[...] = contraction.matmul(np.empty((1, 1, 0), x.dtype), np.empty((1, 0, 1), y.dtype)).reshape(())
        return sums
    y = y.reshape(groups, outputs, *y.shape[1:])
    kernel = np.ascontiguousarray(y.transpose(0, *range(3, y.ndim), 2, 1)).reshape(groups, depth, outputs)
    wide = contraction.exact_type(depth)
    if wide is not None:  # elements are decoded before they are copied into windows
        x, zero = (cast(v, contraction.lhs, wide, Policy()) for v in (x, zero))
        kernel = cast(kernel, contraction.rhs, wide, Policy())
    view = _windows(x, zero, axes, reversal)
    most = rows if contraction.policy.rounding == "stochastic" else max(_BLOCK // (groups * depth), 1)
    for block in _blocks(counts, most):
        part, places = view[:, *block], sums[:, *block]
        matrix = (groups, places[0, ..., 0].size, depth)
        # Without a name, so that no two parts are held at a time.
        places[...] = contraction.matmul(part.reshape(matrix), kernel).reshape(places.shape)
    return sums


def _products_by_phase(
    contraction: Contraction, x: np.ndarray, y: np.ndarray, zero: Any, axes: tuple[Axis, ...], reversal: Shape
) -> np.ndarray:
    """As `_products` of a finite kernel, in a time that does not grow with the holes of lhs_dilation.

    Windows that have elements at the same places are taken together, with the part of the kernel that meets them.
    """
    outputs = len(y) // x.shape[0]
    result = np.empty((*x.shape[:2], *(a.count for a in axes), outputs), contraction.result.dtype)
    result[...] = contraction.matmul(np.empty((1, 1, 0), x.dtype), np.empty((1, 0, 1), y.dtype)).reshape(())
    for phase in itertools.product(*map(_phases, axes, reversal)):
        places, taps, inner = zip(*phase, strict=True)
        result[:, :, *places] = _products(contraction, x, y[:, :, *taps], zero, inner, reversal)
    return result


def _phases(axis: Axis, is_reversed: int) -> Iterator[tuple[slice, slice, Axis]]:
    """Yield the places along a dimension whose windows have elements at the same places, these places in the kernel,
    and the windows without the holes. Places whose windows have holes only are in none."""
    holes, stride, step = axis.base_dilation, axis.stride, axis.window_dilation
    between, apart = holes // math.gcd(stride, holes), holes // math.gcd(step, holes)
    for first in range(min(between, axis.count)):
        start = first * stride - axis.low
        tap = next((k for k in range(min(apart, axis.window)) if (start + k * step) % holes == 0), None)
        if tap is None:
            continue
        window, count = len(range(tap, axis.window, apart)), len(range(first, axis.count, between))
        low, stride_, step_ = -((start + tap * step) // holes), between * stride // holes, apart * step // holes
        high = (count - 1) * stride_ + (window - 1) * step_ + 1 - axis.size - low
        begin = axis.window - 1 - tap - (window - 1) * apart if is_reversed else tap
        taps = slice(begin, begin + (window - 1) * apart + 1, apart)
        yield slice(first, None, between), taps, Axis(axis.size, window, stride_, low, high, 1, step_)


def _by_group(x: np.ndarray, features: int, batches: int) -> np.ndarray:
    """The left operand, given as batch, feature, spatial, as group, batch, spatial, feature."""
    x = x.reshape(batches, len(x) // batches, features, x.shape[1] // features, *x.shape[2:]).swapaxes(1, 2)
    x = x.reshape(features * batches, *x.shape[2:])
    return x.transpose(0, 1, *range(3, x.ndim), 2)


def _windows(x: np.ndarray, zero: Any, axes: tuple[Axis, ...], reversal: Shape) -> np.ndarray:
    """All windows of what `_by_group` gives: their group, batch and places, then the places and features within one."""
    groups, batch, depth = x.shape[0], x.shape[1], x.shape[-1]
    view = windows(x, zero, (Axis(groups, 1), Axis(batch, 1), *axes, Axis(depth, depth)))
    view = view[0, 0, *(slice(None, None, -1 if r else 1) for r in reversal)]
    inner = len(axes) + 1
    return view[..., 0].transpose(*range(inner, 2 * inner + 1), *range(inner))


def _blocks(shape: Shape, most: int) -> Iterator[tuple[slice, ...]]:
    """Parts of an array of this shape, in row-major order, of about `most` elements each."""
    split = next((d for d in range(len(shape)) if math.prod(shape[d + 1 :]) <= most), len(shape) - 1)
    step = max(most // math.prod(shape[split + 1 :]), 1)
    for outer in np.ndindex(shape[:split]):
        for first in range(0, shape[split], step):
            yield (*(slice(i, i + 1) for i in outer), slice(first, first + step))


def _terms(shapes: Shapes, attributes: Mapping[str, Any]) -> int:
    numbers = attributes.get("dimension_numbers") or {}
    outputs = numbers.get("kernel_output_feature_dimension")
    return math.prod(n for d, n in enumerate(shapes[1]) if d != outputs)


@op("convolution", values="numbers", operands=2, traits=OpTraits(is_pure=True, is_bilinear=True, terms=_terms))
def convolution(call: Call) -> Run:
    """Dot products of windows of lhs, padded with zeros, with the kernels in rhs, in groups of features or batches.

    Summed as dot_general sums: minifloats as the policy's `accumulate` says, where `element` adds in the order of the
    kernel's spatial dimensions, then features. The operands and the result may be of any types. `precision_config` is
    not used: nothing is computed less precisely than it asks. In a type without zero, padding is its conversion of 0.
    Padding and the holes of lhs_dilation are zeros: times an infinity of the kernel they are NaN.

    (C1, C26) One rank. (C2 to C9) Strides, padding, dilations and reversal have one for each spatial dimension, and are
    positive. (C10, C11, C14 to C16) Sizes of batch and features agree, and groups divide them. (C12, C13, C17 to C20)
    Each dimension is named once. (C21 to C23) Group counts are positive and one is 1. (C24) precision_config is of two.
    (C25) The windows and features determine the result's shape.
    """
    return _convolution(call, has_padding=True)


@op("dynamic_conv", values="numbers", operands=3, any_sizes=True, traits=OpTraits(terms=_terms))
def dynamic_conv(call: Call) -> Run:
    """A convolution whose padding is an operand.

    (C1 to C26) As convolution's; the result's shape holds when it runs. (I3) padding is of integers.
    """
    spatial, padding = len(call.tensor().shape) - 2, call.tensor(2)
    fits = padding.element.is_integer and padding.shape in ((spatial, 2), (None, 2))
    require(fits, f"padding is {padding} (expected {spatial}x2 integers)")
    return _convolution(call, has_padding=False)
