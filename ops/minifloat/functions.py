"""The elementary functions over arrays of exact numbers: special values here, the rest by `elementary`.

Each result is exact where WORK_BITS significant bits hold it, else rounded to odd there, so that one rounding to a
format afterwards is correct. Special values follow IEEE 754-2019, 9.2.1, and annex F of ISO C: the NaN of an operand
keeps its sign (the first operand's first), and an invalid operation gives a positive NaN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from . import arithmetic, elementary
from .number import FINITE, INFINITE, NAN, Number

#: A single number: kind, sign, significand, exponent.
Value = tuple[int, bool, int, int]

ZERO: Value = (FINITE, False, 0, 0)
MINUS_ZERO: Value = (FINITE, True, 0, 0)
HALF: Value = (FINITE, False, 1, -1)
ONE: Value = (FINITE, False, 1, 0)
MINUS_ONE: Value = (FINITE, True, 1, 0)
INFINITY: Value = (INFINITE, False, 0, 0)
MINUS_INFINITY: Value = (INFINITE, True, 0, 0)
INVALID: Value = (NAN, False, 0, 0)
QUARTER_PI, THREE_QUARTERS_PI = ((FINITE, *elementary.atan2(False, 1, 0, left, 1, 0)) for left in (False, True))
HALF_PI, PI = ((*QUARTER_PI[:3], QUARTER_PI[3] + i) for i in (1, 2))


def flat(x: Number) -> Number:
    """The same numbers in one dimension, with odd significands, so that equal numbers have equal fields."""
    x = arithmetic.compact(x)
    return Number(*(getattr(x, f).reshape(-1) for f in Number.__slots__))


def exceeds_one(x: Number) -> np.ndarray:
    """Where |x| > 1, infinities included, for odd significands."""
    one = np.int64(1) << np.clip(-x.exponent, 0, 62)
    return x.is_infinite | ((x.kind == FINITE) & ~x.is_zero & ((x.exponent > 0) | (x.significand > one)))


def is_one(x: Number) -> np.ndarray:
    """Where |x| = 1, for odd significands."""
    return (x.kind == FINITE) & (x.significand == 1) & (x.exponent == 0)


class Result:
    """A result in the making. It starts with the NaNs of its operands, the first one's sign first, and else zeros."""

    def __init__(self, *operands: Number) -> None:
        size = operands[0].kind.size
        self.kind = np.zeros(size, np.uint8)
        self.sign = np.zeros(size, bool)
        self.significand = np.zeros(size, np.int64)
        self.exponent = np.zeros(size, np.int64)
        for x in reversed(operands):
            self.set_where(x.is_nan, INVALID)
            self.sign = np.where(x.is_nan, x.sign, self.sign)

    def set_where(self, where: np.ndarray, value: Value) -> None:
        """Set the elements of a mask to one value."""
        self.kind[where], self.sign[where], self.significand[where], self.exponent[where] = value

    def compute(self, scalar: Callable[..., elementary.Triple], where: np.ndarray, *operands: Number) -> None:
        """Set the elements of a mask by a scalar function, called once for each different argument."""
        fields = [field[where].tolist() for x in operands for field in (x.sign, x.significand, x.exponent)]
        arguments = list(zip(*fields, strict=True))
        results = {argument: scalar(*argument) for argument in set(arguments)}
        rows = np.array([results[argument] for argument in arguments], np.int64).reshape(-1, 3)
        self.sign[where] = rows[:, 0] != 0
        self.significand[where], self.exponent[where] = rows[:, 1], rows[:, 2]

    def number(self, shape: tuple[int, ...]) -> Number:
        """The finished result."""
        return Number(*(getattr(self, f).reshape(shape) for f in Number.__slots__))


