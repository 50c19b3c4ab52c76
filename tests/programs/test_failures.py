"""Failures of operations are reported at their place, in loops too."""

import dataclasses
import re

import jax
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.ops import op as registry


def test_a_failure_among_elementwise_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: np.ndarray) -> np.ndarray:
        raise registry.OpError("out of order")

    broken = dataclasses.replace(registry.ops()["stablehlo.tanh"], bind=lambda _: fail)
    monkeypatch.setitem(registry._OPS, "stablehlo.tanh", broken)
    v = "tensor<65536xf32>"
    text = f"""func.func @main(%0: {v}) -> {v} {{
      %1 = stablehlo.negate %0 : {v}
      %2 = stablehlo.tanh %1 : {v}
      %3 = stablehlo.floor %2 : {v}
      return %3 : {v} }}"""
    program = interp.load(text)
    with pytest.raises(interp.ExecutionError, match=r"^<string>:3:12: stablehlo.tanh: out of order$"):
        program(np.zeros(1 << 16, np.float32))


def test_a_failed_check_in_a_loop() -> None:
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %r = stablehlo.while(%i = %x) : tensor<i32>
      cond {
        %c = stablehlo.constant dense<5> : tensor<i32>
        %go = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %y = stablehlo.add %i, %one : tensor<i32>
        check.expect_eq_const %y, dense<2> : tensor<i32>
        stablehlo.return %y : tensor<i32>
      }
      return %r : tensor<i32>
    }"""
    with pytest.raises(interp.CheckFailure, match=r"^<string>:10:9: check.expect_eq_const: "):
        interp.load(text)(np.int32(1))


def test_an_unknown_operation_in_a_loop() -> None:
    text = jax.jit(lambda x: lax.fori_loop(0, 5, lambda i, c: (c << 3) | x, x)).lower(np.arange(3, dtype=np.uint32))
    t = "tensor<3xui32>"
    broken, count = re.subn(
        rf"stablehlo\.or (%\w+), (%\w+) : {t}",
        rf"stablehlo.custom_call @nobody(\1, \2) : ({t}, {t}) -> {t}",
        text.as_text(),
    )
    assert count == 1
    line = next(n for n, words in enumerate(broken.splitlines(), 1) if "@nobody" in words)
    with pytest.raises(interp.ProgramError, match=rf":{line}:\d+: stablehlo\.custom_call: .*nobody"):
        interp.load(broken)(np.arange(3, dtype=np.uint32))
