"""Rules for products, convolutions, linear algebra, transforms, normalization and random bits; and windows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from minihlo.ops.types import ELEMENT_TYPES, ElementType, Kind

from .builder import FLOATS, I32, NUMBERS, Builder, Shape, Unfit, array, pairs, rule, size
from .program import Value

WIDE = tuple(ELEMENT_TYPES[n] for n in ("f32", "f64"))
HOST = (*WIDE, *(ELEMENT_TYPES[n] for n in ("complex<f32>", "complex<f64>")))


def result_element(b: Builder, t: ElementType) -> ElementType:
    """The type of a sum of products: the operands' own, or a wider one."""
    if t.is_float and t.bits <= 16 and b.chance(0.5):
        return ELEMENT_TYPES["f32"]
    return I32 if t.kind is Kind.SIGNED and t.bits <= 16 and b.chance(0.5) else t


def _listed(numbers: Sequence[int]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


@rule(4)
def dot_general(b: Builder) -> None:
    t = b.element(NUMBERS)
    mood = b.one_of(("small", "small", "tame", "any"))
    batch, summed, left, right = (
        [b.between(0 if b.chance(0.05) else 1, 4) for _ in range(b.one_of(n))]
        for n in ((0, 0, 1, 2), (0, 1, 1, 2), (0, 1, 1), (0, 1, 1))
    )

    def side(free: list[int]) -> tuple[Shape, list[int], list[int]]:
        dims = [*batch, *summed, *free]
        order = [int(i) for i in b.rng.permutation(len(dims))]
        place = {i: at for at, i in enumerate(order)}
        batching = [place[i] for i in range(len(batch))]
        contracting = [place[len(batch) + i] for i in range(len(summed))]
        return tuple(dims[i] for i in order), batching, contracting

    (ls, lb, lc), (rs, rb, rc) = side(left), side(right)
    if max(math.prod(ls), math.prod(rs)) > 160:
        raise Unfit
    x, y = b.value([t], shape=ls, mood=mood), b.value([t], shape=rs, mood=mood)
    attributes = (
        f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {_listed(lb)}, "
        f"rhs_batching_dimensions = {_listed(rb)}, lhs_contracting_dimensions = {_listed(lc)}, "
        f"rhs_contracting_dimensions = {_listed(rc)}>"
    )
    b.add("dot_general", [x, y], [((*batch, *left, *right), result_element(b, t))], attributes, notes={"sums"})


# -- windows -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Window:
    """The windows over a tensor."""

    dims: list[int]
    strides: list[int]
    padding: list[tuple[int, int]]
    base: list[int]
    inner: list[int]
    shape: Shape

    @staticmethod
    def of(b: Builder, over: Shape) -> Window:
        dims = [b.between(1, 3) for _ in over]
        strides, base, inner = ([b.one_of((1, 1, 1, 2, 3)) for _ in over] for _ in range(3))
        padding = [(b.between(-1, 2), b.between(-1, 2)) if b.chance(0.5) else (0, 0) for _ in over]
        shape = []
        for n, w, s, (lo, hi), d, k in zip(over, dims, strides, padding, base, inner, strict=True):
            length = (n - 1) * d + 1 + lo + hi if n else lo + hi
            reach = (w - 1) * k + 1
            if length < 0:
                raise Unfit
            shape.append((length - reach) // s + 1 if length >= reach else 0)
        return Window(dims, strides, padding, base, inner, tuple(shape))

    def attributes(self) -> str:
        return (
            f"window_dimensions = {array(self.dims)}, window_strides = {array(self.strides)}, "
            f"base_dilations = {array(self.base)}, window_dilations = {array(self.inner)}, "
            f"padding = {pairs(self.padding)}"
        )


@rule(2)
def convolution(b: Builder) -> None:
    t = b.element(NUMBERS)
    mood = b.one_of(("small", "small", "tame", "any"))
    spatial = b.one_of((0, 1, 1, 2))
    groups, by_batch = b.one_of((1, 1, 2)), b.one_of((1, 1, 1, 2))
    if groups > 1 and by_batch > 1:
        by_batch = 1
    batch, features, out = b.between(1, 2) * by_batch, b.between(1, 2), b.between(1, 2) * groups * by_batch
    over = tuple(b.between(1, 4) for _ in range(spatial))
    window = Window.of(b, over)
    reversal = [b.chance(0.2) for _ in over]

    def laid(dims: Sequence[int], names: Sequence[str]) -> tuple[Shape, str]:
        order = [int(i) for i in b.rng.permutation(len(dims))]
        return tuple(dims[i] for i in order), f"[{', '.join(names[i] for i in order)}]"

    places = [str(i) for i in range(spatial)]
    ls, ln = laid([batch, features * groups, *over], ["b", "f", *places])
    rs, rn = laid([features, out, *window.dims], ["i", "o", *places])
    os, on = laid([batch // by_batch, out, *window.shape], ["b", "f", *places])
    x, y = b.value([t], shape=ls, mood=mood), b.value([t], shape=rs, mood=mood)
    flips = f"array<i1: {', '.join(str(r).lower() for r in reversal)}>" if spatial else "array<i1>"
    attributes = (
        f"window_strides = {array(window.strides)}, padding = {pairs(window.padding)}, "
        f"lhs_dilation = {array(window.base)}, rhs_dilation = {array(window.inner)}, window_reversal = {flips}, "
        f"dimension_numbers = #stablehlo.conv<{ln}x{rn}->{on}>, feature_group_count = {groups} : i64, "
        f"batch_group_count = {by_batch} : i64"
    )
    b.add("convolution", [x, y], [(os, result_element(b, t))], attributes, notes={"sums"})


# -- linear algebra, transforms ----------------------------------------------------------------------------------------


def _matrix(b: Builder, shape: Shape, t: ElementType) -> np.ndarray:
    x = b.rng.standard_normal(shape)
    return x + 1j * b.rng.standard_normal(shape) if t.is_complex else x


@rule(0.7)
def cholesky(b: Builder) -> None:
    t, n = b.element(HOST), b.between(0, 5)
    m = _matrix(b, (*b.shape(0, 1, 1, 3), n, n), t)
    x = b.add_given((m @ np.conj(np.swapaxes(m, -1, -2)) + np.eye(n)).astype(t.dtype), t)
    b.add("cholesky", [x], [(size(x), t)], f"lower = {str(b.chance(0.5)).lower()}", notes={"sums"})


@rule(0.7)
def triangular_solve(b: Builder) -> None:
    t, n, k, is_left = b.element(HOST), b.between(1, 5), b.between(1, 3), b.chance(0.5)
    batch = b.shape(0, 1, 1, 3)
    x = b.add_given((_matrix(b, (*batch, n, n), t) * 0.3 + np.eye(n)).astype(t.dtype), t)
    y = b.leaf((*batch, n, k) if is_left else (*batch, k, n), t, "tame")
    way = b.one_of(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    attributes = (
        f"left_side = {str(is_left).lower()}, lower = {str(b.chance(0.5)).lower()}, "
        f"unit_diagonal = {str(b.chance(0.3)).lower()}, transpose_a = #stablehlo<transpose {way}>"
    )
    b.add("triangular_solve", [x, y], [(size(y), t)], attributes, notes={"sums"})


@rule(0.7)
def fft(b: Builder) -> None:
    real = b.one_of(WIDE)
    t = ELEMENT_TYPES[f"complex<{real}>"]
    rank = b.between(1, 3)
    lengths = tuple(b.between(1, 6) for _ in range(rank))
    batch, kind = b.shape(0, 4 - rank, 1, 2), b.one_of(("FFT", "IFFT", "RFFT", "IRFFT"))
    half = (*batch, *lengths[:-1], lengths[-1] // 2 + 1)
    takes = (*batch, *lengths) if kind != "IRFFT" else half
    gives = (*batch, *lengths) if kind != "RFFT" else half
    if math.prod(takes) > 160:
        raise Unfit
    x = b.value([real if kind == "RFFT" else t], shape=takes, mood="tame")
    result = real if kind == "IRFFT" else t
    attributes = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {array(lengths)}"
    b.add("fft", [x], [(gives, result)], attributes, notes={"sums"})


@rule(0.7)
def batch_norm(b: Builder) -> None:
    t = b.element(WIDE if b.chance(0.7) else FLOATS)
    shape = b.shape(1, 4, 1, 4)
    axis = b.below(len(shape))
    one = (shape[axis],)

    def feature(mood: str = "tame") -> Value:
        return b.value([t], shape=one, mood=mood)

    x = b.leaf(shape, t, "tame")
    attributes = f"epsilon = 0.25 : f32, feature_index = {axis} : i64"
    match b.below(3):
        case 0:
            operands = [x, feature(), feature(), feature(), b.leaf(one, t, "positive")]
            b.add("batch_norm_inference", operands, [(shape, t)], attributes, notes={"sums"})
        case 1:
            results = [(shape, t), (one, t), (one, t)]
            b.add("batch_norm_training", [x, feature(), feature()], results, attributes, notes={"sums"})
        case _:
            operands = [x, feature(), feature(), b.leaf(one, t, "positive"), b.leaf(shape, t, "tame")]
            results = [(shape, t), (one, t), (one, t)]
            b.add("batch_norm_grad", operands, results, attributes, notes={"sums"})


@rule(0.7)
def rng_bit_generator(b: Builder) -> None:
    algorithm = b.one_of(("THREE_FRY", "PHILOX", "DEFAULT"))
    ui64 = ELEMENT_TYPES["ui64"]
    state = b.leaf((b.one_of((2, 3)) if algorithm == "PHILOX" else 2,), ui64)
    t = ELEMENT_TYPES[b.one_of(("ui8", "ui16", "ui32", "ui64"))]
    attributes = f"rng_algorithm = #stablehlo<rng_algorithm {algorithm}>"
    b.add("rng_bit_generator", [state], [(size(state), ui64), (b.shape(), t)], attributes)
