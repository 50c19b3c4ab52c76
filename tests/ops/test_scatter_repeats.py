"""Scatters whose body does not read the updates, held against numpy: each element goes through it so many times."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp import Policy

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2fnuz, np.int8]


def _expected(x: np.ndarray, targets: np.ndarray, factor: Any) -> np.ndarray:
    """Each element times the factor, which numpy rounds every time, as often as it is a target."""
    x, left = x.copy(), np.bincount(targets, minlength=len(x))
    with np.errstate(all="ignore"):
        while left.any():
            x[left > 0] = x[left > 0] * factor
            left = np.maximum(left - 1, 0)
    return x


@pytest.mark.parametrize("shape", [(40,), (40, 3)])
@pytest.mark.parametrize("dtype", TYPES)
def test_elements_are_changed_as_often_as_they_are_targets(dtype, shape):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) * 50).astype(dtype)
    factor = np.array(3 if dtype == np.int8 else 0.9).astype(dtype)[()]
    # Among them one that is no target, one that often is, and places that do not exist.
    targets = np.concatenate([rng.integers(1, 40, 5000), np.full(30, 5), [40, 99, -41]])
    got = interp.jit(lambda v, i: v.at[i].apply(lambda y: y * factor))(x, targets.astype(np.int32))
    wanted = _expected(x, targets[:-3], factor)
    assert np.asarray(got).tobytes() == wanted.tobytes()


def test_two_operands_that_change_places():
    """One scatter of both: an even number of updates leaves them as they are, an odd one exchanges them."""
    element, tensor = "tensor<f32>", "tensor<3xf32>"
    arguments = f"%x: {tensor}, %y: {tensor}, %i: tensor<90x1xi32>, %u: tensor<90xf32>"
    text = f"""func.func @main({arguments}) -> ({tensor}, {tensor}) {{
      %r:2 = "stablehlo.scatter"(%x, %y, %i, %u, %u) ({{
      ^bb0(%a: {element}, %b: {element}, %c: {element}, %d: {element}):
        %n = stablehlo.negate %a : {element}
        stablehlo.return %b, %n : {element}, {element}
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
        : ({tensor}, {tensor}, tensor<90x1xi32>, tensor<90xf32>, tensor<90xf32>) -> ({tensor}, {tensor})
      return %r#0, %r#1 : {tensor}, {tensor}
    }}"""
    x, y = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    targets = np.repeat(np.arange(3), [4, 33, 53]).astype(np.int32).reshape(-1, 1)
    first, second = interp.load(text)(x, y, targets, np.zeros(90, np.float32))
    assert np.asarray(first).tolist() == [1, 20, 30]
    assert np.asarray(second).tolist() == [10, -2, -3]


def test_stochastic_rounding_draws_for_every_update():
    """The mean of many is near the exact product, which one table of the body could not give."""
    x = np.full(2000, 1, ml_dtypes.float8_e4m3fn)
    targets = np.tile(np.arange(2000), 40).astype(np.int32)
    run = interp.jit(
        lambda v, i: v.at[i].apply(lambda y: y * v.dtype.type(1.125)), policy=Policy(rounding="stochastic")
    )
    got = np.asarray(run(x, targets)).astype(np.float64)
    assert 0.9 < got.mean() / 1.125**40 < 1.1
    assert len(np.unique(got)) > 5


def test_codes_of_part_of_a_byte():
    x = np.array([0.5, -1, 6, 0], np.float32).astype(ml_dtypes.float4_e2m1fn)
    targets = np.repeat(np.arange(4), [200, 201, 202, 203]).astype(np.int32)
    got = interp.jit(lambda v, i: v.at[i].apply(lambda y: lax.neg(y)))(x, targets)
    assert np.asarray(got).astype(np.float32).tolist() == [0.5, 1, 6, -0.0]
    assert jnp.signbit(np.asarray(got).astype(np.float32)).tolist() == [False, False, False, True]
