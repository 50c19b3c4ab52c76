"""Cases of ops that give numbers another form: convert, reduce_precision, bitcast_convert, real, imag, constants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from minihlo.ops.op import Op
from tests import oracle
from tests.oracle import FORMATS, Fraction, decode, encode
from tests.oracle import Value as Number

from .catalog import cases, stem
from .chunk import Chunk, tensor
from .elementwise import OPEN, generator, unary_codes
from .exhaustive import all_conversions
from .numbers import (
    TESTED,
    Codes,
    array,
    code,
    codes_of,
    each,
    is_left_open,
    is_nan,
    literal,
    share,
    some_codes,
    specials,
    spread,
    width,
)

_OTHER_FLOATS = ("f32", "f64")
_INTEGERS = ("i2", "i4", "i8", "i16", "i32", "i64", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64")

OPEN_TO_INTEGER = (
    "The specification leaves open what NaN and numbers beyond the range become. Expected: the nearest, and 0."
)


def _limits(element: str) -> tuple[int, int]:
    bits = width(element)
    return (0, (1 << bits) - 1) if element[0] == "u" else (-1 << (bits - 1), (1 << (bits - 1)) - 1)


@cases("convert")
def convert(_: Op, element: str) -> Iterator[Chunk]:
    """From a format to every type, and to it from the types that are not tested themselves."""
    for target in (*TESTED, *_OTHER_FLOATS):
        yield from _convert_floats(element, target)
    for target in (*_INTEGERS, "i1"):
        yield from _to_integer(element, target)
    for source in _OTHER_FLOATS:
        yield from _convert_floats(source, element)
    for source in (*_INTEGERS, "i1"):
        yield from _from_integer(source, element)


def _convert(name: str, note: str, source: str, x: Codes, target: str, expected: Codes) -> Chunk:
    chunk = Chunk(name, *[note] * bool(note))
    value = chunk.constant(x, source)
    r = chunk.fresh("r")
    made = f"({value.type}) -> {tensor(x.shape, target)}"
    chunk.line(f"{r} = stablehlo.convert {value.name} : {made}")
    chunk.expect(value.__class__(r, x.shape, target, tensor(x.shape, target)), expected)
    return chunk


def _thresholds(target: str) -> list[tuple[Fraction, bool]]:
    """Numbers of a format, and midpoints between neighbours (marked by True), one beyond the largest too."""
    fmt = FORMATS[target]
    picked = [0, 1, (1 << fmt.mantissa_bits) - 1, fmt.max_code // 2, fmt.max_code - 1, fmt.max_code]
    picked += generator("convert", target).sample(range(fmt.max_code), 1)
    result = {(2 * Fraction(decode(fmt, fmt.max_code)), False), (Fraction(decode(fmt, 1)) / 4, False)}
    for c in dict.fromkeys(c for c in picked if c >= 0):
        x = Fraction(decode(fmt, c))
        last = c == fmt.max_code
        other = Fraction(decode(fmt, c - 1 if last else c + 1))
        result |= {(x, False), (x + abs(x - other) / 2, True)}
    return sorted(result)


def _convert_floats(source: str, target: str) -> Iterator[Chunk]:
    """Between floats: thresholds of the target, the source's neighbours of those that are ties, its special codes."""
    fmt = FORMATS[source]
    if fmt.bits <= 6:
        codes = spread(range(1 << fmt.bits), 24)
    else:
        near = []
        for x, is_tie in _thresholds(target):
            c = encode(fmt, x)
            near += [n for n in ((c - 1, c, c + 1) if is_tie else (c,)) if 0 <= n <= fmt.max_code]
        if fmt.bits <= 8:  # which has few neighbours of a wider type's thresholds: any codes are as good
            near = spread(dict.fromkeys(near), 8)
        codes = list(dict.fromkeys([*specials(source), *near, *(c | fmt.sign_bit for c in near[1::5])]))
    plain, left_open = [], []
    for c in codes:
        (left_open if is_left_open(target, decode(fmt, c)) else plain).append(c)
    name = f"convert_{source}_to_{target}"
    for suffix, note, some in (("", "", plain), ("_open", OPEN, spread(left_open, 6))):
        if some:
            x = array(some)
            yield _convert(name + suffix, note, source, x, target, each(source, lambda v: v, x, result=target))
    yield from all_conversions(source, target)


