"""An exact judge of results: every elementwise op and conversion of floats, in integers, fractions and mpmath.

Written from the StableHLO specification, and shares no line with the package it judges. Values and formats are those of
`oracle_numbers`, functions those of `oracle_functions`.
"""

import math
import operator
from collections.abc import Callable
from fractions import Fraction

from .oracle_functions import FUNCTIONS, atan2, function, mp, power, real
from .oracle_numbers import (
    ALL_FORMATS,
    FORMATS,
    INF,
    MINIFLOATS,
    NAN,
    NEGATIVE_ZERO,
    ONE,
    ZERO,
    Format,
    Value,
    decode,
    encode,
    encode_ratio,
    is_finite,
    is_nan_code,
    is_negative,
    is_negative_zero,
    magnitude,
    negate,
    same,
    signed,
)

__all__ = [
    "BINARY",
    "COMPARE",
    "ALL_FORMATS",
    "FORMATS",
    "FUNCTIONS",
    "MINIFLOATS",
    "UNARY",
    "Format",
    "Fraction",
    "Value",
    "binary_code",
    "binary_codes",
    "clamp",
    "decode",
    "encode",
    "encode_ratio",
    "is_finite",
    "is_nan_code",
    "is_negative",
    "mp",
    "real",
    "same",
    "to_integer",
    "total_order",
    "unary_codes",
]


def sign(x: Value) -> Value:
    return x if x == 0 or math.isnan(x) else signed(ONE, x < 0)


def _integral(function: Callable[[Fraction], int]) -> Callable[[Value], Value]:
    """A rounding to an integer; a zero keeps the sign of what was rounded."""

    def rounded(x: Value) -> Value:
        if not isinstance(x, Fraction):
            return x
        return signed(Fraction(abs(function(x))), x < 0)

    return rounded


def add(x: Value, y: Value) -> Value:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x + y
    if math.isinf(x) and math.isinf(y):
        return x if x == y else NAN
    if x == 0 and y == 0:
        return NEGATIVE_ZERO if is_negative_zero(x) and is_negative_zero(y) else ZERO
    for special, other in ((x, y), (y, x)):
        if math.isnan(special) or (math.isinf(special) and not math.isnan(other)):
            return special
    return y if x == 0 else x


def multiply(x: Value, y: Value) -> Value:
    negative = is_negative(x) != is_negative(y)
    if math.isnan(x) or math.isnan(y) or (math.isinf(x) and y == 0) or (x == 0 and math.isinf(y)):
        return NAN
    if math.isinf(x) or math.isinf(y):
        return signed(INF, negative)
    return signed(abs(Fraction(x) * Fraction(y)), negative)


def divide(x: Value, y: Value) -> Value:
    negative = is_negative(x) != is_negative(y)
    if math.isnan(x) or math.isnan(y) or (math.isinf(x) and math.isinf(y)) or (x == 0 and y == 0):
        return NAN
    if math.isinf(x) or y == 0:
        return signed(INF, negative)
    return signed(ZERO if math.isinf(y) else abs(Fraction(x) / Fraction(y)), negative)


def remainder(x: Value, y: Value) -> Value:
    """x - y * trunc(x / y), with the sign of x."""
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return NAN
    return x if math.isinf(y) else signed(Fraction(abs(Fraction(x)) % abs(Fraction(y))), is_negative(x))


def maximum(x: Value, y: Value) -> Value:
    if math.isnan(x) or math.isnan(y):
        return NAN
    if x == 0 and y == 0:
        return NEGATIVE_ZERO if is_negative_zero(x) and is_negative_zero(y) else ZERO
    return max(x, y)


def minimum(x: Value, y: Value) -> Value:
    return negate(maximum(negate(x), negate(y)))


def clamp(low: Value, x: Value, high: Value) -> Value:
    return minimum(maximum(x, low), high)


#: IEEE 754's quiet comparisons: Python compares fractions and floats exactly, as numbers.
COMPARE = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def total_order(fmt: Format, code: int) -> int:
    """The place of a code in the total order: -NaN, -inf, ..., -0, +0, ..., +inf, NaN."""
    if fmt.nan == "sign" and code == fmt.sign_bit:
        return 1 << fmt.bits
    return -1 - (code & fmt.ones) if code & fmt.sign_bit else code


UNARY: dict[str, Callable[[Value], Value]] = {
    "abs": magnitude,
    "negate": negate,
    "sign": sign,
    "floor": _integral(math.floor),
    "ceil": _integral(math.ceil),
    "round_nearest_even": _integral(round),
    "round_nearest_afz": _integral(lambda x: math.floor(abs(x) + Fraction(1, 2))),
    **{name: function(name) for name in FUNCTIONS},
}

BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": add,
    "subtract": lambda x, y: add(x, negate(y)),
    "multiply": multiply,
    "divide": divide,
    "remainder": remainder,
    "maximum": maximum,
    "minimum": minimum,
    "power": power,
    "atan2": atan2,
}


def to_integer(x: Value, bits: int, is_signed: bool) -> int:
    """The integer a value converts to: cut towards zero, held to the type's range; NaN gives 0."""
    low, high = (-1 << (bits - 1), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return high if x > 0 else low
    return min(max(math.trunc(x), low), high)


def unary_codes(fmt: Format, name: str) -> list[int]:
    """The results of an op on every code of a format, in order."""
    return [encode(fmt, UNARY[name](decode(fmt, code))) for code in range(1 << fmt.bits)]


def binary_code(fmt: Format, name: str, a: int, b: int) -> int:
    """The result of an op on a pair of codes."""
    return encode(fmt, BINARY[name](decode(fmt, a), decode(fmt, b)))


#: Ops on two finite numbers other than zero, as integers at the same scale: a ratio, and the power of the scale in it.
_INTEGER_OPS: dict[str, Callable[[int, int], tuple[int, int, int]]] = {
    "add": lambda x, y: (x + y, 1, 1),
    "subtract": lambda x, y: (x - y, 1, 1),
    "multiply": lambda x, y: (x * y, 1, 2),
    "divide": lambda x, y: (x if y > 0 else -x, abs(y), 0),
    "remainder": lambda x, y: (abs(x) % abs(y) * (1 if x > 0 else -1), 1, 1),
    "maximum": lambda x, y: (max(x, y), 1, 1),
    "minimum": lambda x, y: (min(x, y), 1, 1),
}


def binary_codes(fmt: Format, name: str) -> list[int]:
    """The results of an op on every pair of codes: of (a, b) at place a * 2**bits + b."""
    values = [decode(fmt, code) for code in range(1 << fmt.bits)]
    function = BINARY[name]
    if name not in _INTEGER_OPS:
        return [encode(fmt, function(x, y)) for x in values for y in values]
    places = 127 if fmt.name == "f8E8M0FNU" else fmt.bias - 1 + fmt.mantissa_bits
    scale = 1 << places
    scaled = [int(v * scale) if isinstance(v, Fraction) else 0 for v in values]
    integers, commutes = _INTEGER_OPS[name], name in ("add", "multiply", "maximum", "minimum")
    results: list[int] = []
    for a, (x, n) in enumerate(zip(values, scaled, strict=True)):
        for b, (y, m) in enumerate(zip(values, scaled, strict=True)):
            if b < a and commutes:
                results.append(results[b * len(values) + a])
                continue
            numerator, denominator, power_of_scale = integers(n, m) if n and m else (0, 1, 0)
            if numerator:
                results.append(encode_ratio(fmt, numerator, denominator << (places * power_of_scale)))
            else:  # of a zero the sign counts
                results.append(encode(fmt, function(x, y)))
    return results
