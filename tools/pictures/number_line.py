"""The positive numbers of every minifloat, each a stroke on a logarithmic scale."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from minihlo.ops.minifloat.codec import decode, to_fraction
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS, Format

from .svg import WIDTH, Picture, number

_LEFT, _RIGHT, _TOP, _ROW = 150, WIDTH - 14, 34, 36
#: The powers of two at the ends of the scale. f8E8M0FNU goes beyond them.
_LOW, _HIGH = -18, 17


def numbers(fmt: Format) -> list[Fraction]:
    """The positive finite numbers of a format, ascending."""
    first = 1 if fmt.has_zero else 0
    codes = np.arange(first, fmt.max_code + 1)
    return [to_fraction(decode(c, fmt)) for c in codes]


def _place(x: Fraction) -> float:
    return _LEFT + (float(np.log2(float(x))) - _LOW) / (_HIGH - _LOW) * (_RIGHT - _LEFT)


def formats() -> str:
    bottom = _TOP + _ROW * len(MINIFLOATS)
    picture = Picture(
        bottom + 82,
        "The positive numbers of the minifloat formats",
        "A row for each format. Each stroke is a number, on a logarithmic scale from 2 to the power of "
        f"{_LOW} to 2 to the power of {_HIGH}. Strokes of powers of two are long.",
    )
    for power in range(-16, _HIGH + 1, 4):
        x = _place(Fraction(2) ** power)
        picture.line([(x, _TOP - 6), (x, bottom)], "grid")
        picture.text(x, _TOP - 12, _power(power), anchor="middle", colour="faint")
    for i, name in enumerate(MINIFLOATS):
        fmt, base = FORMATS[name], _TOP + _ROW * i + 28
        picture.text(_LEFT - 10, base - 5, name, anchor="end")
        normal = Fraction(2) ** (fmt.min_exponent + fmt.mantissa_bits)
        strokes: dict[tuple[str, float], list[str]] = {}
        for x in numbers(fmt):
            if Fraction(2) ** _LOW <= x <= Fraction(2) ** _HIGH:
                is_power = x.numerator & (x.numerator - 1) == 0 and x.denominator & (x.denominator - 1) == 0
                is_subnormal = fmt.has_subnormals and x < normal
                length = 20 if is_power else 12
                look = ("red" if is_subnormal else "blue", 1.2 if is_power else 0.5)
                strokes.setdefault(look, []).append(f"M{number(_place(x))} {base}v-{length}")
        for (colour, width), paths in sorted(strokes.items()):
            picture.path("".join(paths), colour, width)
    picture.legend(_LEFT, bottom + 10, [("blue", "", "a number"), ("red", "", "a subnormal number")])
    picture.text(_LEFT, bottom + 70, "f8E8M0FNU goes on to 2⁻¹²⁷ and to 2¹²⁷", colour="faint")
    return str(picture)


def _power(power: int) -> str:
    return "1" if power == 0 else f"2{str(power).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
