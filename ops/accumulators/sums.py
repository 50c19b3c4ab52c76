"""Sums of products as a record says, on arrays: the definition of `record.py`, in f64 that holds exact integers.

A product of operands of up to 24 bits is exact in f64; so is an aligned sum, whose terms are integers of few bits once
they are divided by the unit they are cut to. Products go one after the other, each for all sums at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..minifloat.formats import FORMATS
from .exact_sum import exact_total
from .forms import Form, add_to_odd, exponent, power, round_to_form, two_to
from .operands import ABSENT, Operand, operand, scale, with_unit_scales
from .record import EXACT, Accumulator
from .steps import Chunk, Step, chunks_of, index

_F32 = Form.of(FORMATS["f32"])
#: Products of a step that are formed together, of all sums.
#: tuning: 300 dots of 64 products in steps of 16 take 0.3 ms so, and 1.1 ms product by product.
_TOGETHER = 1 << 13
#: Exponents that are aligned to, so that all powers of two are numbers of f64. Products lie within.
_LOW, _HIGH = -900, 900
_CUTS: dict[str, Callable[..., np.ndarray]] = {"zero": np.trunc, "floor": np.floor, "nearest_even": np.rint}


class Numbers(NamedTuple):
    """Fields of a record; of several records at once, arrays of int16 that broadcast with the sums."""

    bits: Any
    sum_bits: Any
    c_bits: Any
    c_reach: Any
    least: Any
    product_limit: Any
    form: Form  #: of the sum that is kept

    @staticmethod
    def of(record: Accumulator) -> Numbers:
        """The numbers of one record."""
        least = _LOW if record.least is None else max(record.least, _LOW)
        fields = record.bits, record.sum_bits, record.c_bits, record.c_reach, least, record.product_limit
        return Numbers(*fields, Form.of(record.form))


def dots(
    record: Accumulator,
    a: np.ndarray,
    b: np.ndarray,
    a_type: str,
    b_type: str,
    c: np.ndarray | None = None,
    *,
    a_scales: np.ndarray | None = None,
    b_scales: np.ndarray | None = None,
    scale_type: str = "f8E8M0FNU",
    block: int = 32,
) -> np.ndarray:
    """Sums of products over the last axis, as an accumulator forms them.

    Args:
        record: The accumulator.
        a: The operands, of shape (..., k): codes, or numbers of the type, of up to 32 bits.
        b: The same, of a shape that broadcasts with a's but for the last axis, which is as long.
        a_type: The element type of `a`, such as `"f8E4M3FN"`, or `"tf32"` for f32 that is read as that.
        b_type: The element type of `b`.
        c: What the sums begin with, numbers of shape (...); rounded to the record's type. None: zeros.
        a_scales: The scales of `a`, of shape (..., ceil(k / block)): codes or numbers of `scale_type`. None: none.
        b_scales: Those of `b`.
        scale_type: The element type of the scales; their sign counts for nothing.
        block: How many elements one scale is for.

    Returns:
        The sums of shape (...), in the dtype of `record.storage`. With keep=exact they are f64, rounded to nearest.

    Raises:
        ValueError: A type or a length is not one that can be summed so.
    """
    if a.ndim < 1 or b.ndim < 1 or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"expected operands with equal last axes, got shapes {a.shape} and {b.shape}")
    rank = max(a.ndim, b.ndim, 2)
    sides = []
    for x, name, scales in ((a, a_type, a_scales), (b, b_type, b_scales)):
        x = np.moveaxis(x.reshape((1,) * (rank - x.ndim) + x.shape), -1, 0)
        side = operand(x, name, record)
        if record.inner > 1 and scales is None:
            side = with_unit_scales(side)
        if scales is not None:
            scales = scales.reshape((1,) * (rank - scales.ndim) + scales.shape)
            side = scale(side, np.moveaxis(scales, -1, 0), scale_type, block, record)
        sides.append(side)
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    start = None if c is None else np.broadcast_to(np.asarray(c), shape).reshape(shape or 1)
    return finish(record, accumulate(record, sides[0], sides[1], start, shape or (1,))).reshape(shape)


def finish(record: Accumulator, sums: np.ndarray) -> np.ndarray:
    """Sums in f64 in the dtype of `record.storage`, with the record's code of NaN."""
    fmt = record.storage
    with np.errstate(all="ignore"):
        result = sums.astype(fmt.dtype)  # exact
    codes = result.view(fmt.code_dtype)
    is_nan = np.isnan(sums)
    if is_nan.any():
        codes[is_nan] = fmt.sign_bit - 1 if record.nan == "ones" else fmt.nan_code
    return result


