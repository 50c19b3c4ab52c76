"""Numbers and dots as text: the operands and results that show a finding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .operands import values


def number(code: np.ndarray | int, element: str) -> str:
    """Format the value of a code: `1.5`, `-2^-9`, `1.25 * 2^20`, `nan`."""
    return text(float(values(np.asarray([code]), element)[0]))


def text(x: float) -> str:
    """Format a number, with a power of two if the decimal is long."""
    if math.isnan(x) or math.isinf(x) or x == 0 or (abs(x) < 2**20 and len(f"{x:g}") <= 6 and float(f"{x:g}") == x):
        return f"{x:g}"
    fraction, exponent = math.frexp(abs(x))
    sign = "-" if x < 0 else ""
    return f"{sign}2^{exponent - 1}" if fraction == 0.5 else f"{sign}{2 * fraction:.17g} * 2^{exponent - 1}"


def dot(x: np.ndarray, y: np.ndarray, lhs: str, rhs: str, most: int = 6) -> str:
    """Format the nonzero products of a dot, with their positions: `[0] 256 * 256, [1] -256 * 256`.

    All of them if all are zero.
    """
    a, b = values(x, lhs), values(y, rhs)
    at = np.flatnonzero((a != 0) & (b != 0))
    at = at if len(at) else np.arange(len(a))
    # Equal products are written once.
    groups: dict[str, list[int]] = {}
    for i in at:
        groups.setdefault(f"{text(float(a[i]))} * {text(float(b[i]))}", []).append(int(i))
    parts = [f"[{places(where)}] {product}" for product, where in groups.items()]
    return ", ".join(parts[:most]) + (f", … ({len(at)} products)" if len(parts) > most else "")


def places(at: Sequence[int]) -> str:
    """Format positions as ranges: `0-3, 8`."""
    ranges: list[list[int]] = []
    for i in at:
        if ranges and ranges[-1][-1] == i - 1:
            ranges[-1] = [ranges[-1][0], i]
        else:
            ranges.append([i])
    return ", ".join("-".join(map(str, r)) for r in ranges)
