"""Operands for designed dots: numbers of a type, products with a given exponent, and both as text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ...ops.cast import cast, codes_of
from ...ops.minifloat.formats import Format
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType
from ..errors import InputError
from ..judging.groups import group

_F64, _PLAIN = ELEMENT_TYPES["f64"], Policy()


def values(codes: np.ndarray, element: str) -> np.ndarray:
    """Decode codes to f64, which contains them all."""
    t = ELEMENT_TYPES[element]
    with np.errstate(invalid="ignore"):  # signalling NaN of bf16
        return cast(np.ascontiguousarray(codes).view(t.dtype), t, _F64, _PLAIN)


def codes(numbers: np.ndarray, element: str) -> np.ndarray:
    """Encode numbers of f64. Raise ValueError if the type lacks one of them."""
    t = ELEMENT_TYPES[element]
    result = codes_of(np.ascontiguousarray(cast(np.asarray(numbers, np.float64), _F64, t, _PLAIN)), t.format)
    if not np.array_equal(values(result, element), numbers, equal_nan=True):
        raise ValueError(f"expected numbers of {element}")
    return result


@dataclasses.dataclass(frozen=True)
class Operands:
    """Products of two types."""

    lhs: str
    rhs: str

    @property
    def formats(self) -> tuple[Format, Format]:
        """The formats of the types."""
        return ELEMENT_TYPES[self.lhs].format, ELEMENT_TYPES[self.rhs].format

    @property
    def low(self) -> int:
        """The exponent of the least product of powers of two that are normal numbers."""
        return sum(f.min_normal_exponent for f in self.formats)

    @property
    def high(self) -> int:
        """The exponent of the largest product of powers of two."""
        return sum(f.max_exponent for f in self.formats)

    @property
    def least(self) -> int:
        """The exponent of the least product."""
        return sum(f.min_exponent for f in self.formats)

    def pair(self, exponent: int, left: bool = True) -> tuple[float, float]:
        """Return two powers of two with the product 2**exponent; both are normal where that is possible.

        The `left` one follows the exponent and the other has few values, or conversely.

        Raise ValueError if the types have no such powers.
        """
        x, y = self.formats[:: 1 if left else -1]
        if not self.least <= exponent <= self.high:
            raise ValueError(f"expected an exponent from {self.least} to {self.high}, got {exponent}")
        second = y.max_exponent
        while exponent - second < x.min_normal_exponent and second > y.min_normal_exponent:
            second = max(second - (x.max_exponent - x.min_normal_exponent + 1), y.min_normal_exponent)
        second = min(max(second, exponent - x.max_exponent), max(exponent - x.min_exponent, y.min_exponent))
        first, second = 2.0 ** (exponent - second), 2.0**second
        return (first, second) if left else (second, first)


def check(element: str, option: str) -> ElementType:
    """Return the element type of operands. Raise InputError for one that cannot be probed."""
    t = ELEMENT_TYPES.get(element)
    if t is None or not t.is_float or not t.has_dtype or not t.format.has_zero or t.bits > 32:
        floats = (e for e in ELEMENT_TYPES.values() if e.is_float and e.has_dtype)
        known = ", ".join(e.name for e in floats if e.format.has_zero and e.bits <= 32)
        raise InputError(f"{option}: expected one of {known}, got {element}")
    return t


def number_text(code: np.ndarray | int, element: str) -> str:
    """Format the value of a code: `1.5`, `-2^-9`, `1.25 * 2^20`, `nan`."""
    return float_text(float(values(np.asarray([code]), element)[0]))


def float_text(x: float) -> str:
    """Format a number, with a power of two if the decimal is long."""
    if math.isnan(x) or math.isinf(x) or x == 0 or (abs(x) < 2**20 and len(f"{x:g}") <= 6 and float(f"{x:g}") == x):
        return f"{x:g}"
    fraction, exponent = math.frexp(abs(x))
    sign = "-" if x < 0 else ""
    return f"{sign}2^{exponent - 1}" if fraction == 0.5 else f"{sign}{2 * fraction:.17g} * 2^{exponent - 1}"


#: Products shown of a dot.
_MOST = 6


def dot_text(x: np.ndarray, y: np.ndarray, lhs: str, rhs: str) -> str:
    """Format the nonzero products of a dot, with their positions: `[0] 256 * 256, [1] -256 * 256`.

    All of them if all are zero.
    """
    a, b = values(x, lhs), values(y, rhs)
    at = np.flatnonzero((a != 0) & (b != 0))
    at = at if len(at) else np.arange(len(a))
    # Equal products are written once.
    groups = group(at.tolist(), lambda i: f"{float_text(float(a[i]))} * {float_text(float(b[i]))}")
    parts = [f"[{positions_text(where)}] {product}" for product, where in groups.items()]
    return ", ".join(parts[:_MOST]) + (f", … ({len(at)} products)" if len(parts) > _MOST else "")


def positions_text(at: Sequence[int]) -> str:
    """Format positions as ranges: `0-3, 8`."""
    ranges: list[list[int]] = []
    for i in at:
        if ranges and ranges[-1][-1] == i - 1:
            ranges[-1] = [ranges[-1][0], i]
        else:
            ranges.append([i])
    return ", ".join("-".join(map(str, r)) for r in ranges)
