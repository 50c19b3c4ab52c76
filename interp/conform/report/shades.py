"""The colour of an element in a picture: by its error, or if it is right by the region of its result.

The colours can be distinguished without red and green vision. Transparent pixels show the page's colour, so that one
picture serves light and dark pages.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from ...oracle.exact import OPS, estimate
from ...oracle.formats import FORMATS
from ..result import ABSENT, CUT, IS_INFINITE, IS_NAN, NOT_NAN, OPEN, UNTRIED, WRONG_ZERO, CaseResult


@dataclasses.dataclass(frozen=True)
class Shade:
    """A kind of element: its colour (red, green, blue, opacity) and its name."""

    colour: tuple[int, int, int, int]
    words: str
    lane: str = ""  #: the name of its line above a curve, if it is at no distance
    error: int | None = None  #: the error in `result.ErrorMap` that it stands for

    @property
    def css(self) -> str:
        """The colour in CSS."""
        r, g, b, a = self.colour
        return f"rgb({r} {g} {b} / {a / 255:.2f})"


#: The kinds, in the order of the legend. First those of right results, by region.
SHADES: dict[str, Shade] = {
    "right": Shade((128, 128, 128, 20), "right"),
    "subnormal": Shade((0, 158, 115, 80), "right, and subnormal"),
    "overflow": Shade((128, 128, 128, 120), "right, and beyond the largest number"),
    "nan": Shade((128, 128, 128, 190), "right, and NaN"),
    "small-4": Shade((75, 70, 210, 255), "too small by more than 16 ULP"),
    "small-3": Shade((0, 110, 190, 255), "too small by 5 to 16 ULP"),
    "small-2": Shade((60, 160, 225, 255), "too small by 2 to 4 ULP"),
    "small-1": Shade((140, 205, 245, 255), "too small by 1 ULP"),
    "large-1": Shade((250, 200, 90, 255), "too large by 1 ULP"),
    "large-2": Shade((240, 150, 20, 255), "too large by 2 to 4 ULP"),
    "large-3": Shade((215, 90, 0, 255), "too large by 5 to 16 ULP"),
    "large-4": Shade((185, 25, 20, 255), "too large by more than 16 ULP"),
    "is-nan": Shade((215, 80, 160, 255), "NaN, and should be a number", "NaN", IS_NAN),
    "not-nan": Shade((150, 70, 180, 255), "a number, and should be NaN", "not NaN", NOT_NAN),
    "infinite": Shade((135, 95, 45, 255), "infinite, and should not be", "infinite", IS_INFINITE),
    "zero": Shade((190, 175, 0, 255), "a zero of the wrong sign", "sign of 0", WRONG_ZERO),
    "open": Shade((86, 140, 170, 150), "left open", "left open", OPEN),
    "absent": Shade((110, 90, 80, 255), "no result", "no result", ABSENT),
    "wrong": Shade((215, 90, 0, 255), "wrong", "wrong"),
    "untried": Shade((0, 0, 0, 0), "not tried"),
}
NAMES = list(SHADES)
_STEPS = (1, 4, 16, CUT)  #: the largest distance of each strength of a colour
RIGHT = 4  #: number of shades of right results, which come first


def shades(case: CaseResult, errors: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    """The index in SHADES of each element; `operands` are numbers, none if the elements are in their own order."""
    shaded = regions(case, *operands) if operands else np.zeros(errors.shape, np.uint8)
    for sign, word in ((-1, "small"), (1, "large")):
        size = errors.astype(int) * sign
        for i in range(4):
            shaded[(size > (0, *_STEPS)[i]) & (size <= CUT)] = NAMES.index(f"{word}-{i + 1}")
    for i, shade in enumerate(SHADES.values()):
        if shade.error is not None:
            shaded[errors == shade.error] = i
    if case.result == "i1":
        shaded[is_wrong(errors)] = NAMES.index("wrong")
    shaded[errors == UNTRIED] = NAMES.index("untried")
    return shaded


def is_wrong(errors: np.ndarray) -> np.ndarray:
    """Tests which elements were tried and are not right."""
    return (errors != 0) & (errors != OPEN) & (errors != UNTRIED)


def regions(case: CaseResult, *operands: np.ndarray) -> np.ndarray:
    """The region of the format that contains each right result."""
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    fmt, numbers = FORMATS.get(case.result), np.zeros(shape, np.uint8)
    if fmt is None or case.op not in (*OPS, "convert") or case.form == "chain":
        return numbers
    result = np.broadcast_to(estimate(case.op, *operands), shape)
    smallest_normal = 2.0**fmt.min_exponent if fmt.has_zero else 2.0 ** (fmt.min_exponent + 1)
    numbers[(result != 0) & (np.abs(result) < smallest_normal)] = NAMES.index("subnormal")
    half = math.ldexp(0.5, math.frexp(fmt.max)[1] - 1 - fmt.mantissa_bits)  # to the number after the largest
    numbers[np.abs(result) > fmt.max + half] = NAMES.index("overflow")
    numbers[np.isnan(result) | ((result <= 0) & (not fmt.has_zero))] = NAMES.index("nan")
    return numbers


def legend(shaded: np.ndarray) -> list[tuple[str, str, int]]:
    """The colours of the shades that occur, each with its name and count."""
    counts = np.bincount(shaded.ravel(), minlength=len(NAMES)).tolist()
    return [(s.css, s.words, n) for s, n in zip(SHADES.values(), counts, strict=True) if n]


def runs(kinds: np.ndarray) -> list[tuple[int, int, int]]:
    """Runs of equal elements: where they begin and end, and the element."""
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    return [(a, b, int(kinds[a])) for a, b in itertools.pairwise(edges) if b > a]
