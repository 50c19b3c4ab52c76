"""Results as text. MLIR's own printer is the oracle for numbers; everything is read back to the same bits."""

import json
import re

import ml_dtypes
import numpy as np
import pytest
from jaxlib.mlir import ir

from minihlo.interp.values.printing import MOST_ELEMENTS, format_value, number_text
from minihlo.interp.values.values import parse_value
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS
from minihlo.ops.types import ELEMENT_TYPES, TensorType, TokenType, TupleType, element_type


def shown(text: str, form: str = "dense") -> str:
    array, t = parse_value(text)
    return format_value(array, t, form)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i8=-3", "tensor<i8> {-3}"),
        ("3xi4=-8 7 1", "tensor<3xi4> {\n  [-8, 7, 1]\n}"),
        ("2xi1=true false", "tensor<2xi1> {\n  [true, false]\n}"),
        ("1xf32=-0.0", "tensor<1xf32> {\n  [-0.000000e+00]\n}"),
        ("2x2xui8=1 2 3 4", "tensor<2x2xui8> {\n  [\n    [1, 2],\n    [3, 4]\n  ]\n}"),
        (
            "2x1x2xi64=1 2 3 4",
            "tensor<2x1x2xi64> {\n  [\n    [\n      [1, 2]\n    ],\n    [\n      [3, 4]\n    ]\n  ]\n}",
        ),
        ("0xui8=", "tensor<0xui8> {\n  []\n}"),
        ("0x2xi8=", "tensor<0x2xi8> {\n  []\n}"),
        ("2x0xi8=", "tensor<2x0xi8> {\n  [\n    [],\n    []\n  ]\n}"),
        ("complex<f32>=(3.14,1)", "tensor<complex<f32>> {[3.140000e+00, 1.000000e+00]}"),
        ("3xf8E4M3FN=-1.5,nan,-nan", "tensor<3xf8E4M3FN> {\n  [-1.500000e+00, 0x7F, 0xFF]\n}"),
        ("2xf8E5M2=inf,-inf", "tensor<2xf8E5M2> {\n  [0x7C, 0xFC]\n}"),
        ("f8E4M3FNUZ=nan", "tensor<f8E4M3FNUZ> {0x80}"),
        # MLIR would print 1.367190e-02, which is another number.
        ("f8E4M3FN=0.013671875", "tensor<f8E4M3FN> {1.3671875e-02}"),
    ],
)
def test_dense_is_what_stablehlo_translate_prints(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x2xf8E4M3FNUZ=1 2 3 nan", "2x2xf8E4M3FNUZ=[[0x40 0x48][0x4C 0x80]]"),
        ("3xf4E2M1FN=0.5 6 -0", "3xf4E2M1FN=[0x1 0x7 0x8]"),
        ("2xf6E3M2FN=28 -28", "2xf6E3M2FN=[0x1F 0x3F]"),
        ("f32=1", "f32=0x3F800000"),
        ("2xi8=-1 5", "2xi8=[-1 5]"),
        ("2xi1=true false", "2xi1=[1 0]"),
        ("1xcomplex<f32>=(1,0)", "1xcomplex<f32>=[(0x3F800000,0x00000000)]"),
        ("2x0xi8=", "2x0xi8=[[][]]"),
    ],
)
def test_codes_is_a_line_in_the_manner_of_iree(text: str, expected: str) -> None:
    assert shown(text, "codes") == expected


@pytest.mark.parametrize(
    ("text", "values", "codes"),
    [
        ("2x2xf8E5M2=1,-inf,nan,-0", [[1.0, "-inf"], ["nan", -0.0]], [[0x3C, 0xFC], [0x7E, 0x80]]),
        ("f32=0.1", 0.1, 0x3DCCCCCD),
        ("1xf64=0.1", [0.1], [0x3FB999999999999A]),
        ("1xcomplex<f32>=(1,inf)", [[1.0, "inf"]], [[0x3F800000, 0x7F800000]]),
        ("2xi64=9223372036854775807,-1", [2**63 - 1, -1], None),
        ("2xi1=true false", [True, False], None),
        ("2xi4=-8 7", [-8, 7], None),
        ("0x2xf16=", [], []),
    ],
)
def test_json(text: str, values: object, codes: object) -> None:
    line = shown(text, "json")
    assert "\n" not in line
    assert "NaN" not in line
    assert "Infinity" not in line
    reported = json.loads(line)
    array, t = parse_value(text)
    assert (reported["type"], reported["shape"], reported["element"]) == (str(t), list(array.shape), t.element.name)
    assert reported["values"] == values
    assert reported.get("codes") == codes


def test_tokens_and_tuples() -> None:
    t = TupleType((TensorType((), element_type("i8")), TokenType()))
    value = (np.int8(3), None)
    assert format_value(value, t) == "tuple<tensor<i8>, !stablehlo.token> (\ntensor<i8> {3},\n!stablehlo.token\n)"
    assert [e["type"] for e in json.loads(format_value(value, t, "json"))["elements"]] == [
        "tensor<i8>",
        "!stablehlo.token",
    ]


