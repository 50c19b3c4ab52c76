"""Reshapes are moved before elementwise operations where that makes larger groups, and nowhere else."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine

#: Bodies of functions of x, 40x60 of f32, c, 40x60 of f8E4M3FN, and s, 75 of f32, to 75x32; and whether all that is
#: elementwise becomes one group.
PROGRAMS = {
    "dequantized": (
        """%a = stablehlo.convert %c : (tensor<40x60xf8E4M3FN>) -> tensor<40x60xf32>
           %b = stablehlo.reshape %a : (tensor<40x60xf32>) -> tensor<75x32xf32>
           %d = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<75xf32>) -> tensor<75x32xf32>
           %r = stablehlo.multiply %b, %d : tensor<75x32xf32>""",
        True,
    ),
    "a chain with a constant and one operand twice": (
        """%k = stablehlo.constant dense<3.0> : tensor<40x60xf32>
           %a = stablehlo.multiply %x, %x : tensor<40x60xf32>
           %e = stablehlo.subtract %a, %k : tensor<40x60xf32>
           %b = stablehlo.reshape %e : (tensor<40x60xf32>) -> tensor<75x32xf32>
           %r = stablehlo.add %b, %b : tensor<75x32xf32>""",
        True,
    ),
    "two reshapes": (
        """%a = stablehlo.abs %x : tensor<40x60xf32>
           %b = stablehlo.reshape %a : (tensor<40x60xf32>) -> tensor<2400xf32>
           %e = stablehlo.negate %b : tensor<2400xf32>
           %d = stablehlo.reshape %e : (tensor<2400xf32>) -> tensor<75x32xf32>
           %r = stablehlo.add %d, %d : tensor<75x32xf32>""",
        True,
    ),
    "read by another too": (
        """%a = stablehlo.abs %x : tensor<40x60xf32>
           %e = stablehlo.negate %a : tensor<40x60xf32>
           %b = stablehlo.reshape %e : (tensor<40x60xf32>) -> tensor<75x32xf32>
           %o = stablehlo.add %a, %x : tensor<40x60xf32>
           %p = stablehlo.reshape %o : (tensor<40x60xf32>) -> tensor<75x32xf32>
           %r = stablehlo.add %b, %p : tensor<75x32xf32>""",
        False,
    ),
    "of what is repeated": (
        """%z = stablehlo.slice %s [0:60] : (tensor<75xf32>) -> tensor<60xf32>
           %d = stablehlo.broadcast_in_dim %z, dims = [1] : (tensor<60xf32>) -> tensor<40x60xf32>
           %a = stablehlo.add %x, %d : tensor<40x60xf32>
           %b = stablehlo.reshape %a : (tensor<40x60xf32>) -> tensor<75x32xf32>
           %r = stablehlo.abs %b : tensor<75x32xf32>""",
        False,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_groups(name: str) -> None:
    body, is_one = PROGRAMS[name]
    arguments = "%x: tensor<40x60xf32>, %c: tensor<40x60xf8E4M3FN>, %s: tensor<75xf32>"
    text = f"""func.func @main({arguments}) -> tensor<75x32xf32> {{
        {body}
        return %r : tensor<75x32xf32>
    }}"""
    rng = np.random.default_rng(7)
    x, s = (rng.integers(0, 1 << 32, n, np.uint32).view(np.float32) for n in (2400, 75))
    c = rng.integers(0, 256, (40, 60), np.uint8).view(ml_dtypes.float8_e4m3fn)
    values = [x.reshape(40, 60), c, s]
    ways = ("", "compiled", "blocks", "tables,blocks,scalars")
    plans = [interp.load(text, without=without).plan() for without in ways]
    results = [machine.run(plan, values)[0].view(np.uint32) for plan in plans]
    for result in results[1:]:
        assert result.tolist() == results[0].tolist()
    counts = [len(c.operations) for c in plans[0].chosen if c.decision.executor != "alone"]
    assert (len(counts) == 1 and counts[0] > 1) == is_one
