"""The right results of elementwise cases, and the open point of each."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from .case import OpCase, Operands
from .exact import COMPARISONS, FUNCTIONS, compare, estimate, evaluate, total_order
from .formats import FORMATS, INTEGERS, Format, all_codes, bits, code_dtype, integers
from .rounding import (
    EVEN,
    FROM_NAN,
    FROM_NEGATIVE_NAN,
    INVALID,
    NAN_ORDER,
    NOT_AN_INTEGER,
    WRAPPED,
    ZEROS,
    Exact,
    encode,
)


@dataclasses.dataclass(frozen=True)
class Expected:
    """The right results: codes, and the open point of each (rounding.py)."""

    codes: np.ndarray
    left_open: np.ndarray
    #: For conversions to a format without sign: the results of the magnitudes.
    magnitudes: np.ndarray | None = None
    #: For functions: where the exact result is zero. A result that rounds to zero may have either sign if it is
    #: inaccurate.
    is_zero: np.ndarray | None = None
    #: For functions that the specification defines by a formula: the result with each step rounded.
    by_steps: np.ndarray | None = None

    def at(self, places: np.ndarray) -> Expected:
        """The results at some indices."""
        parts = self.codes, self.left_open, self.magnitudes, self.is_zero, self.by_steps
        return Expected(*(None if x is None else x[places] for x in parts))  # pyright: ignore[reportArgumentType]


#: The conversions of floats to integers: StableHLO's, and those of some backends' own specifications.
TO_INTEGERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"toward zero": np.trunc, "to nearest even": np.rint}


def expected(case: OpCase, operands: Operands, to_integers: str = "toward zero") -> Expected:
    """The right results of an elementwise case; `to_integers` is one of TO_INTEGERS."""
    with np.errstate(all="ignore"):
        if case.op == "convert":
            return convert(operands[0], case.operands[0], case.result, to_integers=to_integers)
        element = case.operands[-1]
        closed = np.zeros(len(operands[0]), np.uint8)
        if case.op == "type":
            return Expected(operands[0], closed)
        if case.op == "select":
            return Expected(np.where(operands[0], operands[1], operands[2]), closed)
        if case.op == "is_finite":
            return Expected(np.isfinite(FORMATS[element].decode(operands[0])), closed)
        if case.op == "compare":
            return _compare(case, operands, element)
        if case.op == "clamp":
            return _clamp(element, operands)
        return look_up(case.op, element, operands)


def look_up(op: str, element: str, operands: Operands) -> Expected:
    """Results of an op on one type; those for all pairs are cached."""
    fmt = FORMATS[element]
    if fmt.bits > 8 or len(operands[0]) < 1 << fmt.bits:
        return _with_zeros(op, element, operands, _evaluate(op, fmt, operands))
    table = _table(op, element)
    place = operands[0].astype(np.intp)
    if len(operands) == 2:
        place = (place << fmt.bits) | operands[1]
    return table.at(place)


@functools.lru_cache(64)
def _table(op: str, element: str) -> Expected:
    from .exact import arity

    codes = all_codes(element)
    pairs = (codes,) if arity(op) == 1 else tuple(g.ravel() for g in np.meshgrid(codes, codes, indexing="ij"))
    fmt = FORMATS[element]
    return _with_zeros(op, element, pairs, _evaluate(op, fmt, pairs))


def _evaluate(op: str, fmt: Format, operands: Operands) -> Expected:
    numbers = [fmt.decode(x) for x in operands]
    codes, left_open = evaluate(op, fmt, *numbers)
    is_zero = estimate(op, *numbers) == 0 if op in FUNCTIONS else None
    return Expected(codes, left_open, None, is_zero, logistic_by_steps(fmt, *numbers) if op == "logistic" else None)


def logistic_by_steps(fmt: Format, x: np.ndarray) -> np.ndarray:
    """The codes of 1 / (1 + exp(-x)), the specification's formula, with each step rounded."""
    one = np.ones(len(x))
    power = fmt.decode(evaluate("exponential", fmt, -x)[0])
    below = fmt.decode(evaluate("add", fmt, one, power)[0])
    return evaluate("divide", fmt, one, below)[0]


