"""The elementary functions against mpmath: every code of the minifloats, samples of the wider formats.

Expected results are found here alone: codes are decoded by hand, special values stand in tables written from C's
annex F, and everything else is mpmath's value at 400 bits or more, cut to 60 bits with the last bit set.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mp

from minihlo.ops.minifloat import fixedpoint, functions
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS, Format, Nan
from minihlo.ops.minifloat.number import Number

#: ("nan", negative), ("inf", negative) or (negative, odd significand, exponent); a zero is (negative, 0, 0), and a
#: result beyond every format (negative, "far", whether it is large).
Value = tuple

WIDE = tuple(name for name in FORMATS if name not in MINIFLOATS)
SEED = 20240607
FAR = 1 << 16  # a binary exponent beyond every format


# Values in and out.


def finite(negative: bool, significand: int, exponent: int) -> Value:
    if significand == 0:
        return (negative, 0, 0)
    zeros = (significand & -significand).bit_length() - 1
    return (negative, significand >> zeros, exponent + zeros)


def decode(fmt: Format, code: int) -> Value:
    negative = fmt.is_signed and bool(code >> (fmt.bits - 1))
    magnitude = code & ((1 << (fmt.exponent_bits + fmt.mantissa_bits)) - 1)
    field, mantissa = magnitude >> fmt.mantissa_bits, magnitude & ((1 << fmt.mantissa_bits) - 1)
    all_ones = field == (1 << fmt.exponent_bits) - 1
    match fmt.nan:
        case Nan.IEEE if all_ones:
            return ("nan" if mantissa else "inf", negative)
        case Nan.ALL_ONES if all_ones and mantissa == (1 << fmt.mantissa_bits) - 1:
            return ("nan", negative)
        case Nan.NEGATIVE_ZERO if code == 1 << (fmt.bits - 1):
            return ("nan", negative)
        case Nan.LAST if code == (1 << fmt.bits) - 1:
            return ("nan", False)
    if not fmt.has_zero:
        return finite(False, 1, field - fmt.bias)
    if field == 0:
        return finite(negative, mantissa, 1 - fmt.bias - fmt.mantissa_bits)
    return finite(negative, mantissa + (1 << fmt.mantissa_bits), field - fmt.bias - fmt.mantissa_bits)


def number(values: Iterable[Value]) -> Number:
    rows = []
    for v in values:
        match v:
            case ("nan", negative):
                rows.append((2, negative, 0, 0))
            case ("inf", negative):
                rows.append((1, negative, 0, 0))
            case _:
                rows.append((0, *v))
    columns = list(zip(*rows, strict=True)) or [()] * 4
    types = (np.uint8, np.bool_, np.int64, np.int64)
    return Number(*(np.array(column, dtype) for column, dtype in zip(columns, types, strict=True)))


def values(x: Number) -> list[Value]:
    assert [f.dtype for f in (x.kind, x.sign, x.significand, x.exponent)] == [np.uint8, np.bool_, np.int64, np.int64]
    rows = zip(x.kind.tolist(), x.sign.tolist(), x.significand.tolist(), x.exponent.tolist(), strict=True)
    out: list[Value] = []
    for kind, sign, significand, exponent in rows:
        if kind:
            assert (significand, exponent) == (0, 0)
            out.append(("inf" if kind == 1 else "nan", sign))
        else:
            assert significand.bit_length() <= 60
            is_far = significand and abs(exponent + significand.bit_length()) > FAR
            out.append((sign, "far", exponent > 0) if is_far else finite(sign, significand, exponent))
    return out


def parse(text: str) -> Value:
    """A value of the tables below: "+0", "-1/2", "+inf", "nan" (positive), "-3pi/4"."""
    negative, body = text[0] == "-", text.lstrip("+-")
    if body in ("inf", "nan"):
        return (body, negative)
    if "pi" in body:  # a sixty-bit pi, cut from its published hexadecimal digits
        times = Fraction(body.replace("pi", "" if body[0].isdigit() else "1"))
        digits = int("3243F6A8885A308D313198A2E0370734", 16)  # pi * 2**124
        scaled = digits * times.numerator * 4 // times.denominator
        cut = scaled.bit_length() - 60
        return finite(negative, (scaled >> cut) | 1, cut - 126)
    value = Fraction(body)
    assert value.denominator & (value.denominator - 1) == 0
    return finite(negative, value.numerator, 1 - value.denominator.bit_length())


def exact(v: Value) -> Fraction:
    sign, significand, exponent = v
    return (-1) ** sign * significand * Fraction(2) ** exponent


def is_zero(v: Value) -> bool:
    return v[0] in (False, True) and v[1] == 0


def is_finite(v: Value) -> bool:
    return v[0] not in ("nan", "inf")


# The oracle.


def real(v: Value) -> mpmath.mpf:
    sign, significand, exponent = v
    return mp.ldexp(mp.mpf(-significand if sign else significand), exponent)


def sixty_bits(evaluate: Callable[[], mpmath.mpf]) -> Value:
    """The value rounded to odd at 60 bits; evaluate() is trusted to 20 bits less than mpmath's precision."""
    for bits in (400, 3000, 12000):
        with mp.workprec(bits):
            sign, significand, exponent, count = evaluate()._mpf_
        significand, exponent = int(significand), int(exponent)
        if abs(exponent + count) > FAR:
            return (bool(sign), "far", exponent > 0)
        middle, unit = significand << bits, exponent - bits  # so that there are bits to vary
        error = 1 << (count + 20)
        low, high = middle - error, middle + error
        cut = high.bit_length() - 60
        if significand and low >> cut == high >> cut:
            return finite(bool(sign), (high >> cut) | 1, unit + cut)
    # Undecided at 12000 bits: it is exact.
    assert finite(False, significand, exponent)[1].bit_length() <= 60
    return finite(bool(sign), significand, exponent)


