"""Dots of minifloats over any dimensions: dot_general with its algorithms, einsum, and ragged dots."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from ...ops.accumulators.selection import precision_accumulator
from ...ops.movement.gather import integers
from ...ops.op import OpError
from ...ops.policy import ACCUMULATIONS
from ...ops.products.contraction import Contraction
from ...ops.products.dot import free_dimensions
from ...ops.products.dot_algorithm import Algorithm, components_of
from ...ops.products.einsum import dimensions_of
from ...ops.tables import all_codes
from ...ops.types import ELEMENT_TYPES, ElementType
from ..program import Operation
from .lookup import index_of
from .products import Sums, decoded
from .rewrite import Emulation
from .rounding import code_type
from .rules import emulates, number_of
from .tensor import F32, F64, I32, I64, Tensor, concatenate, constant, iota, where

Dims = tuple[int, ...]


@emulates("dot_general")
def dot_general(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Sums of products over the contracting dimensions."""
    numbers = operation.attributes["dot_dimension_numbers"]
    kinds, sides = ("batching", "contracting"), ("lhs", "rhs")
    batching, contracting = ([integers(numbers, f"{side}_{kind}_dimensions") for side in sides] for kind in kinds)
    sums, attribute = Sums.of(e, operation), operation.attributes.get("algorithm")
    if attribute is not None and (algorithm := Algorithm.of(attribute)) is not None:
        sums = ByAlgorithm(sums.e, sums.lhs, sums.rhs, sums.result, sums.policy, algorithm)
    return [contract(sums, operation, operands, batching, contracting)]


@dataclasses.dataclass(frozen=True)
class ByAlgorithm(Sums):
    """The sums that an `algorithm` asks for, of operands of up to 16 bits; see `ops.products.dot_algorithm`."""

    algorithm: Algorithm

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the products of components, added from the smallest to the largest."""
        a, t = self.algorithm, self.algorithm.accumulation
        names = ["tf32" if p is None else p.name for p in (a.lhs_precision, a.rhs_precision)]
        record = precision_accumulator(self.policy, *names) if t == F32 else None
        inner = Sums(self.e, a.lhs_precision or F32, a.rhs_precision or F32, t, self.policy)
        if (t not in (F32, F64) and len(a.products) > 1) or self.policy.rounding == "stochastic":
            raise OpError("expected sums of components in f32 or f64, and another rounding than stochastic")
        counts = [1 + max(pair[side] for pair in a.products) for side in range(2)]
        xs = self._components(x, self.lhs, a.lhs_precision, counts[0])
        ys = self._components(y, self.rhs, a.rhs_precision, counts[1])

        def product(i: int, j: int) -> Tensor:
            if record is not None:
                return inner.accumulate(record, xs[i], ys[j])
            return inner.device_sums(xs[i], ys[j], t) if t in (F32, F64) else inner.stepwise(xs[i], ys[j])

        total, *others = [product(i, j) for i, j in a.products]
        for part in others:  # the components of an infinity are infinities and NaN
            is_finite = total.elementwise("is_finite", total, element=ELEMENT_TYPES["i1"])
            total = where(is_finite, total, 0.0) + part
        if t == self.result:
            return total
        total = decoded(self.e, total, t, F32) if t.is_minifloat else total
        return self.round_any(total if t.bits >= 32 or t.is_minifloat else total.to(F32))

    def _components(self, x: Tensor, source: ElementType, precision: ElementType | None, count: int) -> list[Tensor]:
        """Return operands as so many numbers in the precision type; those of tf32 are f32."""
        if not source.is_float or source.bits > 16:
            raise OpError(f"expected operands of up to 16 bits beside an algorithm, got {source}")
        c = Contraction(self.lhs, self.rhs, self.result, self.policy)
        found = components_of(all_codes(source), source, precision, count, c)
        return [self.e.look(part, precision or F32, index_of(x, source)) for part in found]


@emulates("dot")
def dot_(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The inner product of vectors, or the product of matrices and vectors."""
    rank = len(operands[0].shape)
    return [contract(Sums.of(e, operation), operation, operands, [(), ()], [(rank - 1,), (0,)])]


