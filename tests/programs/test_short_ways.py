"""Ways that operations take where the shapes are known: a single row of arg max, a single window of a scatter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minihlo.interp import load
from minihlo.ops.types import ELEMENT_TYPES

_NUMBERS = [0.0, -0.0, 1.0, 1.0, -2.0, math.inf, -math.inf, math.nan, 3.5, 3.5]


def arg_max(count: int, element: str, is_largest: bool, is_first: bool) -> str:
    """`jnp.argmax` as JAX writes it: NaN comes first, and of equal numbers the first, or here the last."""
    v, w, s = f"tensor<{count}x{element}>", f"tensor<{count}xi32>", f"tensor<{element}>"
    start = "0xFF800000" if is_largest else "0x7F800000"
    before = "LT" if is_first else "GT"
    return f"""func.func @main(%x: {v}) -> tensor<i32> {{
      %i = stablehlo.iota dim = 0 : {w}
      %start = stablehlo.constant dense<{start}> : tensor<f32>
      %first = stablehlo.convert %start : (tensor<f32>) -> {s}
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.reduce(%x init: %first), (%i init: %zero) across dimensions = [0]
        : ({v}, {w}, {s}, tensor<i32>) -> ({s}, tensor<i32>)
        reducer(%a: {s}, %b: {s}) (%j: tensor<i32>, %k: tensor<i32>) {{
          %ahead = stablehlo.compare {"GT" if is_largest else "LT"}, %a, %b, FLOAT : ({s}, {s}) -> tensor<i1>
          %nan = stablehlo.compare NE, %a, %a, FLOAT : ({s}, {s}) -> tensor<i1>
          %one = stablehlo.or %ahead, %nan : tensor<i1>
          %same = stablehlo.compare EQ, %a, %b, FLOAT : ({s}, {s}) -> tensor<i1>
          %less = stablehlo.compare {before}, %j, %k, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %both = stablehlo.and %same, %less : tensor<i1>
          %place = stablehlo.or %one, %both : tensor<i1>
          %n = stablehlo.select %one, %a, %b : tensor<i1>, {s}
          %m = stablehlo.select %place, %j, %k : tensor<i1>, tensor<i32>
          stablehlo.return %n, %m : {s}, tensor<i32>
        }}
      return %r#1 : tensor<i32>
    }}"""


def expected_place(numbers: list[float], is_largest: bool, is_first: bool) -> int:
    """The definition, one number after the other."""
    best, place = -math.inf if is_largest else math.inf, 0
    for i, number in enumerate(numbers):
        ahead = best > number if is_largest else best < number
        one = ahead or best != best
        if not (one or (best == number and (place < i if is_first else place > i))):
            place = i
        if not one:
            best = number
    return place


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f8E5M2"])
@pytest.mark.parametrize("is_largest", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_arg_max_of_one_row(element: str, is_largest: bool, is_first: bool) -> None:
    rng, count = np.random.default_rng(1), 60
    run = load(arg_max(count, element, is_largest, is_first))
    for attempt in range(40):
        kinds = _NUMBERS if attempt % 2 else [0.0, -0.0, 1.0, -2.0, 3.5, *rng.standard_normal(60)]
        numbers = rng.choice(kinds, count).astype(np.float32).astype(ELEMENT_TYPES[element].dtype)
        wanted = expected_place(numbers.astype(np.float64).tolist(), is_largest, is_first)
        assert int(run(numbers)[0]) == wanted
    for same in (math.inf, -math.inf, math.nan, 0.0):
        numbers = np.full(count, same, np.float32).astype(ELEMENT_TYPES[element].dtype)
        assert int(run(numbers)[0]) == expected_place([same] * count, is_largest, is_first)


@pytest.mark.parametrize("index", ["i32", "i64", "ui8", "i8", "i4"])
@pytest.mark.parametrize("element", ["f32", "f8E4M3FN", "i1", "complex<f32>"])
def test_one_window_replaces_a_slice(element: str, index: str) -> None:
    """Elements outside the operand are left out, as the specification says; the operand stays as it is."""
    rng, shape, window = np.random.default_rng(2), (5, 6, 3), (2, 1, 3)
    t, u = (f"tensor<{'x'.join(map(str, s))}x{element}>" for s in (shape, window))
    s = f"tensor<{element}>"
    run = load(f"""func.func @main(%x: {t}, %at: tensor<2x{index}>, %u: {u}) -> ({t}, {t}) {{
      %r = "stablehlo.scatter"(%x, %at, %u) ({{
        ^bb0(%a: {s}, %b: {s}):
          stablehlo.return %b : {s}
        }}) {{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [0, 1, 2], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 0>}}
        : ({t}, tensor<2x{index}>, {u}) -> {t}
      return %r, %x : {t}, {t}
    }}""")
    dtype = ELEMENT_TYPES[element].dtype
    x, update = ((rng.integers(0, 2, s) == 1 if element == "i1" else rng.integers(0, 9, s)) for s in (shape, window))
    x, update = (v.astype(np.float32).astype(dtype) if element != "i1" else v for v in (x, update))
    for column, row in [(0, 0), (5, 3), (2, 1), (6, 0), (0, 4), (-1, 2), (1, -1), (5, 7)]:
        if min(column, row) < 0 and index.startswith("u"):
            continue
        want = x.copy()
        for i, j, k in np.ndindex(*window):
            if 0 <= row + i < shape[0] and 0 <= column + j < shape[1]:
                want[row + i, column + j, k] = update[i, j, k]
        kept = x.copy()
        at = np.array([column, row]).astype(ELEMENT_TYPES[index].dtype)
        got, before = run(x, at, update)
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
        np.testing.assert_array_equal(before.view(np.uint8), kept.view(np.uint8))
        np.testing.assert_array_equal(x.view(np.uint8), kept.view(np.uint8))


def test_several_operands_of_known_shape() -> None:
    """Sum and largest, along an inner dimension, and of no elements."""
    text = """func.func @main(%x: tensor<{0}xf32>, %y: tensor<{0}xi32>) -> (tensor<{1}xf32>, tensor<{1}xi32>) {{
      %zero = stablehlo.constant dense<0.5> : tensor<f32>
      %least = stablehlo.constant dense<-7> : tensor<i32>
      %r:2 = stablehlo.reduce(%x init: %zero), (%y init: %least) across dimensions = [1]
        : (tensor<{0}xf32>, tensor<{0}xi32>, tensor<f32>, tensor<i32>) -> (tensor<{1}xf32>, tensor<{1}xi32>)
        reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {{
          %s = stablehlo.add %a, %b : tensor<f32>
          %m = stablehlo.maximum %c, %d : tensor<i32>
          stablehlo.return %s, %m : tensor<f32>, tensor<i32>
        }}
      return %r#0, %r#1 : tensor<{1}xf32>, tensor<{1}xi32>
    }}"""
    rng = np.random.default_rng(3)
    for shape in ((3, 7, 2), (3, 0, 2), (0, 7, 2), (40, 300, 3)):
        kept = "x".join(map(str, (shape[0], shape[2])))
        x, y = rng.standard_normal(shape).astype(np.float32), rng.integers(-20, -5, shape, np.int32)
        got = load(text.format("x".join(map(str, shape)), kept))(x, y)
        total, largest = np.full((shape[0], shape[2]), 0.5, np.float32), np.full((shape[0], shape[2]), -7, np.int32)
        for i in range(shape[1]):
            total, largest = total + x[:, i], np.maximum(largest, y[:, i])
        np.testing.assert_array_equal(got[0], total)
        np.testing.assert_array_equal(got[1], largest)