UNARY: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "exponential": mp.exp,
    "exponential_minus_one": mp.expm1,
    "log": mp.log,
    "log_plus_one": mp.log1p,
    "logistic": lambda x: 1 / (1 + mp.exp(-x)),
    "tanh": mp.tanh,
    "tan": mp.tan,
    "sine": mp.sin,
    "cosine": mp.cos,
    "sqrt": mp.sqrt,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
}

# Results at +0, -0, +inf, -inf.
SPECIAL = {
    "exponential": "+1 +1 +inf +0",
    "exponential_minus_one": "+0 -0 +inf -1",
    "log": "-inf -inf +inf nan",
    "log_plus_one": "+0 -0 +inf nan",
    "logistic": "+1/2 +1/2 +1 +0",
    "tanh": "+0 -0 +1 -1",
    "tan": "+0 -0 nan nan",
    "sine": "+0 -0 nan nan",
    "cosine": "+1 +1 nan nan",
    "sqrt": "+0 -0 +inf nan",
    "cbrt": "+0 -0 +inf -inf",
    "rsqrt": "+inf -inf +0 nan",
}

# Where exp(-x) is below 2**-2**20, further than mpmath should be driven.
SATURATED = {
    "exponential": ("far", "far"),
    "exponential_minus_one": ("far", "-1"),
    "logistic": ("+1", "far"),
    "tanh": ("+1", "-1"),
}
JUST_BELOW_ONE = ((1 << 60) - 1, -60)


def expected_unary(name: str, x: Value) -> Value:
    if x[0] == "nan":
        return x
    if x[0] == "inf" or is_zero(x):
        return parse(SPECIAL[name].split()[2 * (x[0] == "inf") + (x[1] if x[0] == "inf" else x[0])])
    if name in ("log", "sqrt", "rsqrt") and x[0]:
        return ("nan", False)
    if name == "log_plus_one" and x[0] and exact(x) <= -1:
        return ("inf", True) if exact(x) == -1 else ("nan", False)
    if name == "log" and exact(x) == 1:
        return (False, 0, 0)
    if name in SATURATED and x[1].bit_length() + x[2] > 20:
        text = SATURATED[name][x[0]]
        return (False, "far", not x[0]) if text == "far" else finite(text[0] == "-", *JUST_BELOW_ONE)
    if name in ("exponential_minus_one", "logistic", "tanh") and x[1].bit_length() + x[2] > 12:
        if name != "tanh" and x[0] == (name == "logistic"):
            return sixty_bits(lambda: mp.exp(real(x)))  # the rest is smaller by 2**-2900
        return finite(x[0], *JUST_BELOW_ONE)
    return sixty_bits(lambda: UNARY[name](real(x)))


