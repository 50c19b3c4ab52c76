"""Functions to as many digits as are needed, by Python's decimal numbers: for results that f64 cannot decide."""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable
from decimal import Decimal

#: Digits to try. What these do not tell from an f64 is one: a function that is not algebraic comes no nearer, and an
#: algebraic one (a root, a power) that is exact has few digits.
_DIGITS = (60, 160, 420)
_ONE, _TWO = Decimal(1), Decimal(2)


def decide(name: str, *operands: float) -> tuple[float, int]:
    """The f64 nearest to the function of finite numbers, and on which side of that the exact result lies."""
    function = FUNCTIONS[name]
    nearest, side = 0.0, 0
    for digits in _DIGITS:
        # Operands and steps may be as small as 2^-149, and as large as 2^128: what cancels is so many digits more.
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
    """By Machin's formula."""
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
        turns = (x / quarter).to_integral_value()
        rest = x - turns * quarter
    sine, cosine = _series(rest, rest), _series(rest, _ONE)
    for _ in range(int(turns) % 4):
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


FUNCTIONS: dict[str, Callable[..., Decimal]] = {
    "atan2": _atan2,
    "cbrt": _cbrt,
    "cosine": lambda x: _sine_and_cosine(x)[1],
    "exponential": lambda x: x.exp(),
    "exponential_minus_one": _expm1,
    "log": lambda x: x.ln(),
    "log_plus_one": lambda x: (_ONE + x).ln(),
    "logistic": _logistic,
    "power": _power,
    "rsqrt": lambda x: _ONE / x.sqrt(),
    "sine": lambda x: _sine_and_cosine(x)[0],
    "tan": _tan,
    "tanh": _tanh,
}
