"""Designed dots: a few large and small products at chosen positions, whose sum reveals one fact of an accumulator."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ...ops.accumulators.operands import Operand
from ...ops.cast import cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES
from .dots import Signature
from .operands import Operands, codes

_PLAIN = Policy()
#: A product: its position, its exponent, and its significand with sign.
Product = tuple[int, int, float]
#: How far below the largest product others are placed: beyond the bits of f64 everything is lost.
_DEEP = 58


@dataclasses.dataclass(frozen=True)
class Dots:
    """Operands of dots, [n, k]."""

    x: np.ndarray
    y: np.ndarray
    #: The operands as numbers, [k, 1, n], by whether subnormal ones are flushed, see `predict`.
    numbers: dict[bool, tuple[Operand, Operand]] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: object) -> Dots:
        return Dots(self.x[index], self.y[index])  # type: ignore[index]

    @classmethod
    def join(cls, parts: Sequence[Dots]) -> Dots:
        return cls(np.concatenate([p.x for p in parts]), np.concatenate([p.y for p in parts]))


@dataclasses.dataclass(frozen=True)
class Scale:
    """The exponents of products for which a single product is its own sum."""

    low: int
    high: int

    @property
    def middle(self) -> int:
        return (self.low + self.high) // 2


class Designer:
    """Makes dots for the types and the length of a signature."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.operands = Operands(signature.lhs, signature.rhs)
        mantissas = [ELEMENT_TYPES[t].format.mantissa_bits for t in (signature.lhs, signature.rhs)]
        #: Significands: of one operand, and of a product of two.
        self.fine = 1 + 2.0 ** -min(mantissas[0], 3)
        self.half = 1.5 if mantissas[0] else 1.0
        self.wide = 2.25 if min(mantissas) else 1.0
        self.full = (2 - 2.0 ** -mantissas[0]) * (2 - 2.0 ** -mantissas[1])
        self._known: dict[tuple[int, float, bool], tuple[int, int] | None] = {}
        self._factors = {
            1.0: (1.0, 1.0),
            self.fine: (self.fine, 1.0),
            self.half: (self.half, 1.0),
            self.wide: (self.half, self.half if min(mantissas) else 1.0),
            self.full: (2 - 2.0 ** -mantissas[0], 2 - 2.0 ** -mantissas[1]),
        }

    def dots(self, rows: Iterable[Sequence[Product]]) -> Dots:
        """Return dots of these products; rows for which the types have no numbers are omitted."""
        k, count, at, made = self.signature.k, 0, [], []
        for row in rows:
            # The last product follows its right operand: so few rows and columns make many dots.
            products = [self._codes(e, s, i == 0 or i < len(row) - 1) for i, (_, e, s) in enumerate(row)]
            if None not in products:
                at += [count * k + p for p, _, _ in row]
                made += products
                count += 1
        sides = []
        for i, element in enumerate((self.signature.lhs, self.signature.rhs)):
            side = np.zeros(count * k, ELEMENT_TYPES[element].format.code_dtype)
            side[at] = [pair[i] for pair in made]
            sides.append(side.reshape(count, k))
        return Dots(*sides)

    def _codes(self, exponent: int, significand: float, left: bool) -> tuple[int, int] | None:
        """The codes of two numbers with a product; None if the types have none."""
        key = exponent, significand, left
        if key in self._known:
            return self._known[key]
        made: list[int] = []
        try:
            pair, factors = self.operands.pair(exponent, left), self._factors[abs(significand)]
            numbers = zip(pair, factors, (significand, 1.0), strict=True)
            for (x, factor, sign), element in zip(numbers, (self.signature.lhs, self.signature.rhs), strict=True):
                made.append(int(codes(np.array([np.copysign(x * factor, sign)]), element)[0]))
        except ValueError:
            made = []
        self._known[key] = (made[0], made[1]) if made else None
        return self._known[key]

    # -- structure -----------------------------------------------------------------------------------------------------

    def singles(self) -> Dots:
        """Single products, powers of two, of each exponent; in order of the exponent, at position 0."""
        return self.dots([(0, e, 1.0)] for e in self._exponents())

    def _exponents(self) -> range:
        return range(self.operands.least, self.operands.high + 1)

    def masks(self, scale: Scale, triples: Iterable[tuple[int, int, int]]) -> Dots:
        """The largest number at i, its negative at j and the smallest at l, for each (i, j, l)."""
        return self.dots([(i, scale.high, 1.0), (j, scale.high, -1.0), (at, scale.low, 1.0)] for i, j, at in triples)

    # -- numbers -------------------------------------------------------------------------------------------------------

    def sweep(self, scale: Scale, large: Sequence[tuple[int, float]], small: int) -> Dots:
        """Large products at positions, each with a sign, and a small one whose exponent decreases to the least.

        The large ones are powers of two, or have a significand above 2; the small one has few bits or more.
        """
        return self.dots(self._sweep_rows(scale, large, small))

    def _sweep_rows(self, scale: Scale, large: Sequence[tuple[int, float]], small: int) -> Iterator[list[Product]]:
        significands = dict.fromkeys((1.0, self.half, self.fine))
        tops = dict.fromkeys(((scale.high, 1.0), (scale.high - 1, self.wide), (scale.high - 3, self.half)))
        for (top, wide), sign in itertools.product(tops, (1.0, -1.0)):
            base = [(at, top, sign * s * wide) for at, s in large]
            for e in range(max(self.operands.least, top - _DEEP), top + 2):
                for significand, negative in itertools.product(significands, (1.0, -1.0)):
                    yield [*base, (small, e, negative * significand)]

    def extremes(self) -> Dots:
        """Single products with all bits set, of each exponent and both signs."""
        significands = dict.fromkeys((1.0, self.half, self.wide, self.full))
        return self.dots([(0, e, sign * s)] for e in self._exponents() for s in significands for sign in (1.0, -1.0))

    def tiny(self, positions: Sequence[int]) -> Dots:
        """Sums and differences of two products at the lower end, each exponent with each that is near."""
        low = [e for e in self._exponents() if e < self.operands.low + 24]
        return self.dots(
            [(positions[0], e, s), (positions[1], f, t)]
            for e in low
            for f in low
            if abs(e - f) < 6
            for s, t in ((self.full, -self.half), (-self.wide, 1.0), (self.half, self.full))
        )

    def many(self, positions: Sequence[int], scale: Scale, small: int | None) -> Dots:
        """Equal large products at all positions, and a small one."""
        rows = []
        for e in range(max(self.operands.least, scale.high - _DEEP), scale.high + 1):
            for significand in dict.fromkeys((1.0, self.fine, self.half)):
                for sign, s in itertools.product((1.0, -1.0), repeat=2):
                    row = [(p, scale.high - 1, sign * self.wide) for p in positions]
                    rows.append([*row, (small, e, s * significand)] if small is not None else row)
        return self.dots(rows)

    def overflow(self, where: Sequence[Sequence[int]]) -> Dots:
        """Equal products at the upper end in the first positions of steps, and one that cancels them."""
        rows = []
        first = [p for step in where[:4] for p in step[:8]]
        for e, n, sign in itertools.product(
            range(self.operands.high - 10, self.operands.high + 1), range(1, 9), (1, -1)
        ):
            for s in dict.fromkeys((1.0, self.half, self.wide, self.full)):
                row = [(p, e, sign * s) for p in first[:n]]
                rows += [row, [*row, (where[-1][-1], e, -sign * s)]] if where[-1][-1] not in first[:n] else [row]
                if len(where) > 1:
                    rows.append([(p[0], e, sign * s) for p in where[:n]])
        return self.dots(rows)

    # -- random --------------------------------------------------------------------------------------------------------

    def special(self, rng: np.random.Generator, count: int, width: int) -> Dots:
        """Infinities, NaN, zeros and numbers, in some of the first positions."""
        sides = []
        for element in (self.signature.lhs, self.signature.rhs):
            fmt = ELEMENT_TYPES[element].format
            some = [0, 1, fmt.max_code, int(codes(np.ones(1), element)[0])]
            some += [c for c in (fmt.nan_code, fmt.infinity_code) if c is not None]
            signed = [*some, *(c | fmt.sign_bit for c in some)]
            x = np.zeros((count, self.signature.k), fmt.code_dtype)
            x[:, :width] = rng.choice(np.array(signed, fmt.code_dtype), (count, width))
            x[:, :width] *= rng.random((count, width)) < 0.6
            sides.append(x)
        return Dots(*sides)

    def random(self, rng: np.random.Generator, rows: int, columns: int, kind: str) -> Dots:
        """Each of some random rows with each of some random columns, [rows * columns, k].

        `kind` is "codes" (all finite codes equally likely), "normal" (normally distributed numbers), "wide" (exponents
        over the whole range, few products), "cancelling" (large numbers that cancel, and small ones) or "few" (codes at
        a few positions, most of them among the first).
        """
        x = self._random(rng, rows, self.signature.lhs, "codes" if kind == "few" else kind)
        y = self._random(rng, columns, self.signature.rhs, "codes" if kind == "few" else kind)
        if kind == "few":
            k = self.signature.k
            for i in range(columns):
                width = min(k, int(rng.choice([4, 16, 64, k])))
                at = rng.permutation(width)[: rng.integers(2, 7)]
                y[i, np.isin(np.arange(k), at, invert=True)] = 0
        return Dots(np.repeat(x, columns, axis=0), np.tile(y, (rows, 1)))

    def _random(self, rng: np.random.Generator, n: int, element: str, kind: str) -> np.ndarray:
        fmt, k = ELEMENT_TYPES[element].format, self.signature.k
        shape = (n, k)
        signs = rng.integers(0, 2, shape, np.int64) * fmt.sign_bit
        if kind == "normal":
            return nearest(rng.normal(size=shape), element)
        if kind == "codes":
            return (rng.integers(0, fmt.max_code, shape, np.int64, endpoint=True) | signs).astype(fmt.code_dtype)
        high = fmt.max_exponent
        exponents = rng.integers(max(high - 40, fmt.min_exponent), high, shape, endpoint=True)
        if kind == "wide":
            numbers = np.ldexp(rng.uniform(1, 2, shape), exponents) * (rng.random(shape) < rng.uniform(0.02, 1, (n, 1)))
        else:
            numbers = np.ldexp(rng.uniform(1, 2, shape), np.where(rng.random(shape) < 0.5, high - 1, exponents))
            where = rng.permutation(k)[: k // 2 * 2].reshape(2, -1)  # pairs, the same in all rows
            opposite = rng.random(where.shape[1]) < 0.7
            numbers[:, where[1, opposite]] = numbers[:, where[0, opposite]]
            signs[:, where[1, opposite]] = signs[:, where[0, opposite]]
            if element == self.signature.lhs:
                signs[:, where[1, opposite]] ^= fmt.sign_bit
        # A format without -0 has NaN there.
        c = nearest(numbers, element).astype(np.int64)
        return np.where(c == 0, 0, c | signs).astype(fmt.code_dtype)


def nearest(numbers: np.ndarray, element: str) -> np.ndarray:
    """Return the codes of the nearest finite numbers of a type."""
    t = ELEMENT_TYPES[element]
    largest = ELEMENT_TYPES[element].format.largest
    clipped = np.clip(numbers, -largest, largest)
    return codes_of(np.ascontiguousarray(cast(clipped, ELEMENT_TYPES["f64"], t, _PLAIN)), t.format)
