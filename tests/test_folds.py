"""Sums of groups over columns add each step in turn, as those of single columns do."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import fusion
from minihlo.ops import blocks


@pytest.mark.parametrize("block", [1, 300, 1 << 16])
@pytest.mark.parametrize("width", [15, 16, 40, 300])
@pytest.mark.parametrize("op", ["add", "multiply"])
def test_sums_go_step_by_step(op: str, width: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "_MANY", 0)
    monkeypatch.setattr(blocks, "BLOCK", block)
    text = f"""
    func.func @main(%x: tensor<{width}x50xf32>, %init: tensor<f32>) -> tensor<{width}xf32> {{
      %a = stablehlo.negate %x : tensor<{width}x50xf32>
      %b = stablehlo.abs %a : tensor<{width}x50xf32>
      %r = stablehlo.reduce(%b init: %init) applies stablehlo.{op} across dimensions = [1]
        : (tensor<{width}x50xf32>, tensor<f32>) -> tensor<{width}xf32>
      return %r : tensor<{width}xf32>
    }}"""
    program, dtype = interp.load(text), np.dtype(np.float32)
    assert any(file.endswith("reduction>") for file in program.plan().sources)
    x = np.random.default_rng(2).lognormal(0, 2, (width, 50)).astype(dtype)
    before = x.copy()
    wanted = np.full(width, 1.5, dtype)
    for i in range(50):
        wanted = wanted + x[:, i] if op == "add" else wanted * x[:, i]
    with np.errstate(over="ignore"):
        (found,) = program(x, dtype.type(1.5))
    assert found.tobytes() == wanted.tobytes()
    assert x.tobytes() == before.tobytes()
