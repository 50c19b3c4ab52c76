"""Cases of uniform_quantize and uniform_dequantize with each format as the expressed type."""

from __future__ import annotations

from collections.abc import Iterator

from minihlo.ops.op import Op
from tests import oracle
from tests.oracle import FORMATS, Fraction, Value, decode, encode

from .catalog import cases, stem
from .chunk import Chunk, tensor
from .chunk import Value as Typed
from .elementwise import unary_codes
from .numbers import array, is_left_open

#: Storage type, its name in the quantized type, scale and zero point.
_TYPES = (("i8", "i8", Fraction(1, 2), 0), ("ui4", "u4", Fraction(1, 2), 3), ("i4", "i4", Fraction(2), -2))
#: Of formats that do not hold the limits of eight bits.
_SMALL = (("i4", "i4<-4:4>", Fraction(1, 2), 0), ("ui4", "u4<0:6>", Fraction(1, 2), 2))
#: Of the format without zero: a zero point of 1, and no number that is clamped to a negative one.
_UNSIGNED = (("ui8", "u8<1:255>", Fraction(1, 2), 1), ("i8", "i8<1:127>", Fraction(2), 2))

NOTE = (
    "The specification's formula: x / scale + zero point, clamped to the range, to the nearest integer, ties to even; "
    "each step rounded to the format. Numbers are those for which no step before the last one rounds."
)


def _limits(storage: str, name: str) -> tuple[int, int]:
    if "<" in name:
        low, _, high = name.partition("<")[2].strip(">").partition(":")
        return int(low), int(high)
    bits = int(storage.lstrip("ui"))
    return (0, (1 << bits) - 1) if storage[0] == "u" else (-1 << (bits - 1), (1 << (bits - 1)) - 1)


def _types(element: str) -> list[tuple[str, str, Fraction, int]]:
    fmt = FORMATS[element]
    return list(_UNSIGNED if not fmt.is_signed else _TYPES if fmt.max >= 128 else _SMALL)


def _text(element: str, name: str, scale: Fraction, zero: int) -> str:
    point = f":{zero}" if zero else ""
    return f"!quant.uniform<{name}:{element}, {float(scale)}{point}>"


def _is_exact(element: str, x: Value) -> bool:
    fmt = FORMATS[element]
    return oracle.is_finite(x) and not is_left_open(element, x) and decode(fmt, encode(fmt, x)) == x


def _quantize(element: str, x: Value, scale: Fraction, zero: int, low: int, high: int) -> int | None:
    """The integer; None if a step rounds, or its number is not an integer's."""
    if not oracle.is_finite(x):
        return None
    scaled = Fraction(x) / scale
    shifted = scaled + zero
    if not (_is_exact(element, scaled) and _is_exact(element, shifted)):
        return None
    if not all(_is_exact(element, Fraction(n)) for n in (low, high) if n) and not low <= shifted <= high:
        return None  # clamped to a limit that the format does not hold
    result = round(min(max(shifted, Fraction(low)), Fraction(high)))
    return result if _is_exact(element, Fraction(result)) else None


@cases("uniform_quantize")
def uniform_quantize(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", NOTE)
    for storage, name, scale, zero in _types(element):
        low, high = _limits(storage, name)
        codes, expected = [], []
        for c in unary_codes(element, lambda x: x, "quantize"):
            integer = _quantize(element, decode(FORMATS[element], c), scale, zero, low, high)
            if integer is not None:
                codes.append(c)
                expected.append(integer)
        x = chunk.constant(array(codes), element)
        q = _text(element, name, scale, zero)
        r = chunk.apply(op.name, [x], (x.shape, q))
        chunk.expect(chunk.apply("bitcast_convert", [r], (x.shape, storage)), array(expected))
    yield chunk


@cases("uniform_dequantize")
def uniform_dequantize(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", "(q - zero point) * scale, where no step rounds.")
    for storage, name, scale, zero in _types(element):
        low, high = _limits(storage, name)
        numbers = [
            q
            for q in range(low, high + 1)
            if _is_exact(element, Fraction(q - zero)) and _is_exact(element, (q - zero) * scale)
        ][:40]
        stored = chunk.constant(array(numbers), storage)
        q = _text(element, name, scale, zero)
        held = Typed(chunk.fresh("q"), stored.shape, q, tensor(stored.shape, q))
        chunk.line(f"{held.name} = stablehlo.bitcast_convert {stored.name} : ({stored.type}) -> {held.type}")
        expected = array([encode(FORMATS[element], (n - zero) * scale) for n in numbers])
        chunk.expect(chunk.apply(op.name, [held], (stored.shape, element)), expected)
    yield chunk
