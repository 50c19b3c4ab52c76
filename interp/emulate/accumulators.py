"""Sums of products as an accumulator forms them, in integers: the definition is in `ops/accumulators/record.py`.

A step is formed for all rows and columns at once: the largest exponent of its terms, and then their sum, each cut to
what is left of it. Sums go from step to step as the bits of their type. No operation here rounds in floating point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from ...ops.accumulators.operands import ABSENT
from ...ops.accumulators.record import EXACT, Accumulator
from ...ops.minifloat.codec import decode
from ...ops.minifloat.formats import FORMATS, Format
from ...ops.op import UnsupportedOpError
from ...ops.types import ElementType
from .rounding import WORD, Exact, code_type, exact_of_bits, exact_of_words
from .tensor import F32, I1, I32, I64, UI32, UI64, Tensor, concatenate, constant, dot, loop, where

#: The terms of a step that are written one after the other; of more there is a loop. A limit of a program's length.
_UNROLLED = 64
_LOW = -900  # exponents that terms are aligned to
_F32 = FORMATS["f32"]


@dataclasses.dataclass(frozen=True)
class Scales:
    """The scales of blocks: codes or bits of (batch, M, ceil(K / block)) and (batch, ceil(K / block), N)."""

    x: Tensor
    y: Tensor
    element: ElementType
    block: int
    is_signed: bool = False  #: whether their signs count, as they do for no unit


def accumulate(
    record: Accumulator, x: Tensor, y: Tensor, lhs: ElementType, rhs: ElementType, c: Tensor | None = None, *,
    scales: Scales | None = None, to_odd: bool = False,
) -> Tensor:  # fmt: skip
    """Return the products of (batch, M, K) and (batch, K, N), plus c of (batch, M, N), as bits of `record.storage`.

    `x` and `y` have codes of minifloats, or the bits of wider types; c those of `record.storage`. With keep=exact sums
    are rounded to nearest in f64, or `to_odd`, to be rounded once more.
    """
    a = _side(record, x.transpose((2, 0, 1)), lhs)
    b = _side(record, y.transpose((1, 0, 2)), rhs)
    if scales is not None:
        a = a.scaled(scales.x.transpose((2, 0, 1)), scales, record.inner)
        b = b.scaled(scales.y.transpose((1, 0, 2)), scales, record.inner)
    sums = _Sums(record, a, b, c is not None, to_odd)
    return sums.finish(sums.run(c))


@dataclasses.dataclass(frozen=True)
class _Side:
    """An operand with the axis of the sum first: (-1)**sign * significand * 2**(exponent - places)."""

    sign: Tensor  #: i32: 0 or -1
    significand: Tensor  #: ui32 or ui64; 0 for infinities and NaN
    exponent: Tensor  #: i32, by which terms are aligned; `ABSENT` for zeros, infinities and NaN
    factor: Tensor | None  #: significands of scales that inner sums are multiplied by
    is_nan: Tensor
    is_infinite: Tensor
    is_zero: Tensor
    places: int
    bits: int  #: of a significand
    factor_bits: int
    range: tuple[int, int]  #: the least unit, and the power of two that values are below
    lowest: int  #: the least exponent
    has_infinity: bool

    def scaled(self, codes: Tensor, scales: Scales, inner: int) -> _Side:
        """Return the operand with its scales."""
        length, count, block = self.significand.shape[0], codes.shape[0], scales.block
        if count != -(-length // block) or block % inner:
            raise UnsupportedOpError(f"expected blocks of a multiple of {inner}, and {count} of {block}, got {length}")
        s = _side(Accumulator(), codes, scales.element)

        def each(x: Tensor, group: int = 1) -> Tensor:
            """Return a value for each `group` elements."""
            per = block // group
            return x.expand(1, per).reshape((count * per, *x.shape[1:])).slice(0, 0, -(-length // group))

        zero, infinite = each(s.is_zero), each(s.is_infinite)
        is_nan = self.is_nan | each(s.is_nan) | (self.is_infinite & zero) | (self.is_zero & infinite)
        changed = dataclasses.replace(
            self, is_nan=is_nan, is_infinite=self.is_infinite | infinite, is_zero=self.is_zero | zero,
            sign=self.sign ^ each(s.sign) if scales.is_signed else self.sign, places=self.places + s.places,
            range=(self.range[0] + s.range[0], self.range[1] + s.range[1]),
            has_infinity=self.has_infinity or s.has_infinity,
        )  # fmt: skip
        if inner > 1:
            factor, exponent = each(s.significand.to(UI64), inner), each(s.exponent, inner)
            return dataclasses.replace(changed, factor=factor, exponent=exponent, factor_bits=s.bits)
        wide = UI32 if self.bits + s.bits <= 32 else UI64
        return dataclasses.replace(
            changed, significand=self.significand.to(wide) * each(s.significand).to(wide),
            exponent=self.exponent + each(s.exponent), bits=self.bits + s.bits, lowest=self.lowest + s.lowest,
        )  # fmt: skip

    def map(self, function: Callable[[Tensor], Tensor], factors: Callable[[Tensor], Tensor] | None = None) -> _Side:
        """Return the operand with its tensors changed, those of inner sums by `factors`."""
        few = ("factor", "exponent") if self.factor is not None else ()
        tensors = {f.name: x for f in dataclasses.fields(self) if isinstance(x := getattr(self, f.name), Tensor)}
        changed = {n: factors(x) if factors and n in few else function(x) for n, x in tensors.items()}
        return dataclasses.replace(self, **changed)


def _side(record: Accumulator, codes: Tensor, element: ElementType) -> _Side:
    """Return an operand whose first axis is that of the sum."""
    fmt = element.format
    if fmt.bits > 32:
        raise UnsupportedOpError(f"expected operands of up to 32 bits, got {element}")
    x, places, inner = numbers_of(codes, fmt), fmt.mantissa_bits, record.inner
    is_nan, is_infinite = flags_of(x)
    significand = x.significand
    if "operands" in record.flush and fmt.has_subnormals:
        significand = where(significand < (1 << places), 0, significand)
    is_zero = significand.equals(0) & ~(is_nan | is_infinite)
    exponent = where(significand.equals(0), ABSENT, x.exponent + places)
    low = fmt.min_exponent + places
    high = (fmt.max_code >> places) - fmt.bias
    found = _Side(
        -(x.sign.to(I32)), significand, exponent, None, is_nan, is_infinite, is_zero, places, fmt.precision, 0,
        (low - places, high + 1), low, fmt.has_infinity,
    )  # fmt: skip
    if inner == 1:
        return found
    # Elements as integers in units of the least: their products are added before they are scaled.
    bits, few = fmt.precision + high - low, (-(-exponent.shape[0] // inner), *exponent.shape[1:])
    if bits > 30:
        raise UnsupportedOpError(f"expected elements of a narrow range for inner sums, got {element}")
    return dataclasses.replace(
        found, significand=significand << (exponent - low).at_least(0).bits(UI32), exponent=constant(0, I32, few),
        factor=constant(1, UI64, few), places=places - low, bits=bits, factor_bits=1, lowest=0,
    )  # fmt: skip


def numbers_of(codes: Tensor, fmt: Format) -> Exact:
    """Return the numbers of codes, or bits, of a format; infinities and NaN have the significand 0."""
    if fmt.bits > 8:
        found = exact_of_bits(codes.bits(code_type(fmt)), fmt)
        is_nan, is_infinite = flags_of(found)
        return dataclasses.replace(found, significand=where(is_nan | is_infinite, 0, found.significand))
    x, index = decode(np.arange(1 << fmt.bits), fmt), codes.to(UI32)
    is_number = ~(x.is_nan | x.is_infinite)

    def look_up(entries: np.ndarray) -> Tensor:
        return constant(entries.astype(np.int32), I32).take(index)

    return Exact(
        look_up(x.sign).differs(0), look_up(x.significand * is_number).bits(UI32), look_up(x.exponent),
        look_up(x.is_nan).differs(0), look_up(x.is_infinite).differs(0),
    )  # fmt: skip


def normal(x: Exact) -> tuple[Tensor, Tensor]:
    """Return significands of 62 bits, or 0, and the exponents of their units."""
    wide = x.significand.to(UI64)
    shift = wide.count_leading_zeros().at_most(63)
    return (wide << shift) >> 2, x.exponent - shift.to(I32) + 2


def flags_of(x: Exact) -> tuple[Tensor, Tensor]:
    """Return where numbers are NaN, and where infinite."""
    never = x.sign & ~x.sign
    return never if x.is_nan is None else x.is_nan, never if x.is_infinite is None else x.is_infinite


def _cut(m: Tensor, places: int, distance: Tensor, drop: str, negative: Tensor | None = None) -> Tensor:
    """Return magnitudes times 2**(places - distance), cut to integers as `drop` says; in halves for `sticky`."""
    wide = m.element
    m = m << places if places > 0 else m
    distance = distance - places if places < 0 else distance
    shift = distance.bits(UI32).at_most(wide.bits - 1).to(wide)
    whole = m >> shift
    if drop == "zero":
        return whole
    rest = m - (whole << shift)
    if drop == "sticky":
        return (whole << 1) | rest.differs(0).to(wide)
    if drop == "floor":
        assert negative is not None
        return whole + (rest.differs(0) & negative).to(wide)
    return whole + _is_up("nearest_even", whole, rest, shift, None).to(wide)


def _is_up(rounding: str, whole: Tensor, rest: Tensor, shift: Tensor, negative: Tensor | None) -> Tensor:
    """Return whether magnitudes grow by one, of which `rest` was cut off."""
    if rounding == "nearest_even":
        half = (constant(1, rest.element, rest.shape) << shift) >> 1
        return (rest > half) | (rest.equals(half) & rest.differs(0) & (whole & 1).differs(0))
    assert negative is not None
    return rest.differs(0) & (negative if rounding == "down" else ~negative)


def _magnitude(x: Tensor) -> Tensor:
    return abs(x).bits(UI64 if x.element.bits == 64 else UI32)


def _signed(negative: Tensor, m: Tensor) -> Tensor:
    """Return magnitudes with signs: `negative` is i1, or 0 and -1."""
    x = m.bits(I64 if m.element.bits == 64 else I32)
    if negative.element == x.element:
        return (x ^ negative) - negative
    return where(negative, -x, x)


def _bits_of(count: int) -> int:
    return max(count, 1).bit_length()


def _add(x: Exact, y: Exact) -> Exact:
    """Return the sums of numbers, rounded to odd at 60 bits; the sign of zero is that of IEEE 754."""
    terms, tops = [], []
    for v in (x, y):
        # Eleven bits below the last of f64 are free, so that this cuts off nothing.
        m, exponent = normal(v)
        terms.append(m >> 1)
        tops.append(where(m.equals(0), 3 * ABSENT, exponent + 1))
    top, total = tops[0].at_least(tops[1]), constant(0, I64, x.sign.shape)
    for v, m, exponent in zip((x, y), terms, tops, strict=True):
        shift = (top - exponent).at_most(62).bits(UI32).to(UI64)
        cut = m >> shift
        total = total + _signed(v.sign, cut | (cut << shift).differs(m).to(UI64))
    sign = where(total.equals(0), x.sign & y.sign, total < 0)
    found = Exact(sign, _magnitude(total), top)
    (x_nan, x_infinite), (y_nan, y_infinite) = flags_of(x), flags_of(y)
    is_nan = x_nan | y_nan | (x_infinite & y_infinite & x.sign.differs(y.sign))
    sign = where(x_infinite, x.sign, where(y_infinite, y.sign, sign))
    return dataclasses.replace(found, sign=sign, is_nan=is_nan, is_infinite=x_infinite | y_infinite)


def add_to_words(words: Sequence[Tensor], low: int, x: Exact) -> list[Tensor]:
    """Return sums in words, in units of 2**low, with numbers added, of at most 62 bits and larger units."""
    offset, m, sign, found = x.exponent - low, x.significand.to(UI64), -(x.sign.to(I64)), []
    for i, word in enumerate(words):
        right = WORD * i - offset
        piece = m >> right.at_least(0).at_most(63).to(UI64)
        piece = (piece << (-right).at_least(0).at_most(63).to(UI64)) & ((1 << WORD) - 1)
        found.append(word + _signed(sign, piece))
    return found


_Aligned = tuple[Tensor, int, list[Tensor], Tensor]


class _Sums:
    """The sums of some products."""

    def __init__(self, record: Accumulator, a: _Side, b: _Side, has_c: bool, to_odd: bool) -> None:
        self.record, self.form, self.type, self.to_odd = record, record.form, record.type, to_odd
        self.length = a.significand.shape[0]
        self.shape = (a.significand.shape[1], a.significand.shape[2], b.significand.shape[2])
        self.places, self.range = a.places + b.places, (a.range[0] + b.range[0], a.range[1] + b.range[1])
        self.ends = a, b
        self.step = record.step or self.length
        product_bits = a.bits + b.bits
        if record.inner > 1:
            product_bits += a.factor_bits + b.factor_bits + _bits_of(record.inner - 1)
        self.product_bits, limit = product_bits, record.product_limit
        self.limit = None if limit is None or limit >= self.range[1] else limit
        self.by_term = a.has_infinity or b.has_infinity or self.limit is not None
        reach = self.range[1] + _bits_of(self.length) + 1
        #: Whether a sum can be infinite.
        self.specials = self.by_term or has_c or reach > min(self.type.bias, record.storage.bias)
        if self.by_term and record.inner > 1:
            raise UnsupportedOpError("expected elements without infinities for inner sums, got others")
        self.none = [constant(False, I1, self.shape)] * 2 if self.by_term else []
        self.wide = UI64
        if record.bits is not None:
            growth, count = record.bits - self.places, _bits_of(self.step // record.inner)
            own = max(product_bits + max(growth, 0), self.type.precision)
            total = max(product_bits + growth, record.bits + 1) + count + (record.drop == "sticky")
            joined = max((record.sum_bits or 0) - record.bits, 0)
            if max(own, total + joined + 1) > 61:
                raise UnsupportedOpError(f"expected products of fewer bits, got {product_bits}")
            self.wide = UI32 if max(own, total) <= 29 else UI64
        elif product_bits > (62 if self.step > record.inner else 50):
            raise UnsupportedOpError(f"expected products of fewer bits, got {product_bits}")
        self.whole = I64 if self.wide == UI64 else I32
        self.a, self.b = (self._arrange(side) for side in (a, b))

    def _arrange(self, side: _Side) -> _Side:
        """Return an operand as (steps, products of a step, batch, rows), what is missing as zeros."""
        record, (run, period) = self.record, self.record.pattern
        ways, inner = period // run, record.inner
        if ways > 1 and inner > 1:
            raise UnsupportedOpError("expected inner sums of consecutive products, got others")

        def split(x: Tensor, step: int) -> Tensor:
            window, rest = step * ways, x.shape[1:]
            count = -(-x.shape[0] // max(window, 1))
            value = ABSENT if x.element == I32 and x.value == side.exponent.value else 0
            x = x.pad(False if x.element.bits == 1 else value, [0, 0, 0], [count * window - x.shape[0], 0, 0])
            if ways > 1:
                x = x.reshape((count, step // run, ways, run, *rest)).transpose((0, 2, 1, 3, 4, 5))
            return x.reshape((count * ways, step, *rest))

        found = side.map(lambda x: split(x, self.step), lambda x: split(x, -(-self.step // inner)))
        return dataclasses.replace(found, significand=found.significand.to(self.wide), sign=found.sign.to(self.whole))

    def run(self, c: Tensor | None) -> Tensor:
        """Return the bits of the sums in the type of `record.storage`."""
        record, steps = self.record, self.a.significand.shape[0] if self.length else 0
        kind, stored = code_type(self.type), code_type(record.storage)
        start = constant(0, stored, self.shape) if c is None else c.bits(stored)
        if "c" in record.flush:
            fmt = record.storage
            start = where((start & (fmt.sign_bit - 1)) < (1 << fmt.mantissa_bits), start & fmt.sign_bit, start)
        ways = record.pattern[1] // record.pattern[0]
        each = record.group // self.step if record.c == "after" and record.group else 1
        chunk = record.outer // (self.step * ways) * ways if record.outer else 0
        zero = constant(0, kind, self.shape)
        state = [zero if chunk else start, *([zero] if each > 1 else []), *([start] if chunk else [])]

        def body(index: Tensor, *state: Tensor) -> list[Tensor]:
            a, b = (side.map(lambda x: x.row(index)) for side in (self.a, self.b))
            total, *others = state
            if record.c != "after":
                total = self._joined(a, b, total) if record.c == "joined" else self._sum(a, b, total)
            elif each == 1:
                total = self._after(total, self._part(a, b, None))
            else:
                ends = self._is_end(index, each, steps, chunk)
                part = self._part(a, b, others[0])
                total = where(ends, self._after(total, part), total)
                others[0] = where(ends, zero, part)
            if chunk:
                ends = self._is_end(index, chunk, steps, 0)
                added = _add(self._read(others[-1], _F32), self._read(total, self.type))
                outer = self._encode(added, _F32, _F32, "nearest_even")
                others[-1], total = where(ends, outer, others[-1]), where(ends, zero, total)
            return [total, *others]

        found = body(constant(0, I32), *state) if steps == 1 else loop(steps, body, state)
        return found[-1] if chunk else found[0]

    def _is_end(self, index: Tensor, size: int, steps: int, chunk: int) -> Tensor:
        """Return whether a step is the last of so many, of a chunk, or of all; of the shape of sums."""
        at = index % chunk if chunk else index
        return (((at + 1) % size).equals(0) | index.equals(steps - 1)).broadcast(self.shape)

    def _after(self, total: Tensor, part: Tensor) -> Tensor:
        x, y = self._read(total, self.type), self._read(part, self.type)
        return self._encode(_add(x, y), self.type, self.type, "nearest_even", self.record.overflow, flushes=True)

    def _part(self, a: _Side, b: _Side, running: Tensor | None) -> Tensor:
        """Return the sum of a step that joins the running one after it."""
        if self.record.tree:
            return self._tree(a, b)
        if self.record.even_odd:
            return self._keep(self._exact_of(*self._even_and_odd(a, b)))
        return self._sum(a, b, running)

    def _sum(self, a: _Side, b: _Side, running: Tensor | None) -> Tensor:
        """Return the sum of a step, with the running sum where there is one, in the form that is kept."""
        x = None if running is None else self._read(running, self.type)
        if self.record.bits is None:
            return self._keep(self._exact(a, b, x))
        return self._keep(self._exact_of(*self._aligned(a, b, x), x))

    def _product(self, a: _Side, b: _Side, i: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a term: its sign, 0 or -1, its magnitude, and the exponent that it is aligned by."""
        inner = self.record.inner
        if a.factor is None or b.factor is None:
            sign, m = (self._over(a, b, name, i) for name in ("sign", "significand"))
            signs, e = sign[0] ^ sign[1], self._over(a, b, "exponent", i)
            return signs, m[0] * m[1], e[0] + e[1]
        total = constant(0, self.whole, self.shape)
        for j in range(inner):
            sign, m = (self._over(a, b, name, i * inner + j) for name in ("sign", "significand"))
            total = total + _signed(sign[0] ^ sign[1], m[0] * m[1])
        factors, e = (self._over(a, b, name, i) for name in ("factor", "exponent"))
        m = _magnitude(total) * (factors[0] * factors[1]).to(self.wide)
        return total >> (total.element.bits - 1), m, e[0] + e[1]

    def _over(self, a: _Side, b: _Side, name: str, i: int | Tensor) -> tuple[Tensor, Tensor]:
        """Return a row of both operands, over all rows and columns."""
        x, y = (_at(getattr(side, name), i) for side in (a, b))
        return x.expand(2, self.shape[2]), y.expand(1, self.shape[1])

    def _limited(self, a: _Side, b: _Side, i: int | Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return a term, and where it is infinite."""
        sign, m, exponent = self._product(a, b, i)
        infinite: Tensor | None = None
        if a.has_infinity or b.has_infinity:
            x, y = self._over(a, b, "is_infinite", i)
            infinite = x | y
        if self.limit is not None:
            length = (m.element.bits - m.count_leading_zeros()).to(I32)
            big = (exponent + length - self.places > self.limit) & m.differs(0)
            infinite = big if infinite is None else infinite | big
            m, exponent = where(big, 0, m), where(big, 2 * ABSENT, exponent)
        if self.record.normalise and self.record.bits is not None:
            zeros = m.count_leading_zeros().to(I32) - (m.element.bits - self.product_bits)
            exponent = where(m.equals(0), 2 * ABSENT, exponent - zeros + (self.product_bits - self.places - 1))
            m = m << zeros.at_most(self.product_bits).bits(UI32).to(m.element)
        return sign, m, exponent, infinite

    def _aligned(self, a: _Side, b: _Side, running: Exact | None = None) -> _Aligned:
        """Return the sum of a step, its fraction bits, where there are infinities of both signs, and the exponent that
        terms are aligned to.
        """
        record, bits, count = self.record, self.record.bits, a.exponent.shape[0]
        assert bits is not None
        unit = self.product_bits - 1 if record.normalise else self.places
        least = _LOW if record.least is None else max(record.least, _LOW)
        places = self.type.mantissa_bits
        own: Tensor | None = None
        if running is not None:
            own = where(running.significand.equals(0), ABSENT, running.exponent + places)

        def larger(i: int | Tensor, top: Tensor) -> list[Tensor]:
            _, m, exponent, _ = self._limited(a, b, i)
            return [top.at_least(exponent)]

        def add(i: int | Tensor, total: Tensor, *infinities: Tensor) -> list[Tensor]:
            sign, m, exponent, infinite = self._limited(a, b, i)
            # What has no number has the significand 0, so that any distance will do.
            cut = _cut(m, bits - unit, top - exponent, record.drop, sign < 0)
            return [total + _signed(sign, cut), *_noted(infinities, infinite, sign < 0)]

        first = constant(least, I32, self.shape) if own is None else own.at_least(least)
        (top,) = _fold(count, larger, [first])
        total = constant(0, self.whole, self.shape)
        if running is not None and own is not None:
            cut = _cut(running.significand.to(self.wide), bits - places, top - own, record.drop, running.sign)
            total = _signed(running.sign, cut)
        total, *specials = _fold(count, add, [total, *self.none])
        return total, bits + (record.drop == "sticky"), specials, top

    def _joined(self, a: _Side, b: _Side, running: Tensor) -> Tensor:
        """Return the running sum after a step of c=joined."""
        record, x = self.record, self._read(running, self.type)
        part, fraction, specials, e = self._even_and_odd(a, b) if record.even_odd else self._aligned(a, b)
        assert record.sum_bits is not None
        assert record.c_bits is not None
        is_nan, is_infinite = flags_of(x)
        own = where(is_nan | is_infinite, 1 - self.type.bias, x.exponent + self.type.mantissa_bits)  # also of zero
        top = e.at_least(own)
        sticky, negative = int(record.join == "sticky"), part < 0
        cut = _cut(_magnitude(part).to(UI64), record.sum_bits - fraction, top - e, record.join, negative)
        c = x.significand
        if record.c_reach is not None:
            c = where(own < top - record.c_reach, 0, c)
        old = _cut(c.to(UI64), record.c_bits - self.type.mantissa_bits, top - own, record.join, x.sign)
        most = max(record.sum_bits, record.c_bits)
        total = (_signed(negative, cut) << (most - record.sum_bits)) + (_signed(x.sign, old) << (most - record.c_bits))
        return self._keep(self._exact_of(total, most + sticky, specials, top, x))

    def _even_and_odd(self, a: _Side, b: _Side) -> _Aligned:
        """Return the sum of a step whose products of even and odd position are summed apart and joined."""
        record, found = self.record, []
        assert record.bits is not None
        count = a.exponent.shape[0]
        for first in range(min(2, count)):
            x, y = (s.map(lambda x, at=first: x.slice(0, at, x.shape[0], 2)) for s in (a, b))
            found.append(self._aligned(x, y))
        top = found[0][3] if count < 2 else found[0][3].at_least(found[1][3])
        total, own = constant(0, self.whole, self.shape), int(record.drop == "sticky")
        for part, _, _, e in found:
            cut = _cut(_magnitude(part), -own, top - e, record.join, part < 0)
            total = total + _signed(part < 0, cut)
        specials = [x | y for x, y in zip(*(f[2] for f in found), strict=True)] if count > 1 else found[0][2]
        return total, record.bits + (record.join == "sticky"), specials, top

    def _tree(self, a: _Side, b: _Side) -> Tensor:
        """Return the sum of a step by halves, every sum rounded."""

        def rounded(i: int) -> Tensor:
            sign, m, exponent, infinite = self._limited(a, b, i)
            is_number = m.differs(0) if infinite is None else m.differs(0) | infinite
            is_nan = None if infinite is None else infinite & ~infinite
            return self._keep(Exact((sign < 0) & is_number, m, exponent - self.places, is_nan, infinite))

        def half(terms: list[Tensor]) -> Tensor:
            if len(terms) == 1:
                return terms[0]
            middle = len(terms) // 2
            x, y = (self._read(half(part), self.type) for part in (terms[:middle], terms[middle:]))
            return self._keep(_add(x, y))

        return half([rounded(i) for i in range(a.exponent.shape[0])])

    def _exact(self, a: _Side, b: _Side, running: Exact | None) -> Exact:
        """Return the exact sum of a step, rounded to odd."""
        count = a.exponent.shape[0]
        if count == 1:
            sign, m, exponent, infinite = self._limited(a, b, 0)
            product = Exact(sign < 0, m, exponent - self.places)
            found = _add(product, Exact(sign < 0, m & 0, exponent)) if running is None else _add(product, running)
            total, specials = found, list(_noted(self.none, infinite, sign < 0))
        else:
            low, high = self.range
            if self.type.bits != 64:
                low, high = min(low, self.type.min_exponent), max(high, self.type.bias + 1)
            size = -(-(high - low + _bits_of(self.length) + 2) // WORD) + 1
            zeros = [constant(0, I64, self.shape)] * size

            def add(i: int | Tensor, *state: Tensor) -> list[Tensor]:
                sign, m, exponent, infinite = self._limited(a, b, i)
                words = add_to_words(state[:size], low, Exact(sign < 0, m, exponent - self.places))
                return [*words, *_noted(state[size:], infinite, sign < 0)]

            state = _fold(count, add, [*zeros, *self.none], 8)
            words, specials = state[:size], state[size:]
            total = exact_of_words(words if running is None else add_to_words(words, low, running), low)
        sign = where(total.significand.equals(0), total.sign & ~total.sign, total.sign)
        return self._with_infinities(Exact(sign, total.significand, total.exponent), specials, running)

    def _read(self, bits: Tensor, fmt: Format) -> Exact:
        found = numbers_of(bits, fmt)
        return found if self.specials else dataclasses.replace(found, is_nan=None, is_infinite=None)

    def _exact_of(
        self, total: Tensor, fraction: int, specials: list[Tensor], top: Tensor, running: Exact | None = None
    ) -> Exact:
        """Return a sum of integers as numbers, with the infinities of its terms."""
        return self._with_infinities(Exact(total < 0, _magnitude(total), top - fraction), specials, running)

    def _with_infinities(self, x: Exact, specials: list[Tensor], running: Exact | None) -> Exact:
        if not self.specials:
            return x
        positive, negative = specials or [constant(False, I1, self.shape)] * 2
        is_nan = positive & negative
        if running is not None:
            old_nan, old = flags_of(running)
            positive, negative = positive | (old & ~running.sign), negative | (old & running.sign)
            is_nan = (positive & negative) | old_nan
        is_infinite = positive | negative
        sign = where(is_infinite, negative, x.sign)
        return dataclasses.replace(x, sign=sign, is_nan=is_nan, is_infinite=is_infinite)

    def _keep(self, x: Exact) -> Tensor:
        """Return sums in the form that is kept, as bits of its type."""
        record = self.record
        rounding = ("to_odd" if self.to_odd else "nearest_even") if record.keep == EXACT else record.rounding
        return self._encode(x, self.form, self.type, rounding, record.overflow, flushes=True)

    def _encode(
        self, x: Exact, form: Format, fmt: Format, rounding: str, overflow: str = "infinity", flushes: bool = False
    ) -> Tensor:
        """Return numbers rounded to a form, as bits of its type."""
        s = x.significand
        wide, target, p = s.element, UI64 if fmt.bits == 64 else UI32, form.mantissa_bits
        length = (wide.bits - s.count_leading_zeros()).to(I32)
        least = form.min_exponent
        quantum = where(s.equals(0), least, (length + x.exponent - form.precision).at_least(least))
        cut = quantum - x.exponent
        shift = cut.at_least(0).at_most(wide.bits - 1).bits(UI32).to(wide)
        whole = s >> shift
        left = (-cut).at_least(0).at_most(wide.bits - 1).bits(UI32).to(target)
        field = (quantum - least).at_most((form.max_code >> p) + 1).bits(UI32).to(target) << p
        code = field + (whole.to(target) << left)
        rest = s - (whole << shift)
        if rounding == "to_odd":
            code = code | rest.differs(0).to(target)
        elif rounding != "toward_zero":
            code = code + _is_up(rounding, whole, rest, shift, x.sign).to(target)
        more = fmt.mantissa_bits - p
        code, most = code << more, form.max_code << more
        if self.specials:
            beyond = {"infinity": fmt.infinity_code, "largest": most, "nan": fmt.nan_code}[overflow]
            code = where(code > most, beyond or 0, code)
        if flushes and "results" in self.record.flush:
            code = where(code < (1 << fmt.mantissa_bits), 0, code)
        if x.is_infinite is not None:
            code = where(x.is_infinite, fmt.infinity_code or 0, code)
        code = code | (x.sign.to(target) << (fmt.bits - 1))
        if x.is_nan is not None:
            code = where(x.is_nan, fmt.nan_code or 0, code)
        return code.to(code_type(fmt))

    def finish(self, bits: Tensor) -> Tensor:
        """Return the bits of sums with what infinities and NaN among the operands make of them."""
        fmt = self.record.storage
        (a, b) = self.ends
        is_nan = (bits & (fmt.sign_bit - 1)) > (fmt.infinity_code or 0)
        is_nan = is_nan | a.is_nan.any([0]).expand(2, self.shape[2]) | b.is_nan.any([0]).expand(1, self.shape[1])
        if a.has_infinity or b.has_infinity:  # infinities by zeros, counted
            x = concatenate([a.is_infinite, a.is_zero], 0).to(F32).transpose((1, 2, 0))
            y = concatenate([b.is_zero, b.is_infinite], 0).to(F32).transpose((1, 0, 2))
            is_nan = is_nan | dot(x, y, F32).differs(0)
        return where(is_nan, fmt.sign_bit - 1 if self.record.nan == "ones" else fmt.nan_code or 0, bits)


def _at(x: Tensor, i: int | Tensor) -> Tensor:
    """Return a row of the first axis."""
    return x.slice(0, i, i + 1).reshape(x.shape[1:]) if isinstance(i, int) else x.row(i)


def _fold(
    count: int, body: Callable[..., Sequence[Tensor]], state: Sequence[Tensor], unrolled: int = _UNROLLED
) -> list[Tensor]:
    """Return the state after `body(i, *state)` for each index, written out where there are few."""
    if count > unrolled:
        return loop(count, body, state)
    found = list(state)
    for i in range(count):
        found = list(body(i, *found))
    return found


def _noted(infinities: Sequence[Tensor], infinite: Tensor | None, negative: Tensor) -> list[Tensor]:
    """Return where there are positive and negative infinities, with those of one more term."""
    if not infinities or infinite is None:
        return list(infinities)
    return [infinities[0] | (infinite & ~negative), infinities[1] | (infinite & negative)]
