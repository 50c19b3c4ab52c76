"""What is left open, which choices are known, and which of them a result is.

The questions that a format leaves open stand in `ops.minifloat.open_points`, with what each known implementation gives;
here are the same for whole groups of operands, and for the few points that are not the format's but the operation's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ....ops.minifloat.open_points import OPEN_POINTS, OpenPoint
from ..cases import rounding
from ..cases.formats import FORMATS, INTEGERS, Format

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


_LARGEST = ("the largest number", _signed_like(lambda f: f.max_code))
_NAN = ("NaN", lambda f, got, _: f.is_nan(got))
_NO_INFINITY = ("NaN", lambda f, got, _: f.is_nan(got) & (not f.has_infinity))
_ZERO = ("zero", lambda f, got, _: (got & f.ones == 0) & ~f.is_nan(got))
_SMALLEST = ("the smallest number", _is(_zero))
_BEYOND = (("infinity", _signed_like(lambda f: f.infinity_code)), _NO_INFINITY, _LARGEST)

_INVALID = (
    ("+0", _is(_zero)),
    ("-0", _is(lambda f: f.sign_bit)),
    ("the largest number", _is(lambda f: f.max_code)),
    ("the lowest number", _is(lambda f: f.max_code | f.sign_bit)),
)

#: Of each open point the choices that are known. What is none of them is wrong.
CHOICES: dict[int, tuple[tuple[str, Fits], ...]] = {
    rounding.OVERFLOW: _BEYOND,
    rounding.INFINITE: (*_BEYOND, _ZERO),
    rounding.INVALID: _INVALID,
    rounding.FROM_NAN: _INVALID,
    rounding.FROM_NEGATIVE_NAN: _INVALID,
    rounding.NEGATIVE: (_NAN, _SMALLEST, ("the number without its sign", lambda _, got, __: np.zeros(got.shape, bool))),
    rounding.ZERO: (_NAN, _SMALLEST),
    rounding.SMALL: (_NAN, _SMALLEST),
    rounding.TIE: (
        ("the larger", lambda _, got, expected: got == expected),
        ("the smaller", lambda _, got, expected: got == expected - 1),
        ("the one of even code", lambda _, got, __: np.zeros(got.shape, bool)),  # which `by_rule` knows
    ),
    rounding.ABOVE: (("the largest number", lambda _, got, expected: got == expected), _NAN),
    rounding.ZEROS: (("+0", _is(_zero)), ("-0", _is(lambda f: f.sign_bit))),
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

#: The question of each point in the table of open points, for one format of each kind; "" where that has none.
_QUESTIONS = {
    rounding.INVALID: "an invalid operation (0/0) in a format without NaN",
    rounding.FROM_NAN: "NaN converted to a format without NaN",
    rounding.FROM_NEGATIVE_NAN: "NaN with its sign set, converted to a format without NaN",
    rounding.INFINITE: "an infinite result (1/0) in a format without infinity and NaN",
    rounding.NEGATIVE: "a negative number in a format without sign",
    rounding.ZERO: "zero in a format without zero",
    rounding.SMALL: "a positive result below the smallest number, in a format without zero (2**-127 / 2)",
    rounding.TIE: "ties in a format of one significant bit, whose significands are all odd (3 lies between 2 and 4)",
}
_WORDS = {
    rounding.OVERFLOW: "a result beyond the largest number",
    rounding.INFINITE: "an infinite result",
    rounding.ZEROS: "the sign of a zero (the larger or smaller of +0 and -0; sign of -0)",
    rounding.NAN_ORDER: "the place of the NaN without sign in the total order",
    rounding.NOT_AN_INTEGER: "a number beyond the integer type, or NaN",
    rounding.WRAPPED: "an integer beyond the integer type",
    rounding.ABOVE: "a number above the largest that is nearest to it, in a format of one significant bit",
}


def names(point: int) -> tuple[str, ...]:
    """The choices of an open point."""
    if point == rounding.NAN_ORDER:
        return "last, after infinity", "first, before -infinity"
    if point == rounding.NOT_AN_INTEGER:
        return "the nearest integer, 0 for NaN", "another integer"
    if point == rounding.WRAPPED:
        return "its lowest bits", "the nearest integer"
    return tuple(name for name, _ in CHOICES[point])


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
    found = np.full(got.shape, -1)
    for i, (_, fits) in reversed(list(enumerate(CHOICES[point]))):
        found = np.where(fits(fmt, got, expected), i, found)
    if point == rounding.OVERFLOW and fmt.nan == "none":
        found = np.where(got == expected, found, -1)  # there is nothing else than the largest number
    return found


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
        # Of sorts `rows` has found already whether rows are in the one order or the other.
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


def told(point: int, result: str, chosen: dict[str, int]) -> str:
    """A sentence on what a backend makes of an open point: the choices with how often each was made."""
    row = _open_point(point, result)
    question = row.question if row else _WORDS[point]
    made = ", or ".join(sorted(chosen, key=lambda c: -chosen[c]))
    others = _who(row, point, set(chosen)) if row else ""
    return f"{question}: {made}{others}"


@functools.cache
def _open_point(point: int, result: str) -> OpenPoint | None:
    question = _QUESTIONS.get(point)
    return next((p for p in OPEN_POINTS if p.question == question and result in p.formats), None)


def _who(row: OpenPoint, point: int, chosen: set[str]) -> str:
    """ ", as XLA CPU": the implementations that make the same choice at the table's example."""
    fmt = FORMATS[row.result_type]
    codes = np.array([row.code, *row.others.values()], fmt.code_dtype)
    made = choose(point, row.result_type, codes, np.full_like(codes, row.code))
    which = ("minihlo", *(name.split(",")[0].split(" 0")[0] for name in row.others))
    alike = [who for who, c in zip(which, made, strict=True) if c >= 0 and names(point)[c] in chosen]
    return f", as {', '.join(alike)}" if alike and len(chosen) == 1 else ""
