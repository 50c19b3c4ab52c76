"""Convolutions: windows of the left operand, laid out as the rows of a matrix, times the right one."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..cast import cast
from ..engine import speed
from ..engine.blocks import blocks, for_each
from ..engine.compiled import is_available, kernels
from ..engine.speed import tuning
from ..op import BY_POLICY, Call, OpError, Run, op
from ..policy import Policy
from ..reductions.axes import Axis, windows
from ..reductions.window import integers_or, require_positive
from ..require import require, require_dimensions, require_shape
from ..traits import OpTraits, Shapes
from ..types import ELEMENT_TYPES
from . import taps
from .accumulated import check_accumulator
from .exact_matmul import may_be_plain, prepared
from .matmul import matmul, plain_product
from .patches import PART, Patches, even, least_rows

Shape = tuple[int, ...]

#: Which products a convolution is made of: exact ones of minifloats, by the host's BLAS alone, and others.
_EXACT, _HOST, _OTHER = range(3)


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
            raise OpError(f"expected dimension_numbers to be a structure, got {numbers!r}")
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
        strides, lhs_dilation, rhs_dilation = lists = [integers_or(call, name, ones) for name in names]
        for name, values in zip(names, lists, strict=True):
            require_positive(name, values)
        return cls(strides, lhs_dilation, rhs_dilation, integers_or(call, "window_reversal", (0,) * spatial))

    def axes(self, lhs: Sequence[int], rhs: Sequence[int], padding: Shape) -> tuple[Axis, ...]:
        """How windows lie along the spatial dimensions."""
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
    numbers, window = _Numbers.of(call.attribute("dimension_numbers"), rank), _Window.of(call, rank - 2)
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
    back = tuple(numbers.result.index(d) for d in range(rank))
    zero = cast(np.zeros((), np.float32), ELEMENT_TYPES["f32"], lhs.element, Policy())

    @functools.lru_cache(tuning().shapes)
    def plan(lhs: Shape, rhs: Shape, padding: Shape) -> tuple[Axis, ...]:
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
        plan(*(tuple(t.shape[d] for d in dims) for t, dims in ((lhs, numbers.lhs), (rhs, numbers.rhs))), padding)  # type: ignore[arg-type]

    def multiply(rows: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        return matmul(rows, kernel, lhs.element, rhs.element, result.element, call.policy, call.random)

    is_plain = lhs.element.is_minifloat and lhs.element.format.has_zero and may_be_plain(call)
    host = plain_product(lhs.element, rhs.element, result.element, call.policy)
    is_by_taps = features == batches == 1 and taps.suits(lhs.element, rhs.element, result.element, host is not None)

    @functools.lru_cache(tuning().shapes)
    def patches_of(lhs: Shape, rhs: Shape, padding: Shape) -> Patches | None:
        axes = plan(*(tuple(s[d] for d in dims) for s, dims in ((lhs, numbers.lhs), (rhs, numbers.rhs))), padding)
        outputs = rhs[numbers.rhs[0]] // (features * batches)
        groups = (features, batches)
        patches = Patches(lhs, numbers.lhs, axes, window.reversal, groups, outputs)
        if not patches.is_known:
            return None
        x = _by_group(np.empty(lhs, np.uint8).transpose(numbers.lhs), groups)
        view = _view(x, 0, axes, window.reversal, patches.is_large)
        return patches if all(_is_copied(view[:, *part], len(axes) + 1) for part in patches.blocks) else None

    def by_patches(lhs: np.ndarray, rhs: np.ndarray, pads: np.ndarray | None) -> np.ndarray | None:
        if host is None or not (is_available() and speed.current().compiled):
            return None
        patches = patches_of(lhs.shape, rhs.shape, padding if pads is None else tuple(pads.reshape(-1).tolist()))
        compiled = None if patches is None else kernels(patches.size)
        if compiled is None or patches is None:
            return None
        y = rhs.transpose(numbers.rhs)
        y = y.reshape(features * batches, patches.outputs, *y.shape[1:])
        y = y.transpose(0, *range(3, rank + 1), 2, 1).reshape(len(y), patches.depth, patches.outputs)
        return laid_back(patches.products(compiled, np.ascontiguousarray(lhs), y, host), rhs.shape[numbers.rhs[0]])

    def laid_back(products: np.ndarray, outputs: int) -> np.ndarray:
        # group, batch, spatial, feature -> batch, group and feature, spatial
        products = products.transpose(1, 0, rank, *range(2, rank))
        return products.reshape(len(products), outputs, *products.shape[3:]).transpose(back)

    def by_taps(lhs: np.ndarray, rhs: np.ndarray, pads: np.ndarray | None) -> np.ndarray | None:
        """A convolution of one output feature, if it is neither empty nor of many places."""
        if not is_by_taps or rhs.shape[numbers.rhs[0]] != 1 or not 0 < rhs.size <= tuning().taps_most:
            return None
        x, y = lhs.transpose(numbers.lhs), rhs.transpose(numbers.rhs)
        axes = plan(x.shape, y.shape, padding if pads is None else tuple(pads.reshape(-1).tolist()))
        count = len(x) * math.prod(a.count for a in axes)
        if count < tuning().taps_from * rhs.size:
            return None
        dtype = result.element.dtype
        x = _by_group(x.astype(dtype, copy=False), (1, 1))
        view = _view(x, dtype.type(0), axes, window.reversal, False)[0]
        y = y.astype(dtype, copy=False)[0].transpose(*range(1, rank - 1), 0)
        return laid_back(taps.sums(view, y)[None, ..., None], 1)

    def kernel(lhs: np.ndarray, rhs: np.ndarray, pads: np.ndarray | None = None) -> np.ndarray:
        laid = by_taps(lhs, rhs, pads)
        laid = by_patches(lhs, rhs, pads) if laid is None else laid
        if laid is not None:
            return laid
        depth = math.prod([rhs.shape[d] for d in numbers.rhs[1:]])
        terms = lhs.size * rhs.size // max(lhs.shape[numbers.lhs[1]], 1)
        parts = prepared(lhs, rhs, call, depth, terms, features * batches) if is_plain else None
        x, y, product = (lhs, rhs, host or multiply) if parts is None else parts
        fill = zero if parts is None else 0
        x, y = x.transpose(numbers.lhs), y.transpose(numbers.rhs)
        axes = plan(x.shape, y.shape, padding if pads is None else tuple(pads.reshape(-1).tolist()))
        groups, dtype = (features, batches), result.element.dtype
        how = _EXACT if parts is not None else _OTHER if host is None else _HOST
        products = _products(product, x, y, fill, axes, window.reversal, groups, dtype, how)
        return laid_back(products, len(y))

    return kernel


def _products(
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    zero: Any,
    axes: tuple[Axis, ...],
    reversal: Shape,
    groups_of: tuple[int, int],
    dtype: np.dtype,
    how: int,
) -> np.ndarray:
    """The convolution, as an array of group, batch, spatial and output feature.

    `groups_of` says how many groups of features and of batches there are, `how` which products they are: those of
    decoded operands, which may be formed in any order, and the host's are formed by several threads.
    """
    groups, spatial = math.prod(groups_of), range(3, 3 + len(axes))
    x = _by_group(x, groups_of)
    batch = x.shape[1]
    y = y.reshape(groups, len(y) // groups, *y.shape[1:])
    outputs, depth = y.shape[1], math.prod(y.shape[2:])
    kernel = y.transpose(0, *spatial, 2, 1).reshape(groups, depth, outputs)

    counts = (batch, *(a.count for a in axes))
    if not math.prod((groups, *counts, outputs)):  # however large the windows are
        return np.empty((groups, *counts, outputs), dtype)
    if depth == 0:
        sums = np.empty((groups, *counts, outputs), dtype)
        empty = multiply(np.empty((groups, 1, 0), x.dtype), kernel)
        sums[...] = empty.reshape(groups, *[1] * (len(axes) + 1), outputs)
        return sums
    terms = groups * math.prod(counts) * outputs * depth
    is_large = how == _HOST and outputs > 1 and terms > groups * PART
    view, inner = _view(x, zero, axes, reversal, is_large), len(axes) + 1
    # Windows in the order of memory, if more of the matrix lies together so when it is laid out column by column.
    order = sorted(range(inner), key=lambda d: -abs(view.strides[1 + d]))
    ordered = view.transpose(0, *(1 + d for d in order), *range(1 + inner, 1 + 2 * inner))
    is_turned = is_large and _run(ordered, 1, inner) > _run(view, 1 + inner, inner)
    if is_turned:
        view, counts = ordered, tuple([counts[d] for d in order])
    sums = np.empty((groups, *counts, outputs), dtype)

    def work(block: tuple[slice, ...]) -> None:
        rows = view[:, *block]
        shape = rows.shape[: inner + 1]
        if is_turned:
            turned = rows.transpose(0, *range(1 + inner, 1 + 2 * inner), *range(1, 1 + inner))
            matrix = turned.reshape(groups, depth, math.prod(shape[1:])).swapaxes(1, 2)
        else:
            matrix = rows.reshape(groups, math.prod(shape[1:]), depth)
        sums[:, *block] = multiply(matrix, kernel).reshape(*shape, outputs)

    if how == _HOST and outputs > 1:
        for_each(
            list(even(counts, least_rows(groups, depth, outputs))),
            work,
            terms // tuning().product_terms,
        )
        return sums.transpose(0, *(1 + order.index(d) for d in range(inner)), 1 + inner) if is_turned else sums
    is_exact = how == _EXACT
    exact_block = tuning().convolution_code_block if x.itemsize == 1 else tuning().convolution_plain_block
    limit = (exact_block if is_exact else tuning().convolution_block) // (groups * depth)
    parts = list(blocks(counts, max(limit, tuning().convolution_rows)))
    for_each(parts, work, terms >> 3 if is_exact else 0)
    return sums


def _by_group(x: np.ndarray, groups_of: tuple[int, int]) -> np.ndarray:
    """The left operand, given as batch, feature, spatial, as group, batch, spatial, feature."""
    features, batches = groups_of
    x = x.reshape(batches, len(x) // batches, features, x.shape[1] // features, *x.shape[2:]).swapaxes(1, 2)
    x = x.reshape(features * batches, *x.shape[2:])
    return x.transpose(0, 1, *range(3, x.ndim), 2)


def _view(x: np.ndarray, zero: Any, axes: tuple[Axis, ...], reversal: Shape, keeps_order: bool) -> np.ndarray:
    """All windows of what `_by_group` gives: their group, batch and places, then the places and features within one."""
    groups, batch, depth = x.shape[0], x.shape[1], x.shape[-1]
    view = windows(x, zero, (Axis(groups, 1), Axis(batch, 1), *axes, Axis(depth, depth)), keeps_order)
    view = view[0, 0, *(slice(None, None, -1 if r else 1) for r in reversal)]
    inner = len(axes) + 1
    return view[..., 0].transpose(*range(inner, 2 * inner + 1), *range(inner))


def _is_copied(view: np.ndarray, inner: int) -> bool:
    """Whether a matrix of the elements of a view is a copy of them."""
    return not (
        _run(view, 1, inner, None) == math.prod(view.shape[1 : 1 + inner])
        and _run(view, 1 + inner, inner, None) == math.prod(view.shape[1 + inner :])
    )


def _run(x: np.ndarray, first: int, count: int, step: int | None = 1) -> int:
    """How many elements lie so many elements apart along dimensions, the last of which varies first. `step` may be None
    for any step."""
    length = 1
    for d in reversed(range(first, first + count)):
        if x.shape[d] > 1:
            step = step or x.strides[d] // x.itemsize
            if x.strides[d] != length * step * x.itemsize:
                break
            length *= x.shape[d]
    return length


def _terms(shapes: Shapes, attributes: Mapping[str, Any]) -> int:
    numbers = attributes.get("dimension_numbers") or {}
    outputs = numbers.get("kernel_output_feature_dimension")
    return math.prod(n for d, n in enumerate(shapes[1]) if d != outputs)


@op(
    "convolution",
    values="numbers",
    accuracy=BY_POLICY,
    operands=2,
    traits=OpTraits(is_pure=True, is_bilinear=True, terms=_terms, copies_windows=True),
)
def convolution(call: Call) -> Run:
    """Dot products of windows of lhs, padded with zeros, with the kernels in rhs, in groups of features or batches.

    Summed as dot_general sums: minifloats as the policy's `accumulate` says, where `element` adds in the order of the
    kernel's spatial dimensions, then features. The operands and the result may be of any types. `precision_config` is
    not made use of: nothing is computed less precisely than it asks. In a type without zero, padding is what zero
    becomes.

    (C1, C26) One rank. (C2 to C9) Strides, padding, dilations and reversal have one for each spatial dimension, and are
    positive. (C10, C11, C14 to C16) Sizes of batch and features agree, and groups divide them. (C12, C13, C17 to C20)
    Each dimension is named once. (C21 to C23) Group counts are positive and one is 1. (C24) precision_config is of two.
    (C25) The windows and features determine the result's shape.
    """
    return _convolution(call, has_padding=True)


@op(
    "dynamic_conv",
    values="numbers",
    accuracy=BY_POLICY,
    operands=3,
    any_sizes=True,
    traits=OpTraits(terms=_terms, copies_windows=True),
)
def dynamic_conv(call: Call) -> Run:
    """A convolution whose padding is an operand.

    (C1 to C26) As convolution's; the result's shape holds when it runs. (I3) padding is of integers.
    """
    spatial, padding = len(call.tensor().shape) - 2, call.tensor(2)
    fits = padding.element.is_integer and padding.shape in ((spatial, 2), (None, 2))
    require(fits, f"padding is {padding} (expected {spatial}x2 integers)")
    return _convolution(call, has_padding=False)
