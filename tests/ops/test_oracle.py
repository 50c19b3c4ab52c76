"""The oracle itself, against tables written by hand, against ml_dtypes, and against mpmath's identities."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from .. import oracle
from ..exact_cases import DTYPES, SEED, array, boundary_codes, codes_of
from ..oracle import BINARY, FORMATS, MINIFLOATS, UNARY, decode, encode, mp
from ..thinned import TYPICAL, thinned

Q = Fraction


@pytest.mark.parametrize(
    ("name", "largest", "smallest", "one"),
    [  # the largest number, the smallest above zero and the code of 1.0, as the papers and the OCP tables print them
        ("f4E2M1FN", 6, Q(1, 2), 0x2),
        ("f6E2M3FN", Q(15, 2), Q(1, 8), 0x08),
        ("f6E3M2FN", 28, Q(1, 16), 0x0C),
        ("f8E3M4", Q(31, 2), Q(1, 64), 0x30),
        ("f8E4M3", 240, Q(1, 512), 0x38),
        ("f8E4M3FN", 448, Q(1, 512), 0x38),
        ("f8E4M3FNUZ", 240, Q(1, 1024), 0x40),
        ("f8E4M3B11FNUZ", 30, Q(1, 8192), 0x58),
        ("f8E5M2", 57344, Q(1, 65536), 0x3C),
        ("f8E5M2FNUZ", 57344, Q(1, 131072), 0x40),
        ("f8E8M0FNU", 1 << 127, Q(1, 1 << 127), 0x7F),
        ("f16", 65504, Q(1, 1 << 24), 0x3C00),
        ("bf16", 0xFF << 120, Q(1, 1 << 133), 0x3F80),
        ("f32", 0xFFFFFF << 104, Q(1, 1 << 149), 0x3F800000),
        ("f64", ((1 << 53) - 1) << 971, Q(1, 1 << 1074), 0x3FF0000000000000),
    ],
)
def test_extremes(name: str, largest: Fraction, smallest: Fraction, one: int) -> None:
    fmt = FORMATS[name]
    assert decode(fmt, fmt.max_code) == largest
    assert decode(fmt, 0 if name == "f8E8M0FNU" else 1) == smallest
    assert decode(fmt, one) == 1
    assert encode(fmt, Q(largest)) == fmt.max_code
    assert encode(fmt, Q(1)) == one
    if fmt.max_code < fmt.ones:
        assert not oracle.is_finite(decode(fmt, fmt.max_code + 1))


def test_float4_as_its_table_prints_it() -> None:
    values = [decode(FORMATS["f4E2M1FN"], code) for code in range(16)]
    assert values == [0, Q(1, 2), 1, Q(3, 2), 2, 3, 4, 6, 0, -Q(1, 2), -1, -Q(3, 2), -2, -3, -4, -6]
    assert math.copysign(1, values[8]) == -1


@pytest.mark.parametrize(
    ("name", "nans", "infinities"),
    [
        ("f6E2M3FN", [], []),
        ("f8E3M4", [*range(0x71, 0x80), *range(0xF1, 0x100)], [0x70, 0xF0]),
        ("f8E4M3", [*range(0x79, 0x80), *range(0xF9, 0x100)], [0x78, 0xF8]),
        ("f8E4M3FN", [0x7F, 0xFF], []),
        ("f8E4M3FNUZ", [0x80], []),
        ("f8E4M3B11FNUZ", [0x80], []),
        ("f8E5M2", [0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF], [0x7C, 0xFC]),
        ("f8E5M2FNUZ", [0x80], []),
        ("f8E8M0FNU", [0xFF], []),
    ],
)
def test_codes_that_are_no_numbers(name: str, nans: list[int], infinities: list[int]) -> None:
    fmt = FORMATS[name]
    values = [decode(fmt, code) for code in range(1 << fmt.bits)]
    assert [c for c, v in enumerate(values) if math.isnan(v)] == nans
    assert [c for c, v in enumerate(values) if math.isinf(v)] == infinities


@pytest.mark.parametrize("name", MINIFLOATS)
def test_rounding_is_to_the_nearest_of_all_numbers(name: str) -> None:
    """Beside the numbers themselves: every midpoint, and a hair to either side of it."""
    fmt = FORMATS[name]
    numbers = sorted({v: c for c in range(1 << fmt.bits) if isinstance(v := decode(fmt, c), Fraction)}.items())
    hair = Q(1, 1 << 400)
    for (low, low_code), (high, high_code) in itertools.pairwise(numbers):
        middle = (low + high) / 2
        if low and high:
            assert encode(fmt, low) == low_code
            assert encode(fmt, middle - hair) == low_code
            assert encode(fmt, middle + hair) == high_code
            expected = {"nearest_even": high_code if low_code % 2 else low_code, "up": high_code, "down": low_code}
            if name == "f8E8M0FNU":
                expected["nearest_even"] = high_code
            expected["nearest_away"] = high_code if middle > 0 else low_code
            expected["toward_zero"] = low_code if middle > 0 else high_code
            for rounding, code in expected.items():
                assert encode(fmt, middle, rounding) == code, (low, high, rounding)


@pytest.mark.parametrize(
    ("name", "value", "ieee", "saturate"),
    [
        ("f8E4M3FN", Q(464), 0x7E, 0x7E),
        ("f8E4M3FN", Q(46401, 100), 0x7F, 0x7E),
        ("f8E4M3FN", -Q(46401, 100), 0xFF, 0xFE),
        ("f8E4M3FN", -math.inf, 0xFF, 0xFE),
        ("f8E5M2", Q(61440), 0x7C, 0x7B),
        ("f8E5M2", Q(61439), 0x7B, 0x7B),
        ("f8E4M3FNUZ", Q(248), 0x80, 0x7F),
        ("f8E4M3FNUZ", -Q(1, 1 << 20), 0x00, 0x00),
        ("f8E4M3FNUZ", -0.0, 0x00, 0x00),
        ("f8E4M3B11FNUZ", Q(31), 0x80, 0x7F),
        ("f8E4M3", Q(248), 0x78, 0x77),
        ("f8E3M4", -math.inf, 0xF0, 0xEF),
        ("f4E2M1FN", Q(1000), 0x7, 0x7),
        ("f4E2M1FN", -math.inf, 0xF, 0xF),
        ("f4E2M1FN", math.nan, 0x8, 0x8),
        ("f4E2M1FN", -math.nan, 0x0, 0x0),
        ("f4E2M1FN", -Q(1, 4), 0x8, 0x8),
        ("f6E3M2FN", math.nan, 0x20, 0x20),
        ("f8E8M0FNU", Q(0), 0xFF, 0xFF),
        ("f8E8M0FNU", Q(-1), 0xFF, 0xFF),
        ("f8E8M0FNU", Q(3), 0x81, 0x81),
        ("f8E8M0FNU", Q(3 << 126), 0xFF, 0xFE),
        ("f8E8M0FNU", Q(1, 1 << 149), 0x00, 0x00),
        ("f8E8M0FNU", Q(1, 1 << 150), 0xFF, 0xFF),
    ],
)
def test_results_at_the_edges(name: str, value: oracle.Value, ieee: int, saturate: int) -> None:
    assert encode(FORMATS[name], value) == ieee
    assert encode(FORMATS[name], value, overflow="saturate") == saturate


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_comes_back(name: str) -> None:
    fmt = FORMATS[name]
    codes = range(1 << fmt.bits) if fmt.bits <= 16 else random.Random(SEED).sample(boundary_codes(name), 5000)
    assert [c for c in codes if not (oracle.is_nan_code(fmt, c) or encode(fmt, decode(fmt, c)) == c)] == []


@pytest.mark.parametrize("name", FORMATS)
def test_decoding_as_ml_dtypes(name: str) -> None:
    fmt = FORMATS[name]
    codes = range(1 << fmt.bits) if fmt.bits <= 16 else boundary_codes(name)[::10]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        decoded = array(codes, name).astype(np.float64).tolist()
    for code, theirs in zip(codes, decoded, strict=True):
        ours = decode(fmt, code)
        assert ours == theirs or (math.isnan(ours) and math.isnan(theirs)), hex(code)
        assert oracle.is_negative(ours) == (math.copysign(1, theirs) < 0), hex(code)


@pytest.mark.parametrize("name", [n for n in FORMATS if n not in ("f32", "f64")])
def test_encoding_of_f32_as_ml_dtypes(name: str) -> None:
    fmt, source = FORMATS[name], FORMATS["f32"]
    codes = boundary_codes("f32")[::5]
    with np.errstate(all="ignore"):
        theirs = codes_of(array(codes, "f32").astype(DTYPES[name]))
    values = [decode(source, code) for code in codes]
    if name == "f8E8M0FNU":  # ml_dtypes rounds all between 2**-127 and twice that up
        values = [math.nan if Q(1, 1 << 127) < abs(v) < Q(1, 1 << 126) else v for v in values]
        theirs = [0xFF if math.isnan(v) else code for v, code in zip(values, theirs, strict=True)]
    wrong = [
        (hex(c), hex(a), hex(b))
        for c, v, b in zip(codes, values, theirs, strict=True)
        if not oracle.same(fmt, a := encode(fmt, v), b)
    ]
    assert not wrong, (len(wrong), wrong[:5])


@pytest.mark.parametrize("name", thinned(MINIFLOATS, lambda name: name in TYPICAL))
def test_integer_arithmetic_is_that_of_fractions(name: str) -> None:
    """The pairs done quickly in integers are the same done as fractions."""
    generator, fmt = random.Random(SEED), FORMATS[name]
    for op in ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum"):
        quick = oracle.binary_codes(fmt, op)
        for pair in generator.sample(range(len(quick)), min(len(quick), 500)):
            x, y = (decode(fmt, code) for code in divmod(pair, 1 << fmt.bits))
            # Which of two NaN gives its sign to their sum the host does not say.
            assert oracle.same(fmt, quick[pair], encode(fmt, BINARY[op](x, y))), (op, pair)


#: Of each function: a way to it through others, at twice the precision.
IDENTITIES = {
    "sqrt": lambda x: mp.exp(mp.log(x) / 2) if x > 0 else mp.nan,
    "rsqrt": lambda x: mp.exp(-mp.log(x) / 2) if x > 0 else mp.nan,
    "cbrt": lambda x: mp.sign(x) * mp.exp(mp.log(abs(x)) / 3),
    "exponential": lambda x: 1 / mp.exp(-x),
    "exponential_minus_one": lambda x: 2 * mp.exp(x / 2) * mp.sinh(x / 2),
    "log": lambda x: 2 * mp.atanh((x - 1) / (x + 1)) if x > 0 else mp.nan,
    "log_plus_one": lambda x: 2 * mp.atanh(x / (x + 2)) if x > -1 else mp.nan,
    "logistic": lambda x: (1 + mp.tanh(x / 2)) / 2,
    "tanh": lambda x: mp.expm1(2 * x) / (mp.exp(2 * x) + 1),
    "tan": lambda x: mp.sin(2 * x) / (1 + mp.cos(2 * x)),
    "sine": lambda x: mp.tan(x / 2) * 2 / (1 + mp.tan(x / 2) ** 2),
    "cosine": lambda x: mp.sin(x + mp.pi / 2),
}


@pytest.mark.parametrize("op", IDENTITIES)
def test_functions_by_identities(op: str) -> None:
    generator = random.Random(SEED)
    with mp.workprec(1600):
        for _ in range(150):
            x = Q(generator.randrange(-(1 << 24), 1 << 24), 1 << generator.randrange(19, 60))
            got, expected = UNARY[op](x), IDENTITIES[op](oracle.real(x))
            if isinstance(got, float):
                assert math.isnan(got)
                assert mp.isnan(expected)
            else:
                error = abs(mp.mpf(got.numerator) / got.denominator / expected - 1)
                assert error < mp.ldexp(1, -190), (op, x)


@pytest.mark.parametrize(
    ("op", "x", "result"),
    [
        ("sqrt", Q(9, 4), Q(3, 2)),
        ("rsqrt", Q(1, 16), 4),
        ("cbrt", -Q(27, 8), -Q(3, 2)),
        ("exponential", -0.0, 1),
        ("log", Q(1), 0),
        ("log", -0.0, -math.inf),
        ("log_plus_one", Q(-1), -math.inf),
        ("logistic", -math.inf, 0),
        ("logistic", math.inf, 1),
        ("tanh", -math.inf, -1),
        ("rsqrt", math.inf, 0),
        ("exponential_minus_one", -math.inf, -1),
        ("round_nearest_even", Q(5, 2), 2),
        ("round_nearest_afz", -Q(5, 2), -3),
        ("round_nearest_afz", Q(1, 2), 1),
        ("floor", -Q(1, 2), -1),
    ],
)
def test_exact_values(op: str, x: oracle.Value, result: oracle.Value) -> None:
    assert UNARY[op](x) == result


@pytest.mark.parametrize(
    ("op", "x", "negative"),
    [
        *((op, -0.0, True) for op in ("floor", "ceil", "sign", "sqrt", "cbrt", "sine", "tan", "tanh", "rsqrt")),
        ("ceil", -Q(1, 2), True),
        ("round_nearest_even", -Q(1, 2), True),
        ("floor", Q(1, 2), False),
        ("logistic", -math.inf, False),
        ("negate", -0.0, False),
        ("negate", Q(0), True),
        ("abs", -0.0, False),
    ],
)
def test_signs_of_zeros(op: str, x: oracle.Value, negative: bool) -> None:
    assert oracle.is_negative(UNARY[op](x)) == negative


@pytest.mark.parametrize("op", ["power", "atan2"])
def test_special_values_as_the_c_library(op: str) -> None:
    """Annex F, as numpy and Python's math module have it."""
    fmt = FORMATS["f64"]
    numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, math.inf, -math.inf, math.nan]
    for a, b in itertools.product(numbers, repeat=2):
        with np.errstate(all="ignore"):
            theirs = np.float64(a) ** np.float64(b) if op == "power" else np.float64(math.atan2(a, b))
        x, y = (decode(fmt, int(np.float64(v).view(np.uint64))) for v in (a, b))
        code, want = encode(fmt, BINARY[op](x, y)), int(theirs.view(np.uint64))
        assert oracle.same(fmt, code, want) or (code >> 63 == want >> 63 and abs(code - want) <= 1), (a, b)


