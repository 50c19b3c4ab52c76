"""Cases of ops that compute each element by itself: functions of one and two numbers, and CHLO's broadcasting ones."""

from __future__ import annotations

import functools
import itertools
import math
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from minihlo.ops.op import Op
from tests import oracle, oracle_chlo
from tests.oracle import FORMATS, Fraction, Value, decode, encode

from .catalog import cases, stem
from .chunk import Chunk
from .exhaustive import all_codes, all_pairs
from .numbers import (
    TESTED,
    Codes,
    array,
    code,
    codes_of,
    each,
    each_bool,
    in_order,
    is_left_open,
    one,
    specials,
    spread,
)

SEED = 20240607
F = TypeVar("F")

#: About how many cases a function of one number has; how many one of two has beside the special ones.
_UNARY, _RANDOM = 40, 24

OPEN = "The format leaves these results open; expected is what ml_dtypes' conversions give. See docs/formats.md."

CHLO_UNARY = tuple(f"chlo.{name}" for name in oracle_chlo.UNARY)
STABLEHLO_UNARY = tuple(oracle.UNARY)
STABLEHLO_BINARY = tuple(oracle.BINARY)
CHLO_BINARY = tuple(f"chlo.{name}" for name in oracle_chlo.BINARY)


def generator(*names: str) -> random.Random:
    """Random numbers that are the same in each run."""
    return random.Random(SEED + zlib.crc32(" ".join(names).encode()))


def _definition(op: Op, ours: Mapping[str, F], oracles: Mapping[str, F]) -> tuple[str, F]:
    """The name of an op in a table, and its exact definition there. The oracle has ops of CHLO as `chlo.name`."""
    name = op.name.removeprefix("stablehlo.")
    if name not in oracles:
        name = name.removeprefix("chlo.")
    return name, oracles[name] if name in oracles else ours[name]


# -- of one number -----------------------------------------------------------------------------------------------------


def _class(fmt: oracle.Format, result: int) -> tuple[object, ...]:
    """The kind of a result: where it changes, two neighbours are worth testing."""
    x = decode(fmt, result)
    if not oracle.is_finite(x) or x == 0:
        return (str(x),)
    magnitude = result & fmt.ones
    return (x < 0, magnitude < 1 << fmt.mantissa_bits, magnitude == fmt.max_code, abs(x) == 1)


def changes(element: str, function: Callable[[Value], Value]) -> list[int]:
    """The pairs of neighbouring codes between which the sort of the result changes."""
    fmt = FORMATS[element]
    codes = in_order(element) if fmt.bits <= 8 else spread(in_order(element), 160)
    places = {c: place for place, c in enumerate(codes)}

    @functools.cache
    def sort_of(c: int) -> tuple[object, ...]:
        return _class(fmt, encode(fmt, function(decode(fmt, c))))

    result = []
    for a, b in itertools.pairwise(places):
        while sort_of(a) != sort_of(b):
            middle = (a + b) // 2
            if middle in (a, b):
                result += [a, b]
                break
            a, b = (middle, b) if sort_of(middle) == sort_of(a) else (a, middle)
    return result


def unary_codes(element: str, function: Callable[[Value], Value], salt: str) -> list[int]:
    """Codes to try a function on: all of a type of six bits or less."""
    fmt = FORMATS[element]
    if fmt.bits <= 6:
        return list(range(1 << fmt.bits))
    round_numbers = [Fraction(n, 4) for n in (2, 5, 6, 7, 8, 10, 12, 14, 16)]
    near = [c for n in round_numbers for x in (n, -n) if decode(fmt, c := code(element, x)) == x]
    result = dict.fromkeys([*specials(element), *spread(changes(element, function), 14), *near])
    rest = generator(salt, element).sample(range(1 << fmt.bits), min(200, 1 << fmt.bits))
    for c in rest:
        if len(result) >= _UNARY:
            break
        result.setdefault(c)
    return sorted(result, key=lambda c: (_place(fmt, c), c))


