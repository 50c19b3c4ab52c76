"""Equal operations run once, and those on tensors that are transposed or reshaped alike."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.interp.compile.passes.inline import inlined
from minihlo.interp.compile.passes.share import share
from minihlo.interp.program import CONSTANT, Region
from minihlo.ops.engine.speed import NONE, Speed

_MAX = "applies stablehlo.maximum across dimensions"


def shared(text: str) -> Region:
    program = interp.load(text).program
    body = program.functions["main"].body
    assert body is not None
    region = inlined(program, body)
    return share(region, {o.results[0]: o.attributes["value"] for o in region.operations if o.name == CONSTANT})


def names(region: Region) -> list[str]:
    """The operations that are left, without constants and views."""
    hidden = {"constant", "transpose", "reshape", "broadcast_in_dim"}
    return sorted(n for o in region.operations if (n := o.name.removeprefix("stablehlo.")) not in hidden)


def same(text: str, *arrays: np.ndarray) -> None:
    program = interp.load(text).program
    ours, wanted = (machine.run(planner.plan(program, speed=s), list(arrays)) for s in (Speed(), NONE))
    for a, b in zip(ours, wanted, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


QUANTIZED = f"""
func.func @main(%x: tensor<2x3x5xf32>, %y: tensor<7x5xf32>)
    -> (tensor<2x3x7xf32>, tensor<5x7xf32>, tensor<5x6xf8E5M2>) {{
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %top = stablehlo.constant dense<57344.0> : tensor<f32>
  %a = stablehlo.abs %x : tensor<2x3x5xf32>
  %m = stablehlo.reduce(%a init: %low) {_MAX} = [0, 1, 2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<f32>
  %s = stablehlo.divide %m, %top : tensor<f32>
  %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x3x5xf32>
  %d = stablehlo.divide %x, %b : tensor<2x3x5xf32>
  %q = stablehlo.convert %d : (tensor<2x3x5xf32>) -> tensor<2x3x5xf8E5M2>
  %p = stablehlo.convert %y : (tensor<7x5xf32>) -> tensor<7x5xf8E5M2>
  %r = stablehlo.dot_general %q, %p, contracting_dims = [2] x [1]
    : (tensor<2x3x5xf8E5M2>, tensor<7x5xf8E5M2>) -> tensor<2x3x7xf32>
  %rows = stablehlo.reshape %x : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
  %t = stablehlo.transpose %rows, dims = [1, 0] : (tensor<6x5xf32>) -> tensor<5x6xf32>
  %a2 = stablehlo.abs %t : tensor<5x6xf32>
  %m2 = stablehlo.reduce(%a2 init: %least) {_MAX} = [0, 1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<f32>
  %s2 = stablehlo.divide %m2, %top : tensor<f32>
  %b2 = stablehlo.broadcast_in_dim %s2, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
  %d2 = stablehlo.divide %t, %b2 : tensor<5x6xf32>
  %q2 = stablehlo.convert %d2 : (tensor<5x6xf32>) -> tensor<5x6xf8E5M2>
  %u = stablehlo.transpose %y, dims = [1, 0] : (tensor<7x5xf32>) -> tensor<5x7xf32>
  %n = stablehlo.negate %u : tensor<5x7xf32>
  return %r, %n, %q2 : tensor<2x3x7xf32>, tensor<5x7xf32>, tensor<5x6xf8E5M2>
}}"""


def test_operands_are_quantized_once_though_they_are_transposed() -> None:
    left = names(shared(QUANTIZED))
    assert left == ["abs", "convert", "convert", "divide", "divide", "dot_general", "negate", "reduce"]


@pytest.mark.parametrize("special", [[], [np.nan], [np.inf, -np.inf], [-0.0], [1e-45, -3e38]])
def test_results_are_the_same(special: list[float]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 3, 5)).astype(np.float32), rng.standard_normal((7, 5)).astype(np.float32)
    x.reshape(-1)[3 : 3 + len(special)] = special
    y.reshape(-1)[9 : 9 + len(special)] = special
    same(QUANTIZED, x, y)


def binary(body: str, result: str = "tensor<4x4xf32>") -> str:
    return f"func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> {result} {{\n{body}\nreturn %r : {result}\n}}"


V = "tensor<4x4xf32>"
X, Y = np.random.default_rng(2).standard_normal((2, 4, 4)).astype(np.float32)
SQUARE = f"%s = stablehlo.transpose %x, dims = [1, 0] : ({V}) -> {V}"

NEGATED, ADDED = f"%a = stablehlo.negate %x : {V}", f"%r = stablehlo.add %a, %b : {V}"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (f"%a = stablehlo.add %x, %y : {V}\n%b = stablehlo.add %x, %y : {V}\n%r = stablehlo.multiply %a, %b : {V}", 2),
        # Unlike operands, unlike orders of them, unlike attributes and unlike types.
        (f"%a = stablehlo.add %x, %y : {V}\n%b = stablehlo.add %y, %x : {V}\n%r = stablehlo.multiply %a, %b : {V}", 3),
        (
            f"%a = stablehlo.compare LT, %x, %y : ({V}, {V}) -> tensor<4x4xi1>\n"
            f"%b = stablehlo.compare GT, %x, %y : ({V}, {V}) -> tensor<4x4xi1>\n"
            f"%c = stablehlo.and %a, %b : tensor<4x4xi1>\n%r = stablehlo.select %c, %x, %y : tensor<4x4xi1>, {V}",
            4,
        ),
        (
            f"%a = stablehlo.convert %x : ({V}) -> tensor<4x4xf8E5M2>\n%b = stablehlo.convert %x : ({V}) -> "
            f"tensor<4x4xf8E4M3FN>\n%c = stablehlo.convert %a : (tensor<4x4xf8E5M2>) -> {V}\n"
            f"%d = stablehlo.convert %b : (tensor<4x4xf8E4M3FN>) -> {V}\n%r = stablehlo.add %c, %d : {V}",
            5,
        ),
        # A square matrix has its shape when it is transposed, and is another one.
        (f"{NEGATED}\n{SQUARE}\n%b = stablehlo.negate %s : {V}\n{ADDED}", 2),
        (f"%a = stablehlo.add %x, %y : {V}\n{SQUARE}\n%b = stablehlo.add %s, %y : {V}\n{ADDED}", 3),
        # Twice the same of what is transposed, and of nothing else.
        (f"{SQUARE}\n{NEGATED.replace('%x', '%s')}\n%b = stablehlo.negate %s : {V}\n{ADDED}", 2),
    ],
)  # fmt: skip
def test_what_is_equal(body: str, left: int) -> None:
    assert len(names(shared(binary(body)))) == left
    same(binary(body), X, Y)


def test_a_sum_keeps_its_order() -> None:
    total = "applies stablehlo.add across dimensions = [0, 1]"
    body = f"""
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %a = stablehlo.reduce(%x init: %z) {total} : ({V}, tensor<f32>) -> tensor<f32>
      {SQUARE}
      %b = stablehlo.reduce(%s init: %z) {total} : ({V}, tensor<f32>) -> tensor<f32>
      %r = stablehlo.subtract %a, %b : tensor<f32>"""
    text = binary(body, "tensor<f32>")
    assert names(shared(text)) == ["reduce", "reduce", "subtract"]
    same(text, np.array([[1e8, 1, -1e8, 3]] * 4, np.float32), Y)


def test_what_a_loop_uses_is_what_is_left() -> None:
    body = f"""
      %a = stablehlo.add %x, %y : {V}
      %b = stablehlo.add %x, %y : {V}
      %i = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<5> : tensor<i32>
      %w:2 = stablehlo.while(%k = %i, %c = %a) : tensor<i32>, {V}
        cond {{
          %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %d = stablehlo.multiply %c, %b : {V}
          %m = stablehlo.add %k, %one : tensor<i32>
          stablehlo.return %m, %d : tensor<i32>, {V}
        }}
      %r = stablehlo.add %w#1, %b : {V}"""
    assert names(shared(binary(body))) == ["add", "add", "while"]
    same(binary(body), X, Y)


def test_random_bits_are_drawn_each_time() -> None:
    body = f"""
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %o = stablehlo.constant dense<1.0> : tensor<f32>
      %n = stablehlo.constant dense<[4, 4]> : tensor<2xi64>
      %a = stablehlo.rng %z, %o, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> {V}
      %b = stablehlo.rng %z, %o, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> {V}
      %r = stablehlo.subtract %a, %b : {V}"""
    assert names(shared(binary(body))) == ["rng", "rng", "subtract"]
