"""Open points of formats and operations, by identifier, and the choices that implementations make there.

The points of the formats are in `ops.minifloat.open_points`, with the results of each known implementation; those of
operations are in `table`. Each open point has a list of known choices. A result that matches none is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ...ops.minifloat.open_points import OPEN_POINTS, OpenPoint
from ..oracle import rounding
from ..oracle.formats import FORMATS, INTEGERS, Format
from .record import Choice, Codes
from .table import OPEN_POINTS as OF_OPERATIONS

#: The identifier of each byte by which the oracle marks open results (`oracle.rounding`).
IDENTIFIERS: dict[int, str] = {
    rounding.OVERFLOW: "overflow",
    rounding.INFINITE: "infinite-result",
    rounding.INVALID: "invalid-operation",
    rounding.NEGATIVE: "negative-number",
    rounding.ZERO: "zero-result",
    rounding.SMALL: "below-smallest",
    rounding.TIE: "tie",
    rounding.FROM_NAN: "nan-converted",
    rounding.FROM_NEGATIVE_NAN: "negative-nan-converted",
    rounding.ZEROS: "signs-of-zeros",
    rounding.NAN_ORDER: "nan-order",
    rounding.NOT_AN_INTEGER: "beyond-integer",
    rounding.WRAPPED: "integer-beyond-integer",
    rounding.ABOVE: "above-largest",
}


def row(identifier: str, element: str, table: Iterable[OpenPoint] = OPEN_POINTS) -> OpenPoint | None:
    """The row of a format's open point for an element type; None if an operation leaves the results open."""
    return next((p for p in table if p.identifier == identifier and element in p.formats), None)


def question(identifier: str, element: str, table: Iterable[OpenPoint] = OPEN_POINTS) -> str:
    """The sentence of an open point for an element type. Raises KeyError for one that is in no table."""
    of_format = row(identifier, element, table)
    return OF_OPERATIONS[identifier] if of_format is None else of_format.question


Fits = Callable[[Format, Codes, Codes], np.ndarray]  #: of the format, the results and the expected results


def _signed_like(code: Callable[[Format], int | None]) -> Fits:
    """The code with the sign of the expected result."""

    def fits(fmt: Format, got: Codes, expected: Codes) -> np.ndarray:
        wanted = code(fmt)
        if wanted is None:
            return np.zeros(got.shape, bool)
        signed = np.array(wanted, got.dtype) | (expected & np.array(fmt.sign_bit, got.dtype))
        lost = fmt.is_nan(expected) & (fmt.nan == "sign")  # the sign of a NaN without sign is unknown
        return (got == signed) | (lost & (got & fmt.ones == wanted) & (got != fmt.sign_bit))

    return fits


def _is(code: Callable[[Format], int | None]) -> Fits:
    return lambda fmt, got, _: got == code(fmt) if code(fmt) is not None else np.zeros(got.shape, bool)


def _zero(_: Format) -> int:
    return 0


_LARGEST = Choice("largest", "the largest number", _signed_like(lambda f: f.max_code))
_NAN = Choice("nan", "NaN", lambda f, got, _: f.is_nan(got))
_NO_INFINITY = Choice("nan", "NaN", lambda f, got, _: f.is_nan(got) & (not f.has_infinity))
_ZERO = Choice("zero", "zero", lambda f, got, _: (got & f.ones == 0) & ~f.is_nan(got))
_SMALLEST = Choice("smallest", "the smallest number", _is(_zero))
_PLUS_ZERO, _MINUS_ZERO = Choice("plus-zero", "+0", _is(_zero)), Choice("minus-zero", "-0", _is(lambda f: f.sign_bit))
_BEYOND = (Choice("infinity", "infinity", _signed_like(lambda f: f.infinity_code)), _NO_INFINITY, _LARGEST)
_INVALID = (
    _PLUS_ZERO,
    _MINUS_ZERO,
    Choice("largest", "the largest number", _is(lambda f: f.max_code)),
    Choice("lowest", "the lowest number", _is(lambda f: f.max_code | f.sign_bit)),
)