def _place(fmt: oracle.Format, c: int) -> tuple[int, Fraction]:
    x = decode(fmt, c)
    if not oracle.is_finite(x):
        return (2 if math.isnan(x) else int(math.copysign(1, x)), Fraction(0))
    return (0, Fraction(x))


@cases(*STABLEHLO_UNARY, *CHLO_UNARY)
def unary(op: Op, element: str) -> Iterator[Chunk]:
    name, function = _definition(op, oracle_chlo.UNARY, oracle.UNARY)
    fmt, plain, left_open = FORMATS[element], [], []
    for c in unary_codes(element, function, name):
        result = function(decode(fmt, c))
        (left_open if is_left_open(element, result) else plain).append(c)

    def compute(codes: Codes) -> Codes:
        return each(element, function, codes)

    yield from _in_shapes(op, element, plain, compute)
    if op.name.startswith("stablehlo"):
        yield from all_codes(op.name, stem(op.name), element)
    if left_open:
        chunk = Chunk(f"{stem(op.name)}_{element}_open", OPEN)
        codes = array(spread(left_open, 8))
        chunk.expect(chunk.short(op.name, chunk.constant(codes, element)), compute(codes))
        yield chunk


def _in_shapes(
    op: Op, element: str, plain: Sequence[int], compute: Callable[[Codes], Codes], result: str | None = None
) -> Iterator[Chunk]:
    """The cases as a vector, and as nothing; in some formats one as a scalar, in some a few as a matrix."""
    chunk = Chunk(f"{stem(op.name)}_{element}")
    finite = [c for c in plain if oracle.is_finite(decode(FORMATS[element], c))] or plain
    few, place = spread(finite, 6), TESTED.index(element) % 3
    shaped = [array(plain), array([], (0, 3))]
    shaped += [array(few[len(few) // 2], ())] if place == 0 else []
    shaped += [array(few, (2, 3))] if place == 1 and len(few) == 6 else []
    for codes in shaped:
        chunk.expect(chunk.short(op.name, chunk.constant(codes, element), result=result), compute(codes))
    yield chunk


@cases("is_finite", "chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def tests(op: Op, element: str) -> Iterator[Chunk]:
    test: Callable[[Value], bool] = {
        "stablehlo.is_finite": oracle.is_finite,
        "chlo.is_inf": math.isinf,
        "chlo.is_pos_inf": lambda x: x == math.inf,
        "chlo.is_neg_inf": lambda x: x == -math.inf,
    }[op.name]
    codes = unary_codes(element, lambda x: x, op.name)
    yield from _in_shapes(op, element, codes, lambda c: each_bool(element, test, c), "i1")


@cases("chlo.conj", "chlo.constant_like")
def the_same(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}")
    codes = array(unary_codes(element, lambda x: x, op.name))
    x = chunk.constant(codes, element)
    if op.name == "chlo.conj":
        chunk.note("The conjugate of a real number is that number: every bit of it, NaN's too.")
        chunk.expect(chunk.apply(op.name, [x], (x.shape, element)), codes, every_bit=True)
    else:
        for number in (1.0, 0.5, 4.0):
            r = chunk.apply(op.name, [x], (x.shape, element), attributes=f"value = {number} : {element}")
            chunk.expect(r, codes_of(element, [number] * codes.size))
    yield chunk


# -- of two numbers ----------------------------------------------------------------------------------------------------


def _position(fmt: oracle.Format, x: Value, result: int) -> str:
    """The region of the format's numbers that contains an exact result."""
    if x == 0:
        return "zero"
    r = decode(fmt, result)
    sort = "subnormal" if fmt.is_signed and result & fmt.ones < 1 << fmt.mantissa_bits else "normal"
    largest = abs(decode(fmt, fmt.max_code))
    if abs(x) > largest:
        return f"beyond the largest {oracle.is_finite(r)}"
    if r == 0:
        return "underflow"
    if r == x:
        return f"exact {sort}"
    other = decode(fmt, result + (1 if abs(x) > abs(r) else -1))
    where = "up" if abs(r) > abs(x) else "down"
    if not oracle.is_finite(other):
        return f"near the largest {where}"
    tie = "tie" if abs(Fraction(other) - Fraction(x)) == abs(Fraction(r) - Fraction(x)) else "inexact"
    return f"{tie} {sort} {where}"


#: Pairs of numbers for special rules, of those the format holds.
_MORE = {
    "power": (
        *((-2, 2), (-2, 3), (-2, 0.5), (2, 0.5), (4, 0.5), (2, -2), (-0.5, 3), (-1, 0.5), (-1, 2), (-1, 3)),
        *((0, 2), (0, 3), (-0.0, 2), (-0.0, 3), (-0.0, 0.5), (0.5, math.inf), (2, math.inf), (-0.5, -math.inf)),
        *((-math.inf, 2), (-math.inf, 3), (-math.inf, 0.5), (math.inf, 0.5), (math.inf, -2), (1, math.nan)),
    ),
    "atan2": ((2, 2), (-2, 2), (2, -2), (-2, -2), (0.5, 4), (4, 0.5), (-0.0, 2), (-0.0, -2), (0, -2)),
    "remainder": ((3, 2), (-3, 2), (3, -2), (-3, -2), (2, 0.5), (-2, 0.5), (0.5, 2), (6, 4), (4, 6)),
    "zeta": ((2, 1), (2, 2), (3, 0.5), (1.5, 2), (2, -0.5), (3, -0.5), (1.5, -0.5), (2, -1), (3, -1), (4, 1), (6, 2)),
    "polygamma": ((0, 1), (1, 1), (2, 1), (3, 0.5), (1, -0.5), (2, -0.5), (1, -1), (2, -1), (0.5, 1), (4, 2), (-1, 1)),
}

#: How many random pairs are looked at for a function that is slow to evaluate; 1,500 for the others.
_TRIES = {"power": 500, "atan2": 500, "zeta": 120, "polygamma": 120}


def held_code(element: str, x: float) -> int | None:
    """The code of a number that the format holds."""
    fmt = FORMATS[element]
    if not fmt.is_signed and (x <= 0 or math.isinf(x)):
        return None
    c = code(element, x)
    back = decode(fmt, c)
    same = math.isnan(back) if math.isnan(x) else back == x and math.copysign(1, back) == math.copysign(1, x)
    return c if same else None


@functools.cache
def pairs_of(element: str, name: str) -> tuple[tuple[int, int], ...]:
    """Pairs of codes to try a function on: the special values by each other, and some for each place of the result."""
    fmt = FORMATS[element]
    function = oracle_chlo.BINARY.get(name) or oracle.BINARY[name]
    held = [held_code(element, x) for x in (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan)]
    corner = [c for c in held if c is not None]
    nan = held_code(element, math.nan)
    grid = [p for p in itertools.product(corner, corner) if nan not in p or one(element) in p or p[0] == p[1]]
    result = dict.fromkeys(grid)
    ends = [1, fmt.max_code] if fmt.is_signed else [0, fmt.max_code]
    result |= dict.fromkeys(itertools.product(ends, [*ends, *(e | fmt.sign_bit for e in ends)]))
    for pair in _MORE.get(name, ()):
        held = [held_code(element, x) for x in pair]
        if held[0] is not None and held[1] is not None:
            result.setdefault((held[0], held[1]))
    most = len(result) + _RANDOM
    if name in oracle_chlo.BINARY:
        result = {p: None for p in result if _is_modest(fmt, *p)}
    by_place: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for pair in _random_pairs(element, name, _TRIES.get(name, 1500)):
        x = _judge(function, decode(fmt, pair[0]), decode(fmt, pair[1]))
        if x is not None and oracle.is_finite(x) and not is_left_open(element, x):
            by_place[_position(fmt, x, encode(fmt, x))].append(pair)
    for place in itertools.zip_longest(*(by_place[p][:6] for p in sorted(by_place))):
        for pair in place:
            if pair is not None and len(result) < most:
                result.setdefault(pair)
    return tuple(p for p in result if _judge(function, decode(fmt, p[0]), decode(fmt, p[1])) is not None)


def _judge(function: Callable[[Value, Value], Value], x: Value, y: Value) -> Value | None:
    """The exact result; None if the second source cannot distinguish it from a number of few bits."""
    try:
        return function(x, y)
    except ArithmeticError:
        return None


def _random_pairs(element: str, name: str, count: int) -> Iterator[tuple[int, int]]:
    fmt, rng = FORMATS[element], generator(name, element)
    for _ in range(count):
        a, b = (rng.randrange(1 << fmt.bits) for _ in range(2))
        cut = rng.randrange(fmt.mantissa_bits + 1)
        a = a >> cut << cut
        if rng.random() < 0.5:  # of about the same size
            b = (a & ~((1 << fmt.mantissa_bits) - 1)) + rng.randrange(-2, 3) * (1 << fmt.mantissa_bits)
            b = (b | rng.randrange(1 << fmt.mantissa_bits)) & ((1 << fmt.bits) - 1)
        if name not in oracle_chlo.BINARY or _is_modest(fmt, a, b):
            yield a, b


def _is_modest(fmt: oracle.Format, *codes: int) -> bool:
    """Whether mpmath can evaluate sums over numbers of this size in reasonable time."""
    values = [decode(fmt, c) for c in codes]
    return not all(map(oracle.is_finite, values)) or all(v == 0 or 2**-10 < abs(v) < 60 for v in values)


@cases(*STABLEHLO_BINARY, *CHLO_BINARY)
def binary(op: Op, element: str) -> Iterator[Chunk]:
    name, function = _definition(op, oracle_chlo.BINARY, oracle.BINARY)

    def compute(x: Codes, y: Codes) -> Codes:
        return each(element, function, x, y)

    fmt = FORMATS[element]
    plain, left_open = [], []
    for a, b in pairs_of(element, name):
        is_open = is_left_open(element, function(decode(fmt, a), decode(fmt, b)))
        (left_open if is_open else plain).append((a, b))
    yield from two_in_shapes(op, element, plain, compute)
    yield from all_pairs(op.name, stem(op.name), element)
    if left_open:
        chunk = Chunk(f"{stem(op.name)}_{element}_open", OPEN)
        x, y = (array(side) for side in zip(*spread(left_open, 8), strict=True))
        chunk.expect(chunk.short(op.name, *both(chunk, element, x, y)), compute(x, y))
        yield chunk


def both(chunk: Chunk, element: str, x: Codes, y: Codes) -> list:
    return [chunk.constant(x, element, "x"), chunk.constant(y, element, "y")]


def two_in_shapes(
    op: Op, element: str, pairs: Sequence[tuple[int, int]], compute: Callable[[Codes, Codes], Codes]
) -> Iterator[Chunk]:
    """The pairs as vectors, and as nothing; in some formats one as scalars, in some a few as matrices."""
    chunk = Chunk(f"{stem(op.name)}_{element}")
    few = spread(pairs, 6)
    place = TESTED.index(element) % 3
    shapes: list[tuple[Sequence[tuple[int, int]], tuple[int, ...]]] = [(pairs, (len(pairs),)), ((), (2, 0))]
    shapes += [(few[-1:], ())] if place == 0 else []
    shapes += [(few, (2, 3))] if place == 1 and len(few) == 6 else []
    for some, shape in shapes:
        x, y = (array([pair[i] for pair in some], shape) for i in range(2))
        chunk.expect(chunk.short(op.name, *both(chunk, element, x, y)), compute(x, y))
    yield chunk


@cases("chlo.next_after")
def next_after(op: Op, element: str) -> Iterator[Chunk]:
    fmt = FORMATS[element]
    numbers = [*specials(element), *spread(in_order(element), 8)]
    pairs = list(itertools.product(specials(element), numbers))
    pairs = spread(dict.fromkeys(pairs), 40)
    yield from two_in_shapes(
        op, element, pairs, lambda x, y: on_pairs(functools.partial(oracle_chlo.next_after, fmt), x, y)
    )


def on_pairs(function: Callable[[int, int], int], x: Codes, y: Codes) -> Codes:
    return array([function(a, b) for a, b in zip(x.ravel(), y.ravel(), strict=True)], x.shape)