def expected_power(x: Value, y: Value) -> Value:
    """C, F.10.4.4, clause by clause."""
    if (is_finite(y) and is_zero(y)) or x == (False, 1, 0):
        return (False, 1, 0)
    if x[0] == "nan" or y[0] == "nan":
        return x if x[0] == "nan" else y
    y_negative = y[1] if y[0] == "inf" else y[0]
    odd = is_finite(y) and exact(y).denominator == 1 and exact(y).numerator % 2 == 1
    if is_finite(x) and is_zero(x):
        return ("inf", x[0] and odd) if y_negative else (x[0] and odd, 0, 0)
    if y[0] == "inf":
        if x[0] == "inf":
            return (False, 0, 0) if y_negative else ("inf", False)
        if abs(exact(x)) == 1:
            return (False, 1, 0)
        return ("inf", False) if (abs(exact(x)) < 1) == y_negative else (False, 0, 0)
    if x[0] == "inf":
        return (x[1] and odd, 0, 0) if y_negative else ("inf", x[1] and odd)
    if x[0] and exact(y).denominator != 1:
        return ("nan", False)
    sign, base = bool(x[0] and odd), (False, *x[1:])
    if base == (False, 1, 0):
        return (sign, 1, 0)
    with mp.workprec(120):
        size = real(y) * mp.log(real(base), 2)
        if abs(size) > 2 * FAR:
            return (sign, "far", size > 0)
    return (sign, *sixty_bits(lambda: mp.power(real(base), real(y)))[1:])


def expected_atan2(y: Value, x: Value) -> Value:
    """C, F.10.1.4, clause by clause."""
    if y[0] == "nan" or x[0] == "nan":
        return y if y[0] == "nan" else x
    x_negative = x[1] if x[0] == "inf" else x[0]
    sign = "-" if (y[1] if y[0] == "inf" else y[0]) else "+"
    if is_finite(y) and is_zero(y):
        return parse(sign + ("pi" if x_negative else "0"))
    if is_finite(x) and is_zero(x):
        return parse(sign + "pi/2")
    if x[0] == "inf" and y[0] == "inf":
        return parse(sign + ("3pi/4" if x_negative else "pi/4"))
    if x[0] == "inf":
        return parse(sign + ("pi" if x_negative else "0"))
    if y[0] == "inf":
        return parse(sign + "pi/2")
    return sixty_bits(lambda: mp.atan2(real(y), real(x)))


BINARY = {"power": expected_power, "atan2": expected_atan2}


def check_unary(name: str, arguments: list[Value]) -> None:
    got = values(getattr(functions, name)(number(arguments)))
    wrong = [(x, r, e) for x, r in zip(arguments, got, strict=True) if r != (e := expected_unary(name, x))]
    assert not wrong, f"{name}: {len(wrong)} wrong, the first (argument, got, expected) {wrong[0]}"


def check_binary(name: str, pairs: list[tuple[Value, Value]]) -> None:
    a, b = (number(column) for column in zip(*pairs, strict=True))
    got = values(getattr(functions, name)(a, b))
    wrong = [(pair, r, e) for pair, r in zip(pairs, got, strict=True) if r != (e := BINARY[name](*pair))]
    assert not wrong, f"{name}: {len(wrong)} wrong, the first (arguments, got, expected) {wrong[0]}"


