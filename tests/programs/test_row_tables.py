"""Groups where one operand alone varies along a row or down a column give the bits of their ops."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.engine import amortised
from minihlo.ops.engine.speed import NONE, Speed
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import Tune
from .test_speed import POLICIES, results

SHAPES = {"columns": ((3, 17, 5, 2), (2, 3)), "rows": ((2, 3, 40), (0, 1))}


@pytest.mark.parametrize("t", ["f8E4M3FNUZ", "f8E5M2", "f6E3M2FN", "f4E2M1FN", "f8E8M0FNU"])
@pytest.mark.parametrize("lines", SHAPES)
def test_affine_by_lines(lines: str, t: str, tune: Tune) -> None:
    tune(columns_pay=0 if lines == "columns" else 99)
    tune(rows_pay=0 if lines == "rows" else 99)
    tune(columns_together=4)
    tune(block=50)
    shape, places = SHAPES[lines]
    full, dims = (f"tensor<{'x'.join(map(str, s))}x" for s in (shape, [shape[d] for d in places]))
    text = f"""
    func.func @main(%x: {full}{t}>, %s: {dims}{t}>, %b: {dims}f32>) -> ({full}{t}>, {full}f32>) {{
      %one = stablehlo.constant dense<1.0> : {full}{t}>
      %ss = stablehlo.broadcast_in_dim %s, dims = {list(places)} : ({dims}{t}>) -> {full}{t}>
      %bb = stablehlo.broadcast_in_dim %b, dims = {list(places)} : ({dims}f32>) -> {full}f32>
      %bn = stablehlo.convert %bb : ({full}f32>) -> {full}{t}>
      %m = stablehlo.multiply %x, %ss : {full}{t}>
      %a = stablehlo.add %m, %bn : {full}{t}>
      %r = stablehlo.maximum %a, %one : {full}{t}>
      %w = stablehlo.convert %a : ({full}{t}>) -> {full}f32>
      %v = stablehlo.subtract %w, %bb : {full}f32>
      return %r, %v : {full}{t}>, {full}f32>
    }}"""
    rng, element = np.random.default_rng(5), ELEMENT_TYPES[t]
    program = interp.load(text)
    codes = [rng.integers(0, 1 << element.bits, s, np.uint8) for s in (shape, [shape[d] for d in places])]
    arrays = [c.view(element.dtype) for c in codes]
    arrays.append(rng.standard_normal([shape[d] for d in places]).astype(np.float32))
    kernels = [k for k in program.plan().entry.__globals__.values() if callable(k)]
    reported = " ".join(k.__qualname__ for k in kernels if hasattr(k, "__qualname__"))
    assert ("by_columns" in reported, "by_rows" in reported) == (lines == "columns", lines == "rows"), reported
    for policy in POLICIES:
        wanted = results(program, arrays, NONE, policy)
        assert results(program, arrays, Speed(), policy) == wanted, (lines, policy)
    tune(pace_trials=2, pace_calls=4)  # by several threads and by one, whichever was quicker
    first, *others = [[r.tobytes() for r in program(*arrays)] for _ in range(9)]
    assert others == [first] * 8


@pytest.mark.parametrize("lines", ["columns", "row"])
def test_tables_are_made_anew_for_other_operands(lines: str, monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    tune(columns_pay=0)
    tune(rows_pay=99 if lines == "columns" else 0)
    full = "tensor<30x7xf8E5M2>"
    small, dims = ("tensor<7xf32>", [1]) if lines == "columns" else ("tensor<f32>", [])
    text = f"""
    func.func @main(%x: {full}, %s: {small}) -> tensor<30x7xf32> {{
      %w = stablehlo.convert %x : ({full}) -> tensor<30x7xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = {dims} : ({small}) -> tensor<30x7xf32>
      %p = stablehlo.multiply %w, %b : tensor<30x7xf32>
      return %p : tensor<30x7xf32>
    }}"""
    program, rng = interp.load(text), np.random.default_rng(6)
    x = rng.integers(0, 0x7B, (30, 7), np.uint8).view(ELEMENT_TYPES["f8E5M2"].dtype)
    made = []
    real = amortised.Latest.at
    monkeypatch.setattr(
        amortised.Latest,
        "at",
        lambda self, operands, make, n: real(self, operands, lambda: made.append(1) or make(), n),
    )
    scales = [rng.standard_normal(7 if lines == "columns" else ()).astype(np.float32) for _ in range(2)]
    for scale, count in ((scales[0], 1), (scales[0].copy(), 1), (scales[1], 2), (-scales[1], 3), (scales[1], 4)):
        (actual,) = program(x, scale)
        assert actual.tobytes() == (x.astype(np.float32) * scale).tobytes()
        assert len(made) == count
    # What takes too much memory with others is forgotten.
    tune(most_bytes=0)
    for operands in ([scales[0]], [scales[1]]):
        amortised.Latest().at(operands, lambda: (), 1)
    (actual,) = program(x, scales[1])
    assert actual.tobytes() == (x.astype(np.float32) * scales[1]).tobytes()
    assert len(made) == 7
