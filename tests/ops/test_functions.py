"""The elementary functions on unpacked numbers against the oracle: 60 bits, the last one set where there are more."""

import itertools
import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mp

from minihlo.ops.minifloat import fixedpoint, functions
from minihlo.ops.minifloat.number import Number

from .. import oracle
from ..oracle import FORMATS, MINIFLOATS, Format, decode
from ..thinned import rotated

SEED = 20240607
FAR = 1100  #: a binary exponent beyond every format

#: Kind (0: finite, 1: infinite, 2: NaN), sign, odd significand, exponent; beyond every format "far", and whether large.
Row = tuple


def odd(negative: bool, significand: int, exponent: int) -> Row:
    """The row of a finite number."""
    if significand == 0:
        return (0, negative, 0, 0)
    zeros = (significand & -significand).bit_length() - 1
    if abs(exponent + significand.bit_length()) > FAR:
        return (0, negative, "far", exponent > 0)
    return (0, negative, significand >> zeros, exponent + zeros)


def row(value: oracle.Value) -> Row:
    """A value cut to 60 bits, the last of which is set where the rest is not zero."""
    negative = oracle.is_negative(value)
    if not oracle.is_finite(value):
        return (1 if math.isinf(value) else 2, negative, 0, 0)
    numerator, denominator = abs(Fraction(value)).as_integer_ratio()
    places = 64 + denominator.bit_length() - numerator.bit_length()
    quotient, rest = divmod(numerator << max(places, 0), denominator << max(-places, 0))
    cut = max(quotient.bit_length() - 60, 0)
    sticky = bool(rest or quotient & ((1 << cut) - 1))
    return odd(negative, quotient >> cut | sticky, cut - places)


def number(values: Iterable[oracle.Value | Row]) -> Number:
    columns = list(zip(*(v if isinstance(v, tuple) else row(v) for v in values), strict=True)) or [()] * 4
    types = (np.uint8, np.bool_, np.int64, np.int64)
    return Number(*(np.array(column, dtype) for column, dtype in zip(columns, types, strict=True)))


def rows(x: Number) -> list[Row]:
    fields = (x.kind, x.sign, x.significand, x.exponent)
    assert [f.dtype for f in fields] == [np.uint8, np.bool_, np.int64, np.int64]
    out: list[Row] = []
    for kind, sign, significand, exponent in zip(*(f.tolist() for f in fields), strict=True):
        assert significand.bit_length() <= 60
        assert not kind or (significand, exponent) == (0, 0)
        out.append((kind, sign, 0, 0) if kind else odd(sign, significand, exponent))
    return out


def check(name: str, cases: list[tuple[oracle.Value, ...]]) -> None:
    """The results are the oracle's; of two operands, the sign of NaN is left to `test_which_nan_is_given`."""
    got = rows(getattr(functions, name)(*(number(column) for column in zip(*cases, strict=True))))
    exact = oracle.UNARY.get(name) or oracle.BINARY[name]
    wanted = [row(exact(*case)) for case in cases]
    any_sign = len(cases[0]) == 2
    wrong = [
        (case, g, w)
        for case, g, w in zip(cases, got, wanted, strict=True)
        if g != w and not (any_sign and g[0] == w[0] == 2)
    ]
    assert not wrong, f"{name}: {len(wrong)} wrong, the first (operands, got, expected) {wrong[0]}"


def every_value(fmt: Format) -> list[oracle.Value]:
    return [decode(fmt, code) for code in range(1 << fmt.bits)]


def sample(fmt: Format, count: int, rng: random.Random) -> list[oracle.Value]:
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


UNARY, BINARY = tuple(oracle.FUNCTIONS), ("power", "atan2")


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("fmt", FORMATS)
def test_unary(fmt: str, name: str) -> None:
    values = every_value(FORMATS[fmt]) if fmt in MINIFLOATS else sample(FORMATS[fmt], 400, random.Random(SEED))
    check(name, [(v,) for v in values])


