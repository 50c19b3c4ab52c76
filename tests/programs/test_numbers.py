"""cast, scale, pack and unpack."""

import itertools
import math
import re
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.values import npy
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS
from minihlo.ops.types import element_type

from ..cli_cases import in_process

PACKED = {"i2": 2, "ui2": 2, "i4": 4, "ui4": 4, "f4E2M1FN": 4, "f6E2M3FN": 6, "f6E3M2FN": 6, "f8E4M3FN": 8, "i1": 1}


def codes(array: np.ndarray) -> list[int]:
    return array.view(np.uint8).ravel().tolist()


@pytest.mark.parametrize(
    ("x", "name", "expected"),
    [
        (-431.99999999999994, "f8E4M3FN", [0xFD]),  # -416: f32 on the way would make it -448
        ([1, 464, 465, -1e300], "f8E4M3FN", [0x38, 0x7E, 0x7F, 0xFF]),
        (np.array([True, False]), "f8E4M3FN", [0x38, 0x00]),
        (np.array([-8, 7], ml_dtypes.int4), "f4E2M1FN", [0xF, 0x7]),  # 7 is a tie between 6 and 8, which is not there
        (np.array([2**63 + 2**59 + 1], np.uint64), "f8E8M0FNU", [0xBE]),
        (np.array([448], ml_dtypes.float8_e4m3fn), "f8E4M3FNUZ", [0x80]),
        (np.array([1.0, 2.0], ">f4"), "f8E5M2", [0x3C, 0x40]),
        (np.float16(0.1), "f8E5M2", [0x2E]),
        ([], "f8E5M2", []),
    ],
)
def test_cast_rounds_once(x, name, expected) -> None:
    y = interp.cast(x, name)
    assert y.dtype == FORMATS[name].dtype
    assert y.shape == np.shape(x)
    assert codes(y) == expected


@pytest.mark.parametrize(
    ("overflow", "expected"),
    [
        # of 1000, inf, -inf, nan
        ("ieee", {"f8E4M3FN": [0x7F, 0x7F, 0xFF, 0x7F], "f8E5M2": [0x64, 0x7C, 0xFC, 0x7E]}),
        ("saturate", {"f8E4M3FN": [0x7E, 0x7E, 0xFE, 0x7F], "f8E5M2": [0x64, 0x7B, 0xFB, 0x7E]}),
        ("onnx", {"f8E4M3FNUZ": [0x7F, 0x80, 0x80, 0x80], "f4E2M1FN": [0x7, 0x7, 0xF, 0x7]}),
    ],
)
def test_cast_overflows_as_asked(overflow, expected) -> None:
    x = np.array([1000, np.inf, -np.inf, np.nan])
    for name, want in expected.items():
        assert codes(interp.cast(x, name, overflow=overflow)) == want, name


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("nearest_even", [1.0, 1.25, -1.0]),
        ("nearest_away", [1.125, 1.25, -1.125]),
        ("toward_zero", [1.0, 1.125, -1.0]),
        ("up", [1.125, 1.25, -1.0]),
        ("down", [1.0, 1.125, -1.125]),
    ],
)
def test_cast_rounds_as_asked(rounding, expected) -> None:
    x = np.array([1.0625, 1.2, -1.0625])
    assert interp.cast(x, "f8E4M3FN", rounding=rounding).tolist() == expected


def test_stochastic_rounding_is_reproducible_and_fair() -> None:
    x = np.full(20000, 1.03125)  # a quarter of the way from 1 to 1.125
    y = interp.cast(x, "f8E4M3FN", rounding="stochastic", seed=7)
    assert set(y.tolist()) == {1.0, 1.125}
    assert abs(float((y == 1.125).mean()) - 0.25) < 0.02  # more than six standard deviations
    assert codes(interp.cast(x, "f8E4M3FN", rounding="stochastic", seed=7)) == codes(y)
    assert codes(interp.cast(x, "f8E4M3FN", rounding="stochastic", seed=8)) != codes(y)


@pytest.mark.parametrize("value", ["0.3", "f32=0.3"])
def test_the_command_rounds_stochastically(value: str) -> None:
    neighbours = {"0x29", "0x2A"}
    printed = {
        str(seed): in_process("cast", value, "f8E4M3FN", "--rounding", "stochastic", "--seed", str(seed))
        for seed in range(24)
    }
    codes_ = {re.search(r"^to +f8E4M3FN (\S+)", out, re.MULTILINE)[1] for _, out, _ in printed.values()}  # type: ignore[index]
    assert codes_ == neighbours


