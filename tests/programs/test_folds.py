"""Reductions of groups: sums add each step in turn, and the largest and smallest are found in any layout."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp

from ..conftest import Tune
from .test_speed import ways


@pytest.mark.parametrize("block", [1, 300, 1 << 16])
@pytest.mark.parametrize("width", [15, 16, 40, 300])
@pytest.mark.parametrize("op", ["add", "multiply"])
def test_sums_go_step_by_step(op: str, width: int, block: int, tune: Tune) -> None:
    tune(fuse_many=0)
    tune(block=block)
    text = f"""
    func.func @main(%x: tensor<{width}x50xf32>, %init: tensor<f32>) -> tensor<{width}xf32> {{
      %a = stablehlo.negate %x : tensor<{width}x50xf32>
      %b = stablehlo.abs %a : tensor<{width}x50xf32>
      %r = stablehlo.reduce(%b init: %init) applies stablehlo.{op} across dimensions = [1]
        : (tensor<{width}x50xf32>, tensor<f32>) -> tensor<{width}xf32>
      return %r : tensor<{width}xf32>
    }}"""
    program, dtype = interp.load(text), np.dtype(np.float32)
    assert "fold" in ways(program)
    x = np.random.default_rng(2).lognormal(0, 2, (width, 50)).astype(dtype)
    before = x.copy()
    wanted = np.full(width, 1.5, dtype)
    for i in range(50):
        wanted = wanted + x[:, i] if op == "add" else wanted * x[:, i]
    with np.errstate(over="ignore"):
        (actual,) = program(x, dtype.type(1.5))
    assert actual.tobytes() == wanted.tobytes()
    assert x.tobytes() == before.tobytes()


@pytest.mark.parametrize("block", [1, 300, 1 << 16])
@pytest.mark.parametrize("dimensions", [(0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremes_along_any_dimensions(op: str, dimensions: tuple[int, ...], block: int, tune: Tune) -> None:
    tune(fuse_many=0)
    tune(block=block)
    shape = (6, 5, 7)
    kept = [n for d, n in enumerate(shape) if d not in dimensions]
    full, result = "tensor<6x5x7xf32>", f"tensor<{''.join(f'{n}x' for n in kept)}f32>"
    text = f"""
    func.func @main(%x: {full}, %s: tensor<5xf32>, %init: tensor<f32>) -> {result} {{
      %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<5xf32>) -> {full}
      %a = stablehlo.multiply %x, %b : {full}
      %n = stablehlo.negate %a : {full}
      %r = stablehlo.reduce(%n init: %init) applies stablehlo.{op} across dimensions = {list(dimensions)}
        : ({full}, tensor<f32>) -> {result}
      return %r : {result}
    }}"""
    program, rng = interp.load(text), np.random.default_rng(3)
    assert "fold" in ways(program)
    s, sign = np.array([1, -1, 2, 1, -2], np.float32), 1 if op == "maximum" else -1
    for _ in range(5):
        x = rng.choice(np.array([0, 0, 0, -0.0, -0.0, -0.0, 1, -1, np.inf, -np.inf], np.float32), shape)
        x[rng.random(shape) < 0.5] = -0.0
        x[rng.random(shape) < 0.02] = np.nan
        y = -(x * s[:, None])
        init = np.float32(-0.0)
        (actual,) = program(x, s, init)
        # The sign of a zero is that of the larger, or smaller, of 1 / zero.
        order = np.where(y == 0, np.copysign(np.float32(1e-45), y), y)
        wanted = sign * np.maximum(np.max(sign * order, axis=dimensions), sign * np.float32(-1e-45))
        wanted = np.where(np.abs(wanted) < 1e-40, np.copysign(np.float32(0), wanted), wanted)
        np.testing.assert_array_equal(actual, wanted)
        is_number = ~np.isnan(wanted)
        assert (np.signbit(actual) == np.signbit(wanted))[is_number].all()


@pytest.mark.parametrize("places", [(100, 900), (900, 100), (350, 360)])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_of_several_nan_the_first_is_given_though_parts_are_folded_by_themselves(
    op: str, places: tuple[int, int], tune: Tune
) -> None:
    tune(fuse_many=0)
    tune(block=300, fast_few=1 << 20)
    text = f"""
    func.func @main(%x: tensor<1200xf32>, %init: tensor<f32>) -> tensor<f32> {{
      %b = stablehlo.abs %x : tensor<1200xf32>
      %r = stablehlo.reduce(%b init: %init) applies stablehlo.{op} across dimensions = [0]
        : (tensor<1200xf32>, tensor<f32>) -> tensor<f32>
      return %r : tensor<f32>
    }}"""
    program = interp.load(text)
    assert "fold" in ways(program)
    x = np.random.default_rng(4).standard_normal(1200, np.float32)
    x.view(np.uint32)[list(places)] = 0x7FC00001 + np.arange(2)
    (actual,) = program(x, np.float32(0))
    assert actual.view(np.uint32) == 0x7FC00001 + int(places[0] > places[1])
