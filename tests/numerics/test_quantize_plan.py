"""`interp.quantize_plan`: the bound holds when the plan is applied, and no cheaper choice holds it."""

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.numerics.plan import Choice, QuantizePlan

RNG = np.random.default_rng(1)
WEIGHTS = [RNG.normal(size=s).astype(np.float32) * 0.2 for s in ((32, 64), (64, 32), (32, 5))]
X = RNG.normal(size=(16, 32)).astype(np.float32)
BITS = {"nvfp4": 4.5, "f8E4M3FN": 8, "f8E5M2": 8, "mxfp8_e4m3": 8.25, "bf16": 16, None: 32}


def model(weights: Any, x: Any) -> Any:
    for w in weights[:-1]:
        x = jnp.tanh(x @ w)
    return {"out": x @ weights[-1]}


def error(plan: QuantizePlan, f: Any, *args: Any) -> float:
    got, right = plan.apply(f)(*args), interp.jit(f)(*args)
    pairs = list(zip(jax.tree.leaves(got), jax.tree.leaves(right), strict=True))
    wide = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs]
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in wide)


@pytest.mark.parametrize("bound", [0.0, 0.002, 0.01, 0.1, 0.5])
def test_plan_is_minimal_within_its_bound(bound: float) -> None:
    formats = [f for f in BITS if f is not None]
    plan = interp.quantize_plan(model, WEIGHTS, X, formats=formats, bound=bound)
    assert plan.error <= bound
    assert error(plan, model, WEIGHTS, X) == pytest.approx(plan.error, rel=1e-9)
    assert (plan.bits < 32) == (bound > 0)
    for i, c in enumerate(plan.choices):
        for f in ("nvfp4", "mxfp8_e4m3", "bf16"):
            if BITS[f] < BITS[c.format]:
                cheaper = dataclasses.replace(c, format=f, scale=0)
                choices = (*plan.choices[:i], cheaper, *plan.choices[i + 1 :])
                assert error(dataclasses.replace(plan, choices=choices), model, WEIGHTS, X) > bound


def test_each_operand_gets_what_it_needs() -> None:
    a = np.diag([0.5, 1, 6, -3]).astype(np.float32)  # of f4E2M1FN
    b = np.array([[1.0078125], [-3], [2.0**-20], [2.0**20]], np.float32)  # of bf16, and of nothing narrower
    plan = interp.quantize_plan(lambda a, b: a @ b, a, b, bound=0)
    assert [c.format for c in plan.choices] == ["mxfp4_e2m1", "bf16"]
    assert (plan.error, plan.bits_before) == (0, 32)
    assert plan.bits == (16 * 4.25 + 4 * 16) / 20


def test_an_operand_is_scaled_rounded_once_and_saturates() -> None:
    choice = Choice(0, "stablehlo.dot_general", 0, "", "f8E4M3FN", 6, 0.0, "", 0)
    plan = QuantizePlan((choice, dataclasses.replace(choice, operand=1, format=None)), 1, 0, 0, 0, 0)
    x = np.array([[1, 0.1, -1e3, 2.0**-16, 2.0**-20]], np.float32)
    wide = np.clip(x * 64, -448, 448)
    right = wide.astype(jnp.float8_e4m3fn).astype(np.float32) / 64
    got = plan.apply(lambda x, y: x @ y)(x, np.eye(5, dtype=np.float32))
    np.testing.assert_array_equal(got, right)
    assert got[0, 2] == -7
    assert got[0, 4] == 0


@pytest.mark.parametrize("fmt", ["nvfp4", "mxfp6_e2m3", "mxint8", "deepseek_1x128", "deepseek_128x128"])
def test_blocks_lie_along_the_summed_dimension(fmt: str) -> None:
    x = RNG.normal(size=(40, 3)).astype(np.float32) * np.exp2(RNG.integers(-9, 9, (40, 1))).astype(np.float32)
    choice = Choice(0, "stablehlo.dot_general", 0, "", fmt, 0, 0.0, "", 0)
    plan = QuantizePlan((choice, dataclasses.replace(choice, operand=1, format=None)), 1, 0, 0, 0, 0)
    eye = np.eye(40, dtype=np.float32)
    got = plan.apply(lambda x, y: jax.lax.dot_general(x, y, (((0,), (0,)), ((), ()))))(x, eye)
    np.testing.assert_array_equal(got, interp.straight_through(x, fmt, 0).T)


