"""Which choice a result is where a format or an operation leaves it open.

Each open point has choices that are known, each a record with an identifier. What is none of them is wrong.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ...ops.minifloat.open_points import OPEN_POINTS, OpenPoint
from ..oracle import rounding
from ..oracle.formats import FORMATS, INTEGERS, Format
from .open_points import IDENTIFIERS, row

Codes = np.ndarray
Fits = Callable[[Format, Codes, Codes], np.ndarray]  #: of the format, the results and the expected ones


def _signed_like(code: Callable[[Format], int | None]) -> Fits:
    """The code with the sign of the expected result."""

    def fits(fmt: Format, got: Codes, expected: Codes) -> np.ndarray:
        wanted = code(fmt)
        if wanted is None:
            return np.zeros(got.shape, bool)
        signed = np.array(wanted, got.dtype) | (expected & np.array(fmt.sign_bit, got.dtype))
        lost = fmt.is_nan(expected) & (fmt.nan == "sign")  # a NaN that has no sign to go by
        return (got == signed) | (lost & (got & fmt.ones == wanted) & (got != fmt.sign_bit))

    return fits


def _is(code: Callable[[Format], int | None]) -> Fits:
    return lambda fmt, got, _: got == code(fmt) if code(fmt) is not None else np.zeros(got.shape, bool)


def _zero(_: Format) -> int:
    return 0


@dataclasses.dataclass(frozen=True)
class Choice:
    """What an implementation may give at an open point."""

    identifier: str
    sentence: str
    fits: Fits = lambda _, got, __: np.zeros(got.shape, bool)  #: which results are of this choice, by themselves


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


#: Of each open point the choices that are known.
CHOICES: dict[int, tuple[Choice, ...]] = {
    rounding.OVERFLOW: _BEYOND,
    rounding.INFINITE: (*_BEYOND, _ZERO),
    rounding.INVALID: _INVALID,
    rounding.FROM_NAN: _INVALID,
    rounding.FROM_NEGATIVE_NAN: _INVALID,
    # `by_rule` recognizes the choices that have no test of single results.
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
    # What is not the default is the other.
    rounding.NAN_ORDER: (Choice("last", "last, after infinity"), Choice("first", "first, before -infinity")),
    rounding.NOT_AN_INTEGER: (
        Choice("nearest", "the nearest integer, 0 for NaN"),
        Choice("other", "another integer"),
    ),
    rounding.WRAPPED: (Choice("lowest-bits", "its lowest bits"), Choice("nearest", "the nearest integer")),
}

#: Points at which a backend has one rule: what departs from it now and then is wrong, though it might be a rule too.
ONE_RULE = (rounding.OVERFLOW, rounding.TIE, rounding.NAN_ORDER)
#: Points at which what is right depends on all that the backend gives.
RULED = (*ONE_RULE, rounding.NEGATIVE)
#: Among the choices those that are known by the rule: the number without its sign, the neighbour of even code.
_MAGNITUDE, _EVEN = 2, 2
_SMALLEST_ONE = 1
#: What part of negative numbers has to lose its sign for that to be a rule.
_MOSTLY = 0.75
#: What part of results has to be another choice than the usual one for that to be the rule; one of two signs is half.
_ALMOST = 0.75


def choose(point: int, result: str, got: Codes, expected: Codes) -> np.ndarray:
    """Which of the choices each result is; -1 for none."""
    if point in (rounding.NAN_ORDER, rounding.NOT_AN_INTEGER):  # whatever is not the default is the other
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
        index = np.where(got == expected, index, -1)  # there is nothing else than the largest number
    return index


def by_rule(point: int, result: str, got: Codes, expected: Codes, magnitudes: Codes | None) -> tuple[Codes, Codes]:
    """The codes that are right at one of RULED by what the backend does most, and which of the choices each result is.

    `magnitudes` is what negative numbers give without their sign.
    """
    chosen = choose(point, result, got, expected)
    if point == rounding.NEGATIVE:
        return (
            (expected, chosen) if magnitudes is None else _unsigned(FORMATS[result], got, expected, magnitudes, chosen)
        )
    known = chosen[chosen >= 0]
    if not known.size:
        return expected, chosen
    usual = choose(point, result, expected, expected)
    rule = _rule(known, usual)
    if point == rounding.NAN_ORDER:
        # Of sorts `rows` has compared each row with both orders before.
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
    """The choice that a backend makes: what is usual, unless it does otherwise almost always."""
    counts = np.bincount(known)
    most = int(counts.argmax())
    return most if counts[most] > _ALMOST * known.size else int(np.bincount(usual[usual >= 0], minlength=1).argmax())


def _unsigned(fmt: Format, got: Codes, expected: Codes, magnitudes: Codes, chosen: Codes) -> tuple[Codes, Codes]:
    """`by_rule` of negative numbers, which lose their sign or do not. Those at the ends are no evidence of that: what
    is so small as to vanish, or beyond the largest, has choices of its own, with its sign or without."""
    is_small, is_beyond = magnitudes == 0, magnitudes >= fmt.max_code
    inner = ~is_small & ~is_beyond
    if np.count_nonzero(got[inner] == magnitudes[inner]) <= _MOSTLY * np.count_nonzero(inner):
        return expected, chosen
    fits = (got == magnitudes) | (is_beyond & (got >= fmt.max_code)) | (is_small & fmt.is_nan(got))
    return magnitudes, np.where(fits, _MAGNITUDE, np.where(chosen == _SMALLEST_ONE, chosen, -1))


def counted(point: int, chosen: np.ndarray) -> dict[str, int]:
    """How often each choice was made, by its identifier, of what `choose` or `by_rule` give."""
    return dict(Counter(CHOICES[point][c].identifier for c in chosen[chosen >= 0].tolist()))


def sentence(point: int, result: str, chosen: Mapping[str, int], table: Iterable[OpenPoint] = OPEN_POINTS) -> str:
    """A sentence on what a backend makes of an open point: the choices, the most frequent first.

    Args:
        point: a byte of `oracle.rounding`.
        result: the element type of the results.
        chosen: how often each choice was made, by its identifier.
        table: the open points of the formats.
    """
    point_row = row(IDENTIFIERS[point], result, table)
    words = {c.identifier: c.sentence for c in CHOICES[point]}
    made = ", or ".join(words[c] for c in sorted(chosen, key=lambda c: -chosen[c]))
    others = _who(point_row, point, set(chosen)) if isinstance(point_row, OpenPoint) else ""
    return f"{point_row.question}: {made}{others}"


def _who(open_point: OpenPoint, point: int, chosen: set[str]) -> str:
    """ ", as XLA CPU": the implementations that make the same choice at the table's example."""
    fmt = FORMATS[open_point.result_type]
    codes = np.array([open_point.code, *open_point.others.values()], fmt.code_dtype)
    made = choose(point, open_point.result_type, codes, np.full_like(codes, open_point.code))
    which = ("minihlo", *(name.split(",")[0].split(" 0")[0] for name in open_point.others))
    choices = CHOICES[point]
    alike = [who for who, c in zip(which, made, strict=True) if c >= 0 and choices[c].identifier in chosen]
    return f", as {', '.join(alike)}" if alike and len(chosen) == 1 else ""