def _to_integer(source: str, target: str) -> Iterator[Chunk]:
    fmt = FORMATS[source]
    codes = list(range(1 << fmt.bits)) if fmt.bits <= 4 else list(unary_codes(source, lambda v: v, "convert"))
    if target == "i1":
        x = array(spread(codes, 12))
        truth = array([int(decode(fmt, c) != 0) for c in x])
        yield _convert(f"convert_{source}_to_i1", "", source, x, target, truth)
        return
    low, high = _limits(target)
    near = [n + h for n in (low, high, 0, 2) for h in (Fraction(-1, 2), 0, Fraction(1, 2), 1, -1)]
    codes = [c for c in (encode(fmt, Fraction(n)) for n in near) if not is_nan(source, c)] + spread(codes, 6)
    bits, is_signed = width(target), target[0] == "i"
    plain, left_open = [], []
    for c in sorted(set(codes)):
        v = decode(fmt, c)
        inside = oracle.is_finite(v) and low <= math.trunc(v) <= high
        (plain if inside else left_open).append(c)
    name = f"convert_{source}_to_{target}"
    for suffix, note, some in (("", "", plain), ("_open", OPEN_TO_INTEGER, spread(left_open, 5))):
        if some:
            expected = array([oracle.to_integer(decode(fmt, c), bits, is_signed) for c in some])
            yield _convert(name + suffix, note, source, array(some), target, expected)