def test_cast_gives_a_new_array() -> None:
    x = np.ones(3, np.float32)
    y = interp.cast(x, "f32")
    y[0] = 2
    assert x[0] == 1


def test_cast_takes_what_np_load_gives_of_our_files() -> None:
    x = npy.encode(np.array([1, 448], ml_dtypes.float8_e4m3fn), element_type("f8E4M3FN"))
    assert interp.cast(x, "f32").tolist() == [1, 448]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1, "f9"), {}, "expected an element type, got 'f9'"),
        ((1, "complex<f32>"), {}, "expected a real type, got complex"),
        ((1j, "f32"), {}, "expected a real type, got complex"),
        (("a", "f32"), {}, "expected an array of real numbers, got dtype <U1"),
        (([1, [2]], "f32"), {}, "expected an array"),
        ((2**70, "f32"), {}, "an integer beyond 64 bits"),
        ((1, "f8E5M2"), {"rounding": "x"}, "rounding: expected .*, got 'x'"),
        ((1, "f8E5M2"), {"overflow": "x"}, "overflow: expected .*, got 'x'"),
        ((1, "f8E5M2"), {"seed": -1}, "seed: expected an integer of at least 0, got -1"),
    ],
)
def test_bad_casts_are_reported(arguments, options, message) -> None:
    with pytest.raises(interp.InputError, match=message):
        interp.cast(*arguments, **options)


@pytest.mark.parametrize(
    ("x", "name", "exact", "power"),
    [
        ([0.1, -0.5], "f8E4M3FN", 896.0, 512.0),
        ([3.0], "f8E5M2", 57344 / 3, 16384.0),
        ([448.0], "f8E4M3FN", 1.0, 1.0),
        ([448.5], "f8E4M3FN", 448 / 448.5, 0.5),
        ([1.0, math.nan, math.inf, -math.inf], "f4E2M1FN", 6.0, 4.0),
        ([math.nan, math.inf], "f8E4M3FN", 1.0, 1.0),
        ([0.0, -0.0], "f8E4M3FN", 1.0, 1.0),
        ([], "f8E4M3FN", 1.0, 1.0),
        ([5e-324], "f8E4M3FN", float(np.finfo(np.float64).max), 2.0**1023),
        (np.array([-(2**63)]), "f8E4M3FN", 448 / 2**63, 2.0**-55),
        (np.array([2**64 - 1], np.uint64), "f4E2M1FN", 6 / (2**64 - 1), 2.0**-62),
        (np.array([2, -4], ml_dtypes.float8_e4m3b11fnuz), "f8E4M3FN", 112.0, 64.0),
        (2.0, "f8E8M0FNU", 2.0**126, 2.0**126),
    ],
)
def test_scale(x, name, exact, power) -> None:
    assert interp.scale(x, name) == exact
    assert interp.scale(x, name, power_of_two=True) == power


def test_a_power_of_two_is_the_largest_that_does_not_overflow() -> None:
    top = Fraction(448)
    for amax in np.random.default_rng(3).lognormal(0, 20, 200):
        factor = Fraction(interp.scale(amax, "f8E4M3FN", power_of_two=True))
        assert factor * Fraction(float(amax)) <= top < 2 * factor * Fraction(float(amax))


def test_scaling_is_for_floats() -> None:
    with pytest.raises(interp.InputError, match="expected a floating-point type, got i8"):
        interp.scale([1.0], "i8")


def test_bytes_are_laid_out_as_documented() -> None:
    assert interp.pack([0x1, 0x2, 0x3], "f4E2M1FN") == bytes([0x21, 0x03])
    assert interp.pack([0, 1, 2, 3, 1], "ui2") == bytes([0b11100100, 0b01])
    # Four 6-bit codes are the 24-bit number a + (b << 6) + (c << 12) + (d << 18), little-endian.
    assert interp.pack([1, 2, 3, 63], "f6E2M3FN") == (1 + (2 << 6) + (3 << 12) + (63 << 18)).to_bytes(3, "little")
    assert interp.pack([1, 0, 1], "i1") == bytes([0b101])
    assert interp.pack([0x7F, 0x80], "f8E4M3FN") == bytes([0x7F, 0x80])