def test_a_dynamic_type_is_reported_with_the_shape_there_is() -> None:
    assert format_value(np.array([1, 2], np.int8), TensorType((None,), element_type("i8"))).startswith("tensor<2xi8>")


def samples(name: str) -> np.ndarray:
    """Bit patterns at random, every power of ten around one, short decimals, and the ends of the range."""
    fmt = FORMATS[name]
    rng = np.random.default_rng(2024)
    parts = [
        rng.integers(0, 1 << fmt.bits, 2000, np.uint64, endpoint=False)
        if fmt.bits < 64
        else rng.integers(0, 2**64 - 1, 2000, np.uint64),
        np.arange(64, dtype=np.uint64),
        np.arange(fmt.max_code - 3, fmt.max_code + 3, dtype=np.uint64),
    ]
    numbers = np.concatenate([rng.normal(size=500), rng.normal(size=500).round(4) * 1000, 10.0 ** np.arange(-12, 5)])
    return np.concatenate([np.concatenate(parts).astype(fmt.code_dtype).view(fmt.dtype), numbers.astype(fmt.dtype)])


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_wide_numbers_are_printed_as_mlir_prints_them(name: str) -> None:
    fmt, element = FORMATS[name], element_type(name)
    different = []
    with ir.Context():
        for x in samples(name):
            code = int(x.view(fmt.code_dtype))
            ours = format_value(x, TensorType((), element)).split("{")[1][:-1]
            theirs = str(ir.Attribute.parse(f"0x{code:0{fmt.bits // 4}X} : {name}")).split(" ")[0]
            # MLIR prints large numbers that need many digits as a code, too; ours stays a decimal.
            if ours != theirs and not (theirs.startswith("0x") and np.isfinite(x) and abs(x) >= 1e6):
                different.append((code, ours, theirs))
    assert not different


@pytest.mark.parametrize("form", ["dense", "codes"])
@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_what_is_printed_reads_back(name: str, form: str) -> None:
    element = element_type(name)
    if element.is_complex:
        array = samples(element.part.name)[:2000].reshape(-1, 2).copy().view(element.dtype)
    elif element.is_float:
        array = np.arange(1 << element.bits, dtype=np.uint8).view(element.dtype) if element.bits <= 8 else samples(name)
    else:
        array = np.array([0, 1] if element.bits == 1 else [0, 1, -1, 3]).astype(f"i{max(element.bits, 8) // 8}")
        array = array.astype(element.dtype)
    array = array[: array.size // 2 * 2].reshape(2, -1)
    text = format_value(array, TensorType(array.shape, element), form, full=True)
    back, t = parse_value(text)
    assert t == TensorType(array.shape, element)
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", [n for n in MINIFLOATS if n != "f8E8M0FNU"])
def test_minifloats_are_printed_exactly(name: str) -> None:
    every = np.arange(1 << FORMATS[name].bits, dtype=np.uint8).view(FORMATS[name].dtype)
    text = format_value(every, TensorType(every.shape, element_type(name)))
    printed = re.split(r", ", text.split("[")[1].split("]")[0])
    for x, written in zip(every.astype(np.float64), printed, strict=True):
        assert float(written) == x if np.isfinite(x) else written.startswith("0x")


def test_large_results_are_elided_unless_asked_for() -> None:
    array = np.arange(MOST_ELEMENTS + 1, dtype=np.int32)
    t = TensorType(array.shape, element_type("i32"))
    text = format_value(array, t)
    assert text.splitlines()[1] == "  [0, 1, 2, …, 998, 999, 1000]"
    assert "--full" in text
    assert "…" not in format_value(array, t, full=True)
    assert "…" not in format_value(array[1:], TensorType((MOST_ELEMENTS,), element_type("i32")))
    assert "…" not in format_value(array, t, "codes")
    cube = np.zeros((100, 100, 100), ml_dtypes.float8_e4m3fn)
    assert len(format_value(cube, TensorType(cube.shape, element_type("f8E4M3FN"))).splitlines()) < 100


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("f8E4M3FN", 0x7E, "448"),
        ("f8E4M3FN", 0xFF, "-nan"),
        ("f8E4M3FNUZ", 0x80, "nan"),
        ("f8E5M2", 0xFC, "-inf"),
        ("f8E4M3FN", 0x80, "-0"),
        ("f8E4M3FN", 0x01, "0.001953125"),
        ("f32", 0x3DCCCCCD, "0.1"),
        ("f8E8M0FNU", 0x00, "5.877471754111438e-39"),
    ],
)
def test_numbers_for_people(name: str, code: int, text: str) -> None:
    assert number_text(FORMATS[name], code) == text
