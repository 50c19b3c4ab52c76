"""Sums of products of minifloats: exact, in f32 by the device, step by step, or as an accumulator forms them.

`ops.products.contraction` says which. Exact sums are formed by the device's own dots in a type that holds every partial
sum, so they do not depend on its order of addition, nor on how the contraction is distributed over devices. Where no
type does, operands are cut into digits, whose products are added in integers. One rounding in integers follows.

Sums in f32 and f64 of the policies `f32` and `element`, of algorithms, and of operands that are not both minifloats,
are the device's: it may order them as it likes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from ...ops.accumulators.operands import ABSENT
from ...ops.accumulators.product import is_exact
from ...ops.accumulators.record import EXACT, Accumulator
from ...ops.accumulators.selection import accumulator_of
from ...ops.cast import cast, codes_of, holds
from ...ops.minifloat.codec import decode
from ...ops.minifloat.formats import FORMATS
from ...ops.minifloat.number import WORK_BITS
from ...ops.op import OpError
from ...ops.policy import Policy
from ...ops.products.exact import exact_type_of_formats, range_between, room, slice_counts
from ...ops.tables import all_codes
from ...ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType
from ..program import Operation
from . import rounding
from .accumulators import accumulate
from .draws import draw
from .lookup import index_of, operate
from .loops import branch, loop
from .rewrite import Emulation
from .rounding import Exact, code_type, exact_of_float, round_float, round_number
from .rules import carrier, constant_of
from .tensor import F32, F64, I8, I32, I64, UI8, UI64, Tensor, concatenate, constant, dot, where

_PLAIN = Policy()
_BYTE = 7  # bits of a digit in i8
_F64_BITS = FORMATS["f64"].precision
E8M0 = ELEMENT_TYPES["f8E8M0FNU"]  # of so many digits that dots of them take long to compile


@dataclasses.dataclass(frozen=True)
class Sums:
    """What decides the sums of two matrices: the types of the operands and of the result, and the policy."""

    e: Emulation
    lhs: ElementType
    rhs: ElementType
    result: ElementType
    policy: Policy

    @classmethod
    def of(cls, e: Emulation, operation: Operation) -> Sums:
        """Return the sums of an operation's first two operands, or of its only one with itself."""
        values = [operation.operands[0], operation.operands[:2][-1], operation.results[0]]
        types = [v.type.element for v in values if isinstance(v.type, TensorType)]
        return cls(e, types[0], types[1], types[2], e.policy)

    @property
    def are_minifloats(self) -> bool:
        """Whether both operands are."""
        return self.lhs.is_minifloat and self.rhs.is_minifloat

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the products of (batch, M, K) and (batch, K, N), as values of the result's type are carried."""
        policy = self.policy
        if not any(t.is_float or t.is_complex for t in (self.lhs, self.rhs)):  # modulo 2**64
            wide = I64 if Kind.SIGNED in (self.lhs.kind, self.rhs.kind) else UI64
            return self.round(rounding.exact_of_integer(dot(x.to(wide), y.to(wide), wide)))
        record = accumulator_of(policy, self.lhs, self.rhs, self.result)
        if record is not None and not (is_exact(record) and self.are_minifloats):
            return self.accumulate(record, x, y)
        if not self.are_minifloats:
            if policy.accumulate in ("exact", "reproducible"):
                raise OpError(f"expected minifloats to be summed exactly, got {self.lhs} and {self.rhs}")
            return self.on_device(x, y)
        if not self.result.is_float:
            return of_number(dataclasses.replace(self, result=F64).matmul(x, y), self.result)
        if record is not None or policy.sums_exactly:
            return self._exact(x, y)
        return self.stepwise(x, y) if policy.accumulate == "element" else self.on_device(x, y)

    # -- roundings -----------------------------------------------------------------------------------------------------

    @property
    def _rounding(self) -> Policy:
        """The policy for results: of minifloats that is a conversion, else a result of arithmetic."""
        return self.policy if self.are_minifloats else self.policy.for_results(self.result)

    def round(self, x: Exact) -> Tensor:
        """Return numbers in the float type of the result, rounded once."""
        policy = self._rounding
        if self.result == F64:  # infinities among sums in f64 stay
            policy = dataclasses.replace(policy, overflow="ieee")
        x = dataclasses.replace(x, sign=x.sign & ~x.is_nan)
        draws = draw(self.e, x.sign.shape) if policy.rounding == "stochastic" else None
        return round_number(x, self.result.format, policy, draws).bits(carrier(self.result))

    def round_sums(self, sums: Tensor) -> Tensor:
        """Return sums in f32 or f64 in the float type of the result, rounded once."""
        is_same = self.result == sums.element
        if self.result == F64 or (is_same and self._rounding.overflow == "ieee"):
            return sums.to(self.result)
        policy = dataclasses.replace(self.policy, rounding="nearest_even") if is_same else self.policy
        return dataclasses.replace(self, policy=policy).round(exact_of_float(sums))

    # -- sums of the device, and of accumulators -----------------------------------------------------------------------

    def on_device(self, x: Tensor, y: Tensor) -> Tensor:
        """Return sums in f32, or in the widest type of the operands and the result where it is wider."""
        types = self.lhs, self.rhs, self.result
        if any(t.is_complex for t in types):
            raise OpError(f"expected real operands beside minifloats, got {self.lhs} and {self.rhs}")
        sums = self.device_sums(x, y, F64 if F64 in types and not self.are_minifloats else F32)
        return self.round_any(where(sums.equals(0), 0.0, sums))  # a sum that begins with +0 is never -0

    def device_sums(self, x: Tensor, y: Tensor, compute: ElementType) -> Tensor:
        """Return sums in f32 or f64."""
        return dot(decoded(self.e, x, self.lhs, compute), decoded(self.e, y, self.rhs, compute), compute)

    def round_any(self, sums: Tensor) -> Tensor:
        """Return sums in f32 or f64 in the type of the result, which may be one of integers."""
        return self.round_sums(sums) if self.result.is_float else of_number(sums, self.result)

    def accumulate(self, record: Accumulator, x: Tensor, y: Tensor) -> Tensor:
        """Return sums as an accumulator forms them, rounded once more to the result."""
        x, y = (v if t.is_minifloat else v.bits(code_type(t.format)) for v, t in ((x, self.lhs), (y, self.rhs)))
        bits = accumulate(record, x, y, self.lhs, self.rhs, rounds_to_odd=self.result != F64)
        return self.round_stored(bits, record)

    def round_stored(self, bits: Tensor, record: Accumulator) -> Tensor:
        """Return the bits of an accumulator's sums in the type of the result."""
        stored, fmt = ELEMENT_TYPES[record.storage.name], record.storage
        sums = bits.bits(stored)
        if stored == self.result or not self.result.is_float:
            return sums if stored == self.result else of_number(sums, self.result)
        number, is_held = exact_of_float(sums), holds(self.result.format, fmt)
        number = dataclasses.replace(number, significand=number.significand.to(UI64))
        policy = _PLAIN if is_held else self._rounding
        found = dataclasses.replace(self, policy=policy).round(number)
        if record.nan == "quiet" or policy.rounding == "stochastic":
            return found
        # Of other codes of NaN the host's conversion passes on what fits.
        ones = cast(np.array(fmt.sign_bit - 1, fmt.code_dtype).view(fmt.dtype), stored, self.result, policy)
        return where(number.is_nan, constant_of(ones, self.result), found)

    # -- sums whose steps are rounded ----------------------------------------------------------------------------------

    def stepwise(self, x: Tensor, y: Tensor) -> Tensor:
        """Return sums of which each product and each sum is rounded, in order, beginning with zero."""
        e, t, policy = self.e, self.result, self.policy.for_results(self.result)
        (batch, rows, length), columns = x.shape, y.shape[-1]
        if policy.rounding == "stochastic":
            raise OpError("expected another rounding than stochastic for sums whose steps are rounded")
        if t.bits == 16 and (policy.rounding == "down" or exact_type_of_formats(self.lhs, self.rhs, length) is None):
            raise OpError(f"expected sums in {t} to fit f64, and another rounding than down")
        # f64 holds sums of f16 and bf16, so that they are rounded once.
        compute = t if t.is_minifloat or t.bits >= 32 else F64
        sides = []
        for v, source, order in ((x, self.lhs, (2, 0, 1)), (y, self.rhs, (1, 0, 2))):
            entries = cast(cast(all_codes(source), source, t, self.policy), t, compute, _PLAIN)
            sides.append(e.look(entries, compute, index_of(v, source)).transpose(order))

        def rounded(v: Tensor) -> Tensor:
            return round_float(v, t.format, policy).bits(t).to(F64) if t.bits == 16 else v

        def step(k: Tensor, total: Tensor) -> list[Tensor]:
            a, b = sides[0].row(k).expand(2, columns), sides[1].row(k).expand(1, rows)
            if t.is_minifloat:
                return [operate(e, "add", [total, operate(e, "multiply", [a, b], [t, t], t)], [t, t], t)]
            return [rounded(total + rounded(a * b))]

        total = loop(length, step, [constant(0, sides[0].element, (batch, rows, columns))])[0]
        # A sum that begins with +0 is never -0, which compilers forget.
        return total if t.is_minifloat else where(total.equals(0), 0, total).to(t)

    # -- exact sums ----------------------------------------------------------------------------------------------------

    def _exact(self, x: Tensor, y: Tensor) -> Tensor:
        """Return exact sums, rounded once."""
        length, way = x.shape[-1], self.e.dots
        compute = exact_type_of_formats(self.lhs, self.rhs, length)
        is_short = all(len(_digits(t, _BYTE)) <= 1 and not _is_special(t) for t in (self.lhs, self.rhs))
        in_bytes = is_short if way == "auto" else way == "int8"
        if E8M0 in (self.lhs, self.rhs) and self.result != F64:
            return self.accumulate(Accumulator(0, keep=EXACT), x, y)
        if in_bytes and is_short and compute is not None:
            sums = dot(_small_integers(x, self.lhs), _small_integers(y, self.rhs), I32).to(compute)
            return self._round_exact(sums * 2.0 ** (_span(self.lhs).low + _span(self.rhs).low), x, y)
        if in_bytes and 2 * (_BYTE - 1) + length.bit_length() <= 31:
            return self._in_digits(x, y, I8)
        if compute is not None:
            return self._round_exact(self.device_sums(x, y, compute), x, y)
        if self.policy.rounding == "stochastic":  # draws belong to one of the two
            return self._in_digits(x, y, F64)
        return branch(
            self._is_narrow(x, y),
            [constant(0, carrier(self.result), (*x.shape[:2], y.shape[2]))],
            lambda: [self._round_exact(self.device_sums(x, y, F64), x, y)],
            lambda: [self._in_digits(x, y, F64)],
        )[0]

    def _is_narrow(self, x: Tensor, y: Tensor) -> Tensor:
        """Return whether f64 holds every partial sum of these numbers, though not of all that have their types."""
        width = constant(x.shape[-1].bit_length(), I32)
        for v, t in ((x, self.lhs), (y, self.rhs)):
            tops = [abs(n).bit_length() if n else ABSENT for n in _wholes(t)]
            units = [(n & -n).bit_length() - 1 if n else -ABSENT for n in _wholes(t)]
            top, unit = (self.e.look(np.array(places), I32, v) for places in (tops, units))
            width = width + top.reduce("maximum", ABSENT, range(3)) - unit.reduce("minimum", -ABSENT, range(3))
        return width <= _F64_BITS

    def _round_exact(self, sums: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return sums in f32 or f64, exact as every partial sum of them is, rounded once."""
        sums = self.plain_sums(sums)
        if self.policy.rounding == "down":
            sums = where(sums.equals(0) & self._is_negative_zero(x, y), constant(-0.0, sums.element), sums)
        return self.round_sums(sums)

    def plain_sums(self, sums: Tensor) -> Tensor:
        """Return sums of the device with zeros and NaN that are positive."""
        sums = where(sums.equals(0), 0.0, sums)
        return where(sums.differs(sums), math.nan, sums)

    def _in_digits(self, x: Tensor, y: Tensor, kind: ElementType) -> Tensor:
        """Return sums of products of digits, rounded once."""
        number = self._of_digits(x, y, kind)
        if self.policy.rounding == "down":
            is_negative = number.sign | (number.significand.equals(0) & self._is_negative_zero(x, y))
            number = dataclasses.replace(number, sign=is_negative)
        if self.policy.rounding == "stochastic":  # fractions have the bits that the interpreter gives them
            number = rounding.to_odd(number, WORK_BITS if self.result == F64 else _F64_BITS)
        # What f64 holds is drawn for by none.
        is_known = self.result == F64 and exact_type_of_formats(self.lhs, self.rhs, x.shape[-1]) is not None
        return (dataclasses.replace(self, policy=_PLAIN) if is_known else self).round(number)

    def _is_negative_zero(self, x: Tensor, y: Tensor) -> Tensor:
        """Return where a zero sum is -0 as it is rounded down: unless every product is +0 (IEEE 754 section 6.3)."""
        marks = []
        for v, t, axis, sign in ((x, self.lhs, 2, -1), (y, self.rhs, 1, 1)):
            values = all_codes(t).astype(np.float64)
            negative, is_zero = np.signbit(values), values == 0
            each = (negative, ~negative, sign * (negative & ~is_zero), sign * (~negative & ~is_zero))
            marks.append(concatenate([self.e.look(np.asarray(m, np.float32), F32, v) for m in each], axis))
        return dot(marks[0], marks[1], F32) < float(x.shape[-1])

    def _of_digits(self, x: Tensor, y: Tensor, kind: ElementType) -> Exact:
        """Return sums of the products of digits, which a type holds: f64, or i8 whose sums are i32."""
        length = x.shape[-1]
        spans = [_span(t) for t in (self.lhs, self.rhs)]
        low, bits = sum(s.low for s in spans), sum(s.bits for s in spans) + length.bit_length() + 1
        widths = [_BYTE, _BYTE]
        if kind == F64:
            counts = slice_counts(spans[0].bits, spans[1].bits, room(length))
            widths = [-(-(s.bits + 1) // count) for s, count in zip(spans, counts, strict=True)]
        cuts = [_digits(t, width) for t, width in zip((self.lhs, self.rhs), widths, strict=True)]
        xs, ys = (
            [(self.e.look(entries, kind, v), at) for at, entries in digits]
            for v, digits in zip((x, y), cuts, strict=True)
        )
        words = [constant(0, I64, (*x.shape[:2], y.shape[2]))] * (-(-bits // rounding.WORD) + 3)
        for a, i in xs:
            for b, j in ys:
                part = dot(a, b, I32 if kind == I8 else F64).to(I64)
                at, bit = divmod(i + j, rounding.WORD)
                words[at] = words[at] + ((part << bit) & ((1 << rounding.WORD) - 1))
                words[at + 1] = words[at + 1] + (part >> (rounding.WORD - bit))
        number = rounding.exact_of_words(words, low)
        if not any(_is_special(t) for t in (self.lhs, self.rhs)):
            return number
        # A sum of products of signs is finite where that of the numbers is.
        marks = []
        for v, t in ((x, self.lhs), (y, self.rhs)):
            values = all_codes(t).astype(np.float32)
            marks.append(self.e.look(np.where(np.isfinite(values), np.sign(values), values), F32, v))
        special = exact_of_float(dot(marks[0], marks[1], F32))
        sign = where(special.is_infinite, special.sign, number.sign)
        return dataclasses.replace(number, sign=sign, is_nan=special.is_nan, is_infinite=special.is_infinite)


def _span(t: ElementType) -> Any:
    return range_between(t.format, int(t.format.has_zero), t.format.max_code)


def _is_special(t: ElementType) -> bool:
    """Return whether a format has infinities or NaN."""
    return t.format.has_infinity or t.format.nan_code is not None


@functools.cache
def _wholes(t: ElementType) -> list[int]:
    """Return each code's number in units of the smallest; 0 for infinities and NaN."""
    x, low = decode(codes_of(all_codes(t), t.format), t.format), _span(t).low
    parts = zip(x.kind.tolist(), x.sign.tolist(), x.significand.tolist(), x.exponent.tolist(), strict=True)
    return [0 if kind else (-s if sign else s) << max(e - low, 0) for kind, sign, s, e in parts]


@functools.cache
def _digits(t: ElementType, width: int) -> list[tuple[int, np.ndarray]]:
    """Return the digits of `_wholes`, and their positions.

    They are at least -2**(width - 1), and less than that: with a sign in `width` bits.
    """
    wholes, half = _wholes(t), 1 << (width - 1)
    digits: list[tuple[int, np.ndarray]] = []
    while any(wholes):
        part = np.array([(n + half) % (2 * half) - half for n in wholes], np.float64)
        digits.append((width * len(digits), part))
        wholes = [(n + half) >> width for n in wholes]
    return digits


def _small_integers(codes: Tensor, t: ElementType) -> Tensor:
    """Return the numbers of codes in units of the smallest, as bytes: quicker than a gather in vector units."""
    fmt = t.format
    magnitude = codes & (fmt.sign_bit - 1)
    field = magnitude >> fmt.mantissa_bits
    leading = field.differs(0).to(UI8) << fmt.mantissa_bits
    whole = ((magnitude & ((1 << fmt.mantissa_bits) - 1)) | leading) << (field.at_least(1) - 1)
    return where(codes < fmt.sign_bit, whole.bits(I8), -whole.bits(I8))


def decoded(e: Emulation, x: Tensor, t: ElementType, wide: ElementType) -> Tensor:
    """Return operands in f32 or f64."""
    if not t.is_minifloat:
        return x.to(wide)
    return e.look(cast(all_codes(t), t, wide, _PLAIN), wide, x)


def of_number(x: Tensor, result: ElementType) -> Tensor:
    """Return floats as integers, booleans or complex numbers, by the device's conversion."""
    return x.to(result.part).as_complex() if result.is_complex else x.to(carrier(result))