@pytest.mark.parametrize("name", PACKED)
def test_every_code_survives(name: str) -> None:
    bits = PACKED[name]
    every = np.arange(1 << bits, dtype=np.uint8)
    for count in range(10):
        x = np.resize(every, count)
        packed = interp.pack(x, name)
        assert len(packed) == -(-count * bits // 8)
        # Against Python's integers.
        assert int.from_bytes(packed, "little") == sum(int(c) << (bits * i) for i, c in enumerate(x))
        assert interp.unpack(packed, name, count).tolist() == x.tolist()
    shaped = np.resize(every, (3, 5, 1))
    assert interp.unpack(interp.pack(shaped, name), name, (3, 5, 1)).tolist() == shaped.tolist()
    assert interp.unpack(b"", name, (0, 3)).shape == (0, 3)


@pytest.mark.parametrize("name", [n for n in MINIFLOATS if FORMATS[n].bits < 8])
def test_arrays_of_the_type_itself(name: str) -> None:
    x = np.arange(1 << FORMATS[name].bits, dtype=np.uint8)
    packed = interp.pack(x.view(FORMATS[name].dtype), name)
    assert packed == interp.pack(x, name)
    assert interp.unpack(packed, name, len(x)).view(FORMATS[name].dtype).tobytes() == x.tobytes()


def test_signed_integers() -> None:
    for x in (np.array([-1, -8, 7], ml_dtypes.int4), np.array([-1, -8, 7], np.int8), [-1, -8, 7]):
        assert interp.pack(x, "i4") == bytes([0x8F, 0x07])
    assert interp.unpack(b"\x8f\x07", "i4", 3).view(ml_dtypes.int4).tolist() == [-1, -8, 7]
    for pair in itertools.product(range(-2, 2), repeat=2):
        packed = interp.pack(np.array(pair, ml_dtypes.int2), "i2")
        assert interp.unpack(packed, "i2", 2).view(ml_dtypes.int2).tolist() == list(pair)


def test_bad_packing_is_reported() -> None:
    with pytest.raises(interp.InputError, match=r"expected a code of f4E2M1FN \(0 to 15\), got 16"):
        interp.pack([3, 16], "f4E2M1FN")
    with pytest.raises(interp.InputError, match=r"expected a code of .*, got -1"):
        interp.pack([-1], "ui4")
    with pytest.raises(interp.InputError, match="got float64"):
        interp.pack([1.0], "f4E2M1FN")
    with pytest.raises(interp.InputError, match="a type of up to eight bits"):
        interp.pack([1], "f16")
    for data, shape in ((b"1", 3), (b"123", 3), (b"1", 0)):
        with pytest.raises(interp.InputError, match=r"expected \d bytes for \d elements of f4E2M1FN, got "):
            interp.unpack(data, "f4E2M1FN", shape)
    for shape in (-1, 1.5, (1, True)):
        with pytest.raises(interp.InputError):
            interp.unpack(b"1", "f4E2M1FN", shape)  # type: ignore[arg-type]
    with pytest.raises(interp.ResourceError):
        interp.unpack(b"", "f4E2M1FN", (0, 2**70))
    with pytest.raises(interp.InputError, match="expected packed bytes, got"):
        interp.unpack("1", "f4E2M1FN", 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "got"),
    [
        (2**70, "an integer beyond 64 bits"),
        ([1, -(2**63) - 1], "an integer beyond 64 bits"),
        (10**5000, "an integer beyond 64 bits"),
        (["a", "b"], "dtype <U1"),
        (np.array([1, None]), "an element of type NoneType"),
        (np.array([1, 2], object), "Python objects"),
        (np.array("2020-01-01", "M8[D]"), r"dtype datetime64\[D\]"),
    ],
    ids=["2^70", "below", "5001 digits", "text", "None", "objects", "dates"],
)
@pytest.mark.parametrize("function", [interp.cast, interp.scale])
def test_what_is_no_array_of_numbers(function: Any, values: Any, got: str) -> None:
    with pytest.raises(interp.InputError, match=f"^expected an array of real numbers, got {got}"):
        function(values, "f8E4M3FN")
