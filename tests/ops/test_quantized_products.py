"""Products of quantized tensors: dot_general and convolution."""

from fractions import Fraction

import numpy as np
import pytest

from . import reference
from .quantized_oracle import i8, quantized, run


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
    results = []
    for row in x.tolist():
        cells = []
        for j, column in enumerate(y.T.tolist()):
            jb, jo = (j if t.axis is not None else 0 for t in (b, out))
            total = sum((p - a.zero_points[0]) * (q - b.zero_points[jb]) for p, q in zip(row, column, strict=True))
            real = total * Fraction(a.scales[0]) * Fraction(b.scales[jb]) / Fraction(out.scales[jo])
            cells.append(min(max(round(real + out.zero_points[jo]), out.storage_min), out.storage_max))
        results.append(cells)
    return results


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