def sample(fmt: Format, count: int, rng: random.Random) -> list[Value]:
    """Random codes, in either sign, of every size, with the extremes, subnormals, infinities and NaNs."""
    half = 1 << (fmt.bits - 1)
    one, least_normal = fmt.bias << fmt.mantissa_bits, 1 << fmt.mantissa_bits
    inf = ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits
    codes = [0, 1, 2, 3, least_normal - 1, least_normal, least_normal + 1, inf - 2, inf - 1, inf, inf + 1]
    codes += [one + d for d in (-2, -1, 0, 1, 2)]
    codes += [rng.randrange(least_normal) for _ in range(count // 8)]
    codes += [one + rng.randrange(-8 * least_normal, 8 * least_normal) for _ in range(count // 4)]
    codes += [rng.randrange(inf) for _ in range(count // 2)]
    codes = [code | (half if rng.random() < 0.5 else 0) for code in codes] + [half + c for c in codes[:16]] + codes[:16]
    return [decode(fmt, code) for code in codes]


# Tests against the oracle.


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("fmt", MINIFLOATS)
def test_unary_every_code(fmt: str, name: str) -> None:
    check_unary(name, [decode(FORMATS[fmt], code) for code in range(1 << FORMATS[fmt].bits)])


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("fmt", WIDE)
def test_unary_sample(fmt: str, name: str) -> None:
    check_unary(name, sample(FORMATS[fmt], 400, random.Random(SEED)))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("fmt", MINIFLOATS)
def test_binary_sample(fmt: str, name: str) -> None:
    rng = random.Random(SEED)
    codes = [decode(FORMATS[fmt], code) for code in range(1 << FORMATS[fmt].bits)]
    check_binary(name, [(rng.choice(codes), rng.choice(codes)) for _ in range(4000)])


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("fmt", WIDE)
def test_binary_sample_wide(fmt: str, name: str) -> None:
    rng = random.Random(SEED)
    first, second = (sample(FORMATS[fmt], 1600, rng) for _ in range(2))
    rng.shuffle(second)
    check_binary(name, list(zip(first, second, strict=True)))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("fmt", WIDE)
def test_binary_extremes(fmt: str, name: str) -> None:
    extremes = sample(FORMATS[fmt], 0, random.Random(SEED))[-32:]
    check_binary(name, [(a, b) for a in extremes for b in extremes])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("fmt", MINIFLOATS)
def test_binary_every_pair(fmt: str, name: str) -> None:
    codes = [decode(FORMATS[fmt], code) for code in range(1 << FORMATS[fmt].bits)]
    check_binary(name, [(a, b) for a in codes for b in codes])


# Written out by hand.


@pytest.mark.parametrize("name", UNARY)
def test_unary_special_values(name: str) -> None:
    arguments = [parse(text) for text in ("+0", "-0", "+inf", "-inf", "nan", "-nan")]
    expected = [parse(text) for text in [*SPECIAL[name].split(), "nan", "-nan"]]
    assert values(getattr(functions, name)(number(arguments))) == expected


@pytest.mark.parametrize(
    ("name", "argument", "result"),
    [
        ("log", "+1", "+0"),
        ("log", "-1", "nan"),
        ("log_plus_one", "-1", "-inf"),
        ("log_plus_one", "-9/8", "nan"),
        ("sqrt", "+9/4", "+3/2"),
        ("sqrt", "+1/2251799813685248", None),  # 2**-51: an odd exponent has no exact root
        ("sqrt", "+1/4503599627370496", "+1/67108864"),  # 2**-52
        ("sqrt", "-1", "nan"),
        ("cbrt", "-27", "-3"),
        ("cbrt", "-1/8", "-1/2"),
        ("cbrt", "+4", None),
        ("rsqrt", "+16", "+1/4"),
        ("rsqrt", "+1/4", "+2"),
        ("rsqrt", "+9", None),
        ("rsqrt", "-4", "nan"),
    ],
)
def test_unary_exact_cases(name: str, argument: str, result: str | None) -> None:
    x = getattr(functions, name)(number([parse(argument)]))
    if result is None:
        assert int(x.significand[0]).bit_length() == 60
        assert x.significand[0] & 1
    else:
        assert values(x) == [parse(result)]


def rows(table: str) -> list[str]:
    return [row for row in table.replace("\n", ";").split(";") if row.strip()]


@pytest.mark.parametrize(
    "row",
    rows("""
    +0 -3 +inf;   -0 -3 -inf;   +0 -2 +inf;    -0 -2 +inf;   -0 -1/2 +inf;  +0 -inf +inf;  -0 -inf +inf
    +0 3 +0;      -0 3 -0;      +0 2 +0;       -0 2 +0;      -0 1/2 +0;     +0 +inf +0;    -0 +inf +0
    -1 +inf +1;   -1 -inf +1;   +1 nan +1;     +1 -inf +1;   +1 7/2 +1;     nan +0 +1;     -nan -0 +1
    +inf +0 +1;   -inf -0 +1;   +0 -0 +1;      -3 +0 +1;     -2 1/2 nan;    -1 3/2 nan;    -1/4 -1/2 nan
    1/2 -inf +inf;  -1/2 -inf +inf;  2 -inf +0;  -2 -inf +0;  1/2 +inf +0;  -1/2 +inf +0;  2 +inf +inf
    -2 +inf +inf;   -inf -3 -0;      -inf -2 +0;  -inf -1/2 +0;  -inf 3 -inf;  -inf 2 +inf;  -inf 1/2 +inf
    -inf +inf +inf; -inf -inf +0;    +inf -1 +0;  +inf -1/2 +0;  +inf 3 +inf;  +inf 1/2 +inf;  +inf -inf +0
    nan 1 nan;      -nan 1 -nan;     2 -nan -nan; -1 nan nan;    -nan nan -nan;  nan -nan nan;  nan +inf nan
    9 1/2 +3;       81/16 1/4 +3/2;  4 -3/2 +1/8; -3 3 -27;      -2 -3 -1/8;     -1 5 -1;       -1 4 +1
    16 -1/4 +1/2;   2 -60 1/1152921504606846976;  3 37 450283905890997363;  1/2 10 +1/1024;     -1/2 -5 -32
    """),
)
def test_power_table(row: str) -> None:
    x, y, result = (parse(text) for text in row.split())
    assert values(functions.power(number([x]), number([y]))) == [result]


@pytest.mark.parametrize(
    "row",
    rows("""
    +0 -0 +pi;     -0 -0 -pi;      +0 +0 +0;       -0 +0 -0;      +0 -2 +pi;      -0 -2 -pi;     +0 2 +0;   -0 2 -0
    -3 +0 -pi/2;   -3 -0 -pi/2;    3 +0 +pi/2;     3 -0 +pi/2;    3 -inf +pi;     -3 -inf -pi;   3 +inf +0; -3 +inf -0
    +inf 5 +pi/2;  -inf 5 -pi/2;   +inf -5 +pi/2;  -inf -5 -pi/2; +inf +0 +pi/2;  -inf -0 -pi/2
    +0 -inf +pi;   -0 -inf -pi;    +0 +inf +0;     -0 +inf -0;    +inf +inf +pi/4;  -inf +inf -pi/4
    nan 1 nan;     -nan 1 -nan;    1 -nan -nan;    -nan nan -nan; nan -nan nan;   nan +inf nan;  -inf nan nan
    +inf -inf +3pi/4;  -inf -inf -3pi/4;  2 2 +pi/4;  -3 3 -pi/4;  5 -5 +3pi/4;  -1/8 -1/8 -3pi/4
    """),
)
def test_atan2_table(row: str) -> None:
    y, x, result = (parse(text) for text in row.split())
    assert values(functions.atan2(number([y]), number([x]))) == [result]


@pytest.mark.parametrize("power", [2, 3, 5, 17, 100])
def test_integer_powers_of_wide_significands(power: int) -> None:
    for significand in ((1 << 52) + 1, (1 << 53) - 1, 3, (1 << 30) + 1):
        whole = significand**power
        cut = max(0, whole.bit_length() - 60)
        sticky = int(whole >> cut << cut != whole)
        x = functions.power(number([(True, significand, -52)]), number([finite(False, power, 0)]))
        assert values(x) == [finite(power % 2 == 1, whole >> cut | sticky, cut - 52 * power)]


LEAST = (False, 1, -1074)


@pytest.mark.parametrize(
    ("name", "x", "significand", "exponent"),
    [
        ("sine", LEAST, (1 << 60) - 1, -1134),
        ("tan", LEAST, (1 << 59) + 1, -1133),
        ("tanh", LEAST, (1 << 60) - 1, -1134),
        ("log_plus_one", LEAST, (1 << 60) - 1, -1134),
        ("exponential_minus_one", LEAST, (1 << 59) + 1, -1133),
        ("exponential", LEAST, (1 << 59) + 1, -59),
        ("cosine", LEAST, (1 << 60) - 1, -60),
        ("logistic", LEAST, (1 << 59) + 1, -60),
        ("tanh", (False, 1, 1023), (1 << 60) - 1, -60),
        ("logistic", (False, 1, 1023), (1 << 60) - 1, -60),
    ],
)
def test_just_beside(name: str, x: Value, significand: int, exponent: int) -> None:
    got = getattr(functions, name)(number([x]))
    assert (int(got.significand[0]), int(got.exponent[0])) == (significand, exponent)


@pytest.mark.parametrize(
    ("result", "sign", "up"),
    [
        (lambda: functions.exponential(number([(False, 1, 1000)])), False, True),
        (lambda: functions.exponential(number([(True, 1, 1000)])), False, False),
        (lambda: functions.logistic(number([(True, 1, 1000)])), False, False),
        (lambda: functions.power(number([(False, 1, 127)]), number([(False, 1, 127)])), False, True),
        (lambda: functions.power(number([(True, 3, 127)]), number([(True, (1 << 52) + 1, 0)])), True, False),
        (lambda: functions.power(number([(False, 1, 1000)]), number([(True, 1, 1000)])), False, False),
        (lambda: functions.power(number([(False, (1 << 53) - 1, -53)]), number([(False, 1, 1000)])), False, False),
    ],
)
def test_beyond_every_format(result: Callable[[], Number], sign: bool, up: bool) -> None:
    assert values(result()) == [(sign, "far", up)]


# Arrays.


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3), (0, 4)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = Number(np.zeros(shape, np.uint8), np.zeros(shape, bool), np.full(shape, 4, np.int64), np.zeros(shape, np.int64))
    for result in (functions.sqrt(x), functions.power(x, x), functions.atan2(x, x), functions.log_plus_one(x)):
        for field, dtype in ((result.kind, np.uint8), (result.sign, np.bool_)):
            assert (field.shape, field.dtype) == (shape, dtype)
        for field in (result.significand, result.exponent):
            assert (field.shape, field.dtype) == (shape, np.int64)


def test_one_number_written_in_many_ways() -> None:
    """Trailing zeros of a significand, and the exponent of a zero, change nothing."""
    kind, sign = np.zeros(3, np.uint8), np.zeros(3, bool)
    ones = Number(kind, sign, np.array([1, 1 << 20, 1 << 61]), np.array([0, -20, -61]))
    threes = Number(kind, sign, np.array([3, 6, 3 << 60]), np.array([0, -1, -60]))
    zeros = Number(kind, sign, np.zeros(3, np.int64), np.array([0, 5, -99]))
    assert values(functions.log(ones)) == [(False, 0, 0)] * 3
    minus_ones, minus_threes = ones.replace(sign=~sign), threes.replace(sign=~sign)
    assert values(functions.power(minus_ones, threes)) == [(True, 1, 0)] * 3
    assert values(functions.power(minus_threes, threes)) == [(True, 27, 0)] * 3
    assert values(functions.power(threes, zeros)) == [(False, 1, 0)] * 3
    assert values(functions.log_plus_one(minus_ones)) == [("inf", True)] * 3
    assert values(functions.log_plus_one(minus_threes)) == [("nan", False)] * 3


# The series.


@pytest.mark.parametrize("p", [96, 97, 192, 500, 1536])
def test_fixed_point_promises(p: int) -> None:
    """Each function is within the units that its docstring promises."""
    rng = random.Random(SEED + p)

    def within(units: int, got: int, value: Callable[[], mpmath.mpf]) -> None:
        with mp.workprec(3 * p + 1500):
            assert abs(got - mp.ldexp(value(), p)) <= units

    within(2, fixedpoint.pi(p), lambda: +mp.pi)
    within(2, fixedpoint.ln2(p), lambda: +mp.ln2)
    for _ in range(50):
        m, n, e = rng.getrandbits(rng.randint(1, 62)) | 1, rng.getrandbits(62) | 1, rng.randint(-1100, 1000)
        within(2, fixedpoint.log(m, e, p), lambda m=m, e=e: mp.log(real((False, m, e))))
        shift = n.bit_length() - m.bit_length() - rng.randint(0, 90)
        within(2, fixedpoint.atan(m, n, shift, p), lambda m=m, n=n, s=shift: mp.atan(mp.ldexp(mp.mpf(m) / n, s)))
        sine, cosine = fixedpoint.sin_cos(m, e, p)
        within(2, sine, lambda m=m, e=e: mp.sin(real((False, m, e))))
        within(2, cosine, lambda m=m, e=e: mp.cos(real((False, m, e))))
        x = rng.getrandbits(p + rng.randint(-80, fixedpoint.EXP_LIMIT)) * rng.choice((-1, 1))
        v, k = fixedpoint.exp(x, p)
        within(8, v, lambda x=x, k=k: mp.ldexp(mp.exp(mp.ldexp(mp.mpf(x), -p)), -k))
