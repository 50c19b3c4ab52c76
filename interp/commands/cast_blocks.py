"""`minihlo cast VALUE BLOCK_FORMAT`: converts numbers to blocks and prints scales, codes, values and errors."""

from __future__ import annotations

import argparse
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np

from ...ops.blocks.blockwise import Layout
from ...ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from ...ops.cast import codes_of
from ...ops.minifloat.codec import decode, to_fraction
from ...ops.minifloat.formats import FORMATS, Format
from ...ops.minifloat.number import FINITE
from ...ops.types import ElementType, named_type
from ..blocks.checks import block_axes
from ..blocks.convert import quantize
from ..errors import InputError
from ..parse.literals import array_of_literals, fraction, real
from ..values.printing import code_text, number_text
from ..values.values import parse_value

_TOKEN = re.compile(r"[\[\]]|[^\s,\[\]]+")


def main(options: argparse.Namespace) -> int:
    """Print the blocks that VALUE is converted to."""
    fmt = BLOCK_FORMATS[options.format]
    array, texts, exact = _operand(options.value.strip(), options.source)
    policy = options.policy
    overflow = options.overflow or "saturate"  # as OCP MX 1.0 says
    codes, scales, *rest = quantize(
        array, fmt.name, scale=options.scale, rounding=policy.rounding, overflow=overflow, seed=policy.seed
    )
    of_tensor = Fraction(float(rest[0])) if rest else Fraction(1)
    shape = "x".join(map(str, fmt.block))
    print(f"{fmt.name}: {shape} {fmt.element}, scale {fmt.scale}, {options.scale or fmt.rule}")
    if rest:
        print(f"tensor   scale f32 {float_text(rest[0], FORMATS['f32'])}")
    rows = []
    for code, text, number, block in zip(
        codes.reshape(-1), texts, exact, _blocks_of(array.shape, fmt).reshape(-1), strict=True
    ):
        element, stored = _element(code, fmt)
        scale = exact_value(scales.reshape(-1)[block], fmt.scale_format)
        value = None if element is None or scale is None else element * scale * of_tensor
        error = "" if value is None or number is None else f"error {_decimal(value - number, '+')}"
        rows.append((int(block), [text, stored, "= nan" if value is None else f"= {_decimal(value)}", error]))
    widths = [max((len(cells[i]) for _, cells in rows), default=0) for i in range(4)]
    last = -1
    for block, cells in sorted(rows, key=lambda row: row[0]):
        if block != last:
            place = np.unravel_index(block, scales.shape) if scales.ndim > 1 else (block,)
            scale = float_text(scales.reshape(-1)[block], fmt.scale_format)
            print(f"block {', '.join(str(int(i)) for i in place)}  scale {scale}")
            last = block
        print("  " + "  ".join(f"{c:{w}}" for c, w in zip(cells, widths, strict=True)).rstrip())
    return 0


def _operand(text: str, source: str | None) -> tuple[np.ndarray, list[str], list[Fraction | None]]:
    """The array of a text, with its elements as texts and as exact numbers; None for non-finite ones."""
    if "=" in text or text.startswith("@"):
        array, t = parse_value(text)
        element = element_of(str(t.element))
        if source and element_of(source) != element:
            raise InputError(f"expected a value of type {source}, as --from says, got {text[:60]!r}")
    else:
        words, shape = _parse_nested(text)
        if not source:
            # Rounded to odd in f64, which rounds to the same elements and scales as the exact number.
            exact = [fraction(w) if real(w).kind == FINITE else None for w in words]
            numbers = [float(w) if e is None else _odd(e, w) for e, w in zip(exact, words, strict=True)]
            return np.array(numbers, np.float64).reshape(shape), words, exact
        element = element_of(source)
        array = array_of_literals(words, element).reshape(shape)
    values = array.reshape(-1)
    if not element.is_float:
        return array, [str(int(v)) for v in values], [Fraction(int(v)) for v in values]
    codes = codes_of(values, element.format)
    return array, [number_text(element.format, int(c)) for c in codes], [exact_value(v, element.format) for v in values]


def _parse_nested(text: str) -> tuple[list[str], tuple[int, ...]]:
    """The numbers of `1.5`, `[1, 2]` or `[[1, 2], [3, 4]]`, and the shape."""
    words: list[str] = []
    open_lists: list[list[Any]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "[":
            open_lists.append([])
        elif token == "]" and len(open_lists) > 1:
            done = open_lists.pop()
            shapes = set(done)
            if len(shapes) > 1:
                raise InputError(f"expected lists of one length, got {text[:60]!r}")
            open_lists[-1].append((len(done), *(shapes.pop() if shapes else ())))
        else:
            words.append(token)
            open_lists[-1].append(())
    if len(open_lists) != 1 or len(open_lists[0]) != 1 or "]" in words:
        raise InputError(f"expected a number, or a list of numbers such as '[1, 2, 448]', got {text[:60]!r}")
    return words, open_lists[0][0]


def _odd(value: Fraction, text: str) -> float:
    """A number as f64, rounded to odd."""
    if not value:
        return -0.0 if text.startswith("-") else 0.0
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if math.isfinite(nearest) and Fraction(nearest) == value:
        return nearest
    beyond = math.isinf(nearest) or abs(Fraction(nearest)) > abs(value)
    inner = math.nextafter(nearest, 0) if beyond else nearest
    bits = np.array(inner).view(np.uint64) | np.uint64(1)
    return float(bits.view(np.float64))


def _blocks_of(shape: tuple[int, ...], fmt: BlockFormat) -> np.ndarray:
    """The index of each element's block, in row-major order."""
    layout = Layout.of(shape, fmt, block_axes(len(shape), fmt, -1))
    numbers = np.arange(math.prod(layout.scale_shape)).reshape(layout.scale_shape)
    rows = np.repeat(layout.scale_rows(numbers)[:, None], math.prod(layout.block), axis=1)
    return layout.whole(rows)


def _element(code: Any, fmt: BlockFormat) -> tuple[Fraction | None, str]:
    """An element before scaling, None for NaN and infinity, and its code and number as a text."""
    if fmt.element_format is None:
        value = Fraction(int(code), 1 << fmt.fraction_bits)
        return value, f"{code_text(int(code) & 0xFF, 8)} = {_decimal(value)}"
    return exact_value(code, fmt.element_format), float_text(code, fmt.element_format)


def _decimal(value: Fraction, sign: str = "") -> str:
    if not value:
        return "0"
    if abs(value) < Fraction(2) ** 1000 and (value.denominator == 1 and abs(value) < 10**6):
        return f"{int(value):{sign}d}"
    if Fraction(2) ** -1000 < abs(value) < Fraction(2) ** 1000:
        return f"{float(value):{sign}.6g}"
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return f"about {'-' if value < 0 else sign}2^{exponent}"


def element_of(name: str) -> ElementType:
    """The real element type of a name. Raises InputError."""
    try:
        element = named_type(name)
    except ValueError as error:
        raise InputError(str(error)) from None
    if element.is_complex:
        raise InputError(f"expected a real type, got {element}")
    return element


def exact_value(value: Any, fmt: Format) -> Fraction | None:
    """The exact value of a float, or None for infinities and NaN."""
    number = decode(codes_of(np.asarray(value), fmt), fmt)
    return to_fraction(number) if number.kind == FINITE else None


def float_text(value: Any, fmt: Format) -> str:
    """The code and the number of a float."""
    code = int(codes_of(np.asarray(value), fmt))
    return f"{code_text(code, fmt.bits)} = {number_text(fmt, code)}"
