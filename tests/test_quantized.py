"""Quantized types: quantizing and dequantizing in exact fractions, and ops against the C++ reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir

from minihlo.interp import parser
from minihlo.interp.api import LoadedProgram
from minihlo.interp.errors import ExecutionError, ProgramError
from minihlo.interp.printing import format_value
from minihlo.interp.values import parse_value
from minihlo.ops.policy import Policy
from minihlo.ops.registry import Call, OpError, lookup
from minihlo.ops.types import ELEMENT_TYPES, QuantizedType, TensorType, element_type, quantized_type

from . import oracle, reference
from .oracle import FORMATS
from .oracle_numbers import INF, NAN, Value
from .run_op import bind

F32 = ELEMENT_TYPES["f32"]
I8 = np.arange(-128, 128).astype(np.int8)

NAMES = (
    "!quant.uniform<i8:f32, 0.1:-30>",
    "!quant.uniform<i8:f32, 0.0039215452530804804>",
    "!quant.uniform<i8<-127:127>:f32, 0.25:1>",
    "!quant.uniform<u8:f32, 0.3:128>",
    "!quant.uniform<i4:f32, 3.5:-2>",
    "!quant.uniform<u4:f32, 0.7:15>",
    "!quant.uniform<i2:f32, 1.5>",
    "!quant.uniform<u2:f32, 1.0e-10:3>",
    "!quant.uniform<i8:f16, 0.1:7>",
    "!quant.uniform<i8:bf16, 0.1:-128>",
    "!quant.uniform<i8:f64, 0.1:-30>",
    "!quant.uniform<u4:f8E4M3FN, 0.5:3>",
    "!quant.uniform<i8:f8E5M2, 0.3:-5>",
)
PER_TENSOR = tuple(element_type(n) for n in NAMES)
WIDE = tuple(
    element_type(f"!quant.uniform<{n}>")
    for n in (
        "i16:f32, 0.013:100",
        "u16:f32, 2.5:65535",
        "i32:f32, 1.5e-05",
        "u32:f64, 0.125:7",
        "i32:f64, 0.1",
        "i32:f16, 0.5:-3",
    )
)


def quantized(name: str) -> QuantizedType:
    found = element_type(name)
    assert isinstance(found, QuantizedType)
    return found


# -- the judge: the specification's formulas in fractions -----------------------------------------------------------


def rounded(x: Value, element: QuantizedType) -> Value:
    fmt = FORMATS[element.expressed.name]
    return oracle.decode(fmt, oracle.encode(fmt, x))


def divide(x: Value, y: Value) -> Value:
    return oracle.BINARY["divide"](x, y)


def quantize_one(x: Value, element: QuantizedType, index: int = 0) -> int:
    """(x / scale + zero point), clamped, to the nearest even integer."""
    scale = rounded(Fraction(element.scales[index]), element)
    shift, low, high = (
        rounded(Fraction(v), element) for v in (element.zero_points[index], element.storage_min, element.storage_max)
    )
    y = rounded(divide(x, scale), element)
    y = rounded(oracle.BINARY["add"](y, shift), element)
    if y != y:
        return 0
    y = min(max(y, low), high)
    if y in (INF, -INF):  # limits that the expressed type cannot hold
        return element.storage_max if y > 0 else element.storage_min
    return min(max(round(Fraction(y)), element.storage_min), element.storage_max)


def dequantize_one(code: int, element: QuantizedType, index: int = 0) -> Value:
    scale = rounded(Fraction(element.scales[index]), element)
    difference = rounded(Fraction(code - element.zero_points[index]), element)
    return rounded(oracle.BINARY["multiply"](difference, scale), element)


def numbers(x: np.ndarray, element: QuantizedType) -> list[Value]:
    fmt = FORMATS[element.expressed.name]
    return [oracle.decode(fmt, int(c)) for c in np.ascontiguousarray(x).view(f"u{x.itemsize}").ravel()]


def array(values: Sequence[Value], element: QuantizedType) -> np.ndarray:
    fmt = FORMATS[element.expressed.name]
    dtype = element.expressed.dtype
    return np.array([oracle.encode(fmt, v) for v in values], f"u{dtype.itemsize}").view(dtype)


def same(x: Value, y: Value) -> bool:
    return x == y or (x != x and y != y)


def all_codes(element: QuantizedType, most: int = 256) -> np.ndarray:
    whole = 1 << element.bits
    first = -(whole // 2) if str(element.storage).startswith("i") else 0
    codes = range(first, first + whole) if whole <= most else range(first, first + whole, whole // most + 7)
    return np.array(list(codes)).astype(np.int64 if element.bits > 8 else np.int16).astype(element.dtype)


def convert(name: str, x: np.ndarray, source: Any, target: Any, policy: Policy | None = None) -> np.ndarray:
    kernel = bind(name, [TensorType(x.shape, source)], TensorType(x.shape, target), policy)
    with np.errstate(all="ignore"):
        return np.asarray(kernel(x))


# -- types -----------------------------------------------------------------------------------------------------------


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
        ("i3:f32, 0.5", "'i3' is not an element type"),
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
        ("i8:f32:{0:1, 1:1}, {{0.5, 0.25}}", "is not a quantized type that is supported"),
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


# -- quantize and dequantize ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", [*PER_TENSOR, *WIDE], ids=str)
def test_dequantize_every_code(element: QuantizedType) -> None:
    codes = all_codes(element)
    found = convert("uniform_dequantize", codes, element, element.expressed)
    expected = [dequantize_one(int(c), element) for c in codes]
    assert all(map(same, numbers(found, element), expected))
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
    found = convert("uniform_quantize", x, element.expressed, element)
    assert found.dtype == element.dtype
    assert found.astype(np.int64).tolist() == [quantize_one(v, element) for v in numbers(x, element)]
    for i in (0, 5, len(x) - 1):
        one = convert("uniform_quantize", x[i, ...], element.expressed, element)
        assert (one.shape, one.dtype, int(one)) == ((), element.dtype, int(found[i]))


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
    found = convert("uniform_quantize", codes, source, target)
    assert found.astype(np.int64).tolist() == [quantize_one(dequantize_one(int(c), source), target) for c in codes]


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_nothing_to_quantize(shape: tuple[int, ...]) -> None:
    element = PER_TENSOR[0]
    found = convert("uniform_quantize", np.zeros(shape, np.float32), F32, element)
    assert (found.shape, found.dtype) == (shape, np.int8)


def test_stochastic_rounding_is_that_of_the_expressed_type() -> None:
    """The integers themselves are always the nearest ones, so that of f32 nothing is stochastic."""
    element, x = PER_TENSOR[0], samples(PER_TENSOR[0])
    plain = convert("uniform_quantize", x, F32, element)
    assert np.array_equal(convert("uniform_quantize", x, F32, element, Policy(rounding="stochastic")), plain)


# -- ops against the reference interpreter ----------------------------------------------------------------------------


def run(program: str, *arrays: Any) -> list[np.ndarray]:
    return LoadedProgram(parser.parse(program))(*arrays)


def stored(n: int | str, source: str, types: Sequence[str], body: str, result: str) -> str:
    """A program on quantized values %0, %1, … whose arguments and result are what is stored."""
    plain = [f"%a{i}: tensor<{n}x{source}>" for i in range(len(types))]
    casts = [
        f"%{i} = stablehlo.bitcast_convert %a{i} : (tensor<{n}x{source}>) -> tensor<{n}x!quant.uniform<{t}>>"
        for i, t in enumerate(types)
    ]
    storage = result.partition(":")[0]
    return f"""func.func @main({", ".join(plain)}) -> tensor<{n}x{storage}> {{
      {" ".join(casts)}
      %r = {body}
      %s = stablehlo.bitcast_convert %r : (tensor<{n}x!quant.uniform<{result}>>) -> tensor<{n}x{storage}>
      return %s : tensor<{n}x{storage}>
    }}"""


def elementwise(op: str, types: Sequence[str], result: str, n: int) -> str:
    takes = ", ".join(f"tensor<{n}x!quant.uniform<{t}>>" for t in types)
    names = ", ".join(f"%{i}" for i in range(len(types)))
    body = f'"stablehlo.{op}"({names}) : ({takes}) -> tensor<{n}x!quant.uniform<{result}>>'
    return stored(n, "i8", types, body, result)


UNARY = ("abs", "cbrt", "ceil", "cosine", "exponential", "exponential_minus_one", "floor", "log", "log_plus_one")
UNARY += ("logistic", "negate", "round_nearest_afz", "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tanh")


def test_every_code_of_unary_ops() -> None:
    """Of these scales no exact result lies near a tie, where functions that round differently could tell."""
    types = (("i8:f32, 0.1:-30", "i8:f32, 0.0173:5"), ("i8:f32, 0.0625", "i8:f32, 0.0625:-100"))
    programs = [elementwise(op, [t], r, 256) for op in UNARY for t, r in types]
    expected = reference.evaluate([(p, [I8]) for p in programs])
    for program, (want,) in zip(programs, expected, strict=True):
        assert np.array_equal(run(program, I8)[0], want), program


BINARY = ("add", "atan2", "divide", "multiply", "power", "remainder", "subtract")


def test_pairs_of_codes_of_binary_ops() -> None:
    """Every code with a few: the reference takes its time."""
    few = np.array([-128, -127, -77, -31, -30, -20, -19, -1, 0, 3, 4, 64, 127], np.int8)
    x, y = np.repeat(I8, len(few)), np.tile(few, 256)
    cases = [(op, ("i8:f32, 0.1:-30", "i8:f32, 0.5:-20"), "i8:f32, 0.5:-20") for op in BINARY]
    cases += [(op, ("i8:f32, 0.0625:3",) * 2, "i8:f32, 0.0625:3") for op in (*BINARY, "maximum", "minimum")]
    programs = [elementwise(op, types, result, len(x)) for op, types, result in cases]
    expected = reference.evaluate([(p, [x, y]) for p in programs])
    for program, (want,) in zip(programs, expected, strict=True):
        assert np.array_equal(run(program, x, y)[0], want), program


def test_a_table_and_no_table_give_the_same() -> None:
    """A table is made once there is enough work: from then on results must stay as they were."""
    t = TensorType((4,), PER_TENSOR[0])
    record = lookup("multiply")
    assert record is not None
    kernel = record.kernel(Call("stablehlo.multiply", (t, t), (t,), {}))
    x, y = np.array([5, -30, 127, -128], np.int8), np.array([-5, 3, 100, 90], np.int8)
    before = kernel(x, y).tolist()
    wide = np.resize(x, 100_000), np.resize(y, 100_000)
    assert kernel(*wide)[:4].tolist() == before
    assert kernel(x, y).tolist() == before
    assert kernel(x[:, None], y[0, ...]).shape == (4, 1)


def test_quantize_as_the_reference_does() -> None:
    rng = np.random.default_rng(7)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38, 1e-45]
    x = np.array([*rng.normal(0, 20, 2000), *rng.normal(0, 1e4, 500), *special], np.float32)
    types = (
        "i8:f32, 0.1:-30",
        "i8<-127:127>:f32, 0.25:1",
        "ui8:f32, 0.3:128",
        "i16:f32, 0.013:100",
        "i32:f32, 1.5e-5:9",
    )
    programs = []
    for t in types:
        storage = t.partition(":")[0].partition("<")[0]
        programs.append(f"""func.func @main(%a: tensor<{len(x)}xf32>) -> tensor<{len(x)}x{storage}> {{
          %0 = stablehlo.uniform_quantize %a : (tensor<{len(x)}xf32>) -> tensor<{len(x)}x!quant.uniform<{t}>>
          %1 = stablehlo.bitcast_convert %0 : (tensor<{len(x)}x!quant.uniform<{t}>>) -> tensor<{len(x)}x{storage}>
          return %1 : tensor<{len(x)}x{storage}>
        }}""")
    for program, (want,) in zip(programs, reference.evaluate([(p, [x]) for p in programs]), strict=True):
        assert np.array_equal(run(program, x)[0], want), program


def test_requantize_is_within_one_of_the_reference() -> None:
    """Which merges the two scales and zero points beforehand: ties fall to either side."""
    pairs = (("i8:f32, 0.1:-30", "i8:f32, 0.2:3"), ("i8:f32, 0.00392:5", "i8:f32, 0.0079:-5"), ("i8:f32, 0.1",) * 2)
    programs = [elementwise("uniform_quantize", [t], r, 256) for t, r in pairs]
    for program, (want,) in zip(programs, reference.evaluate([(p, [I8]) for p in programs]), strict=True):
        difference = run(program, I8)[0].astype(int) - want
        assert np.abs(difference).max() <= 1
        assert np.count_nonzero(difference) <= 8


# -- products ---------------------------------------------------------------------------------------------------------


def i8(seed: int, *shape: int, most: int = 128) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most, shape).astype(np.int8)


def dot(lhs: str, rhs: str, result: str) -> str:
    storage = result.partition(":")[0]
    types = [f"tensor<{s}x!quant.uniform<{t}>>" for s, t in (("3x4", lhs), ("4x5", rhs), ("3x5", result))]
    return f"""func.func @main(%a: tensor<3x4xi8>, %b: tensor<4x5xi8>) -> tensor<3x5x{storage}> {{
      %0 = stablehlo.bitcast_convert %a : (tensor<3x4xi8>) -> {types[0]}
      %1 = stablehlo.bitcast_convert %b : (tensor<4x5xi8>) -> {types[1]}
      %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : ({types[0]}, {types[1]}) -> {types[2]}
      %3 = stablehlo.bitcast_convert %2 : ({types[2]}) -> tensor<3x5x{storage}>
      return %3 : tensor<3x5x{storage}>
    }}"""


def exact_dot(x: np.ndarray, y: np.ndarray, lhs: str, rhs: str, result: str) -> list[list[int]]:
    """The sum in fractions, rounded once to an integer of the result."""
    a, b, out = (quantized(f"!quant.uniform<{t}>") for t in (lhs, rhs, result))
    found = []
    for row in x.tolist():
        cells = []
        for j, column in enumerate(y.T.tolist()):
            jb, jo = (j if t.axis is not None else 0 for t in (b, out))
            total = sum((p - a.zero_points[0]) * (q - b.zero_points[jb]) for p, q in zip(row, column, strict=True))
            real = total * Fraction(a.scales[0]) * Fraction(b.scales[jb]) / Fraction(out.scales[jo])
            cells.append(min(max(round(real + out.zero_points[jo]), out.storage_min), out.storage_max))
        found.append(cells)
    return found


RHS_AXIS = "i8:f32:1, {0.25, 0.5, 0.125, 0.0625, 1.0}"
DOTS = (  # the scale of the result is the product of the operands': the reference leaves the sum as it is
    ("i8:f32, 0.5:3", "i8:f32, 0.25", "i32:f32, 0.125"),
    ("i8:f32, 0.1:-128", "i8:f32, 0.3", "i32:f32, 0.03:7"),
    ("i8:f32, 0.5:3", RHS_AXIS, "i32:f32:1, {0.125, 0.25, 0.0625, 0.03125, 0.5}"),
)
OTHER_DOTS = (  # here it truncates, and does not clamp
    ("i8:f32, 0.5:3", "i8:f32, 0.25", "i8:f32, 50.0"),
    ("i8:f32, 0.5:3", "i8:f32, 0.25", "i8:f32, 1.0:20"),
    ("i8:f32, 0.5", RHS_AXIS, "i8:f32:1, {7.0, 3.0, 11.0, 0.3, 100.0}"),
)


def test_dot_general_as_the_reference_does() -> None:
    x, y = i8(1, 3, 4), i8(2, 4, 5)
    expected = reference.evaluate([(dot(*types), [x, y]) for types in DOTS])
    for types, (want,) in zip(DOTS, expected, strict=True):
        assert np.array_equal(run(dot(*types), x, y)[0], want), types


@pytest.mark.parametrize("types", [*DOTS, *OTHER_DOTS])
def test_dot_general_rounds_the_exact_sum_once(types: tuple[str, str, str]) -> None:
    x, y = i8(3, 3, 4), i8(4, 4, 5)
    assert run(dot(*types), x, y)[0].tolist() == exact_dot(x, y, *types)


def test_dot_general_batched_along_the_axis() -> None:
    """rhs is quantized along a batching dimension, which comes first in the result."""
    rhs, out = "i8:f32:1, {0.25, 0.5}", "i32:f32:0, {0.25, 0.5}"
    x, y = i8(5, 2, 3, 4), i8(6, 4, 2)
    types = [f"tensor<{s}x!quant.uniform<{t}>>" for s, t in (("2x3x4", "i8:f32, 1.0:5"), ("4x2", rhs), ("2x3", out))]
    program = f"""func.func @main(%a: {types[0]}, %b: {types[1]}) -> {types[2]} {{
      %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [1], contracting_dims = [2] x [0]
        : ({types[0]}, {types[1]}) -> {types[2]}
      return %0 : {types[2]}
    }}"""
    assert run(program, x, y)[0].tolist() == np.einsum("bik,kb->bi", x.astype(int) - 5, y.astype(int)).tolist()


@pytest.mark.parametrize("rhs", ["i8:f32, 0.25", "i8:f32:1, {0.1, 0.5, 0.3, 0.07, 1.0}"])
def test_hybrid_dot_general_dequantizes_the_weights(rhs: str) -> None:
    t = f"tensor<4x5x!quant.uniform<{rhs}>>"
    program = f"""func.func @main(%a: tensor<3x4xf32>, %b: tensor<4x5xi8>) -> tensor<3x5xf32> {{
      %0 = stablehlo.bitcast_convert %b : (tensor<4x5xi8>) -> {t}
      %1 = stablehlo.dot_general %a, %0, contracting_dims = [1] x [0] : (tensor<3x4xf32>, {t}) -> tensor<3x5xf32>
      return %1 : tensor<3x5xf32>
    }}"""
    x, y = i8(7, 3, 4, most=8).astype(np.float32), i8(8, 4, 5)
    ((want,),) = reference.evaluate([(program, [x, y])])
    np.testing.assert_allclose(run(program, x, y)[0], want, rtol=1e-6)


CONVOLUTIONS = (
    ("i8:f32, 0.5:3", "i8:f32, 0.25", "i32:f32, 0.125"),
    ("i8:f32, 0.5:3", "i8:f32:3, {0.25, 0.5, 0.125, 0.0625}", "i32:f32:3, {0.125, 0.25, 0.0625, 0.03125}"),
)


def convolution(types: tuple[str, str, str], padding: int) -> str:
    shapes = "2x5x6x2", "3x2x2x4", f"2x{3 + 2 * padding}x{5 + 2 * padding}x4"
    lhs, rhs, result = (f"tensor<{s}x!quant.uniform<{t}>>" for s, t in zip(shapes, types, strict=True))
    pads = f"[{padding}, {padding}]"
    return f"""func.func @main(%a: tensor<{shapes[0]}xi8>, %b: tensor<{shapes[1]}xi8>) -> tensor<{shapes[2]}xi32> {{
      %0 = stablehlo.bitcast_convert %a : (tensor<{shapes[0]}xi8>) -> {lhs}
      %1 = stablehlo.bitcast_convert %b : (tensor<{shapes[1]}xi8>) -> {rhs}
      %2 = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {{pad = [{pads}, {pads}]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : ({lhs}, {rhs}) -> {result}
      %3 = stablehlo.bitcast_convert %2 : ({result}) -> tensor<{shapes[2]}xi32>
      return %3 : tensor<{shapes[2]}xi32>
    }}"""


def test_convolution_as_the_reference_does() -> None:
    """Small numbers, because its products wrap in 8 bits. Padding is the number zero, not the integer."""
    x, y = i8(9, 2, 5, 6, 2, most=5), i8(10, 3, 2, 2, 4, most=5)
    programs = [convolution(types, padding) for types in CONVOLUTIONS for padding in (0, 1)]
    for program, (want,) in zip(programs, reference.evaluate([(p, [x, y]) for p in programs]), strict=True):
        assert np.array_equal(run(program, x, y)[0], want), program


@pytest.mark.parametrize("types", CONVOLUTIONS)
def test_convolution_is_exact(types: tuple[str, str, str]) -> None:
    x, y = i8(11, 2, 5, 6, 2), i8(12, 3, 2, 2, 4)
    padded = np.pad(x.astype(int) - 3, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = [
        [np.einsum("bhwf,hwfo->bo", padded[:, i : i + 3, j : j + 2], y.astype(int)) for j in range(7)] for i in range(5)
    ]
    assert np.array_equal(run(convolution(types, 1), x, y)[0], np.array(expected).transpose(2, 0, 1, 3))


# -- regions, choices, and what only moves ----------------------------------------------------------------------------

Q = "!quant.uniform<i8:f32, 0.5:3>"
W = "!quant.uniform<i32:f32, 0.25:1>"


def test_a_reduction_rounds_and_clamps_at_every_step() -> None:
    program = f"""func.func @main(%a: tensor<5x2x{Q}>, %i: tensor<{Q}>) -> tensor<2x{Q}> {{
      %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [0]
        : (tensor<5x2x{Q}>, tensor<{Q}>) -> tensor<2x{Q}>
      return %0 : tensor<2x{Q}>
    }}"""
    x, expected = i8(13, 5, 2), []
    x[:, 0] = [100, 100, -100, -100, -100]  # clamped on the way up and on the way down
    for column in x.T.tolist():
        total = 3
        for code in column:
            total = min(max(total + code - 3, -128), 127)
        expected.append(total)
    assert run(program, x, np.int8(3))[0].tolist() == expected
    maximum = program.replace("applies stablehlo.add", "applies stablehlo.maximum")
    assert run(maximum, x, np.int8(-128))[0].tolist() == x.max(axis=0).tolist()


@pytest.mark.parametrize("init", [Q, W])
def test_a_reduction_in_a_wider_type(init: str) -> None:
    """The operand is quantized anew: its code q stands for (q - 3) / 2, which is the code 2 * (q - 3) + 1 there."""
    program = f"""func.func @main(%a: tensor<5x{Q}>, %i: tensor<{init}>) -> tensor<{W}> {{
      %0 = "stablehlo.reduce"(%a, %i) ({{
        ^bb0(%x: tensor<{W}>, %y: tensor<{W}>):
          %1 = stablehlo.add %x, %y : tensor<{W}>
          stablehlo.return %1 : tensor<{W}>
      }}) {{dimensions = array<i64: 0>}} : (tensor<5x{Q}>, tensor<{init}>) -> tensor<{W}>
      return %0 : tensor<{W}>
    }}"""
    x = i8(14, 5)
    start = np.int8(3) if init == Q else np.int32(1)
    assert int(run(program, x, start)[0]) == 2 * int((x.astype(int) - 3).sum()) + 1


def test_the_body_of_map() -> None:
    program = f"""func.func @main(%a: tensor<5x{Q}>) -> tensor<5x{Q}> {{
      %0 = "stablehlo.map"(%a, %a) ({{
        ^bb0(%x: tensor<{Q}>, %y: tensor<{Q}>):
          %1 = stablehlo.multiply %x, %y : tensor<{Q}>
          stablehlo.return %1 : tensor<{Q}>
      }}) {{dimensions = array<i64: 0>}} : (tensor<5x{Q}>, tensor<5x{Q}>) -> tensor<5x{Q}>
      return %0 : tensor<5x{Q}>
    }}"""
    x = np.array([5, 7, -3, 127, 100], np.int8)
    squares = [round(Fraction(q - 3, 2) ** 2 * 2 + 3) for q in x.tolist()]
    assert run(program, x)[0].tolist() == [min(q, 127) for q in squares]


def test_the_comparator_of_sort() -> None:
    program = f"""func.func @main(%a: tensor<5x{Q}>) -> tensor<5x{Q}> {{
      %0 = "stablehlo.sort"(%a) ({{
        ^bb0(%x: tensor<{Q}>, %y: tensor<{Q}>):
          %1 = stablehlo.compare GT, %x, %y : (tensor<{Q}>, tensor<{Q}>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
      }}) {{dimension = 0 : i64}} : (tensor<5x{Q}>) -> tensor<5x{Q}>
      return %0 : tensor<5x{Q}>
    }}"""
    x = i8(16, 5)
    assert run(program, x)[0].tolist() == sorted(x.tolist(), reverse=True)


def test_a_loop_carries_quantized_values() -> None:
    program = f"""func.func @main(%a: tensor<{Q}>) -> tensor<{Q}> {{
      %end = stablehlo.constant() {{value = dense<100> : tensor<i8>}} : () -> tensor<{Q}>
      %0 = stablehlo.while(%x = %a) : tensor<{Q}> cond {{
        %c = stablehlo.compare LT, %x, %end : (tensor<{Q}>, tensor<{Q}>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %1 = stablehlo.add %x, %x : tensor<{Q}>
        stablehlo.return %1 : tensor<{Q}>
      }}
      return %0 : tensor<{Q}>
    }}"""
    code = 5
    while code < 100:
        code = min(2 * (code - 3) + 3, 127)
    assert int(run(program, np.int8(5))[0]) == code


def test_choosing_between_equal_types_does_not_round() -> None:
    """f32 could not tell these integers apart."""
    element = quantized("!quant.uniform<i32:f32, 0.1:5>")
    t = TensorType((2,), element)
    x, y = np.array([2**30 + 1, 7], np.int32), np.array([2**30, -9], np.int32)
    assert bind("maximum", [t, t], t)(x, y).tolist() == x.tolist()
    assert bind("minimum", [t, t], t)(x, y).tolist() == y.tolist()
    assert bind("clamp", [t, t, t], t)(y, x, x).tolist() == x.tolist()
    pred = TensorType((2,), ELEMENT_TYPES["i1"])
    assert bind("select", [pred, t, t], t)(np.array([True, False]), x, y).tolist() == [2**30 + 1, -9]


def test_choosing_between_unlike_types_quantizes_anew() -> None:
    a, b = (TensorType((2,), element_type(f"!quant.uniform<i8:f32, {p}>")) for p in ("0.5:3", "0.25"))
    pred = TensorType((2,), ELEMENT_TYPES["i1"])
    found = bind("select", [pred, a, b], b)(
        np.array([True, False]), np.array([5, 5], np.int8), np.array([7, 7], np.int8)
    )
    assert found.tolist() == [4, 7]
    assert bind("maximum", [a, b], b)(np.array([5, 3], np.int8), np.array([7, -7], np.int8)).tolist() == [7, 0]


def test_moving_keeps_codes() -> None:
    axis0, axis1 = (f"!quant.uniform<i8:f32:{d}, {{0.5:1, 0.25:7}}>" for d in (0, 1))
    program = f"""func.func @main(%a: tensor<2x3x{axis0}>) -> tensor<3x2x{axis1}> {{
      %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x{axis0}>) -> tensor<3x2x{axis1}>
      return %0 : tensor<3x2x{axis1}>
    }}"""
    x = i8(15, 2, 3)
    assert np.array_equal(run(program, x)[0], x.T)


def test_constants() -> None:
    """MLIR calls the storage of `u8` i8; -56 is 200."""
    u8, i4 = "!quant.uniform<u8:f32, 0.5:128>", "!quant.uniform<i4:f32, 0.5:-2>"
    program = f"""func.func @main() -> (tensor<2x{u8}>, tensor<2xf32>, tensor<3x{i4}>) {{
      %0 = stablehlo.constant() {{value = dense<[-56, 3]> : tensor<2xi8>}} : () -> tensor<2x{u8}>
      %1 = stablehlo.uniform_dequantize %0 : (tensor<2x{u8}>) -> tensor<2xf32>
      %2 = stablehlo.constant() {{value = dense<[-8, 0, 7]> : tensor<3xi4>}} : () -> tensor<3x{i4}>
      return %0, %1, %2 : tensor<2x{u8}>, tensor<2xf32>, tensor<3x{i4}>
    }}"""
    a, b, c = run(program)
    assert (a.tolist(), b.tolist(), c.astype(int).tolist()) == ([200, 3], [36.0, -62.5], [-8, 0, 7])


def test_iota_and_compare() -> None:
    t = TensorType((4,), quantized(Q))
    assert bind("iota", [], t, iota_dimension=0)().tolist() == [3, 5, 7, 9]
    other = TensorType((4,), quantized("!quant.uniform<i8:f32, 1.0>"))
    pred = TensorType((4,), ELEMENT_TYPES["i1"])
    x, y = np.array([3, 5, 7, 9], np.int8), np.array([0, 2, 2, 1], np.int8)
    assert bind("compare", [t, other], pred, comparison_direction="GT")(x, y).tolist() == [False, False, False, True]


def test_checks_compare_codes_or_numbers() -> None:
    a, b = (TensorType((1,), element_type(f"!quant.uniform<i8:f32, {p}>")) for p in ("0.5", "0.25"))
    near = lookup("check.expect_almost_eq")
    assert near is not None
    near.kernel(Call(near.name, (a, b), (), {}))(np.array([3], np.int8), np.array([6], np.int8))


# -- errors and values ------------------------------------------------------------------------------------------------


def test_ops_that_take_no_floats_take_no_quantized_ones() -> None:
    t = TensorType((2,), quantized(Q))
    with pytest.raises(OpError, match=r"element type !quant.uniform<i8:f32, 0.5:3> is not supported"):
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
