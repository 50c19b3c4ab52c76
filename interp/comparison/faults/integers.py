"""Wrong ways to convert to integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...oracle.case import OpCase, Operands
from ...oracle.expected import convert
from ...oracle.formats import FORMATS, INTEGERS, code_dtype
from ...oracle.rounding import Exact, encode
from .record import Codes, Compute


def _applies(case: OpCase) -> bool:
    return case.op == "convert" and case.result in INTEGERS and case.operands[0] in FORMATS


def _limits(element: str) -> tuple[int, int]:
    width, is_signed = INTEGERS[element]
    return (-1 << (width - 1), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)


def round_with(to_integer: Callable[[np.ndarray], np.ndarray]) -> Compute:
    """Conversions that round instead of truncating; results beyond the type lose their upper bits."""

    def compute(case: OpCase, operands: Operands) -> Codes | None:
        if not _applies(case):
            return None
        numbers = FORMATS[case.operands[0]].decode(operands[0])
        low, high = _limits(case.result)
        fits = (numbers > low - 1) & (numbers < high + 1.0)
        mask = np.uint64((1 << INTEGERS[case.result][0]) - 1)
        codes = np.where(fits, to_integer(numbers), 0.0).astype(np.int64).view(np.uint64) & mask
        converted_ = convert(operands[0], case.operands[0], case.result).codes
        return np.where(fits, codes.astype(converted_.dtype), converted_)

    return compute


def wrap_through(bits: int) -> Compute:
    """Conversions that pass through an integer type of the given number of bits."""

    def compute(case: OpCase, operands: Operands) -> Codes | None:
        if not _applies(case):
            return None
        whole = np.trunc(FORMATS[case.operands[0]].decode(operands[0]))
        limit = 2.0 ** (bits - 1)
        fits = np.abs(np.nan_to_num(whole, nan=np.inf)) < limit
        number = np.where(fits, whole, -limit).astype(np.int64)
        mask = (1 << INTEGERS[case.result][0]) - 1
        return (number & mask if mask < 1 << 63 else number).astype(np.uint64).astype(code_dtype(case.result))

    return compute


def limits_in_format(case: OpCase, operands: Operands) -> Codes | None:
    """Comparison of the number with the integer type's limits rounded to the format."""
    if not _applies(case):
        return None
    fmt, width = FORMATS[case.operands[0]], INTEGERS[case.result][0]
    low, high = _limits(case.result)
    lowest, highest = fmt.decode(encode(fmt, Exact.of(np.array([float(low), float(high)])))[0])
    x = fmt.decode(operands[0])
    codes = convert(operands[0], case.operands[0], case.result).codes
    mask = (1 << width) - 1
    codes = np.where(x >= highest, np.array(high, codes.dtype), codes)
    return np.where((x <= lowest) & (x < 0), np.array(low & mask, codes.dtype), codes)
