"""The map of the wrong results of one operation over all pairs of operands: a machine that divides f8E3M4 in bf16."""

from __future__ import annotations

import numpy as np

from minihlo.interp import Policy
from minihlo.interp.api import load
from minihlo.ops.minifloat.formats import FORMATS

from .svg import WIDTH, Picture, number

OP, FORMAT, MACHINE = "divide", "f8E3M4", "bf16"
_LEFT, _TOP = 78, 18
_SIDE = WIDTH - _LEFT - 20


def _numbers() -> np.ndarray:
    """All finite numbers, ascending; -0 is left out."""
    fmt = FORMATS[FORMAT]
    values = np.arange(1 << fmt.bits, dtype=np.uint8).view(fmt.dtype)
    finite = values[np.isfinite(values.astype(np.float64))]
    return np.unique(finite.astype(np.float64)).astype(fmt.dtype)


def wrong() -> tuple[np.ndarray, np.ndarray]:
    """The finite numbers, and for each pair of them the error: 1 where the result is too large, -1 where too small."""
    numbers = _numbers()
    x, y = (a.ravel() for a in np.meshgrid(numbers, numbers, indexing="ij"))
    of = f"tensor<{x.size}x{FORMAT}>"
    program = load(
        f"func.func @main(%x: {of}, %y: {of}) -> {of} {{\n  %r = stablehlo.{OP} %x, %y : {of}\n  return %r : {of}\n}}\n"
    )
    exact, given = (
        program(x, y, policy=Policy(arithmetic=a))[0].astype(np.float64) for a in ("direct", f"upcast:{MACHINE}")
    )
    errors = np.where(np.isnan(exact) | np.isnan(given), 0, np.sign(np.nan_to_num(given) - np.nan_to_num(exact)))
    return numbers.astype(np.float64), errors.reshape(len(numbers), -1).astype(int)


def errors() -> str:
    numbers, result = wrong()
    step = _SIDE / len(numbers)
    bottom = _TOP + _SIDE
    picture = Picture(
        bottom + 124,
        f"Wrong results of {OP} of {FORMAT} computed in {MACHINE}",
        f"A map over all pairs of finite numbers, ascending: {np.count_nonzero(result):,} of {result.size:,} results "
        "are not the correctly rounded ones.",
    )
    picture.rectangle(_LEFT, _TOP, _SIDE, _SIDE, "quiet")
    ticks = [i for i, x in enumerate(numbers) if abs(x) in (0, 0.25, 1, 4, 15.5)]
    for i in ticks:
        middle = (i + 0.5) * step
        picture.line([(_LEFT + middle, _TOP), (_LEFT + middle, bottom)], "grid")
        picture.line([(_LEFT, bottom - middle), (_LEFT + _SIDE, bottom - middle)], "grid")
        picture.text(_LEFT + middle, bottom + 18, f"{numbers[i]:g}", anchor="middle", colour="faint")
        picture.text(_LEFT - 8, bottom - middle + 5, f"{numbers[i]:g}", anchor="end", colour="faint")
    size = number(step + 0.3)
    for sign, colour in ((1, "red"), (-1, "blue")):
        marks = [
            f"M{number(_LEFT + j * step)} {number(bottom - (i + 1) * step)}h{size}v{size}h-{size}z"
            for i, j in np.argwhere(result == sign)
        ]
        picture.fill("".join(marks), colour)
    picture.text(_LEFT + _SIDE / 2, bottom + 38, "second operand", anchor="middle")
    picture.text(22, _TOP + _SIDE / 2, "first operand", anchor="middle", turn=-90)
    counts = [int(np.count_nonzero(result == sign)) for sign in (1, -1)]
    picture.legend(
        _LEFT,
        bottom + 52,
        [
            ("red", "", f"too large: {counts[0]:,} of {result.size:,}"),
            ("blue", "", f"too small: {counts[1]:,}"),
            ("quiet", "", "right"),
        ],
    )
    return str(picture)
