"""Tables in Markdown, and the notation of codes and numbers in them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from minihlo.ops.types import ElementType

from .numbers import value


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code_text(code: int, t: ElementType) -> str:
    """A code and its number; of types without codes the number."""
    if not t.is_float:
        return number_text(code, t)
    return f"`0x{code:0{-(-t.bits // 4)}X}` = {number_text(code, t)}"


def number_text(code: int, t: ElementType) -> str:
    """The number that a code of a type stands for."""
    if t.name == "i1":
        return "true" if code else "false"
    result = float(value(np.array([code]).astype(f"u{t.dtype.itemsize}"), t)[0])
    mantissa, power = _power_of_two(result)
    if mantissa == 1 and abs(power) > 5:
        return f"{'-' if result < 0 else ''}2^{power}"
    if t.is_integer:
        return str(int(result))
    text = repr(result).removesuffix(".0")
    return text if len(text) <= 22 else f"{result:.6g}"


def _power_of_two(x: float) -> tuple[int, int]:
    """m and p of |x| = m * 2**p with m odd; 0, 0 if x is zero or not finite."""
    if x == 0 or not math.isfinite(x):
        return 0, 0
    n, d = abs(x).as_integer_ratio()
    zeros = (n & -n).bit_length() - 1
    return n >> zeros, zeros - d.bit_length() + 1