@pytest.mark.parametrize(("fmt", "name"), rotated(FORMATS, BINARY))
def test_binary(fmt: str, name: str) -> None:
    rng = random.Random(SEED)
    values = every_value(FORMATS[fmt]) if fmt in MINIFLOATS else sample(FORMATS[fmt], 1600, rng)
    pairs = [(rng.choice(values), rng.choice(values)) for _ in range(4000 if fmt in MINIFLOATS else 1600)]
    extremes = sample(FORMATS[fmt], 0, rng)[-32:] if fmt not in MINIFLOATS else []
    check(name, [*pairs, *itertools.product(extremes, repeat=2)])


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("sqrt", "9/4 1/2251799813685248 1/4503599627370496"),  # 2**-51, an odd exponent, has no exact root
        ("cbrt", "-27 -1/8 4"),
        ("rsqrt", "16 1/4 9"),
        ("power", "9,1/2 81/16,1/4 4,-3/2 -3,3 -2,-3 -1,5 -1,4 16,-1/4 2,-60 3,37 1/2,10 -1/2,-5"),
        ("atan2", "2,2 -3,3 5,-5 -1/8,-1/8"),
    ],
)
def test_exact_results(name: str, cases: str) -> None:
    check(name, [tuple(map(Fraction, case.split(","))) for case in cases.split()])


@pytest.mark.parametrize("power", [2, 3, 5, 17, 100])
def test_integer_powers_of_wide_significands(power: int) -> None:
    bases = [Fraction(-significand, 1 << 52) for significand in ((1 << 52) + 1, (1 << 53) - 1, 3, (1 << 30) + 1)]
    got = rows(functions.power(number(bases), number([Fraction(power)] * len(bases))))
    assert got == [row(base**power) for base in bases]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    ("x", "y", "negative"),
    [
        *((math.nan, 1, False), (-math.nan, 1, True), (2, -math.nan, True), (-1, math.nan, False)),
        *((-math.nan, math.nan, True), (math.nan, -math.nan, False), (math.nan, math.inf, False)),
    ],
)
def test_which_nan_is_given(name: str, x: float, y: float, negative: bool) -> None:
    """The first NaN of the operands, with its sign."""
    pair = (number([Fraction(v) if math.isfinite(v) else v]) for v in (x, y))
    assert rows(getattr(functions, name)(*pair)) == [(2, negative, 0, 0)]


TWO_TO_1000 = Fraction(2) ** 1000


@pytest.mark.parametrize(
    ("name", "operands", "sign", "is_large"),
    [
        ("exponential", (TWO_TO_1000,), False, True),
        ("exponential", (-TWO_TO_1000,), False, False),
        ("logistic", (-TWO_TO_1000,), False, False),
        ("power", (Fraction(2) ** 127, Fraction(2) ** 127), False, True),
        ("power", (-3 * Fraction(2) ** 127, -Fraction((1 << 52) + 1)), True, False),
        ("power", (TWO_TO_1000, -TWO_TO_1000), False, False),
        ("power", (Fraction((1 << 53) - 1, 1 << 53), TWO_TO_1000), False, False),
    ],
)
def test_beyond_every_format(name: str, operands: tuple[Fraction, ...], sign: bool, is_large: bool) -> None:
    x = getattr(functions, name)(*(number([v]) for v in operands))
    assert rows(x) == [(0, sign, "far", is_large)]


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
    assert rows(functions.log(ones)) == [(0, False, 0, 0)] * 3
    minus_ones, minus_threes = ones.replace(sign=~sign), threes.replace(sign=~sign)
    assert rows(functions.power(minus_ones, threes)) == [(0, True, 1, 0)] * 3
    assert rows(functions.power(minus_threes, threes)) == [(0, True, 27, 0)] * 3
    assert rows(functions.power(threes, zeros)) == [(0, False, 1, 0)] * 3
    assert rows(functions.log_plus_one(minus_ones)) == [(1, True, 0, 0)] * 3
    assert rows(functions.log_plus_one(minus_threes)) == [(2, False, 0, 0)] * 3


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
        within(2, fixedpoint.log(m, e, p), lambda m=m, e=e: mp.log(mp.ldexp(mp.mpf(m), e)))
        shift = n.bit_length() - m.bit_length() - rng.randint(0, 90)
        within(2, fixedpoint.atan(m, n, shift, p), lambda m=m, n=n, s=shift: mp.atan(mp.ldexp(mp.mpf(m) / n, s)))
        sine, cosine = fixedpoint.sin_cos(m, e, p)
        within(2, sine, lambda m=m, e=e: mp.sin(mp.ldexp(mp.mpf(m), e)))
        within(2, cosine, lambda m=m, e=e: mp.cos(mp.ldexp(mp.mpf(m), e)))
        x = rng.getrandbits(p + rng.randint(-80, fixedpoint.EXP_LIMIT)) * rng.choice((-1, 1))
        v, k = fixedpoint.exp(x, p)
        within(8, v, lambda x=x, k=k: mp.ldexp(mp.exp(mp.ldexp(mp.mpf(x), -p)), -k))
