"""Sums of products as an accumulator forms them: what `ops.accumulators.sums` computes on arrays, by the device.

Numbers are floats whose operations are exact: in f64, or in f32 where all sums fit. A step is formed for all rows and
columns at once: the largest exponent of its terms, and then their sum, each cut to what is left of it. Infinities and
NaN come about by themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from ...ops.accumulators.operands import ABSENT
from ...ops.accumulators.record import EXACT, Accumulator
from ...ops.minifloat.formats import Format
from ...ops.op import UnsupportedOpError
from ...ops.policy import Policy
from ...ops.types import ElementType
from . import rounding
from .floats import add_to_odd, exponent, is_finite, of_exact, power, round_to_form, to_integers, unsigned_zero
from .loops import loop, repeat
from .operands import Scales, Side, read_side, split
from .rounding import code_type, exact_of_float, round_float, round_number
from .tensor import F32, F64, I32, I64, Tensor, constant, where

#: Terms of a step that are written one after the other in a loop: more take longer to compile, and to run.
_UNROLLED = 4
_LOW, _HIGH = -900, 900  # exponents that terms are aligned to


def accumulate(
    record: Accumulator, x: Tensor, y: Tensor, lhs: ElementType, rhs: ElementType, *,
    scales: Scales | None = None, rounds_to_odd: bool = False,
) -> Tensor:  # fmt: skip
    """Return the products of (batch, M, K) and (batch, K, N), as bits of `record.storage`.

    `x` and `y` have codes of minifloats, or the bits of wider types. With keep=exact sums are rounded to nearest in
    f64, or to odd, to be rounded once more.
    """
    sides = [lhs, rhs] if scales is None else [lhs, rhs, scales.element, scales.element]
    compute = F32 if _fits_f32(record, sides, x.shape[-1]) else F64
    a, b = read_side(record, x.transpose((0, 2, 1)), lhs.format, compute), read_side(record, y, rhs.format, compute)
    if record.inner > 1:
        groups = -(-x.shape[-1] // record.inner)
        a, b = (Side(v.values, constant(0, I32, (v.values.shape[0], groups, v.values.shape[2]))) for v in (a, b))
    if scales is not None:
        a = a.scaled(scales.x.transpose((0, 2, 1)), scales, record.inner)
        b = b.scaled(scales.y, scales, record.inner)
    x_bits, y_bits = (sum(t.format.precision - (t.format.precision == 1) for t in sides[i::2]) for i in range(2))
    if x_bits + y_bits > F64.format.precision:
        if record.keep != EXACT or x_bits + y_bits // 2 >= F64.format.precision:
            raise UnsupportedOpError(f"expected products of at most 53 bits, got {lhs} and {rhs}")
        a, b = split(a, b, x_bits)
    low = sum(t.format.min_exponent for t in sides)
    high = sum((t.format.max_code >> t.format.mantissa_bits) - t.format.bias + 1 for t in sides)
    sums = _Sums(record, a, b, (low, high), rounds_to_odd)
    return sums.finish(sums.run())


def _fits_f32(record: Accumulator, types: Sequence[ElementType], length: int) -> bool:
    """Return whether f32 holds every sum, and no number of it is subnormal."""
    is_plain = record.c == "aligned" and record.type == F32.format and not record.outer and record.product_limit is None
    if len(types) > 2 or record.bits is None or not is_plain:
        return False
    bits = record.bits + 2 + (record.step or length).bit_length() + (record.drop == "sticky")
    products = sum(t.format.precision for t in types)
    return max(bits, products) <= F32.format.precision and all(t.format.min_exponent > -25 for t in types)


@dataclasses.dataclass(frozen=True)
class _Step:
    """Some products of a step, or sums of as many as are added before they are scaled."""

    index: Tensor  #: of the step, a scalar
    first: int
    stride: int
    count: int


class _Sums:
    """The sums of some products."""

    def __init__(self, record: Accumulator, a: Side, b: Side, limits: tuple[int, int], rounds_to_odd: bool) -> None:
        self.record, self.form, self.type, self.compute = record, record.form, record.type, a.values.element
        self.range = limits  #: the least unit of products, and the power of two that they are below
        self.to_odd = rounds_to_odd and record.keep == EXACT
        batch, self.length, rows = a.values.shape
        self.shape = (batch, rows, b.values.shape[2])
        self.step = record.step or self.length
        self.a, self.b = self._arrange(a), self._arrange(b)

    def _arrange(self, side: Side) -> Side:
        """Return an operand as (batch, steps, products of a step, rows), what is missing as zeros."""
        record, (run, period) = self.record, self.record.pattern
        ways, inner = period // run, record.inner
        if ways > 1 and inner > 1:
            raise UnsupportedOpError("expected inner sums of consecutive products, got others")

        def split(x: Tensor, step: int, missing: int) -> Tensor:
            (batch, length, rows), window = x.shape, step * ways
            count = -(-length // max(window, 1))
            x = x.pad(missing, [0, 0, 0], [0, count * window - length, 0])
            if ways > 1:
                x = x.reshape((batch, count, step // run, ways, run, rows)).transpose((0, 1, 3, 2, 4, 5))
            return x.reshape((batch, count * ways, step, rows))

        return Side(split(side.values, self.step, 0), split(side.exponents, -(-self.step // inner), ABSENT))

    def run(self) -> Tensor:
        """Return the sums."""
        record, steps = self.record, self.a.values.shape[1] if self.length else 0
        ways = record.pattern[1] // record.pattern[0]
        each = record.group // self.step if record.c == "after" and record.group else 1
        chunk = record.outer // (self.step * ways) * ways if record.outer else 0
        zero = constant(0, self.compute, self.shape)

        def body(index: Tensor, *state: Tensor) -> list[Tensor]:
            step = _Step(index, 0, 1, self.a.exponents.shape[2])
            total, *others = state
            if record.c != "after":
                total = self._joined(step, total) if record.c == "joined" else self._sum(step, total)
            elif each == 1:
                total = self._add(total, self._part(step, None), self.type, "nearest_even")
            else:
                ends = self._is_end(index, each, steps, chunk)
                part = self._part(step, others[0])
                total = where(ends, self._add(total, part, self.type, "nearest_even"), total)
                others[0] = where(ends, zero, part)
            if chunk:
                ends = self._is_end(index, chunk, steps, 0)
                outer = round_to_form(add_to_odd(others[-1], total), F32.format, "nearest_even", "infinity")
                others[-1], total = where(ends, outer, others[-1]), where(ends, zero, total)
            return [total, *others]

        state = [zero] * (1 + (each > 1) + (chunk > 0))
        found = body(constant(0, I32), *state) if steps == 1 else loop(steps, body, state)
        return found[-1] if chunk else found[0]

    def finish(self, sums: Tensor) -> Tensor:
        """Return sums as bits of the type that they leave in."""
        fmt, is_nan = self.record.storage, sums.differs(sums)
        bits = sums.bits(code_type(fmt)) if fmt == self.compute.format else round_float(sums, fmt, Policy())
        return where(is_nan, fmt.sign_bit - 1 if self.record.nan == "ones" else fmt.nan_code or 0, bits)

    def _is_end(self, index: Tensor, size: int, steps: int, chunk: int) -> Tensor:
        """Return whether a step is the last of so many, of a chunk, or of all; of the shape of sums."""
        at = index % chunk if chunk else index
        return (((at + 1) % size).equals(0) | index.equals(steps - 1)).broadcast(self.shape)

    # -- roundings -----------------------------------------------------------------------------------------------------

    def _keep(self, x: Tensor) -> Tensor:
        """Return sums in the form that is kept."""
        return self._flush(round_to_form(x, self.form, self.record.rounding, self.record.overflow))

    def _flush(self, x: Tensor) -> Tensor:
        if "results" not in self.record.flush:
            return x
        sign = x.bits(code_type(x.element.format)) & x.element.format.sign_bit
        return where(abs(x) < 2.0 ** (1 - self.form.bias), sign.bits(x.element), x)

    def _add(self, x: Tensor, y: Tensor, form: Format, rounding: str) -> Tensor:
        """Return sums rounded once."""
        if form.mantissa_bits < F64.format.mantissa_bits:
            return self._flush(round_to_form(add_to_odd(x, y), form, rounding, self.record.overflow))
        if rounding == "nearest_even":
            return self._flush(x + y)
        return self._flush(self._exact_total(2, lambda i: x if i == 0 else y, []))

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _part(self, step: _Step, running: Tensor | None) -> Tensor:
        """Return the sum of a step that joins the running one after it."""
        if self.record.tree:
            return self._by_halves([self._keep(unsigned_zero(self._value(step, i))) for i in range(self.step)])
        return self._keep(self._even_and_odd(step)[0]) if self.record.even_odd else self._sum(step, running)

    def _by_halves(self, terms: list[Tensor]) -> Tensor:
        if len(terms) == 1:
            return terms[0]
        x, y = (self._by_halves(half) for half in (terms[: len(terms) // 2], terms[len(terms) // 2 :]))
        return self._add(x, y, self.form, self.record.rounding)

    def _sum(self, step: _Step, running: Tensor | None) -> Tensor:
        """Return the sum of a step, with the running sum where there is one, in the form that is kept."""
        if self.record.bits is not None:
            return self._keep(self._aligned(step, running)[0])
        return self._keep(self._exact(step, running))

    def _value(self, step: _Step, i: int | Tensor) -> Tensor:
        """Return a term: a product, or the sum of as many as are added before they are scaled."""
        inner, limit, total = self.record.inner, self.record.product_limit, None
        for j in range(inner):
            x, y = self._over("values", step, i * inner + j)
            x = x * y
            if limit is not None:
                x = where(abs(x) >= 2.0**limit, where(x < 0, constant(-np.inf, x.element), np.inf), x)
            total = x if total is None else total + x
        assert total is not None
        return total

    def _over(self, name: str, step: _Step, i: int | Tensor) -> tuple[Tensor, Tensor]:
        """Return a row of both operands, over all rows and columns."""
        at, batch = [0, step.index, i * step.stride + step.first], self.shape[0]
        sides = (getattr(side, name) for side in (self.a, self.b))
        x, y = (v.window(at, [batch, 1, 1]).reshape((batch, v.shape[3])) for v in sides)
        return x.expand(2, self.shape[2]), y.expand(1, self.shape[1])

    def _own(self, x: Tensor, least: int) -> Tensor:
        """Return the exponents of numbers, `least` at least; zeros have none, and those of others do not matter."""
        return where(x.equals(0), ABSENT, exponent(x).at_least(least))

    def _aligned(self, step: _Step, running: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the sum of a step, with the running sum where there is one, and the exponent of its alignment."""
        record, bits, count = self.record, self.record.bits, step.count
        assert bits is not None
        least = -100 if self.compute == F32 else _LOW  # in f32 no product is so small
        top = constant(least if record.least is None else max(record.least, least), I32, self.shape)
        if running is not None:
            top = top.at_least(self._own(running, 1 - self.form.bias))

        def larger(i: int | Tensor, top: Tensor) -> list[Tensor]:
            if record.normalise:
                return [top.at_least(self._own(self._value(step, i), ABSENT))]
            x, y = self._over("exponents", step, i)
            return [top.at_least(x + y)]

        (top,) = repeat(count, larger, [top], _UNROLLED)
        top = top.at_most(_HIGH)
        scale = power(bits - top, self.compute)
        total = constant(0, self.compute, self.shape)
        add = lambda i, total: [total + to_integers(self._value(step, i) * scale, record.drop)]  # noqa: E731
        (total,) = repeat(count, add, [total], _UNROLLED)
        if running is not None:
            total = total + to_integers(running * scale, record.drop)
        return unsigned_zero(total) * power(top - bits, self.compute), top

    def _joined(self, step: _Step, running: Tensor) -> Tensor:
        """Return the running sum after a step of c=joined."""
        record = self.record
        assert record.sum_bits is not None
        assert record.c_bits is not None
        part, e = self._even_and_odd(step) if record.even_odd else self._aligned(step, None)
        own = self._own(running, ABSENT).at_least(1 - self.form.bias)
        top = e.at_least(own).at_least(_LOW).at_most(_HIGH)
        if record.c_reach is not None:
            running = where(own < top - record.c_reach, 0, running)
        return self._keep(unsigned_zero(self._cut(part, top, record.sum_bits) + self._cut(running, top, record.c_bits)))

    def _cut(self, x: Tensor, top: Tensor, bits: int) -> Tensor:
        """Return sums that join others, cut so many bits below an exponent."""
        return to_integers(x * power(bits - top, self.compute), self.record.join) * power(top - bits, self.compute)

    def _even_and_odd(self, step: _Step) -> tuple[Tensor, Tensor]:
        """Return the sum of a step whose products of even and odd position are summed apart and joined."""
        bits = self.record.bits
        assert bits is not None
        parts = [
            self._aligned(_Step(step.index, first, 2, (step.count + 1 - first) // 2), None)
            for first in range(min(2, step.count))
        ]
        top = parts[0][1].at_least(parts[-1][1])
        total, *others = [self._cut(x, top, bits) for x, _ in parts]
        return unsigned_zero(total + others[0] if others else total), top

    def _exact(self, step: _Step, running: Tensor | None) -> Tensor:
        """Return the exact sum of a step, rounded to odd, or as it is kept in f64."""
        count, is_wide = step.count, self.form == F64.format and not self.to_odd
        if count == 1 and not is_wide:
            zero = constant(0, self.compute, self.shape)
            return unsigned_zero(add_to_odd(self._value(step, 0), zero if running is None else running))
        return self._exact_total(count, lambda i: self._value(step, i), [] if running is None else [running])

    def _exact_total(self, count: int, term: Callable[[int | Tensor], Tensor], others: Sequence[Tensor]) -> Tensor:
        """Return the exact sum of terms and other numbers: as it is kept in f64, or rounded to odd."""
        low, high = self.range
        if self.type.bits != 64:
            low, high = min(low, self.type.min_exponent), max(high, self.type.bias + 1)
        size = -(-(high - low + self.length.bit_length() + 2) // rounding.WORD) + 1

        def include(x: Tensor, special: Tensor, *words: Tensor) -> list[Tensor]:
            finite = is_finite(x)
            added = rounding.add_to_words(words, low, exact_of_float(where(finite, x, 0)))
            return [special + where(finite, 0, x), *added]

        state = [constant(0, self.compute, self.shape), *([constant(0, I64, self.shape)] * size)]

        def add(i: int | Tensor, *state: Tensor) -> list[Tensor]:
            return include(term(i), state[0], *state[1:])

        state = repeat(count, add, state, _UNROLLED)
        for x in others:
            state = include(x, state[0], *state[1:])
        special, *words = state
        total, is_wide = rounding.exact_of_words(words, low), self.form == F64.format and not self.to_odd
        policy = Policy(rounding=self.record.rounding)
        found = round_number(total, F64.format, policy).bits(F64) if is_wide else of_exact(total)
        return where(special.equals(0), found, special)
