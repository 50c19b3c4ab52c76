"""Quantized types: what they are, quantizing and dequantizing in exact fractions, and what is refused."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from jaxlib.mlir import ir

from minihlo.interp.errors import ExecutionError, ProgramError
from minihlo.interp.parse import parser
from minihlo.interp.values.printing import format_value
from minihlo.interp.values.values import parse_value
from minihlo.ops.op import OpError
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, QuantizedType, TensorType, element_type, quantized_type

from ..oracle_numbers import INF, NAN
from ..run_op import bind
from .quantized_oracle import (
    F32,
    PER_TENSOR,
    WIDE,
    Q,
    all_codes,
    array,
    convert,
    dequantize_one,
    numbers,
    quantize_one,
    quantized,
    run,
    same,
)


@pytest.mark.parametrize("element", [*PER_TENSOR, *WIDE], ids=str)
def test_names_are_mlirs(element: QuantizedType) -> None:
    context = parser.make_context()
    with context:
        tensor = ir.Type.parse(f"tensor<2x{element}>")
        again = str(tensor).removeprefix("tensor<2x")[:-1]
    assert element_type(again) == element
    assert str(element_type(str(element))) == str(element)


def test_a_type_is_the_same_however_it_is_written() -> None:
    short = quantized("!quant.uniform<i8:f32:0, {0.1:-30,0.5}>")
    long = quantized("!quant.uniform<i8<-128:127>:f32:0, {1.000000e-01:-30, 5.0e-1:0}>")
    made = quantized_type("i8", "f32", (0.1, 0.5), (-30, 0), 0)
    assert short == long == made
    assert len({short, long, made}) == 1
    assert str(made) == "!quant.uniform<i8:f32:0, {0.1:-30, 0.5}>"
    assert quantized("!quant.uniform<ui8:f32, 0.5>") == quantized("!quant.uniform<u8:f32, 0.5>")
    assert (made.storage, made.expressed, made.dtype, made.bits) == (ELEMENT_TYPES["i8"], F32, np.int8, 8)
    assert (F32.storage, F32.expressed) == (F32, F32)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("i3:f32, 0.5", "expected an element type, got 'i3'"),
        ("i64:f32, 0.5", "its storage type is i64 (i2 to i32 or ui2 to ui32)"),
        ("i1:f32, 0.5", "its storage type is i1"),
        ("i8:i32, 0.5", "its expressed type is i32 (a float type)"),
        ("i8:f32, 0.5:300", "its zero points must lie within -128:127"),
        ("i8<0:200>:f32, 0.5", "its limits are 0:200 (within -128:127)"),
        ("i8<5:5>:f32, 0.5:5", "its limits are 5:5"),
        ("i8:f32, 0.0", "its scales must be positive and finite"),
        ("i8:f32, -0.5", "its scales must be positive and finite"),
        ("i8:f32, 1.0e999", "its scales must be positive and finite"),
        ("i8:f32, {0.5}", "is not a quantized type that is supported"),
        ("i8:f32:0, 0.5", "is not a quantized type that is supported"),
        ("i8:f32:{0:1, 1:1}, {{0.5, 0.25}}", "is a sub-channel type, which no operation of StableHLO takes"),
        ("i8:f32", "is not a quantized type that is supported"),
    ],
)
def test_what_is_no_quantized_type(name: str, error: str) -> None:
    with pytest.raises(ValueError, match="quant") as caught:
        element_type(f"!quant.uniform<{name}>")
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_scale_that_its_expressed_type_cannot_hold() -> None:
    t = quantized_type("i8", "f16", (1e-10,))
    with pytest.raises(OpError, match="no positive number of f16"):
        bind("uniform_dequantize", [TensorType((2,), t)], TensorType((2,), t.expressed))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_an_axis_that_does_not_fit(shape: tuple[int, ...]) -> None:
    t = quantized("!quant.uniform<i8:f32:1, {0.5, 0.25}>")
    with pytest.raises(OpError, match=r"quantized along|has 2 scales for dimension 1 of size 3"):
        bind("uniform_dequantize", [TensorType(shape, t)], TensorType(shape, F32))


@pytest.mark.parametrize("size", [1, 3])
def test_an_open_axis_that_does_not_fit(size: int) -> None:
    t = quantized("!quant.uniform<i8:f32:0, {0.5, 0.25}>")
    program = f"""func.func @main(%a: tensor<?x{t}>) -> tensor<?xf32> {{
      %0 = stablehlo.uniform_dequantize %a : (tensor<?x{t}>) -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }}"""
    assert run(program, np.array([3, -3], np.int8))[0].tolist() == [1.5, -0.75]
    with pytest.raises(ExecutionError, match=f"has 2 scales for dimension 0 of size {size}"):
        run(program, np.zeros(size, np.int8))


@pytest.mark.parametrize("element", [*PER_TENSOR, *WIDE], ids=str)
def test_dequantize_every_code(element: QuantizedType) -> None:
    codes = all_codes(element)
    actual = convert("uniform_dequantize", codes, element, element.expressed)
    expected = [dequantize_one(int(c), element) for c in codes]
    assert all(map(same, numbers(actual, element), expected))
    for i in (0, len(codes) // 2, len(codes) - 1):  # of rank 0
        one = convert("uniform_dequantize", codes[i, ...], element, element.expressed)
        assert one.shape == ()
        assert same(numbers(one, element)[0], expected[i])


def samples(element: QuantizedType) -> np.ndarray:
    """Every code's number, the ties between them, their neighbours, and what is beyond."""
    codes = [int(c) for c in all_codes(element, 64)]
    scale = Fraction(element.scales[0])
    middles = [(Fraction(a + b, 2) - element.zero_points[0]) * scale for a, b in pairwise(codes)]
    exact = [(Fraction(c) - element.zero_points[0]) * scale for c in codes]
    near = [m * f for m in middles for f in (1, 1 + Fraction(1, 1 << 10), 1 - Fraction(1, 1 << 23))]
    far = [Fraction(f) * scale for f in (-1 << 40, -70000, 70000, 1 << 40)]
    return array([*exact, *near, *far, Fraction(0), -0.0, INF, -INF, NAN], element)


