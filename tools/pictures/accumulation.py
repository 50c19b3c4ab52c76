"""The growth of a dot product's error with its length, for several ways to form the sum."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np

from minihlo.interp import Policy
from minihlo.interp.api import load

from .svg import WIDTH, Picture

FORMAT, DTYPE = "f8E5M2", ml_dtypes.float8_e5m2
LENGTHS = tuple(2**i for i in range(15))
#: Dot products for each length; the error is the root of the mean of their squared relative errors.
_ROWS = 16
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, WIDTH - 30, 16, 330
_LOWEST, _HIGHEST = -9, 0  #: powers of ten


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to form the sum, and the style of its line."""

    accumulate: str
    result: str
    colour: str
    dashes: str
    label: str


WAYS = (
    Way("element", FORMAT, "red", "", f"element: rounded to {FORMAT} after every step"),
    Way("f32", FORMAT, "green", "", f"f32: summed in f32, rounded once, to {FORMAT}"),
    Way("exact", FORMAT, "blue", "", f"exact: rounded once, to {FORMAT}"),
    Way("element", "f32", "purple", "9 4", "element, result in f32: rounded to f32 after every step"),
    Way("exact", "f32", "faint", "1 4", "exact, result in f32: rounded once, to f32"),
)


def _operands(length: int, salt: int) -> np.ndarray:
    """Numbers between 0 and 1, the same on every machine: a hash of their places."""
    i = np.arange(_ROWS * length, dtype=np.uint64) + np.uint64(salt << 32)
    i = (i ^ (i >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    i = (i ^ (i >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return ((i >> np.uint64(40)) / 2.0**24).reshape(_ROWS, length)


def errors(way: Way, lengths: tuple[int, ...] = LENGTHS) -> list[float]:
    """The relative error for each length."""
    found = []
    for length in lengths:
        # Each row has a factor of its own, so that sums lie anywhere between two powers of two.
        x = (_operands(length, 1) * (1 + np.arange(_ROWS) / _ROWS)[:, None]).astype(DTYPE)
        y = _operands(length, 2).astype(DTYPE)
        # Products are multiples of 2**-32 and sums stay below 2**14: f64 holds them all.
        exact = np.einsum("ij,ij->i", x.astype(np.float64), y.astype(np.float64))
        of = f"tensor<{_ROWS}x{length}x{FORMAT}>"
        program = load(
            f"func.func @main(%x: {of}, %y: {of}) -> tensor<{_ROWS}x{way.result}> {{\n"
            "  %r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1]"
            f" : ({of}, {of}) -> tensor<{_ROWS}x{way.result}>\n  return %r : tensor<{_ROWS}x{way.result}>\n}}\n"
        )
        given = program(x, y, policy=Policy(accumulate=way.accumulate))[0].astype(np.float64)
        found.append(float(np.sqrt(np.mean(((given - exact) / exact) ** 2))))
    return found


def accumulators() -> str:
    picture = Picture(
        _BOTTOM + 74 + 22 * len(WAYS),
        f"Relative error of a dot product of {FORMAT} numbers against its length",
        "A line for each way to form the sum. Rounding after every step loses almost the whole sum; one rounding at "
        "the end keeps the error of the format.",
    )
    for power in range(_LOWEST, _HIGHEST + 1, 3):
        y = _y(10.0**power)
        picture.line([(_LEFT, y), (_RIGHT, y)], "grid")
        label = "100 %" if power == 0 else f"10{str(power).translate(_SUPERSCRIPTS)}"
        picture.text(_LEFT - 8, y + 5, label, anchor="end", colour="faint")
    for length in LENGTHS[::2]:
        picture.line([(_x(length), _TOP), (_x(length), _BOTTOM)], "grid")
        picture.text(_x(length), _BOTTOM + 20, f"{length:,}", anchor="middle", colour="faint")
    picture.text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "length k of the dot product", anchor="middle")
    picture.text(18, (_TOP + _BOTTOM) / 2, "relative error", anchor="middle", turn=-90)
    for i, way in enumerate(WAYS):
        points = [(_x(k), _y(e)) for k, e in zip(LENGTHS, errors(way), strict=True) if e > 0]
        picture.line(points, way.colour, 7 if way.accumulate == "f32" else 2.5, way.dashes)
        y = _BOTTOM + 68 + 22 * i
        picture.line([(12, y), (48, y)], way.colour, 7 if way.accumulate == "f32" else 2.5, way.dashes)
        picture.text(56, y + 5, way.label)
    return str(picture)


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _x(length: int) -> float:
    return _LEFT + np.log2(length) / np.log2(LENGTHS[-1]) * (_RIGHT - _LEFT)


def _y(error: float) -> float:
    return _BOTTOM - (np.log10(error) - _LOWEST) / (_HIGHEST - _LOWEST) * (_BOTTOM - _TOP)
