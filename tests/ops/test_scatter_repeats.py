"""Scatters whose body does not read the updates, held against numpy: each element goes through it so many times."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import Policy

TYPES = [np.float32, np.float16, np.int8]
TYPES += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn]


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
    factor = np.array(3 if dtype == np.int8 else -0.9).astype(dtype)[()]
    # Among them one that is no target, one that often is, and places that do not exist.
    targets = np.concatenate([rng.integers(1, 40, 5000), np.full(30, 5), [40, 99, -41]])
    got = interp.jit(lambda v, i: v.at[i].apply(lambda y: y * factor))(x, targets.astype(np.int32))
    wanted = _expected(x, targets[:-3], factor)
    assert np.asarray(got).tobytes() == wanted.tobytes()


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
