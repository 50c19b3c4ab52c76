"""The operands of an accumulator: their values, the exponents that it aligns by, and the scales of blocks."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...ops.accumulators.operands import ABSENT, operand
from ...ops.accumulators.record import Accumulator
from ...ops.minifloat.formats import Format
from ...ops.op import UnsupportedOpError
from ...ops.types import ElementType
from .floats import is_finite, power
from .rounding import code_type, exact_of_bits
from .tensor import F64, I32, UI32, UI64, Tensor, concatenate, constant, where


@dataclasses.dataclass(frozen=True)
class Scales:
    """The scales of blocks: codes or bits of (batch, M, ceil(K / block)) and (batch, ceil(K / block), N)."""

    x: Tensor
    y: Tensor
    element: ElementType
    block: int
    is_signed: bool = False  #: whether their signs count, as they do for no unit


@dataclasses.dataclass(frozen=True)
class Side:
    """An operand as (batch, K, rows)."""

    values: Tensor
    exponents: Tensor  #: i32, of as many as are added before they are scaled; `ABSENT` for zeros, infinities and NaN

    def scaled(self, codes: Tensor, scales: Scales, inner: int) -> Side:
        """Return the operand multiplied by its scales."""
        length, count, block = self.values.shape[1], codes.shape[1], scales.block
        if count != -(-length // block) or block % inner:
            raise UnsupportedOpError(f"expected blocks of a multiple of {inner}, and {count} of {block}, got {length}")
        s = read_side(Accumulator(), codes, scales.element.format, F64)

        def each(x: Tensor, per: int, size: int) -> Tensor:
            return x.expand(2, per).reshape((x.shape[0], count * per, x.shape[2])).slice(1, 0, size)

        factors = each(s.values if scales.is_signed else abs(s.values), block, length)
        return Side(self.values * factors, self.exponents + each(s.exponents, block // inner, -(-length // inner)))


def read_side(record: Accumulator, codes: Tensor, fmt: Format, compute: ElementType) -> Side:
    """Return the values of codes, or bits, and their exponents: the least of the format for subnormal numbers."""
    if fmt.bits > 32:
        raise UnsupportedOpError(f"expected operands of up to 32 bits, got {fmt.name}")
    if fmt.bits <= 8:
        every, index = operand(np.arange(1 << fmt.bits, dtype=np.uint8), fmt.name, record), codes.to(UI32)
        values, exponents = every.values.astype(compute.dtype), every.exponents.astype(np.int32)
        return Side(constant(values, compute).take(index), constant(exponents, I32).take(index))
    x, places = exact_of_bits(codes.bits(code_type(fmt)), fmt), fmt.mantissa_bits
    significand = where(x.is_nan | x.is_infinite, 0, x.significand)
    if "operands" in record.flush:
        significand = where(significand < (1 << places), 0, significand)
    value = significand.bits(I32).to(compute) * power(x.exponent, compute)
    value = where(x.is_infinite, np.inf, where(x.is_nan, np.nan, value))
    return Side(where(x.sign, -value, value), where(significand.equals(0), ABSENT, x.exponent + places))


def read(codes: Tensor, fmt: Format) -> Tensor:
    """Return the values of codes, or bits, in f64."""
    return read_side(Accumulator(), codes, fmt, F64).values


def split(a: Side, b: Side, bits: int) -> tuple[Side, Side]:
    """Return twice as many products, which f64 holds: of `b` the leading bits, and the others; `a` has so many."""
    high = (b.values.bits(UI64) & ((1 << 64) - (1 << bits))).bits(F64)
    low = where(is_finite(b.values), b.values - high, 0.0)
    x = where(is_finite(a.values), a.values, 0.0)
    return (
        Side(concatenate([a.values, x], 1), concatenate([a.exponents] * 2, 1)),
        Side(concatenate([high, low], 1), concatenate([b.exponents] * 2, 1)),
    )
