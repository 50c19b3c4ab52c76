"""The oracle's arithmetic: every elementwise op on numbers of up to 32 bits, exact or decided to the last bit.

Sums, products, quotients and roots are computed in f64 with the sign of f64's error, which suffices for
rounding. Functions are computed in f64, and where its error could change the code, to as many digits as needed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from .formats import FORMATS, Format
from .functions import FUNCTIONS, decide
from .rounding import EVEN, Exact, encode

Numbers = np.ndarray  #: f64

# -- rational ops ------------------------------------------------------------------------------------------------------


def add(x: Numbers, y: Numbers) -> Exact:
    """The sum of f64 with the sign of its error, by Knuth's TwoSum."""
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)
    return _with_error(total, error)


def multiply(x: Numbers, y: Numbers) -> Exact:
    """The product of two numbers of 24 bits, which f64 represents."""
    return Exact.of(x * y)


def _two_product(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """The product of f64 and its error (Dekker)."""
    product = x * y
    xh, yh = _high(x), _high(y)
    xl, yl = x - xh, y - yh
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _high(x: Numbers) -> Numbers:
    c = x * 134217729.0  # 2**27 + 1
    return c - (c - x)


def divide(x: Numbers, y: Numbers) -> Exact:
    """The quotient, with the sign of its error."""
    quotient = x / y
    product, error = _two_product(quotient, y)
    rest = (x - product) - error
    return _with_error(quotient, rest * np.sign(y))


def sqrt(x: Numbers) -> Exact:
    """The root, with the sign of its error."""
    root = np.sqrt(x)
    product, error = _two_product(root, root)
    return _with_error(root, (x - product) - error)


def _with_error(value: Numbers, error: Numbers) -> Exact:
    side = np.sign(np.where(np.isfinite(value) & np.isfinite(error), error, 0.0))
    return Exact(value, side.astype(np.int8))


def maximum(x: Numbers, y: Numbers) -> Exact:
    """The larger; NaN if either is NaN, and -0 below +0."""
    equal_zeros = (x == 0) & (y == 0)
    larger = np.where(equal_zeros, np.where(np.signbit(x), y, x), np.where(x > y, x, y))
    return Exact.of(np.where(np.isnan(x) | np.isnan(y), np.nan, larger))


def minimum(x: Numbers, y: Numbers) -> Exact:
    """The smaller, in the same way."""
    return Exact.of(-maximum(-x, -y).value)


def clamp(low: Numbers, x: Numbers, high: Numbers) -> Exact:
    """The number within its bounds."""
    return minimum(maximum(x, low).value, high)


def _away(x: Numbers) -> Numbers:
    """The nearest integer, ties away from zero; np.trunc of x + 0.5 would round the sum."""
    size = np.abs(x)
    whole = np.floor(size)
    return np.copysign(whole + (size - whole >= 0.5), x)


_OF_TWO: dict[str, Callable[..., Exact]] = {
    "add": add,
    "subtract": lambda x, y: add(x, -y),
    "multiply": multiply,
    "divide": divide,
    "remainder": lambda x, y: Exact.of(np.fmod(x, y)),  # exact in f64 as in any format
    "maximum": maximum,
    "minimum": minimum,
}
_OF_ONE: dict[str, Callable[..., Exact]] = {
    "sqrt": sqrt,
    "abs": lambda x: Exact.of(np.abs(x)),
    "negate": lambda x: Exact.of(-x),
    "sign": lambda x: Exact.of(np.where((x == 0) | np.isnan(x), x, np.copysign(1.0, x))),
    "floor": lambda x: Exact.of(np.floor(x)),
    "ceil": lambda x: Exact.of(np.ceil(x)),
    "round_nearest_even": lambda x: Exact.of(np.rint(x)),
    "round_nearest_afz": lambda x: Exact.of(_away(x)),
}
_EXACT = {**_OF_ONE, **_OF_TWO, "clamp": clamp}

# -- functions ---------------------------------------------------------------------------------------------------------

#: Far more than the error of any host's function in f64, and far less than a step of f32.
_DOUBT = 2.0**-46

OPS = tuple(sorted({*_OF_ONE, *_OF_TWO, *FUNCTIONS}))


def arity(op: str) -> int:
    """The number of operands of an op on one element type."""
    if op in FUNCTIONS:
        return FUNCTIONS[op].arity
    return 3 if op == "clamp" else 2 if op in _OF_TWO else 1


def estimate(op: str, *operands: Numbers) -> Numbers:
    """The results in f64, not rounded to a format: exact or nearly."""
    with np.errstate(all="ignore"):
        if op == "convert":
            return operands[0]
        return np.asarray(_EXACT[op](*operands).value if op in _EXACT else FUNCTIONS[op].host(*operands))


def evaluate(op: str, fmt: Format, *operands: Numbers, rounding: str = EVEN) -> tuple[np.ndarray, np.ndarray]:
    """The codes of an op's results in a format, and the open point of each (rounding.py)."""
    with np.errstate(all="ignore"):
        if op == "convert":
            return encode(fmt, Exact.of(operands[0]), rounding)
        if op in _EXACT:
            result = _EXACT[op](*operands)
            # The NaN of an invalid operation has no sign; the host's may have one.
            return encode(fmt, Exact(np.where(np.isnan(result.value), np.nan, result.value), result.side), rounding)
        return _function(op, fmt, operands, rounding)


def _function(op: str, fmt: Format, operands: tuple[Numbers, ...], rounding: str) -> tuple[np.ndarray, np.ndarray]:
    value = np.asarray(FUNCTIONS[op].host(*operands))
    value = np.where(np.isnan(value), np.nan, value)
    codes, left_open = encode(fmt, Exact.of(value), rounding)
    if rounding != EVEN:  # a fault to be recognized: no exactness is required
        return codes, left_open
    finite = np.isfinite(value) & (value != 0) & np.logical_and.reduce([np.isfinite(x) for x in operands])
    doubtful = np.zeros(value.shape, bool)
    for factor in (1 - _DOUBT, 1 + _DOUBT):
        other, other_open = encode(fmt, Exact.of(value * factor), rounding)
        doubtful |= finite & ((other != codes) | (other_open != left_open))
    at = np.flatnonzero(doubtful)
    if at.size:
        decided = [decide(op, *(float(x[i]) for x in operands)) for i in at]
        exact = Exact(np.array([v for v, _ in decided]), np.array([s for _, s in decided], np.int8))
        codes[at], left_open[at] = encode(fmt, exact, rounding)
    return codes, left_open


# -- comparisons -------------------------------------------------------------------------------------------------------

COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}


def total_order(fmt: Format, codes: np.ndarray, nan_first: bool = False) -> np.ndarray:
    """Ranks in the total order: -NaN, -inf, …, -0, +0, …, inf, NaN. A NaN without sign is last, or first."""
    codes = np.asarray(codes).astype(np.int64)
    size = codes & fmt.ones
    order = np.where(codes & fmt.sign_bit != 0, -1 - size, size)
    if fmt.nan == "sign":
        far = 1 << fmt.bits
        order = np.where(codes == fmt.sign_bit, -far if nan_first else far, order)
    return order


def compare(direction: str, kind: str, element: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Comparisons of codes: quiet, or in the total order."""
    fmt = FORMATS[element]
    keys = [total_order(fmt, c) if kind == "TOTALORDER" else fmt.decode(c) for c in (x, y)]
    return COMPARISONS[direction](*keys)