def _with_zeros(op: str, element: str, operands: Operands, right: Expected) -> Expected:
    """Marks extremes of two different zeros, and the sign of -0, where libraries differ from StableHLO."""
    if op == "sign":
        negative_zero = (right.codes == operands[0]) & (right.codes & FORMATS[element].ones == 0)
        negative_zero &= np.signbit(FORMATS[element].decode(right.codes)) & ~FORMATS[element].is_nan(right.codes)
        return Expected(right.codes, np.where(negative_zero, np.uint8(ZEROS), right.left_open))
    if op not in ("maximum", "minimum"):
        return right
    x, y = (FORMATS[element].decode(c) for c in operands)
    unlike = (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
    return Expected(right.codes, np.where(unlike, np.uint8(ZEROS), right.left_open))


def _clamp(element: str, operands: Operands) -> Expected:
    low, x, high = operands
    first = look_up("maximum", element, (x, low))
    second = look_up("minimum", element, (first.codes, high))
    # A zero that came from unlike zeros, first or second.
    is_zero = FORMATS[element].decode(second.codes) == 0
    either = ((first.left_open == ZEROS) | (second.left_open == ZEROS)) & is_zero
    return Expected(second.codes, np.where(either, np.uint8(ZEROS), np.uint8(0)))


def _compare(case: OpCase, operands: Operands, element: str) -> Expected:
    direction, kind = (value for _, value in case.attributes)
    result = compare(direction, kind, element, *operands)
    left_open = np.zeros(len(result), np.uint8)
    fmt = FORMATS[element]
    if kind == "TOTALORDER" and fmt.nan == "sign":
        first = COMPARISONS[direction](*(total_order(fmt, x, nan_first=True) for x in operands))
        left_open = np.where(first != result, np.uint8(NAN_ORDER), left_open)
    return Expected(result, left_open)


# -- conversions -------------------------------------------------------------------------------------------------------


def as_exact(codes: np.ndarray, element: str) -> Exact:
    """The exact numbers of codes."""
    if element in FORMATS:
        return Exact.of(FORMATS[element].decode(codes))
    if element == "i1":
        return Exact.of(codes.astype(np.float64))
    whole = integers(codes, element)
    if bits(element) < 64:
        return Exact.of(whole.astype(np.float64))
    nearest = whole.astype(np.float64)  # may exceed the largest integer by one
    beyond = nearest >= 2.0 ** (64 if element == "ui64" else 63)
    back = np.where(beyond, 0.0, nearest).astype(whole.dtype)
    side = np.where(beyond, -1, (whole > back).astype(np.int8) - (whole < back))
    return Exact(nearest, side.astype(np.int8))


def _sign(exact: Exact) -> np.ndarray:
    return np.where(np.signbit(exact.value), np.int8(-1), np.int8(1))


def convert(
    codes: np.ndarray, source: str, target: str, rounding: str = EVEN, to_integers: str = "toward zero"
) -> Expected:
    """Converts between any two types."""
    if source not in FORMATS and target not in FORMATS:
        return _between_integers(codes, source, target)
    exact = as_exact(codes, source)
    if target in FORMATS:
        result, left_open = encode(FORMATS[target], exact, rounding)
        of_nan = np.where(np.signbit(exact.value), np.uint8(FROM_NEGATIVE_NAN), np.uint8(FROM_NAN))
        magnitudes = None
        if not FORMATS[target].is_signed:
            magnitudes, _ = encode(FORMATS[target], Exact(np.abs(exact.value), exact.side * _sign(exact)), rounding)
        return Expected(result, np.where(left_open == INVALID, of_nan, left_open), magnitudes)
    if target == "i1":
        return Expected(exact.value != 0, np.zeros(len(codes), np.uint8))
    width, is_signed = INTEGERS[target]
    low, high = (-1 << (width - 1), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    whole = TO_INTEGERS[to_integers](exact.value)
    inside = (whole >= low) & (whole < high + 1)
    least, most = np.uint64(low & ((1 << width) - 1)), np.uint64(high)
    cut = np.where(np.isnan(whole), np.uint64(0), np.where(whole < 0, least, most))
    fits = np.where(inside, whole, 0.0)
    result = np.where(fits < 0, fits.astype(np.int64).view(np.uint64), np.abs(fits).astype(np.uint64))
    mask = np.uint64((1 << width) - 1)
    result = np.where(inside, result & mask, cut).astype(code_dtype(target))
    return Expected(result, np.where(inside, np.uint8(0), np.uint8(NOT_AN_INTEGER)))


def _between_integers(codes: np.ndarray, source: str, target: str) -> Expected:
    """The lowest bits of an integer, in two's complement if negative; those beyond the type may be truncated."""
    whole = codes.astype(np.int64) if source == "i1" else integers(codes, source)
    if target == "i1":
        return Expected(whole != 0, np.zeros(len(codes), np.uint8))
    width, is_signed = INTEGERS[target]
    pattern = whole if whole.dtype == np.uint64 else whole.view(np.uint64)
    cut = (pattern & np.uint64((1 << width) - 1)).astype(code_dtype(target))
    back = integers(cut, target)
    same = (back == whole) if back.dtype == whole.dtype else (back.astype(np.int64) == whole.astype(np.int64))
    if back.dtype != whole.dtype:  # for types of 64 bits without and with sign: negative numbers are beyond the other
        same &= (whole if whole.dtype == np.int64 else back.astype(np.int64)) >= 0
    return Expected(cut, np.where(same, np.uint8(0), np.uint8(WRAPPED)))
