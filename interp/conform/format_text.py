"""Codes and numbers as text for people."""

from __future__ import annotations

import math

import numpy as np

from ..oracle.formats import FORMATS, INTEGERS, bits, integers


def code_text(code: int, element: str) -> str:
    """`0x7E`; with all digits for f32 and wider, a word for booleans."""
    if element == "i1":
        return "true" if code else "false"
    width = bits(element)
    return f"0x{code:0{max(2, -(-width // 4)) if width > 4 else 1}X}"


def value_text(code: int, element: str) -> str:
    """The number of a code: `0.3125`, `-0`, `nan`, `2^-127`; `none` for an invalid code."""
    if element == "i1":
        return "true" if code else "false"
    if element in INTEGERS:
        return str(int(integers(np.array([code], np.uint64), element)[0]))
    fmt = FORMATS[element]
    if code >> fmt.bits:
        return "none"
    return number_text(float(fmt.decode(np.array([code], fmt.code_dtype))[0]))


def number_text(number: float) -> str:
    """A float as text; powers of two that are far from 1 as powers."""
    if math.isnan(number):
        return "nan"
    if math.isfinite(number) and number:
        mantissa, exponent = math.frexp(number)
        if abs(mantissa) == 0.5 and not -8 < exponent < 18:
            return f"{'-' if number < 0 else ''}2^{exponent - 1}"
    text = repr(number)
    return text.removesuffix(".0")


def input_text(codes: np.ndarray, element: str, shape: tuple[int, ...]) -> str:
    """Codes as `minihlo run --input` takes them."""
    kind = "".join(f"{n}x" for n in shape)
    if bits(element) == 6:
        listed = ",".join(repr(float(x)) for x in FORMATS[element].decode(np.ravel(codes)))
        return f"{kind}f32={listed}"
    carrier = element if element == "i1" else f"ui{max(8, bits(element))}"
    return f"{kind}{carrier}={','.join(str(int(c)) for c in np.ravel(codes))}"
