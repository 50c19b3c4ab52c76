"""Sums of products of minifloats: exact, in f32 by the device, step by step, or as an accumulator forms them.

`ops.products.contraction` says which. Exact sums are formed by the device's own dots in a type that holds every partial
sum, so they do not depend on its order of addition, nor on how the contraction is distributed over devices. Where no
type does, operands are cut into slices of neighbouring bits, whose products are added in words of 32 bits. One rounding
in integers follows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.accumulators.product import is_exact
from ...ops.accumulators.selection import accumulator_of
from ...ops.cast import cast, codes_of
from ...ops.minifloat.codec import decode
from ...ops.op import OpError
from ...ops.policy import Policy
from ...ops.products.dot import free_dimensions
from ...ops.products.dot_algorithm import Algorithm
from ...ops.products.exact import exact_type_of_formats, range_between, room, slice_counts
from ...ops.tables import all_codes
from ...ops.types import ELEMENT_TYPES, ElementType, TensorType
from ..program import Operation
from .accumulators import accumulate
from .draws import draw
from .lookup import binary, index_of
from .rewrite import Emulation, carrier, emulates
from .rounding import WORD, Exact, exact_of_float, exact_of_words, round_number
from .tensor import F32, F64, I64, UI32, UI64, Tensor, concatenate, constant, dot, loop, where

_PLAIN = Policy()
I8, INT32 = (dataclasses.replace(I64, name=f"i{bits}", bits=bits) for bits in (8, 32))


@dataclasses.dataclass(frozen=True)
class Sums:
    """What decides the sums of two matrices: the types of the operands and of the result."""

    e: Emulation
    lhs: ElementType
    rhs: ElementType
    result: ElementType

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the products of (batch, M, K) and (batch, K, N), as values of the result's type are carried."""
        policy = self.e.policy
        are_minifloats = self.lhs.is_minifloat and self.rhs.is_minifloat
        if are_minifloats and not self.result.is_float:
            return dataclasses.replace(self, result=F64).matmul(x, y).to(carrier(self.result))
        record = accumulator_of(policy, self.lhs, self.rhs, self.result)
        if record is not None and not (is_exact(record) and are_minifloats):
            to_odd = is_exact(record) and self.result != F64
            operands = index_of(x, self.lhs), index_of(y, self.rhs)
            bits = accumulate(record, *operands, self.lhs, self.rhs, to_odd=to_odd)
            found = bits.bits(ELEMENT_TYPES[record.storage.name])
            return self.round(exact_of_float(found.to(F32) if found.element.bits == 16 else found), found)
        if not are_minifloats:
            return self._on_device(x, y)
        if record is not None or policy.sums_exactly:
            return self._exact(x, y)
        if policy.accumulate == "element":
            return self._stepwise(x, y)
        return self._on_device(x, y)

    def round(self, number: Exact, sums: Tensor | None = None) -> Tensor:
        """Return numbers in the type of the result, rounded once; `sums` are the same in a float type, if there is."""
        e, fmt = self.e, self.result.format
        draws = draw(e, number.sign.shape) if e.policy.rounding == "stochastic" else None
        if sums is not None and sums.element == self.result:
            return sums
        if number.is_nan is not None:  # whatever its sign was
            number = dataclasses.replace(number, sign=number.sign & ~number.is_nan)
        are_minifloats = self.lhs.is_minifloat and self.rhs.is_minifloat
        policy = e.policy if are_minifloats else e.policy.for_results(self.result)
        codes = round_number(number, fmt, policy, draws)
        return codes if self.result.is_minifloat else codes.bits(self.result)

    # -- sums of the device --------------------------------------------------------------------------------------------

    def _on_device(self, x: Tensor, y: Tensor) -> Tensor:
        """Return sums in f32, or in the widest type of the operands and the result where it is wider."""
        types = self.lhs, self.rhs, self.result
        if any(t.is_complex for t in types):
            raise OpError(f"expected real operands beside minifloats, got {self.lhs} and {self.rhs}")
        compute = F64 if F64 in types else F32
        sums = dot(self._wide(x, self.lhs, compute), self._wide(y, self.rhs, compute), compute)
        if not self.result.is_minifloat:
            return sums.to(self.result)
        return self.round(exact_of_float(sums))

    def _wide(self, x: Tensor, t: ElementType, compute: ElementType) -> Tensor:
        return decode_by_table(self.e, x, t, compute) if t.is_minifloat else x.to(compute)

    def _stepwise(self, x: Tensor, y: Tensor) -> Tensor:
        """Return sums of which each product and each sum is rounded, in order, beginning with zero."""
        e, t = self.e, self.result
        if e.policy.rounding == "stochastic":
            raise OpError("expected another rounding than stochastic for sums whose steps are rounded")
        if not t.is_minifloat:
            return self._stepwise_wide(x, y)
        (batch, rows, length), columns = x.shape, y.shape[-1]
        x, y = (_recode(e, v, s, t) for v, s in ((x, self.lhs), (y, self.rhs)))
        x, y = x.transpose((2, 0, 1)), y.transpose((1, 0, 2))
        shape = (batch, rows, columns)

        def step(k: Tensor, total: Tensor) -> list[Tensor]:
            a, b = x.row(k).broadcast(shape, (0, 1)), y.row(k).broadcast(shape, (0, 2))
            return [binary(e, "add", total, binary(e, "multiply", a, b, t), t)]

        return loop(length, step, [constant(0, x.element, shape)])[0]

    def _stepwise_wide(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the same in f16 and wider types: products in f32 or f64 are exact, sums rounded once more."""
        t, compute = self.result, F64 if self.result == F64 else F32
        (batch, rows, length), columns = x.shape, y.shape[-1]
        x = decode_by_table(self.e, x, self.lhs, compute).transpose((2, 0, 1))
        y = decode_by_table(self.e, y, self.rhs, compute).transpose((1, 0, 2))
        shape = (batch, rows, columns)

        def rounded(v: Tensor) -> Tensor:
            if t == compute:
                return v
            return round_number(exact_of_float(v), t.format, self.e.policy.for_results(t)).bits(t).to(compute)

        def step(k: Tensor, total: Tensor) -> list[Tensor]:
            product = x.row(k).broadcast(shape, (0, 1)) * y.row(k).broadcast(shape, (0, 2))
            return [rounded(total + rounded(product))]

        total = loop(length, step, [constant(0, compute, shape)])[0]
        if self.e.policy.rounding != "down":  # a sum that begins with +0 is never -0, which compilers forget
            total = where(total.equals(0), constant(0, compute, shape), total)
        return total.to(t)

    # -- exact sums ----------------------------------------------------------------------------------------------------

    def _exact(self, x: Tensor, y: Tensor) -> Tensor:
        """Return exact sums, rounded once."""
        length = x.shape[-1]
        digits = [self._digit(t) for t in (self.lhs, self.rhs)]
        compute = exact_type_of_formats(self.lhs, self.rhs, length)
        if length and None not in digits:
            sums = dot(*(self._integers(v, t) for v, t in ((x, self.lhs), (y, self.rhs))), INT32)
            low = sum(t.format.min_exponent for t in (self.lhs, self.rhs))
            number = Exact(sums < 0, abs(sums).bits(UI32), constant(low, INT32, sums.shape))
        elif compute is not None:
            sums = dot(*(decode_by_table(self.e, v, t, compute) for v, t in ((x, self.lhs), (y, self.rhs))), compute)
            sums = where(sums.equals(0), constant(0, compute, sums.shape), sums)  # devices may give -0
            number = exact_of_float(sums)
            if self.result == compute and self.e.policy.rounding != "down":
                return self.round(number, where(sums.differs(sums), constant(math.nan, compute, sums.shape), sums))
        else:
            number = self._sliced(x, y)
        if self.e.policy.rounding == "down":
            number = dataclasses.replace(number, sign=number.sign | self._is_negative_zero(number, x, y))
        return self.round(number)

    def _digit(self, t: ElementType) -> int | None:
        """Return the bits of a format whose numbers, in units of the smallest, fit a signed byte; None of others."""
        if t.format.has_infinity or t.format.nan_code is not None:
            return None
        bits = range_between(t.format, int(t.format.has_zero), t.format.max_code).bits
        return bits if bits < 8 else None

    def _integers(self, x: Tensor, t: ElementType) -> Tensor:
        numbers = all_codes(t).astype(np.float64) * 2.0**-t.format.min_exponent
        return self.e.table(numbers.astype(np.int8), I8).take(x.to(UI32))

    def _is_negative_zero(self, number: Exact, x: Tensor, y: Tensor) -> Tensor:
        """Return where a zero sum is -0 as it is rounded down: unless every product is +0 (IEEE 754 section 6.3)."""
        marks = []
        for v, t, axis, sign in ((x, self.lhs, 2, -1), (y, self.rhs, 1, 1)):
            values = all_codes(t).astype(np.float64)
            negative, is_zero = np.signbit(values), values == 0
            each = (negative, ~negative, sign * (negative & ~is_zero), sign * (~negative & ~is_zero))
            tables = [self.e.table(np.asarray(m, np.float32), F32) for m in each]
            marks.append(concatenate([m.take(v.to(UI32)) for m in tables], axis))
        return number.significand.equals(0) & (dot(*marks, F32) < float(x.shape[-1]))

    def _sliced(self, x: Tensor, y: Tensor) -> Exact:
        """Return sums that no type holds: of the products of slices, in words."""
        length = x.shape[-1]
        ranges = [range_between(t.format, int(t.format.has_zero), t.format.max_code) for t in (self.lhs, self.rhs)]
        counts = slice_counts(ranges[0].bits, ranges[1].bits, room(length))
        xs, ys = (self._slices(v, t, count) for v, t, count in ((x, self.lhs, counts[0]), (y, self.rhs, counts[1])))
        low = ranges[0].low + ranges[1].low
        bits = ranges[0].bits + ranges[1].bits + length.bit_length() + 2
        shape = (*x.shape[:2], y.shape[2])
        words = [constant(0, I64, shape) for _ in range(-(-bits // WORD) + 2)]
        for part, exponent in xs:
            for other, other_exponent in ys:
                _add(words, dot(part, other, F64).to(I64), exponent + other_exponent - low)
        number = exact_of_words(words, low)
        if not any(t.format.has_infinity or t.format.nan_code is not None for t in (self.lhs, self.rhs)):
            return number
        # A sum of products of signs is finite where that of the numbers is.
        special = exact_of_float(dot(self._signs(x, self.lhs), self._signs(y, self.rhs), F32))
        assert special.is_infinite is not None
        sign = where(special.is_infinite, special.sign, number.sign)
        return dataclasses.replace(number, sign=sign, is_nan=special.is_nan, is_infinite=special.is_infinite)

    def _slices(self, x: Tensor, t: ElementType, count: int) -> list[tuple[Tensor, int]]:
        """Return integers of few bits, with their exponents: neighbouring bits of each number, with its sign."""
        numbers = decode(codes_of(all_codes(t), t.format), t.format)
        span = range_between(t.format, int(t.format.has_zero), t.format.max_code)
        step = -(-span.bits // count)
        slices = []
        for first in range(0, count * step, step):
            entries = np.zeros(numbers.significand.size)
            for i in range(entries.size):
                whole = int(numbers.significand[i]) << (int(numbers.exponent[i]) - span.low)
                part = whole >> first & ((1 << step) - 1)
                entries[i] = float(-part if numbers.sign[i] else part) if numbers.kind[i] == 0 else 0.0
            if entries.any():
                slices.append((self.e.table(entries, F64).take(x.to(UI32)), span.low + first))
        return slices

    def _signs(self, x: Tensor, t: ElementType) -> Tensor:
        values = all_codes(t).astype(np.float32)
        return self.e.table(np.where(np.isfinite(values), np.sign(values), values), F32).take(x.to(UI32))


def decode_by_table(e: Emulation, x: Tensor, t: ElementType, wide: ElementType) -> Tensor:
    """Return the numbers of codes in f32 or f64."""
    return e.table(cast(all_codes(t), t, wide, _PLAIN), wide).take(x.to(UI32))


def _recode(e: Emulation, x: Tensor, source: ElementType, target: ElementType) -> Tensor:
    if source == target:
        return x
    return e.table(cast(all_codes(source), source, target, e.policy), target).take(x.to(UI32))


def _add(words: list[Tensor], number: Tensor, position: int) -> None:
    """Add integers below 2**53, times 2**position, to sums in words; carries are left where they are."""
    at, shift = divmod(position, WORD)
    mask = (1 << WORD) - 1
    low = (number & mask).bits(UI64) << shift
    high = (number >> WORD) << shift
    words[at] = words[at] + (low & mask).bits(I64)
    words[at + 1] = words[at + 1] + (low >> WORD).bits(I64) + (high & mask)
    words[at + 2] = words[at + 2] + (high >> WORD)


# -- operations --------------------------------------------------------------------------------------------------------


def _types(operation: Operation) -> list[TensorType]:
    return [v.type for v in (*operation.operands[:2], operation.results[0]) if isinstance(v.type, TensorType)]


def sums_of(e: Emulation, operation: Operation) -> Sums:
    """Return the sums of an operation's first two operands."""
    lhs, rhs, result = _types(operation)
    return Sums(e, lhs.element, rhs.element, result.element)


@emulates("dot_general")
def dot_general(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Sums of products over the contracting dimensions."""
    numbers = operation.attributes["dot_dimension_numbers"]
    batching, contracting = (
        [tuple(map(int, numbers.get(f"{side}_{kind}_dimensions", ()))) for side in ("lhs", "rhs")]
        for kind in ("batching", "contracting")
    )
    attribute = operation.attributes.get("algorithm")
    algorithm = Algorithm.of(attribute) if attribute is not None else None
    sums = sums_of(e, operation)
    if algorithm is not None:
        sums = _of_algorithm(sums, algorithm)
    return [contract(e, operation, operands, batching, contracting, sums)]


def _of_algorithm(sums: Sums, algorithm: Algorithm) -> Sums:
    """Return the sums that an algorithm asks for: in f32 or f64 of the device, of operands that its types hold."""
    wide = (F32, F64)
    precisions = [p for p in (algorithm.lhs_precision, algorithm.rhs_precision) if p is not None]
    if algorithm.accumulation not in wide or any(p.is_minifloat or p.bits < 16 for p in precisions):
        raise OpError(f"expected an algorithm that adds in f32 or f64, got one in {algorithm.accumulation}")
    plain = dataclasses.replace(sums.e.policy, accumulate="f32")
    other = _copy_with(sums.e, plain)
    return dataclasses.replace(sums, e=other)


def _copy_with(e: Emulation, policy: Policy) -> Emulation:
    import copy

    other = copy.copy(e)
    other.policy = policy
    return other


@emulates("dot")
def dot_(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The inner product of vectors, or the product of matrices and vectors."""
    rank = len(operands[0].shape)
    return [contract(e, operation, operands, [(), ()], [(rank - 1,), (0,)], sums_of(e, operation))]


def contract(
    e: Emulation,
    operation: Operation,
    operands: Sequence[Tensor],
    batching: list[tuple[int, ...]],
    contracting: list[tuple[int, ...]],
    sums: Sums,
) -> Tensor:
    """Return the sums over dimensions of two tensors, for each index of the others."""
    lhs, rhs = operands
    call = e.call(operation)
    x_free, y_free = free_dimensions(call, [call.tensor(0), call.tensor(1)], batching, contracting)
    return contract_matrices(
        sums, lhs, rhs, (batching[0], x_free, contracting[0]), (batching[1], contracting[1], y_free)
    )


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