def _as_expected(_: Format, got: Codes, expected: Codes) -> np.ndarray:
    return got == expected


#: The known choices of each open point.
CHOICES: dict[int, tuple[Choice, ...]] = {
    rounding.OVERFLOW: _BEYOND,
    rounding.INFINITE: (*_BEYOND, _ZERO),
    rounding.INVALID: _INVALID,
    rounding.FROM_NAN: _INVALID,
    rounding.FROM_NEGATIVE_NAN: _INVALID,
    # `apply_rule` recognizes the choices that have no test of single results.
    rounding.NEGATIVE: (_NAN, _SMALLEST, Choice("magnitude", "the number without its sign")),
    rounding.ZERO: (_NAN, _SMALLEST),
    rounding.SMALL: (_NAN, _SMALLEST),
    rounding.TIE: (
        Choice("larger", "the larger", _as_expected),
        Choice("smaller", "the smaller", lambda _, got, expected: got == expected - 1),
        Choice("even", "the one of even code"),
    ),
    rounding.ABOVE: (Choice("largest", "the largest number", _as_expected), _NAN),
    rounding.ZEROS: (_PLUS_ZERO, _MINUS_ZERO),
    # A result that is not the default is the other choice.
    rounding.NAN_ORDER: (Choice("last", "last, after infinity"), Choice("first", "first, before -infinity")),
    rounding.NOT_AN_INTEGER: (Choice("nearest", "the nearest integer, 0 for NaN"), Choice("other", "another integer")),
    rounding.WRAPPED: (Choice("lowest-bits", "its lowest bits"), Choice("nearest", "the nearest integer")),
}

#: Points at which a backend follows one rule: an occasional departure from it is wrong, even if it is itself a choice.
ONE_RULE = (rounding.OVERFLOW, rounding.TIE, rounding.NAN_ORDER)
#: Points at which the right results depend on all results of the backend.
RULED = (*ONE_RULE, rounding.NEGATIVE)
#: Choices recognized only by rule: the number without its sign, the neighbour with an even code.
_MAGNITUDE, _EVEN = 2, 2
_SMALLEST_ONE = 1
#: Negative numbers lose their sign by rule if more than this share of them does.
_MOSTLY = 0.75
#: Another choice than the default is the rule if more than this share of results makes it; one of two signs is half.
_ALMOST = 0.75


def classify(point: int, result: str, got: Codes, expected: Codes) -> np.ndarray:
    """The index of the choice that each result makes; -1 for none."""
    if point in (rounding.NAN_ORDER, rounding.NOT_AN_INTEGER):  # every result but the default
        return np.where(got == expected, 0, 1)
    if point == rounding.WRAPPED:
        width, is_signed = INTEGERS[result]
        most = (1 << (width - is_signed)) - 1
        is_end = (got == most) | (got == ((most + 1) if is_signed else 0))
        return np.where(got == expected, 0, np.where(is_end, 1, -1))
    fmt = FORMATS[result]
    index = np.full(got.shape, -1)
    for i, choice in reversed(list(enumerate(CHOICES[point]))):
        index = np.where(choice.fits(fmt, got, expected), i, index)
    if point == rounding.OVERFLOW and fmt.nan == "none":
        index = np.where(got == expected, index, -1)  # the largest number is the only choice
    return index