@pytest.mark.parametrize("element", [*PER_TENSOR, *WIDE], ids=str)
def test_quantize(element: QuantizedType) -> None:
    x = samples(element)
    actual = convert("uniform_quantize", x, element.expressed, element)
    assert actual.dtype == element.dtype
    assert actual.astype(np.int64).tolist() == [quantize_one(v, element) for v in numbers(x, element)]
    for i in (0, 5, len(x) - 1):
        one = convert("uniform_quantize", x[i, ...], element.expressed, element)
        assert (one.shape, one.dtype, int(one)) == ((), element.dtype, int(actual[i]))


@pytest.mark.parametrize("name", ["i8:f32:AXIS, {0.1:-30, 0.5, 3.25:127}", "i4:f16:AXIS, {0.1:-8, 0.5:1, 3.25:7}"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_quantize_and_dequantize_along_an_axis(name: str, axis: int) -> None:
    element = quantized(f"!quant.uniform<{name.replace('AXIS', str(axis))}>")
    shape = [4, 4, 4]
    shape[axis] = 3
    rng = np.random.default_rng(axis)
    x = rng.normal(0, 30, shape).astype(element.expressed.dtype)
    codes = convert("uniform_quantize", x, element.expressed, element)
    back = convert("uniform_dequantize", codes, element, element.expressed)
    for at, number, again in zip(np.ndindex(*shape), numbers(x, element), numbers(back, element), strict=True):
        assert int(codes[at]) == quantize_one(number, element, at[axis])
        assert again == dequantize_one(int(codes[at]), element, at[axis])


@pytest.mark.parametrize("source", [PER_TENSOR[0], PER_TENSOR[4], WIDE[0]], ids=str)
@pytest.mark.parametrize("target", [*PER_TENSOR[:6], WIDE[2]], ids=str)
def test_requantize_is_dequantize_then_quantize(source: QuantizedType, target: QuantizedType) -> None:
    codes = all_codes(source)
    actual = convert("uniform_quantize", codes, source, target)
    assert actual.astype(np.int64).tolist() == [quantize_one(dequantize_one(int(c), source), target) for c in codes]


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_nothing_to_quantize(shape: tuple[int, ...]) -> None:
    element = PER_TENSOR[0]
    actual = convert("uniform_quantize", np.zeros(shape, np.float32), F32, element)
    assert (actual.shape, actual.dtype) == (shape, np.int8)


def test_stochastic_rounding_is_that_of_the_expressed_type() -> None:
    """The integers themselves are always the nearest ones, so that of f32 nothing is stochastic."""
    element, x = PER_TENSOR[0], samples(PER_TENSOR[0])
    plain = convert("uniform_quantize", x, F32, element)
    assert np.array_equal(convert("uniform_quantize", x, F32, element, Policy(rounding="stochastic")), plain)


def test_ops_that_take_no_floats_take_no_quantized_ones() -> None:
    t = TensorType((2,), quantized(Q))
    with pytest.raises(OpError, match=r"expected an element type of i1, integer, got !quant.uniform<i8:f32, 0.5:3>"):
        bind("and", [t, t], t)


def test_expressed_types_must_agree() -> None:
    t = TensorType((2,), quantized(Q))
    with pytest.raises(OpError, match="numbers of f32 cannot become f64"):
        bind("uniform_dequantize", [t], TensorType((2,), ELEMENT_TYPES["f64"]))


def test_a_contracted_axis() -> None:
    rhs = TensorType((4, 5), quantized("!quant.uniform<i8:f32:0, {0.5, 0.5, 0.5, 0.5}>"))
    lhs, result = TensorType((3, 4), quantized(Q)), TensorType((3, 5), quantized(Q))
    numbers = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (0,)}
    with pytest.raises(OpError, match="quantized along dimension 0, which is contracted"):
        bind("dot_general", [lhs, rhs], result, dot_dimension_numbers=numbers)


@pytest.mark.parametrize("storage", ["i3", "i1"])
def test_programs_with_other_types_are_refused_in_one_line(storage: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parser.parse(f"func.func @f(%a: tensor<2x!quant.uniform<{storage}:f32, 0.5>>) {{ return }}", "x.mlir")
    assert str(caught.value).startswith("x.mlir:1:1: func.func: type !quant.uniform<")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "3x!quant.uniform<i8:f32, 0.1:-30>=[1 2 -128]",
        "!quant.uniform<u4:f32, 0.5>=15",
        "2x2x!quant.uniform<i4:f32:1, {0.1:3, 0.5}>=[[1 -2][-8 7]]",
    ],
)
def test_values_are_read_and_printed_as_they_are_stored(text: str) -> None:
    x, t = parse_value(text)
    assert format_value(x, t, "codes") == text
    again, same = parse_value(format_value(x, t, "dense"))
    assert same == t
    assert np.array_equal(again.astype(int), x.astype(int))