def test_hard_powers() -> None:
    power = BINARY["power"]
    assert power(Q(4), -Q(1, 2)) == Q(1, 2)
    assert power(Q(2) ** 100, Q(1, 4)) == Q(2) ** 25
    assert power(Q(81, 16), Q(3, 4)) == Q(27, 8)
    assert power(Q(-3), Q(3)) == -27
    assert power(Q(2) ** -127, Q(2) ** 127) < Q(2) ** -4000
    assert encode(FORMATS["f32"], power(Q(1) + Q(1, 1 << 23), Q(1, 1 << 149)), "up") == 0x3F800001
    assert BINARY["remainder"](Q(2) ** 127, Q(3, 1 << 149)) == Q(1, 1 << 149) * (2**276 % 3)


def test_comparisons_and_order() -> None:
    values = {"nan": math.nan, "inf": math.inf, "-0": -0.0, "0": Q(0), "1": Q(1)}
    assert [oracle.COMPARE["EQ"](values["-0"], values["0"]), oracle.COMPARE["LT"](values["-0"], values["0"])] == [
        True,
        False,
    ]
    assert [d for d, f in oracle.COMPARE.items() if f(values["nan"], values["nan"])] == ["NE"]
    assert [d for d, f in oracle.COMPARE.items() if f(values["1"], values["inf"])] == ["NE", "LT", "LE"]
    order = [oracle.total_order(FORMATS["f8E5M2"], c) for c in (0xFF, 0xFC, 0xFB, 0x81, 0x80, 0x00, 0x01, 0x7C, 0x7D)]
    assert order == sorted(order)
    for name in ("f8E4M3FNUZ", "f8E5M2FNUZ"):
        assert max(range(256), key=lambda c, f=FORMATS[name]: oracle.total_order(f, c)) == 0x80


@pytest.mark.parametrize(
    ("x", "bits", "is_signed", "result"),
    [
        (Q(-7, 2), 8, True, -3),
        (Q(300), 8, True, 127),
        (Q(-300), 8, True, -128),
        (Q(-1), 8, False, 0),
        (math.inf, 4, False, 15),
        (-math.inf, 2, True, -2),
        (math.nan, 32, True, 0),
        (-0.0, 64, False, 0),
    ],
)
def test_integers(x: oracle.Value, bits: int, is_signed: bool, result: int) -> None:
    assert oracle.to_integer(x, bits, is_signed) == result
