"""Products that are zero or infinite early on, held against numpy's running products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.ops.reductions.settled import settling

from ..conftest import Tune

TYPES = [np.float32, np.float64, ml_dtypes.bfloat16, np.float16]
STEPS = 6000
#: What a product meets after it has settled, as (place, number); the first step that is not looked at one by one is
#: 1024, and `block` numbers are looked at together.
LATER = {
    "nothing": {},
    "a negative number": {1024: -2.0},
    "two negative numbers": {1030: -2.0, STEPS - 1: -1.0},
    "negative zero": {4000: -0.0},
    "zero": {STEPS - 1: 0.0},
    "infinity": {1024: np.inf},
    "negative infinity": {5000: -np.inf},
    "NaN": {3000: np.nan},
    "the largest and the least number": {2000: "max", 2001: "-max", 2002: "smallest_subnormal"},
}


@pytest.fixture(autouse=True)
def small_blocks(tune: Tune) -> None:
    tune(settled_block=700)


def _number(name: Any, dtype: Any) -> float:
    if not isinstance(name, str):
        return name
    size = float(getattr(ml_dtypes.finfo(dtype), name.lstrip("-")))
    return -size if name.startswith("-") else size


def _check(x: np.ndarray, start: float) -> None:
    """The products of the columns of x have the bits of running products."""
    first = np.full(x.shape[1:], start, x.dtype)
    with jax.enable_x64(True):
        got = interp.jit(lambda v: lax.reduce(v, jnp.array(start, v.dtype), lax.mul, (0,)))(x)
    with np.errstate(all="ignore"):
        expected = np.multiply.accumulate(np.concatenate((first[None], x)))[-1]
    got = np.asarray(got)
    assert got.dtype == expected.dtype
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(got), nan)
    assert got[~nan].tobytes() == expected[~nan].tobytes()


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("scale", [0.5, -0.5, 2.0, 1.0])
@pytest.mark.parametrize("dtype", TYPES)
def test_products_have_the_bits_of_one_step_after_the_other(dtype, scale, later):
    """Of 0.5 to zero, of 2 to infinity; of 1 they do not settle."""
    for columns in ((), (3,)):
        x = np.full((STEPS, *columns), scale).astype(dtype)
        x[:1024] = np.where(np.arange(1024) % 5, scale * abs(scale), scale).reshape(1024, *[1] * len(columns))
        for place, number in LATER[later].items():
            x[(place, *[1] * len(columns))] = _number(number, dtype)
        for start in (1.0, -3.0, 0.0, -np.inf):
            _check(x, start)


@pytest.mark.parametrize("dtype", TYPES)
def test_some_columns_settle_and_others_do_not(dtype):
    x = np.ones((STEPS, 4)).astype(dtype)
    x[:1200, 0], x[:900, 1], x[:, 2] = 0.5, 2.0, -1.0
    _check(x, 1.0)


def test_what_is_multiplied_step_by_step():
    """Of products that settle the first 1,024 factors, of others all; also of those that become NaN, and short ones."""
    steps: list[int] = []

    def fold(_: Any, starts: Any, rows: Any) -> tuple[np.ndarray]:
        steps.append(len(rows[0]))
        return (np.multiply.reduce(np.concatenate((starts[0][None], rows[0])), axis=0),)

    def steps_of(x: np.ndarray) -> list[int]:
        steps.clear()
        with np.errstate(all="ignore"):
            settling(fold)(lambda *_: (), [np.ones(x.shape[1:], x.dtype)], [x])
        return steps

    x = np.full((STEPS, 2), 0.5, np.float32)
    assert steps_of(x) == [1024]
    assert steps_of(np.ones_like(x)) == [1024, STEPS - 1024]
    assert steps_of(x[:4000]) == [4000]
    x[5000] = np.inf
    assert steps_of(x) == [1024, STEPS - 1024]