def accumulate(
    record: Accumulator,
    a: Operand,
    b: Operand,
    c: np.ndarray | None,
    shape: tuple[int, ...],
    *,
    to_odd: bool = False,
    chunks: Sequence[Chunk] | None = None,
    numbers: Numbers | None = None,
) -> np.ndarray:
    """The sums of the operands' products over their first axis, of a shape they broadcast to, as f64.

    With keep=exact the sum is rounded to nearest even in f64, or, `to_odd`, to odd, to be rounded once more. `chunks`
    are those of the record where the operands are in another order. `numbers` are those of several records that differ
    in nothing else, which are computed together; c is then zero.
    """
    with np.errstate(all="ignore"):
        start = np.zeros(shape) if c is None else _start(record, c)
        products = _Products(record, numbers or Numbers.of(record), a, b, shape, to_odd)
        if chunks is None:
            chunks = chunks_of(record, a.values.shape[0])
        if not record.outer:
            return products.run(chunks[0], start) if chunks else start
        total = round_to_form(start, _F32, "nearest_even")
        for chunk in chunks:
            part = products.run(chunk, np.zeros(shape))
            total = round_to_form(add_to_odd(total, part), _F32, "nearest_even")
        return total


def _start(record: Accumulator, c: np.ndarray) -> np.ndarray:
    """c in the type that it joins in."""
    fmt = Form.of(record.storage)
    start = round_to_form(np.array(c, np.float64), fmt, "nearest_even")
    if "c" in record.flush:
        start = np.where(np.abs(start) < 2.0 ** (1 - fmt.bias), np.copysign(0.0, start), start)
    return start


