"""Clipping before a convert goes by the convert's own table, and gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.engine.speed import NONE, Speed
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import Tune
from .test_speed import POLICIES, results


@pytest.mark.parametrize("t", [t.name for t in ELEMENT_TYPES.values() if t.is_minifloat])
@pytest.mark.parametrize(
    ("low", "high"), [("-2.5", "240.0"), ("0.0", "0x7F800000"), ("0x80000000", "1.1"), ("-inf", "nan")]
)
def test_clipping_before_a_convert_goes_by_its_table(low: str, high: str, t: str, tune: Tune) -> None:
    tune(narrow_worth=0)
    low, high = low.replace("-inf", "0xFF800000"), high.replace("nan", "0x7FC10000")
    text = f"""
    func.func @main(%x: tensor<3000xf32>, %s: tensor<f32>) -> (tensor<3000x{t}>, tensor<3000x{t}>, tensor<3000xf32>) {{
      %low = stablehlo.constant dense<{low}> : tensor<f32>
      %lows = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<3000xf32>
      %high = stablehlo.constant dense<{high}> : tensor<3000xf32>
      %by = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<3000xf32>
      %q = stablehlo.divide %x, %by : tensor<3000xf32>
      %n = stablehlo.negate %q : tensor<3000xf32>
      %a = stablehlo.maximum %lows, %n : tensor<3000xf32>
      %b = stablehlo.minimum %a, %high : tensor<3000xf32>
      %r = stablehlo.convert %b : (tensor<3000xf32>) -> tensor<3000x{t}>
      %c = stablehlo.abs %x : tensor<3000xf32>
      %d = stablehlo.clamp %low, %c, %s : (tensor<f32>, tensor<3000xf32>, tensor<f32>) -> tensor<3000xf32>
      %e = stablehlo.clamp %low, %d, %low : (tensor<f32>, tensor<3000xf32>, tensor<f32>) -> tensor<3000xf32>
      %f = stablehlo.convert %e : (tensor<3000xf32>) -> tensor<3000x{t}>
      return %r, %f, %a : tensor<3000x{t}>, tensor<3000x{t}>, tensor<3000xf32>
    }}"""
    program = interp.load(text)
    rng = np.random.default_rng(3)
    bits_of_x = rng.integers(0, 1 << 16, 3000, np.uint32) << 16  # numbers of bfloat16, and their neighbours
    bits_of_x += rng.integers(-1, 2, 3000).astype(np.uint32)
    for policy in POLICIES[:3]:
        arrays = [bits_of_x.view(np.float32), np.float32(1)]
        is_same = results(program, arrays, Speed(), policy) == results(program, arrays, NONE, policy)
        assert is_same, policy  # pytest takes minutes to tell how so many differ


def test_clipping_by_a_number_that_bfloat16_has_not_is_left_alone() -> None:
    for number, ops in (("0.1", 2), ("0.125", 1)):
        text = f"""func.func @main(%x: tensor<300xf32>) -> tensor<300xf8E5M2> {{
          %c = stablehlo.constant dense<{number}> : tensor<300xf32>
          %m = stablehlo.maximum %c, %x : tensor<300xf32>
          %r = stablehlo.convert %m : (tensor<300xf32>) -> tensor<300xf8E5M2>
          return %r : tensor<300xf8E5M2>
        }}"""
        source = next(s.text for s in interp.load(text).plan().sources.values() if "k1(" in s.text or "k0(" in s.text)
        assert source.count(" = k") == ops, source