def apply_rule(point: int, result: str, got: Codes, expected: Codes, magnitudes: Codes | None) -> tuple[Codes, Codes]:
    """The right codes at one of RULED, given the backend's usual choice, and the choice that each result makes.

    `magnitudes` has the results of negative numbers without their sign.
    """
    chosen = classify(point, result, got, expected)
    if point == rounding.NEGATIVE and magnitudes is not None:
        return _apply_sign_rule(FORMATS[result], got, expected, magnitudes, chosen)
    if point == rounding.NEGATIVE:
        return expected, chosen
    known = chosen[chosen >= 0]
    if not known.size:
        return expected, chosen
    usual = classify(point, result, expected, expected)
    rule = _rule(known, usual)
    if point == rounding.NAN_ORDER:
        # `rows` has already compared each row of a sort with both orders.
        return (expected ^ bool(rule) if got.dtype == bool else got), chosen
    if point == rounding.TIE:
        if 0 < known.sum() < known.size and not (got[chosen >= 0] & 1).any():
            return expected & ~np.array(1, expected.dtype), np.where(chosen >= 0, _EVEN, chosen)
        return (expected - rule).astype(expected.dtype), chosen
    fmt = FORMATS[result]
    code = (fmt.infinity_code, fmt.nan_code, fmt.max_code)[rule]
    if code is None or (usual == rule).all():
        return expected, chosen
    lost = fmt.is_nan(expected) & (fmt.nan == "sign")
    sign = np.where(lost, got, expected) & np.array(fmt.sign_bit, expected.dtype)
    return np.where(usual == rule, expected, np.array(code, expected.dtype) | sign), chosen


def _rule(known: np.ndarray, usual: np.ndarray) -> int:
    """The choice that a backend follows: the default, unless almost all results make another one."""
    counts = np.bincount(known)
    most = int(counts.argmax())
    return most if counts[most] > _ALMOST * known.size else int(np.bincount(usual[usual >= 0], minlength=1).argmax())


def _apply_sign_rule(fmt: Format, got: Codes, expected: Codes, magnitudes: Codes, chosen: Codes) -> tuple[Codes, Codes]:
    """`apply_rule` for negative numbers, which may lose their sign. Results at the ends of the range are no evidence of
    that: underflow and overflow have choices of their own, with or without the sign."""
    is_small, is_beyond = magnitudes == 0, magnitudes >= fmt.max_code
    inner = ~is_small & ~is_beyond
    if np.count_nonzero(got[inner] == magnitudes[inner]) <= _MOSTLY * np.count_nonzero(inner):
        return expected, chosen
    fits = (got == magnitudes) | (is_beyond & (got >= fmt.max_code)) | (is_small & fmt.is_nan(got))
    return magnitudes, np.where(fits, _MAGNITUDE, np.where(chosen == _SMALLEST_ONE, chosen, -1))


def count_choices(point: int, chosen: np.ndarray) -> dict[str, int]:
    """Counts the choices made, by identifier, given the indices from `classify` or `apply_rule`."""
    return dict(Counter(CHOICES[point][c].identifier for c in chosen[chosen >= 0].tolist()))


def sentence(point: int, result: str, chosen: Mapping[str, int], table: Iterable[OpenPoint] = OPEN_POINTS) -> str:
    """Describes a backend's choices at an open point, the most frequent first.

    Args:
        point: a byte of `oracle.rounding`.
        result: the element type of the results.
        chosen: number of results for each choice, by identifier.
        table: the open points of the formats.
    """
    of_format = row(IDENTIFIERS[point], result, table)
    words = {c.identifier: c.sentence for c in CHOICES[point]}
    made = ", or ".join(words[c] for c in sorted(chosen, key=lambda c: -chosen[c]))
    others = _agreeing_implementations(of_format, point, set(chosen)) if of_format is not None else ""
    return f"{question(IDENTIFIERS[point], result, table)}: {made}{others}"


def _agreeing_implementations(open_point: OpenPoint, point: int, chosen: set[str]) -> str:
    """ ", as XLA CPU": the implementations that make the same choice at the table's example."""
    fmt = FORMATS[open_point.result_type]
    codes = np.array([open_point.code, *open_point.others.values()], fmt.code_dtype)
    made = classify(point, open_point.result_type, codes, np.full_like(codes, open_point.code))
    which = ("minihlo", *(name.split(",")[0].split(" 0")[0] for name in open_point.others))
    choices = CHOICES[point]
    alike = [who for who, c in zip(which, made, strict=True) if c >= 0 and choices[c].identifier in chosen]
    return f", as {', '.join(alike)}" if alike and len(chosen) == 1 else ""
