"""Sums of windows over elements with gaps between them, and of what a pad gives."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

from minihlo.interp import load

from ..windows import BODIES, SEED, Windows, by_formula, program, random_windows

_NUMBERS = np.array([-0.0, 0.0, 1, 0.25, -1, 3e38, 1e-45, np.inf, -np.inf, np.nan], np.float32)


def test_sums_over_gaps() -> None:
    """Each sum is that of its window from the left, gaps and padding included: bit by bit, but for NaN."""
    rng = np.random.default_rng(SEED)
    for element in ("f32", "i32") * 60:
        w = random_windows(rng)
        x = rng.choice(_NUMBERS, w.shape) if element == "f32" else rng.integers(-9, 9, w.shape, np.int32)
        init = np.zeros((), x.dtype)
        with np.errstate(all="ignore"):
            expected = by_formula(x, init, w, lambda a, b: np.add(a, b))
        (actual,) = load(program(w, BODIES["add"][0], element))(x, init)
        np.testing.assert_array_equal(actual, expected, err_msg=str(w))
        is_number = expected == expected
        assert np.signbit(actual)[is_number].tolist() == np.signbit(expected)[is_number].tolist()


def test_other_sums_take_every_step() -> None:
    """The gaps count."""
    w = Windows((2, 3), (3, 2), (1, 1), ((2, 2), (1, 1)), (2, 2), (1, 1))
    x = np.array([[-0.0, 1, 2], [-0.0, -0.0, 3]], np.float32)
    for start in (-0.0, 1.0):
        init = np.array(start, np.float32)
        (actual,) = load(program(w, BODIES["add"][0], "f32"))(x, init)
        expected = by_formula(x, init, w, lambda a, b: np.add(a, b))
        assert actual.tobytes() == expected.tobytes()


def padded(pad: str, init: str, low: int = 1, interior: int = 1, around: int = 0) -> str:
    """Windows of two in steps of one over a padded vector of 5."""
    length = 5 + low + 1 + 4 * interior
    results = length + 2 * around - 1
    return f"""func.func @main(%x: tensor<5xf32>) -> tensor<{results}xf32> {{
      %p = stablehlo.constant dense<{pad}> : tensor<f32>
      %i = stablehlo.constant dense<{init}> : tensor<f32>
      %y = stablehlo.pad %x, %p, low = [{low}], high = [1], interior = [{interior}]
        : (tensor<5xf32>, tensor<f32>) -> tensor<{length}xf32>
      %r = "stablehlo.reduce_window"(%y, %i) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        {BODIES["add"][0].replace("T", "tensor<f32>").replace("%x", "%a").replace("%y", "%b")}
        stablehlo.return %z : tensor<f32>
      }}) {{window_dimensions = array<i64: 2>, padding = dense<{around}> : tensor<1x2xi64>}}
        : (tensor<{length}xf32>, tensor<f32>) -> tensor<{results}xf32>
      return %r : tensor<{results}xf32>
    }}"""


@pytest.mark.parametrize(
    ("pad", "init", "low", "around"),
    [
        ("0.0", "0.0", 1, 0),
        ("0.5", "0.5", 2, 3),
        ("0.0", "-0.0", 1, 0),
        ("0.5", "0.0", 1, 0),
        ("0.0", "0.0", -1, 0),
        ("0.0", "0.0", -1, 1),
    ],
)
def test_windows_of_a_pad(pad: str, init: str, low: int, around: int) -> None:
    program = load(padded(pad, init, low, around=around))
    x = np.array([1, -2, 4, -8, 16], np.float32)
    full = np.full(5 + 4 + 1 + max(low, 0), float(pad), np.float32)
    full[max(low, 0) : max(low, 0) + 9 : 2] = x
    full = np.pad(full[max(-low, 0) :], around, constant_values=float(init))
    expected = (np.float32(float(init)) + full[:-1]) + full[1:]
    assert program(x)[0].tobytes() == expected.tobytes()


def test_the_gradient_of_a_sum_pool() -> None:
    shape = jax.ShapeDtypeStruct((2, 9, 12, 3), np.float32)

    def pool(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 2, 1), "SAME")

    def gradient(z: jax.Array) -> jax.Array:
        return jax.linear_transpose(pool, shape)(z)[0]

    z = np.random.default_rng(SEED).integers(-9, 9, jax.eval_shape(pool, shape).shape).astype(np.float32)
    text = jax.jit(gradient).lower(z).as_text()
    assert "stablehlo.pad" in text
    np.testing.assert_array_equal(load(text)(z)[0], jax.jit(gradient)(z))