#: A test of each number of an array.
Test = Callable[[Number], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Lifted:
    """A function of arrays of numbers: a scalar function, and its values where that is not defined."""

    scalar: Callable[[bool, int, int], elementary.Triple]
    zeros: tuple[Value, Value]  #: at +0 and -0
    infinities: tuple[Value, Value]  #: at +inf and -inf
    others: tuple[tuple[Test, Value], ...] = ()  #: at finite numbers other than zero that pass a test

    def __call__(self, x: Number) -> Number:
        shape, x = x.kind.shape, flat(x)
        result = Result(x)
        for of_kind, (positive, negative) in ((x.is_zero, self.zeros), (x.is_infinite, self.infinities)):
            result.set_where(of_kind & ~x.sign, positive)
            result.set_where(of_kind & x.sign, negative)
        rest = (x.kind == FINITE) & ~x.is_zero
        for test, value in self.others:
            where = rest & test(x)
            result.set_where(where, value)
            rest &= ~where
        result.compute(self.scalar, rest, x)
        return result.number(shape)


#: Values at +0 and -0, or at +inf and -inf.
SAME_ZEROS, SAME_INFINITIES, BOTH_INVALID = (ZERO, MINUS_ZERO), (INFINITY, MINUS_INFINITY), (INVALID, INVALID)
_NO_NEGATIVE: tuple[tuple[Test, Value], ...] = ((lambda x: x.sign, INVALID),)
_NOT_BELOW_MINUS_ONE: tuple[tuple[Test, Value], ...] = (
    (lambda x: x.sign & is_one(x), MINUS_INFINITY),
    (lambda x: x.sign & exceeds_one(x), INVALID),
)


def at_one(positive: Value, negative: Value) -> tuple[tuple[Test, Value], ...]:
    """Values at 1 and -1, and none beyond them."""
    return (
        (lambda x: is_one(x) & ~x.sign, positive),
        (lambda x: is_one(x) & x.sign, negative),
        (exceeds_one, INVALID),
    )


exponential = Lifted(elementary.exp, (ONE, ONE), (INFINITY, ZERO))
exponential_minus_one = Lifted(elementary.expm1, SAME_ZEROS, (INFINITY, MINUS_ONE))
log = Lifted(elementary.log, (MINUS_INFINITY, MINUS_INFINITY), (INFINITY, INVALID), _NO_NEGATIVE)
log_plus_one = Lifted(elementary.log1p, SAME_ZEROS, (INFINITY, INVALID), _NOT_BELOW_MINUS_ONE)
logistic = Lifted(elementary.logistic, (HALF, HALF), (ONE, ZERO))
tanh = Lifted(elementary.tanh, SAME_ZEROS, (ONE, MINUS_ONE))
sine = Lifted(elementary.sin, SAME_ZEROS, BOTH_INVALID)
cosine = Lifted(elementary.cos, (ONE, ONE), BOTH_INVALID)
tan = Lifted(elementary.tan, SAME_ZEROS, BOTH_INVALID)
sqrt = Lifted(elementary.sqrt, SAME_ZEROS, (INFINITY, INVALID), _NO_NEGATIVE)
rsqrt = Lifted(elementary.rsqrt, SAME_INFINITIES, (ZERO, INVALID), _NO_NEGATIVE)  # of zeros as IEEE 754's rSqrt
cbrt = Lifted(elementary.cbrt, SAME_ZEROS, SAME_INFINITIES)


def power(x: Number, y: Number) -> Number:
    """x to the power of y, with the special values of C, F.10.4.4.

    1 where y is 0 or x is 1, NaNs included, and for -1 to an infinity; NaN for a finite negative x and a finite y
    that is no integer.
    """
    shape, x, y = x.kind.shape, flat(x), flat(y)
    result = Result(x, y)
    is_number = ~x.is_nan & ~y.is_nan
    y_finite = (y.kind == FINITE) & ~y.is_zero
    negative = x.sign & y_finite & (y.exponent == 0)  # y is odd, its significand being so
    limit = is_number & (x.is_zero | x.is_infinite | y.is_infinite)
    grows = exceeds_one(x) != y.sign
    result.set_where(limit & grows, INFINITY)
    result.set_where(limit & ~grows, ZERO)
    rest = is_number & ~limit & y_finite
    invalid = rest & x.sign & (y.exponent < 0)
    result.set_where(invalid, INVALID)
    rest &= ~invalid
    result.compute(elementary.power, rest, x.replace(sign=np.zeros_like(x.sign)), y)
    result.sign |= negative & (limit | rest)
    result.set_where(y.is_zero | (is_one(x) & (~x.sign | y.is_infinite)), ONE)
    return result.number(shape)


def atan2(y: Number, x: Number) -> Number:
    """The angle of the point (x, y) in [-pi, pi], with the special values of C, F.10.1.4."""
    shape, y, x = y.kind.shape, flat(y), flat(x)
    result = Result(y, x)
    is_number = ~y.is_nan & ~x.is_nan
    both = y.is_infinite & x.is_infinite
    along_x = is_number & ~both & (y.is_zero | x.is_infinite)
    along_y = is_number & ~both & ~along_x & (y.is_infinite | x.is_zero)
    result.set_where(along_x & x.sign, PI)  # else +0
    result.set_where(along_y, HALF_PI)
    result.set_where(both & x.sign, THREE_QUARTERS_PI)
    result.set_where(both & ~x.sign, QUARTER_PI)
    result.compute(elementary.atan2, is_number & ~both & ~along_x & ~along_y, y, x)
    result.sign = np.where(is_number, y.sign, result.sign)
    return result.number(shape)
