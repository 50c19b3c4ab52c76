"""Numbers as people write them -> elements of a type. A decimal is exact until it is rounded, once, to the type."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ...ops.cast import array_of, wrap
from ...ops.minifloat.codec import decode, exact, round_number, to_fraction
from ...ops.minifloat.formats import Format, Nan
from ...ops.minifloat.number import INFINITE, NAN, Number
from ...ops.policy import Policy
from ...ops.types import ElementType, Kind
from ..errors import InputError

_DECIMAL = re.compile(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", re.ASCII)
_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?\d+)", re.ASCII)
_CODE = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+")
_INTEGER = re.compile(r"[+-]?(\d+|0[xX][0-9a-fA-F]+)", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?:(nan)|inf(?:inity)?)", re.IGNORECASE)
#: Longer numbers are refused: they are mistakes, and Python's integers take quadratic time.
_MOST_CHARACTERS = 1000
#: Decimal exponents beyond are brought here: such a number is out of every type's range or rounds to zero anyway.
_MOST_EXPONENT = 5000


def array_of_literals(literals: Sequence[str], element: ElementType) -> np.ndarray:
    """Return the elements that literals mean. Each decimal is rounded once, from its exact value.

    Args:
        literals: Floats such as `1.5`, `-2e-3`, `0x1.8p3`, `nan`, `-inf`, or a code such as `0x7F`. Integers such as
            `-3`, or a bit pattern such as `0xFF`. Booleans: `true`, `false`, `1`, `0`. Of a complex type a literal for
            each of the two parts.
        element: The element type.

    Returns:
        An array of one dimension, of the dtype that stores the type.

    Raises:
        InputError: A literal is not a number, is out of range, or is NaN or infinite where the type has none.
    """
    different = {text: i for i, text in enumerate(dict.fromkeys(literals))}
    parse = _booleans if element.kind is Kind.BOOL else _integers if element.is_integer else _floats
    values = parse(list(different), element.part)
    array = values[[different[text] for text in literals]] if literals else values
    return array.view(element.dtype) if element.is_complex else array


def real(text: str) -> Number:
    """A literal as an exact 0-d number, not rounded to any type. Raises InputError where it is none."""
    negative = np.array(text.startswith("-"))
    if match := _SPECIAL.fullmatch(text):
        return Number(np.array(NAN if match[1] else INFINITE, np.uint8), negative, np.array(0), np.array(0))
    return exact(fraction(text)).replace(sign=negative)


def is_code(text: str) -> bool:
    """Whether a literal is a code or a bit pattern: `0x7F`, `0b101`."""
    return _CODE.fullmatch(text) is not None


def fraction(text: str) -> Fraction:
    """The exact value of a decimal or a hexadecimal float. Raises InputError where the text is neither."""
    if len(text) > _MOST_CHARACTERS:
        raise InputError(f"expected a number of at most {_MOST_CHARACTERS} characters, got {text[:20]}… of {len(text)}")
    for pattern, base, radix, bits in ((_DECIMAL, 10, 10, 1), (_HEXADECIMAL, 16, 2, 4)):
        match = pattern.fullmatch(text)
        if match and (match[2] or match[3]):
            sign, whole, part, exponent = match.groups()
            most = bits * _MOST_EXPONENT
            power = max(-most, min(int(exponent or 0), most)) - bits * len(part)
            return int(f"{sign}{whole}{part}", base) * Fraction(radix) ** power
    raise InputError(f"expected a number, got {text!r}")


def _booleans(literals: list[str], element: ElementType) -> np.ndarray:
    known = {"true": True, "1": True, "false": False, "0": False}
    for text in literals:
        if text not in known:
            raise InputError(f"expected true, false, 1 or 0 for {element}, got {text!r}")
    return np.array([known[text] for text in literals], bool)


def _integers(literals: list[str], element: ElementType) -> np.ndarray:
    signed = element.kind is Kind.SIGNED
    low, high = element.range
    values = []
    for text in literals:
        if len(text) > _MOST_CHARACTERS or not _INTEGER.fullmatch(text):
            raise InputError(f"expected an integer for {element}, got {text[:40]!r}")
        value = int(text, 16 if "x" in text.lower() else 10)
        if signed and high < value < 1 << element.bits and _CODE.fullmatch(text):
            value -= 1 << element.bits  # a bit pattern
        if not low <= value <= high:
            raise InputError(f"expected a number from {low} to {high} for {element}, got {text}")
        values.append(value)
    return wrap(np.array(values, np.int64 if signed else np.uint64), element)


def _floats(literals: list[str], element: ElementType) -> np.ndarray:
    fmt = element.format
    codes = np.zeros(len(literals), fmt.code_dtype)
    numbers: list[Number] = []
    places: list[int] = []
    for i, text in enumerate(literals):
        if _CODE.fullmatch(text):
            code = int(text, 0) if len(text) < _MOST_CHARACTERS else -1
            if not 0 <= code < 1 << fmt.bits:
                raise InputError(f"expected a code of {fmt.name} (0x0 to 0x{(1 << fmt.bits) - 1:X}), got {text[:40]}")
            codes[i] = code
        else:
            numbers.append(_number(text, fmt))
            places.append(i)
    if numbers:
        stacked = Number(*(np.stack([getattr(n, part) for n in numbers]) for part in Number.__slots__))
        codes[places] = round_number(stacked, fmt, Policy())
    return array_of(codes, fmt)


def _number(text: str, fmt: Format) -> Number:
    """A literal as a number that has its like in the format. Raises InputError where it has none."""
    if special := _SPECIAL.fullmatch(text):
        if special[1] and fmt.nan is Nan.NONE:
            raise InputError(f"expected a number for {fmt.name}, which has no NaN, got {text}")
        if not special[1] and (not fmt.has_infinity or (text[0] == "-" and not fmt.is_signed)):
            raise InputError(f"expected a number from {_range(fmt)} for {fmt.name}, which has no infinity, got {text}")
        return real(text)
    value = fraction(text)
    beyond, least = _limits(fmt)
    if not fmt.is_signed and value < (0 if fmt.has_zero else least):
        lacks = "sign" if fmt.has_zero else "zero or sign"
        raise InputError(f"expected a number from {_range(fmt)} for {fmt.name}, which has no {lacks}, got {text}")
    # A tie goes to the even code, which is the largest number's where that is even.
    if abs(value) > beyond or (abs(value) == beyond and fmt.max_code & 1):
        raise InputError(f"expected a number from {_range(fmt)} for {fmt.name}, got {text}")
    return exact(value).replace(sign=np.array(text.startswith("-")))  # the sign of -0 too


@functools.cache
def _limits(fmt: Format) -> tuple[Fraction, Fraction]:
    """Half a step above the largest number, and a quarter below the smallest."""
    top = decode(np.array(fmt.max_code, fmt.code_dtype), fmt)
    half_step = Fraction(2) ** (int(top.exponent) - 1)
    return to_fraction(top) + half_step, Fraction(2) ** fmt.min_exponent * Fraction(3, 4)


def _range(fmt: Format) -> str:
    largest = to_fraction(decode(np.array(fmt.max_code, fmt.code_dtype), fmt))
    largest = int(largest) if largest.denominator == 1 and largest < 10**6 else float(largest)
    return f"{-largest if fmt.is_signed else 0 if fmt.has_zero else f'2**{fmt.min_exponent}'} to {largest}"