def contract(
    sums: Sums, operation: Operation, operands: Sequence[Tensor], batching: list[Dims], contracting: list[Dims]
) -> Tensor:
    """Return the sums over dimensions of two tensors, for each index of the others."""
    (lhs, rhs), call = operands, sums.e.call(operation)
    x_free, y_free = free_dimensions(call, [call.tensor(0), call.tensor(1)], batching, contracting)
    x, y = (batching[0], x_free, contracting[0]), (batching[1], contracting[1], y_free)
    return contract_matrices(sums, lhs, rhs, x, y)


def contract_matrices(
    sums: Sums, lhs: Tensor, rhs: Tensor, x: Sequence[Sequence[int]], y: Sequence[Sequence[int]]
) -> Tensor:
    """Return sums of products; `x` has the dimensions of lhs that are (batch, M, K), `y` those of (batch, K, N)."""
    found = sums.matmul(to_matrix(lhs, *x), to_matrix(rhs, *y))
    return found.reshape([*(lhs.shape[d] for d in (*x[0], *x[1])), *(rhs.shape[d] for d in y[2])])


def to_matrix(x: Tensor, *groups: Sequence[int]) -> Tensor:
    """Return a tensor with each group of dimensions as one."""
    moved = x.transpose([d for group in groups for d in group])
    return moved.reshape([math.prod(x.shape[d] for d in group) for group in groups])


@emulates("einsum", "unary_einsum")
def einsum(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Products of elements whose labels agree, summed over the labels that the output lacks."""
    call = e.call(operation)
    labels, output = dimensions_of(call)
    element, sums = call.tensor(0).element, Sums.of(e, operation)
    if len(labels) == 1:
        labels, operands = [(), *labels], [number_of(1.0, element), *operands]
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
        integers(numbers, f"{side}_{kind}_dimensions")
        for side in ("lhs", "rhs")
        for kind in ("batching", "contracting")
    )
    (ragged,), groups = integers(numbers, "lhs_ragged_dimensions"), integers(numbers, "rhs_group_dimensions")
    x_free = [d for d in range(len(lhs.shape)) if d not in x_batch + x_sum]
    y_free = [d for d in range(len(rhs.shape)) if d not in y_batch + y_sum + groups]
    sums, shape = Sums.of(e, operation), e.call(operation).shape()
    x, y = to_matrix(lhs, x_batch, x_free, x_sum), to_matrix(rhs, groups, y_batch, y_sum, y_free)
    (batch, rows, _), columns = x.shape, y.shape[-1]
    if ragged in x_batch:
        return [sums.matmul(x, y.row(0)).reshape(shape)]
    is_sum, by_unit = ragged in x_sum, e.policy.accumulate not in ACCUMULATIONS
    has_zero = all(t.format.has_zero for t in (sums.lhs, sums.rhs) if t.is_float)
    if e.policy.rounding == "stochastic" or (is_sum and (by_unit or not has_zero)):
        raise OpError("expected another rounding than stochastic, and no accumulator of sums whose length is open")
    kind, extent = x_sum if is_sum else x_free, lhs.shape[ragged]
    sizes = sizes.at_least(0).at_most(min(extent, sizes.element.range[1])).to(I64)
    lines = (*sizes.shape[:-1], extent)
    last, at = len(lines) - 1, len(x_batch) + kind.index(ragged)
    place, end = iota(I64, lines, last), constant(0, I64, lines[:-1])
    total, parts = number_of(0.0, sums.result, (batch, rows, columns)), []
    for g in range(sizes.shape[-1]):
        begin, end = end, end + sizes.slice(last, g, g + 1).reshape(lines[:-1])
        inside = (place >= begin.expand(last, extent)) & (place < end.expand(last, extent))
        inside = inside.broadcast([lhs.shape[d] for d in (*x_batch, *kind)], range(at - last, at + 1))
        inside = inside.reshape((batch, inside.size // max(batch, 1)))
        if is_sum:
            a, b = where(inside.expand(1, rows), x, 0), where(inside.expand(2, columns), y.row(0), 0)
            parts.append(sums.matmul(a, b).expand(0))
        else:
            total = where(inside.expand(2, columns), sums.matmul(x, y.row(g)), total)
    return [(concatenate(parts, 0) if parts else total).reshape(shape)]