def test_products_in_loops_and_convolutions_are_chosen() -> None:
    def f(w: Any, x: Any, k: Any) -> Any:
        y = jax.lax.scan(lambda c, row: (jnp.tanh(w @ c + row), c), x[0], x)[1]
        return y, jax.lax.conv(k, k, (1, 1), "SAME")

    k = RNG.normal(size=(4, 4, 3, 3)).astype(np.float32)
    args = WEIGHTS[0][:, :32], X, k
    plan = interp.quantize_plan(f, *args, bound=0.1)
    assert [c.op.rpartition(".")[2] for c in plan.choices] == ["dot_general"] * 2 + ["convolution"] * 2
    assert error(plan, f, *args) <= 0.1
    assert plan.choices[0].line == f.__code__.co_firstlineno + 1
    assert all(c.format for c in plan.choices)


def test_the_measure_is_the_users() -> None:
    def flipped(right: Any, got: Any) -> float:
        return float(np.mean(right["out"].argmax(1) != got["out"].argmax(1)))

    plan = interp.quantize_plan(model, WEIGHTS, X, measure=flipped, bound=0, formats=["nvfp4", "bf16"])
    assert flipped(interp.jit(model)(WEIGHTS, X), plan.apply(model)(WEIGHTS, X)) == 0
    assert plan.bits < 16
    never = interp.quantize_plan(model, WEIGHTS, X, measure=lambda *_: float("nan"), formats="bf16")
    assert [c.format for c in never.choices] == [None] * 6


def test_a_plan_of_a_program_and_its_reports(tmp_path: Any) -> None:
    text = """func.func @main(%a: tensor<2x4xbf16>, %b: tensor<4x3xbf16>) -> tensor<2x3xf32> {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<2x4xbf16>, tensor<4x3xbf16>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    a, b = (np.ones(s, jnp.bfloat16) for s in ((2, 4), (4, 3)))
    plan = interp.quantize_plan(text, a, b, formats=["f8E5M2FNUZ"], bound=0)
    (result,) = plan.apply(text)(a, b)
    np.testing.assert_array_equal(result, np.full((2, 3), 4, np.float32))
    assert json.loads(plan.to_json(tmp_path / "p.json")) == json.loads((tmp_path / "p.json").read_text())
    lines = str(plan).splitlines()
    assert lines[0] == "2 of 2 operands of matmuls in other formats: 8 bits an element instead of 16"
    assert "f8E5M2FNUZ" in plan.table()


def test_what_is_not_valid_is_refused_in_one_line() -> None:
    f, x = (lambda x: x @ x), np.eye(3, dtype=np.float32)
    for call, words in (
        (lambda: interp.quantize_plan(f, x, formats=["f8E4M3F"]), "got 'f8E4M3F' \\(did you mean"),
        (lambda: interp.quantize_plan(f, x, formats=["f32"]), "expected a float type of up to 16 bits"),
        (lambda: interp.quantize_plan(f, x, formats=[]), "expected at least one, got none"),
        (lambda: interp.quantize_plan(f, x, bound=-1), "expected a number of at least 0, got -1"),
        (lambda: interp.quantize_plan(f, x, measure=3), "measure: expected a function, got int"),
        (lambda: interp.quantize_plan(jnp.sin, x), "expected a program with matmuls, got none"),
        (lambda: interp.quantize_plan(3), "expected a function or a program, got int"),
        (lambda: interp.quantize_plan(f, x).apply(3), "expected a function or a program, got int"),
        (lambda: interp.quantize_plan(f, x).apply(lambda x: x)(x), "expected the 1 matmuls of the plan, got 0"),
    ):
        with pytest.raises(interp.InputError, match=words):
            call()