def _from_integer(source: str, target: str) -> Iterator[Chunk]:
    low, high = (0, 1) if source == "i1" else _limits(source)
    if high - low < 16:
        numbers = list(range(low, high + 1))
    else:
        near = [math.floor(x) + d for x, _ in _thresholds(target) if x < 1 << 70 for d in (0, 1)]
        near += [1 << p for p in range(0, 64, 9)] + [(1 << p) + (1 << p // 2) + 1 for p in range(2, 64, 11)]
        near = sorted({n for n in near if 0 <= n <= high})
        numbers = [0, 1, low, high, high - 1, *spread(near, 14)]
        numbers += [-n for n in spread(near, 5) if low <= -n]
    fmt, plain, left_open = FORMATS[target], [], []
    for n in dict.fromkeys(numbers):
        (left_open if is_left_open(target, Fraction(n)) else plain).append(n)
    name = f"convert_{source}_to_{target}"
    for suffix, note, some in (("", "", plain), ("_open", OPEN, spread(left_open, 6))):
        if some:
            expected = array([encode(fmt, Fraction(n)) for n in some])
            yield _convert(name + suffix, note, source, array(some), target, expected)


# -- reduce_precision --------------------------------------------------------------------------------------------------


def _reduce(fmt: oracle.Format, x: Number, exponent_bits: int, mantissa_bits: int) -> Number:
    """The nearest number of fewer mantissa bits, ties to even; then overflow to fewer exponent bits."""
    if not oracle.is_finite(x) or x == 0:
        return x
    size = abs(Fraction(x))
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e -= Fraction(2) ** e > size
    quantum = Fraction(2) ** (max(e, 1 - fmt.bias) - min(mantissa_bits, fmt.mantissa_bits))
    if not fmt.is_signed:
        quantum = size
    size = round(size / quantum) * quantum
    if exponent_bits < fmt.exponent_bits:
        reach = (1 << (exponent_bits - 1)) - 1
        if size >= Fraction(2) ** (reach + 1):
            return -math.inf if x < 0 else math.inf
        if size < Fraction(2) ** (1 - reach):
            return -0.0 if x < 0 else Fraction(0)
    return -size if x < 0 and size else (-0.0 if x < 0 else size)


@cases("reduce_precision")
def reduce_precision(_: Op, element: str) -> Iterator[Chunk]:
    fmt = FORMATS[element]
    wide, narrow = fmt.exponent_bits, fmt.mantissa_bits
    sizes = [(wide, max(narrow - 1, 0)), (wide - 1, narrow), (2, 1), (5, 2), (8, 23)]
    sizes = [(e, m) for e, m in dict.fromkeys(sizes) if m or not fmt.is_signed]
    plain_chunk = Chunk(
        f"reduce_precision_{element}",
        "Fewer exponent bits: what is beyond their largest number becomes infinity (as convert makes one), what is "
        "below their smallest normal number zero.",
    )
    open_chunk = Chunk(f"reduce_precision_{element}_open", OPEN)
    is_open = False
    for e, m in sizes:
        plain, left_open = [], []
        for c in unary_codes(element, lambda v, e=e, m=m: _reduce(fmt, v, e, m), "reduce_precision"):
            result = _reduce(fmt, decode(fmt, c), e, m)
            (left_open if is_left_open(element, result) else plain).append(c)
        for chunk, some in ((plain_chunk, spread(plain, 24)), (open_chunk, spread(left_open, 5))):
            if some:
                is_open = is_open or chunk is open_chunk
                x = chunk.constant(array(some), element)
                attributes = f"exponent_bits = {e} : i32, mantissa_bits = {m} : i32"
                r = chunk.apply("reduce_precision", [x], (x.shape, element), attributes=attributes)
                chunk.expect(r, each(element, lambda v, e=e, m=m: _reduce(fmt, v, e, m), array(some)))
    yield plain_chunk
    if is_open:
        yield open_chunk


# -- bits --------------------------------------------------------------------------------------------------------------


@cases("bitcast_convert")
def bitcast_convert(_: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"bitcast_convert_{element}", "The lowest bits are the first element.")
    bits = width(element)
    x = some_codes(element, 12)
    value = chunk.constant(x, element)
    for other in (*TESTED, *(t for t in _INTEGERS if t[0] == "u")):
        if width(other) == bits:
            chunk.expect(chunk.apply("bitcast_convert", [value], (x.shape, other)), x, every_bit=True)
        elif bits > width(other) and bits == 2 * width(other):
            halves = array([[c & ((1 << bits // 2) - 1), c >> (bits // 2)] for c in x])
            r = chunk.apply("bitcast_convert", [value], (halves.shape, other))
            chunk.expect(r, halves, every_bit=True)
            back = chunk.apply("bitcast_convert", [r], (x.shape, element))
            chunk.expect(back, x, every_bit=True)
    nothing = chunk.constant(array([], (2, 0)), element)
    chunk.expect(chunk.apply("bitcast_convert", [nothing], ((2, 0), element)), array([], (2, 0)))
    yield chunk


@cases("real", "imag")
def parts(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", "Of a real number: itself, every bit of it; and +0.")
    if element == "f8E8M0FNU" and op.name == "stablehlo.imag":
        x = chunk.constant(array([], (0,)), element)
        chunk.expect(chunk.apply(op.name, [x], ((0,), element)), array([], (0,)))
        chunk.note("This format has no zero, so that only the imaginary part of nothing is certain.")
    for shape in ((16,), (), (0, 2)) if not (element == "f8E8M0FNU" and op.name == "stablehlo.imag") else ():
        codes = some_codes(element, *shape)
        x = chunk.constant(codes, element)
        expected = codes if op.name == "stablehlo.real" else codes * 0
        chunk.expect(chunk.apply(op.name, [x], (shape, element)), expected, every_bit=True)
    yield chunk


# -- constants ---------------------------------------------------------------------------------------------------------


@cases("constant", "chlo.constant")
def constants(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", "As decimal numbers, as codes, as one value for all.")
    numbers = [x for x in (1.0, 2.0, 0.5, 4.0, 1.5, -1.0, -2.0, 0.0, -0.0) if _is_held(element, x)]
    codes = some_codes(element, 2, 4)
    listed = ", ".join("[" + ", ".join(literal(element, c) for c in row) + "]" for row in codes)
    texts = [
        (", ".join(map(str, numbers)).join("[]"), (len(numbers),), codes_of(element, numbers)),
        (f"[{listed}]", (2, 4), codes),
        (f"{numbers[1]}", (2, 3), array([code(element, numbers[1])] * 6, (2, 3))),
        (literal(element, codes[0, 3]), (2,), array([codes[0, 3]] * 2)),
        (f"{numbers[1]}", (), array(code(element, numbers[1]), ())),
        ("", (0, 2), array([], (0, 2))),
    ]
    for text, shape, expected in texts[:2] + share(element, texts[2:]):
        attributes = f"value = dense<{text}> : {tensor(shape, element)}"
        chunk.expect(chunk.apply(op.name, [], (shape, element), attributes=attributes), expected, every_bit=True)
    yield chunk


def _is_held(element: str, x: float) -> bool:
    back = decode(FORMATS[element], code(element, x))
    return back == x and math.copysign(1, back) == math.copysign(1, x)


@cases("iota", "dynamic_iota")
def iota(op: Op, element: str) -> Iterator[Chunk]:
    yield from _iota(op, element, [(2, 3), (3, 0), (9,)] if FORMATS[element].is_signed else [(3, 0)], "")
    if not FORMATS[element].is_signed:
        yield from _iota(op, element, [(2, 3)], OPEN)


def _iota(op: Op, element: str, shapes: Sequence[tuple[int, ...]], note: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}{'_open' * bool(note)}", *[note] * bool(note))
    chunk.note("Each index is rounded once to the format.")
    for shape in shapes:
        for d in range(len(shape)):
            operands, attributes = [], f"iota_dimension = {d} : i64"
            if op.name == "stablehlo.dynamic_iota":
                operands = [chunk.constant(array(shape), "i64", "shape")]
            r = chunk.apply(op.name, operands, (shape, element), attributes=attributes)
            places = [code(element, index[d]) for index in itertools.product(*map(range, shape))]
            chunk.expect(r, array(places, shape))
    yield chunk
