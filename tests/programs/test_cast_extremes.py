"""`minihlo cast` and `interp.cast` at the ends: numbers beyond every type, names of types, codes, printed errors."""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest

from minihlo.interp import cast, cli
from minihlo.interp.errors import InputError
from minihlo.ops.minifloat.formats import FORMATS
from minihlo.ops.policy import OVERFLOWS, ROUNDINGS
from minihlo.ops.types import ELEMENT_TYPES

from .. import oracle
from ..thinned import thinned

INTEGERS = [t for t in ELEMENT_TYPES.values() if t.is_integer]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    """The lines of `minihlo cast`, by their first words."""
    assert cli.main(["cast", *arguments]) == 0, capsys.readouterr().err
    return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("text", "t"),
    thinned(
        itertools.product(
            ("1e309", "-1e309", "1.8e308", "-1e400", "1e700", "1e1300", "-1e4000", "1e5000", "1e99999"),
            ("f64", "f32", "bf16", "f8E4M3FN", "f8E5M2", "f4E2M1FN"),
        ),
        lambda text, t: t == "f8E5M2" or text in ("1e309", "-1e4000"),
    ),
)
def test_numbers_beyond_a_float_type(capsys: pytest.CaptureFixture[str], text: str, t: str) -> None:
    value = Fraction(-1 if text[0] == "-" else 1) * Fraction(10) ** 6000
    for rounding in ROUNDINGS[:-1]:
        for overflow in OVERFLOWS:
            code = oracle.encode(oracle.FORMATS[t], value, rounding, overflow)
            got = printed(capsys, text, t, "--rounding", rounding, "--overflow", overflow)["to"]
            assert oracle.same(oracle.FORMATS[t], int(got.split()[1], 16), code), (got, rounding, overflow)


def test_a_carry_into_the_infinity_of_f64(capsys: pytest.CaptureFixture[str]) -> None:
    halfway = str(2**1024 - 2**970)
    assert printed(capsys, halfway, "f64")["to"].split()[1] == "0x7FF0000000000000"
    assert printed(capsys, str(2**1024 - 2**970 - 1), "f64")["to"].split()[1] == "0x7FEFFFFFFFFFFFFF"


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_integers_stop_at_the_ends_of_the_range(capsys: pytest.CaptureFixture[str], element) -> None:
    bits, signed = element.bits, element.name.startswith("i")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    t = element.name
    for text in ("300", "-300", "1e400", "-1e400", "1e99999", "70000.5", "-1", "3", "2.5", "-0.0", "1e-400", "inf"):
        exact = math.inf if text == "inf" else Fraction(text if "99999" not in text else "1e6000")
        wanted = high if exact >= high else low if exact <= low else math.trunc(exact)
        assert int(printed(capsys, text, t)["to"].split()[1]) == wanted, text
        if abs(exact) < 2**31 and exact == int(exact):
            number = int(exact)
            assert int(cast(number, t)) == wanted
            assert [int(v) for v in cast(np.array([number, number], np.int64), t)] == [wanted] * 2
            assert int(printed(capsys, f"i32={number}", t)["to"].split()[1]) == wanted
    for source in INTEGERS:  # from the ends of every other integer type
        source_bits = source.bits
        is_signed = source.name.startswith("i")
        ends = (-(1 << (source_bits - 1)), (1 << (source_bits - 1)) - 1) if is_signed else (0, (1 << source_bits) - 1)
        given = np.array(ends, np.int64 if is_signed else np.uint64).astype(source.dtype)
        assert [int(v) for v in cast(given, t)] == [min(max(end, low), high) for end in ends], source


def test_the_printed_error_has_the_digits_of_the_exact_one(capsys: pytest.CaptureFixture[str]) -> None:
    for text in (
        "0.1",
        "0.3",
        "1e23",
        "3.141592653589793238462643383279",
        "2.2250738585072011e-308",
        "7e-310",
        "1e300",
    ):
        exact, nearest = Fraction(text), Fraction(float(text))
        shown = printed(capsys, text, "f64")["error"].split()[0]
        assert abs(Fraction(shown) - (nearest - exact)) <= abs(nearest - exact) / 10**5, text
    # out of the range of host floats
    assert printed(capsys, "1e-400", "f64")["error"].split()[0] == "-1e-400"
    assert printed(capsys, "1e400", "i64")["error"].startswith("-1e+400")
    assert printed(capsys, "-1e-2000", "f32")["error"].startswith("+1e-2000")
    shown = printed(capsys, "1e400", "f64", "--overflow", "saturate")["error"]
    assert re.fullmatch(r"-1e\+400 \(-5\.01e\+107 ULP\)", shown), shown


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_a_code_is_taken_as_one(capsys: pytest.CaptureFixture[str], fmt) -> None:
    for code in (0, 1, fmt.max_code, (1 << fmt.bits) - 1):
        lines = printed(capsys, hex(code), fmt.name)
        assert int(lines["to"].split()[1], 16) == code
        assert lines["from"] == lines["to"]
    assert cli.main(["cast", hex(1 << fmt.bits), fmt.name]) == 2
    assert "expected a code of" in capsys.readouterr().err


def test_a_bit_pattern_of_an_integer(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "0xFF", "i8")["to"] == "i8 -1"
    assert printed(capsys, "0xFF", "ui8")["to"] == "ui8 255"


def test_names_of_numpy_and_ml_dtypes(capsys: pytest.CaptureFixture[str]) -> None:
    for element in ELEMENT_TYPES.values():
        name = element.dtype.name
        if element.is_complex or not element.has_dtype:
            continue
        assert cast(1.0, name).dtype == element.dtype
        assert printed(capsys, "1", name)["to"].split()[0] == element.name
    for fmt in FORMATS.values():
        assert cli.main(["formats", fmt.dtype_name if fmt.has_dtype else fmt.name]) == 0
        assert fmt.name in capsys.readouterr().out
    assert printed(capsys, "float8_e4m3fn=1", "f32")["from"].split()[0] == "f8E4M3FN"


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("F8E4M3", "f8E4M3"), ("f8e4m3fnuz", "f8E4M3FNUZ"), ("F32", "f32"), ("BF16", "bf16"), ("f8E4M3FM", "f8E4M3FN")],
)
def test_a_mistyped_name_gets_a_guess(capsys: pytest.CaptureFixture[str], wrong: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"expected an element type, got '{wrong}' \\(did you mean {meant}[ ?]"):
        cast(1.0, wrong)
    for command in (("cast", "1", wrong), ("formats", wrong), ("cast", f"{wrong}=1", "f32")):
        assert cli.main(list(command)) == 2
        assert f"(did you mean {meant}" in capsys.readouterr().err


def test_a_mistyped_block_format_gets_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cast", "[1, 2]", "mxfp8_e4m4"]) == 2
    assert "expected a block format, got 'mxfp8_e4m4' (did you mean mxfp8_e4m3 or" in capsys.readouterr().err
