"""The functions that are not rational: in f64, and to as many digits as needed by Python's decimal numbers."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

#: Digits to try. A result that these do not distinguish from an f64 equals it: a transcendental function comes no
#: nearer,
#: and an exact algebraic one (a root, a power) has few digits.
_DIGITS = (60, 160, 420)
_ONE, _TWO = Decimal(1), Decimal(2)


def decide(name: str, *operands: float) -> tuple[float, int]:
    """The f64 nearest to the function of finite numbers, and the side of it on which the exact result lies."""
    function = FUNCTIONS[name].exact
    nearest, side = 0.0, 0
    for digits in _DIGITS:
        # Operands and steps may be as small as 2^-149, and as large as 2^128: cancellation needs that many more digits.
        with decimal.localcontext(prec=digits + 100, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            value = function(*(Decimal(x) for x in operands))
            nearest = float(value)
            difference = value - Decimal(nearest)
            if abs(difference) > abs(value).scaleb(-digits):
                return nearest, 1 if difference > 0 else -1
    return nearest, side


def _expm1(x: Decimal) -> Decimal:
    return x.exp() - 1


def _tanh(x: Decimal) -> Decimal:
    if abs(x) > 1000:
        return (_ONE - Decimal(10) ** -500).copy_sign(x)
    doubled = (2 * x).exp()
    return (doubled - 1) / (doubled + 1)


def _logistic(x: Decimal) -> Decimal:
    return _ONE / (_ONE + (-x).exp()) if x > -10000 else x.exp()


def _root(x: Decimal, degree: int) -> Decimal:
    return x.sqrt() if degree == 2 else (abs(x).ln() / 3).exp().copy_sign(x)


def _cbrt(x: Decimal) -> Decimal:
    root = _root(x, 3)
    for _ in range(2):  # a logarithm leaves the last digits in doubt; Newton's steps do not
        root -= (root * root * root - x) / (3 * root * root)
    return root


def _power(x: Decimal, y: Decimal) -> Decimal:
    if x < 0:  # then y is an integer
        return _power(-x, y).copy_sign(-_ONE if y % 2 else _ONE)
    return x**y


@functools.cache
def _pi(digits: int) -> Decimal:
    """Pi by Machin's formula."""
    with decimal.localcontext(prec=digits + 20):
        return 4 * (4 * _arctan_series(_ONE / 5) - _arctan_series(_ONE / 239))


def _arctan_series(x: Decimal) -> Decimal:
    square, power, total, n = x * x, x, x, 1
    while True:
        power, n = -power * square, n + 2
        following = total + power / n
        if following == total:
            return total
        total = following


def _arctan(x: Decimal) -> Decimal:
    if abs(x) > 1:
        return (_pi(decimal.getcontext().prec) / 2).copy_sign(x) - _arctan(_ONE / x)
    halvings = 5 if abs(x) > Decimal("1e-3") else 0
    for _ in range(halvings):
        x /= _ONE + (_ONE + x * x).sqrt()
    return _arctan_series(x) * 2**halvings


def _atan2(y: Decimal, x: Decimal) -> Decimal:
    angle = _arctan(y / x)
    return angle if x > 0 else angle + _pi(decimal.getcontext().prec).copy_sign(y)


def _sine_and_cosine(x: Decimal) -> tuple[Decimal, Decimal]:
    context = decimal.getcontext()
    more = max(0, x.adjusted()) + 10
    with decimal.localcontext(prec=context.prec + more):
        quarter = _pi(context.prec + more) / 2
        quarters = (x / quarter).to_integral_value()
        rest = x - quarters * quarter
    sine, cosine = _series(rest, rest), _series(rest, _ONE)
    for _ in range(int(quarters) % 4):
        sine, cosine = cosine, -sine
    return sine, cosine


def _series(x: Decimal, first: Decimal) -> Decimal:
    """The sine's series from x, the cosine's from 1."""
    square, term, total, n = x * x, first, first, 1 if first == 1 else 2
    while True:
        term, n = -term * square / (n * (n + 1)), n + 2
        following = total + term
        if following == total:
            return total
        total = following


def _tan(x: Decimal) -> Decimal:
    sine, cosine = _sine_and_cosine(x)
    return sine / cosine


def _host_logistic(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


# -- results that are numbers of few digits ----------------------------------------------------------------------------


def _rational_at(at: float) -> Callable[[Sequence[float], float], bool]:
    """The function has a rational value at this operand, and at no other rational one (Lindemann, Weierstrass)."""
    return lambda operands, _: operands[0] == at


def _is_power(operands: Sequence[float], number: float) -> bool:
    """Whether a power equals this number: powers of two by exponents, the rest by integers."""
    x, y = operands
    if y == 0 or abs(x) == 1 or x == 0 or number == 0:
        return number != 0 or x == 0
    of, result, exponent = Fraction(abs(x)), Fraction(abs(number)), Fraction(y)
    (odd, two), (odd_result, two_result) = _split(of), _split(result)
    if two * exponent != two_result:
        return False
    if odd == 1 or odd_result == 1:
        return odd == odd_result
    # An odd number of b bits is no 2^k-th power of another if 2^k > b, and its power has more bits than any format.
    if exponent.denominator > 64 or abs(exponent.numerator) > 64 * exponent.denominator or exponent < 0:
        return False
    return odd**exponent.numerator == odd_result**exponent.denominator


def _split(number: Fraction) -> tuple[int, int]:
    """Splits a positive binary fraction into an odd integer and a power of two."""
    twos = math.frexp(float(number))[1] - 1
    odd = number / Fraction(2) ** twos
    shift = odd.denominator.bit_length() - 1
    return odd.numerator, twos - shift


_AT_ZERO, _AT_ONE = _rational_at(0.0), _rational_at(1.0)


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of numbers.

    host: in f64, with an error far below a step of f32.
    exact: of finite numbers, to as many digits as the decimal context has.
    arity: the number of operands.
    is_exact: whether the function of these operands equals a number.
    is_bounded: -1 or 1 is a limit. No number of digits distinguishes the results for large operands from it.
    """

    host: Callable[..., np.ndarray]
    exact: Callable[..., Decimal]
    arity: int = 1
    is_exact: Callable[[Sequence[float], float], bool] = _AT_ZERO
    is_bounded: bool = False


FUNCTIONS: dict[str, Function] = {
    "atan2": Function(np.arctan2, _atan2, 2, lambda operands, number: operands[0] == number == 0),
    "cbrt": Function(np.cbrt, _cbrt, is_exact=lambda operands, root: Fraction(root) ** 3 == Fraction(operands[0])),
    "cosine": Function(np.cos, lambda x: _sine_and_cosine(x)[1]),
    "exponential": Function(np.exp, lambda x: x.exp()),
    "exponential_minus_one": Function(np.expm1, _expm1, is_bounded=True),
    "log": Function(np.log, lambda x: x.ln(), is_exact=_AT_ONE),
    "log_plus_one": Function(np.log1p, lambda x: (_ONE + x).ln()),
    "logistic": Function(_host_logistic, _logistic, is_bounded=True),
    "power": Function(np.power, _power, 2, _is_power),
    "rsqrt": Function(
        lambda x: 1.0 / np.sqrt(x),
        lambda x: _ONE / x.sqrt(),
        is_exact=lambda operands, root: Fraction(root) ** 2 * Fraction(operands[0]) == 1,
    ),
    "sine": Function(np.sin, lambda x: _sine_and_cosine(x)[0]),
    "tan": Function(np.tan, _tan),
    "tanh": Function(np.tanh, _tanh, is_bounded=True),
}