class _Products:
    """The sums of some products, step by step."""

    def __init__(
        self, record: Accumulator, numbers: Numbers, a: Operand, b: Operand, shape: tuple[int, ...], to_odd: bool
    ) -> None:
        self.record, self.numbers, self.shape, self.to_odd = record, numbers, shape, to_odd
        self.a, self.b = a, b
        self.form, self.type = numbers.form, Form.of(record.type)

    # -- the running sum --

    def run(self, chunk: Chunk, total: np.ndarray) -> np.ndarray:
        """The running sum after the steps of a chunk."""
        record = self.record
        for group in chunk:
            if record.c != "after":
                for step in group:
                    total = self._joined_sum(step, total) if record.c == "joined" else self._sum(step, total)
                continue
            part = None
            for step in group:
                if record.tree:
                    part = self._sum_by_tree(step)
                elif record.even_odd:
                    part = self._keep(self._even_and_odd(step)[0])
                else:
                    part = self._sum(step, part)
            assert part is not None
            total = self._flush(_add(total, part, self.type, "nearest_even", record.overflow))
        return total

    def _keep(self, total: np.ndarray) -> np.ndarray:
        """A sum in the form that is kept."""
        return self._flush(round_to_form(total, self.form, self.record.rounding, self.record.overflow))

    def _flush(self, x: np.ndarray) -> np.ndarray:
        if "results" in self.record.flush:
            x = np.where(np.abs(x) < 2.0 ** (1 - self.form.bias), np.copysign(0.0, x), x)
        return x

    # -- a step --

    def _sum(self, step: Step, running: np.ndarray | None) -> np.ndarray:
        """The sum of a step, with the running sum where there is one, in the form that is kept."""
        is_exact = self.record.bits is None
        return self._keep(self._exact(step, running) if is_exact else self._aligned_sum(step, running)[0])

    def _parts(self, step: Step) -> Iterator[Step]:
        """The products of a step, so many at a time as are quick to compute together."""
        inner = self.record.inner
        count = max(_TOGETHER // max(math.prod(self.shape), 1) // inner, 1) * inner
        return (step[i : i + count] for i in range(0, len(step), count))

    def _values(self, part: Step) -> np.ndarray:
        """The values of terms, along the first axis: of products, or of as many as are added before they are scaled."""
        at, record = index(part), self.record
        x = self.a.values[at] * self.b.values[at]
        if self.numbers.product_limit is not None:
            x = np.where(np.abs(x) >= two_to(self.numbers.product_limit), np.copysign(np.inf, x), x)
        return x if record.inner == 1 else np.add.reduceat(x, range(0, len(part), record.inner), axis=0)

    def _exponents(self, part: Step) -> np.ndarray:
        """The exponents that terms are aligned by."""
        if self.record.normalise:
            return _exponent(self._values(part)).astype(np.int16)
        at, inner = index(part), self.record.inner
        e = self.a.exponents[at] + self.b.exponents[at]
        return e if inner == 1 else np.maximum.reduceat(e, range(0, len(part), inner), axis=0)

    def _aligned_sum(self, step: Step, running: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The sum of a step, with the running sum where there is one, and the exponent that terms are aligned to."""
        bits, drop, total = self.numbers.bits, self.record.drop, np.zeros(self.shape)
        e = np.full(self.shape, np.int16(self.numbers.least))
        for part in self._parts(step):
            np.maximum(e, self._exponents(part).max(0), out=e)
        if running is not None:
            np.maximum(e, _exponent(running, 1 - self.form.bias), out=e, casting="unsafe")
        e = np.minimum(e, _HIGH)
        scale = power(bits - e)
        for part in self._parts(step):
            total += _cut(self._values(part) * scale, drop).sum(0)
        if running is not None:
            total += _cut(running * scale, drop)
        return total * power(e - bits), e

    def _joined_sum(self, step: Step, total: np.ndarray) -> np.ndarray:
        """The running sum after a step of c=joined."""
        record, numbers = self.record, self.numbers
        part, e = self._even_and_odd(step) if record.even_odd else self._aligned_sum(step, None)
        own = np.maximum(np.where(np.isfinite(total), exponent(total), ABSENT), 1 - self.form.bias)
        top = np.clip(np.maximum(e, own), _LOW, _HIGH)
        part = _cut(part * power(numbers.sum_bits - top), record.join) * power(top - numbers.sum_bits)
        if numbers.c_reach is not None:
            total = np.where((own < top - numbers.c_reach) & np.isfinite(total), 0.0, total)
        total = _cut(total * power(numbers.c_bits - top), record.join) * power(top - numbers.c_bits)
        return self._keep(part + total + 0.0)

    def _even_and_odd(self, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """The sum of a step whose products of even and odd position are summed apart and joined, and its exponent."""
        bits = self.numbers.bits
        (even, even_top), (odd, odd_top) = self._aligned_sum(step[0::2], None), self._aligned_sum(step[1::2], None)
        top = np.maximum(even_top, odd_top)
        scale = power(bits - top)
        total = _cut(even * scale, self.record.join) + _cut(odd * scale, self.record.join)
        return total * power(top - bits), top

    def _sum_by_tree(self, step: Step) -> np.ndarray:
        """The sum of a step by halves, every sum rounded."""
        terms = np.zeros((max(self.record.step, len(step)), *self.shape))  # what is missing is zero
        terms[: len(step)] += self._values(step)
        return self._sum_by_halves(self._keep(terms))

    def _sum_by_halves(self, terms: np.ndarray) -> np.ndarray:
        """The sum over the first axis."""
        if len(terms) == 1:
            return terms[0]
        half = len(terms) // 2
        x, y = self._sum_by_halves(terms[:half]), self._sum_by_halves(terms[half:])
        return self._flush(_add(x, y, self.form, self.record.rounding, self.record.overflow))

    # -- sums that nothing is cut off --

    def _exact(self, step: Step, running: np.ndarray | None) -> np.ndarray:
        """The exact sum, rounded to odd, or to a form of as many bits as f64 as it is to be rounded."""
        count = -(-len(step) // self.record.inner)
        terms = np.zeros((count + (running is not None), *self.shape))
        terms[:count] = self._values(step)
        if running is not None:
            terms[count] = running
        is_wide = self.form.is_f64 and not (self.record.keep == EXACT and self.to_odd)
        if not len(terms):
            return np.zeros(self.shape)
        if len(terms) <= 2 and not is_wide:
            return add_to_odd(terms[0], terms[1] if len(terms) == 2 else np.zeros(self.shape)) + 0.0
        return exact_total(terms, self.record.rounding if is_wide else None)


def _add(x: np.ndarray, y: np.ndarray, form: Form, rounding: str, overflow: str) -> np.ndarray:
    """The sum of two arrays, rounded once."""
    if not form.is_f64:
        return round_to_form(add_to_odd(x, y), form, rounding, overflow)
    return x + y if rounding == "nearest_even" else exact_total(np.stack([x, y]), rounding)


def _exponent(x: np.ndarray, least: int = ABSENT) -> np.ndarray:
    """The exponents of terms, `least` at least; zeros and infinities and NaN have none."""
    return np.where((x == 0) | ~np.isfinite(x), ABSENT, np.maximum(exponent(x), least))


def _cut(x: np.ndarray, drop: str) -> np.ndarray:
    """Numbers as integers, or, of `sticky`, halves; in place where that is possible."""
    if drop != "sticky":
        return _CUTS[drop](x, out=x)
    whole = np.trunc(x)
    return whole + np.copysign(0.5, x) * (whole != x)
