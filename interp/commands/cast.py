"""`minihlo cast`: converts a number to a format and prints its neighbours."""

from __future__ import annotations

import argparse
import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...ops.blocks.formats import BLOCK_FORMATS
from ...ops.cast import codes_of
from ...ops.close import hint
from ...ops.draws import Draws
from ...ops.minifloat.codec import decode, round_number
from ...ops.minifloat.formats import Format
from ...ops.minifloat.number import FINITE, NAN, Number
from ...ops.policy import Policy
from ...ops.random_stream import first_draws
from ...ops.types import ElementType
from ..errors import InputError
from ..parse.literals import array_of_literals, fraction, is_code, real
from ..values.numbers import convert
from ..values.printing import code_text, number_text
from ..values.values import parse_value
from . import cast_blocks
from .cast_blocks import element_of, exact_value, float_text


def main(options: argparse.Namespace) -> int:
    """Print the conversion of each element of VALUE.

    Raises InputError for a value or a type that cannot be converted.
    """
    if options.format in BLOCK_FORMATS:
        return cast_blocks.main(options)
    if options.scale:
        raise InputError(f"--scale: expected a block format ({', '.join(BLOCK_FORMATS)}), got {options.format}")
    text = options.value.strip()
    if options.format.startswith(tuple(name.partition("_")[0] for name in BLOCK_FORMATS)):
        raise InputError(f"expected a block format, got {options.format!r}{hint(options.format, BLOCK_FORMATS)}")
    target = element_of(options.format)
    policy = options.policy
    draws = first_draws(policy)
    if "=" in text or text.startswith("@"):
        array, t = parse_value(text)
        if options.source and element_of(options.source) != t.element:
            raise InputError(f"expected a value of type {options.source}, as --from says, got {text[:60]!r}")
        values, source = array.ravel(), t.element
    elif options.source or is_code(text):
        source = element_of(options.source or options.format)
        values = array_of_literals([text], source)
    else:
        values, source = None, None
    if source is not None and source.is_complex:
        raise InputError(f"expected a real type, got {source}")
    if values is None or source is None:
        print(_real_to(text, target, policy, draws))
        return 0
    results = convert(values, source, target, policy, draws)
    blocks = []
    for value, result in zip(values, results, strict=True):
        lines = [f"{'from':6} {_element_text(value, source)}"]
        blocks.append("\n".join([*lines, *_lines(_exact(value, source), result, target)]))
    print("\n\n".join(blocks))
    return 0


def _real_to(text: str, target: ElementType, policy: Policy, draws: Draws | None) -> str:
    """Return the lines for the conversion of a literal from its exact value."""
    number = real(text)
    # The number has no more bits than the rounding needs.
    exact = fraction(text) if number.kind == FINITE else None
    if target.is_float:
        code = round_number(number, target.format, policy, draws)
        value: Any = np.asarray(code, target.format.code_dtype).view(target.dtype)[()]
    else:
        value = _to_integer(number, exact, target)
    return "\n".join(_lines(exact, value, target))


def _to_integer(number: Number, exact: Fraction | None, target: ElementType) -> np.generic:
    """Convert as stablehlo.convert does: truncate and clamp to the range; NaN becomes 0, and i1 is true unless zero."""
    low, high = target.range
    if exact is not None:
        whole = int(exact != 0) if target.bits == 1 else min(max(math.trunc(exact), low), high)
    elif number.kind == NAN:
        whole = int(target.bits == 1)
    else:
        whole = low if number.sign and target.bits > 1 else high
    return array_of_literals([str(whole)], target)[0]


def _exact(value: np.generic, element: ElementType) -> Fraction | None:
    """Return the exact value of an element, or None for infinities and NaN."""
    return exact_value(value, element.format) if element.is_float else Fraction(int(value))


def _lines(exact: Fraction | None, result: np.generic, element: ElementType) -> list[str]:
    lines = [f"{'to':6} {_element_text(result, element)}"]
    value = _exact(result, element)
    if value is not None and exact is not None:
        lines.append(f"{'error':6} {_error(value - exact, result, element)}")
    below, above = _neighbours(result, element)
    for name, text in (("below", below), ("above", above)):
        lines.append(f"{name:6} {text}")
    return lines


def _error(error: Fraction, result: np.generic, element: ElementType) -> str:
    if not error:
        return "0"
    short = f"{float(error):.17g}" if abs(error) < 2**1000 else ""
    text = f"{float(error):+.17g}" if len(short) in range(1, 14) and Fraction(short) == error else _digits(error, 6)
    if element.is_float:
        code = int(codes_of(np.asarray(result), element.format))
        text += f" ({_digits(error / _step(code, element.format), 3)} ULP)"
    return text


def _digits(value: Fraction, count: int) -> str:
    """Format a number with the given number of significant digits, even if it is beyond the range of floats."""
    if 2.0**-1000 < abs(value) < 2.0**1000:
        return f"{float(value):+.{count}g}"
    rounded = decimal.Context(count).divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))
    return f"{rounded.normalize():+g}".replace("E", "e")


def _step(code: int, fmt: Format) -> Fraction:
    """Return the distance from a number to the next larger magnitude."""
    field = (code & ~fmt.sign_bit) >> fmt.mantissa_bits
    return Fraction(2) ** (fmt.min_exponent + (max(field - 1, 0) if fmt.has_subnormals else field))


def _element_text(value: np.generic, element: ElementType) -> str:
    if not element.is_float:
        return f"{element} {str(bool(value)).lower() if element.bits == 1 else int(value)}"
    return f"{element} {float_text(value, element.format)}"


def _neighbours(value: np.generic, element: ElementType) -> tuple[str, str]:
    """Return the texts of the next element below and above, `none` at the ends of the range."""
    if not element.is_float:
        low, high = element.range
        number = int(value)
        return (str(number - 1) if number > low else "none"), (str(number + 1) if number < high else "none")
    fmt = element.format
    code = int(codes_of(np.asarray(value), fmt))
    return tuple(  # type: ignore[return-value]
        "none" if c is None else f"{code_text(c, fmt.bits)} = {number_text(fmt, c)}"
        for c in (neighbour(code, fmt, up=False), neighbour(code, fmt, up=True))
    )


def neighbour(code: int, fmt: Format, *, up: bool) -> int | None:
    """Return the code of the next number above or below, or None. Infinity is above the largest number."""
    if decode(np.array(code, fmt.code_dtype), fmt).is_nan:
        return None
    negative, magnitude = bool(code & fmt.sign_bit), code & ~fmt.sign_bit
    if magnitude == 0 and fmt.has_zero:
        return 1 if up else fmt.sign_bit | 1 if fmt.is_signed else None
    magnitude += 1 if up != negative else -1
    if magnitude < 0 or magnitude > (fmt.infinity_code or fmt.max_code):
        return None
    if magnitude == 0 and not fmt.has_negative_zero:
        return 0
    return magnitude | fmt.sign_bit * negative
