"""The elements of the test programs: codes, their values, and ops on them one by one.

This is the second source of every expected value. It knows the tests' oracle, mpmath and numpy's arrays of Python
integers, and nothing of the package under test.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from tests import oracle
from tests.oracle import FORMATS, Fraction, Value, decode, encode

T = TypeVar("T")

#: The formats that every op is tested in.
TESTED = ("f16", "bf16", *oracle.MINIFLOATS)

#: Codes or integers: an array of Python integers.
Codes = np.ndarray


def array(codes: Any, shape: tuple[int, ...] | None = None) -> Codes:
    """Codes as an array of Python integers."""
    result = np.array(codes, dtype=object)
    return result if shape is None else result.reshape(shape)


def is_float(element: str) -> bool:
    return element in FORMATS


def width(element: str) -> int:
    """Bits of an element type."""
    return FORMATS[element].bits if is_float(element) else int(element.lstrip("ui"))


def code(element: str, x: Any) -> int:
    """The code of a number, rounded to nearest even."""
    return encode(FORMATS[element], x if isinstance(x, float) and not math.isfinite(x) else _value(x))


def _value(x: Any) -> Value:
    return -0.0 if isinstance(x, float) and x == 0 and math.copysign(1, x) < 0 else Fraction(x)


def codes_of(element: str, numbers: Any) -> Codes:
    """The codes of numbers, each of which the type has to hold exactly."""
    flat = np.array(numbers, dtype=object)
    result = array([code(element, x) for x in flat.ravel()], flat.shape)
    for x, c in zip(flat.ravel(), result.ravel(), strict=True):
        if decode(FORMATS[element], c) != x and x == x:
            raise ValueError(f"{element} does not hold {x}")
    return result


def values_of(element: str, codes: Codes) -> list[Value]:
    return [decode(FORMATS[element], c) for c in codes.ravel()]


def each(element: str, function: Callable[..., Value], *operands: Codes, result: str | None = None) -> Codes:
    """A function of values on codes that broadcast together, rounded once."""
    source, target = FORMATS[element], FORMATS[result or element]
    whole = np.broadcast_arrays(*operands)
    rows = zip(*(x.ravel() for x in whole), strict=True)
    return array([encode(target, function(*(decode(source, c) for c in row))) for row in rows], whole[0].shape)


def each_bool(element: str, test: Callable[..., bool], *operands: Codes) -> Codes:
    """A test of values, as ones and zeros."""
    fmt = FORMATS[element]
    whole = np.broadcast_arrays(*operands)
    rows = zip(*(x.ravel() for x in whole), strict=True)
    return array([int(test(*(decode(fmt, c) for c in row))) for row in rows], whole[0].shape)


def step(element: str, name: str) -> Callable[..., int]:
    """An op of the specification on codes of one element."""
    fmt, function = FORMATS[element], oracle.BINARY.get(name) or oracle.UNARY[name]
    return lambda *xs: encode(fmt, function(*(decode(fmt, x) for x in xs)))


def is_nan(element: str, c: int) -> bool:
    return is_float(element) and oracle.is_nan_code(FORMATS[element], c)


def has_several_nans(element: str) -> bool:
    return FORMATS[element].nan in ("ieee", "ones")


def canonical_nan(element: str) -> int:
    return encode(FORMATS[element], math.nan)


def one(element: str) -> int:
    return code(element, 1)


def is_left_open(element: str, x: Value) -> bool:
    """Whether the format leaves the result of this exact number open. (See the package's table of open points.)"""
    fmt = FORMATS[element]
    if fmt.nan == "none":
        return not oracle.is_finite(x)
    if fmt.is_signed or x != x:
        return False
    if x < Fraction(1, 1 << 127):
        return True
    if not isinstance(x, Fraction):
        return False
    e = x.numerator.bit_length() - x.denominator.bit_length()  # a tie is 3 * 2**k
    return any(x == 3 * Fraction(2) ** k for k in (e - 2, e - 1, e))


# -- how numbers are written -------------------------------------------------------------------------------------------


def format_value(element: str, c: int) -> str:
    """A code's value in a few characters."""
    x = decode(FORMATS[element], c)
    if oracle.is_finite(x) and x != 0:
        m = abs(Fraction(x))
        power = m.numerator.bit_length() - m.denominator.bit_length()
        if m == Fraction(2) ** power and abs(power) > 9:
            return f"{'-' * (x < 0)}2^{power}"
    return f"{float(x):.3g}".replace("e-0", "e-").replace("e+0", "e")


def literal(element: str, c: int) -> str:
    """A code as MLIR reads it."""
    return f"0x{c:0{-(-width(element) // 4)}X}"


# -- codes worth trying ------------------------------------------------------------------------------------------------


@functools.cache
def specials(element: str) -> tuple[int, ...]:
    """Zeros, ones, the smallest and largest of subnormal and normal numbers, infinities, NaN."""
    fmt = FORMATS[element]
    if not fmt.is_signed:
        return (0x7F, 0x80, 0x7E, 0x00, 0x01, 0xFE, 0xFD, 0xFF)
    normal = 1 << fmt.mantissa_bits
    result = [0, one(element), 1, normal - 1, normal, fmt.max_code, fmt.max_code - 1]
    result += [fmt.max_code + 1] if fmt.has_infinity else []
    result = [c | s for c in result for s in (0, fmt.sign_bit)]
    if fmt.nan == "ieee":
        result += [canonical_nan(element), canonical_nan(element) | fmt.sign_bit, fmt.ones]
    elif fmt.nan == "ones":
        result += [fmt.ones, fmt.ones | fmt.sign_bit]
    return tuple(dict.fromkeys(result))  # of the FNUZ formats -0 is NaN


@functools.cache
def codes_to_move(element: str) -> tuple[int, ...]:
    """Codes for ops that move them: any bits at all, NaN of every kind among them, the odd ones first."""
    whole = 1 << width(element)
    spread = [(i * 0x9E37 + 5) % whole for i in range(96)]
    return tuple(dict.fromkeys((*specials(element), *spread)))


def some_codes(element: str, *shape: int, start: int = 0) -> Codes:
    """An array of codes to move; it begins at place `start` of `moved`."""
    codes = codes_to_move(element)
    return array([codes[(start + i) % len(codes)] for i in range(math.prod(shape))], shape)


def in_order(element: str) -> list[int]:
    """The codes of the numbers of a type of up to 8 bits, or of many of a wider type, ascending; no NaN."""
    fmt = FORMATS[element]
    step = 1 if fmt.bits <= 8 else 197
    last = fmt.max_code + fmt.has_infinity
    up = sorted({*range(0, last + 1, step), last, fmt.max_code})
    return [c | fmt.sign_bit for c in reversed(up) if c] + up if fmt.is_signed else up


def share(element: str, cases: Sequence[T]) -> list[T]:
    """Every third of the cases that do not depend on the format: other formats have the others."""
    return [case for i, case in enumerate(cases) if (i - TESTED.index(element)) % min(3, len(cases)) == 0]


def spread(codes: Iterable[T], count: int) -> list[T]:
    """So many of a list, evenly, the first and last among them."""
    codes = list(codes)
    if len(codes) <= count:
        return codes
    return [codes[round(i * (len(codes) - 1) / (count - 1))] for i in range(count)]
