"""Ops on quantized tensors against the C++ reference interpreter; with regions, choices, and what only moves."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from minihlo.ops.op import Call, lookup
from minihlo.ops.types import ELEMENT_TYPES, TensorType, element_type

from ..run_op import bind
from . import reference
from .quantized_oracle import I8, PER_TENSOR, Q, i8, quantized, run


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
    kernel = record.function(Call("stablehlo.multiply", (t, t), (t,), {}))
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
    actual = bind("select", [pred, a, b], b)(
        np.array([True, False]), np.array([5, 5], np.int8), np.array([7, 7], np.int8)
    )
    assert actual.tolist() == [4, 7]
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
    near.function(Call(near.name, (a, b), (), {}))(np.array([3], np.int8), np.array([6], np.int8))
