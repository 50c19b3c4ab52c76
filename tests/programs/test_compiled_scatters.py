"""Scatters of sums of f16 and bf16 and of extremes of f32, by compiled code: as numpy has them one by one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.engine import compiled

from ..conftest import Tune

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")
SHAPES = [((50,), 4000), ((50, 7), 900), ((50, 3, 2), 300), ((40000,), 3000)]


def _one_by_one(x: np.ndarray, targets: np.ndarray, updates: np.ndarray, combine: Any) -> np.ndarray:
    """Each update after those before it; numpy rounds each result to the type."""
    result = x.copy()
    with np.errstate(all="ignore"):
        for target, update in zip(targets.tolist(), updates, strict=True):
            if 0 <= target < len(result):
                result[target] = combine(result[target], update)
    return result


def _same(got: np.ndarray, wanted: np.ndarray) -> bool:
    nan = wanted != wanted
    return bool(((got != got) == nan).all()) and got[~nan].tobytes() == wanted[~nan].tobytes()


@pytest.fixture(autouse=True)
def at_once(tune: Tune) -> None:
    tune(compiled_from=1, compiled_worth=0)
    kernels = compiled.kernels(1 << 30)
    assert kernels is not None
    assert kernels.scatters is not None


@pytest.mark.parametrize("special", [None, np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("shape", "count"), SHAPES)
def test_sums(shape: tuple[int, ...], count: int, dtype: Any, special: float | None) -> None:
    """Numbers of very unlike sizes, subnormal ones and some that overflow."""
    rng = np.random.default_rng(1)
    sizes = 2.0 ** rng.integers(-30, 16, (count, *shape[1:]))
    x, updates = rng.standard_normal(shape).astype(dtype), rng.standard_normal(sizes.shape) * sizes
    with np.errstate(over="ignore"):
        updates = updates.astype(dtype)
    targets = rng.integers(-5, len(x) + 5, count).astype(np.int32)
    if special is not None:
        updates[::97], updates[50] = special, -np.inf
    dropped = jax.jit(lambda x, i, u: x.at[i].add(u, mode="drop", wrap_negative_indices=False))
    program = interp.load(dropped.lower(x, targets, updates).as_text())
    (result,) = program(x, targets, updates)
    assert _same(np.asarray(result), _one_by_one(x, targets, updates, lambda a, b: (a + b).astype(dtype)))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int8, np.int32])
def test_sums_of_integers_of_16_bits_are_none_of_floats(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x, updates = (rng.integers(0, 120, n).astype(dtype) for n in (40, 3000))
    targets = rng.integers(0, 40, 3000).astype(np.int32)
    got = interp.jit(lambda x, i, u: x.at[i].add(u))(x, targets, updates)
    assert np.array_equal(got, _one_by_one(x, targets, updates, lambda a, b: (a + b).astype(dtype)))


@pytest.mark.parametrize("kind", ["any", "zeros", "negative", "NaN in x", "NaN in updates"])
@pytest.mark.parametrize("is_largest", [True, False])
@pytest.mark.parametrize(("shape", "count"), SHAPES)
def test_extremes(shape: tuple[int, ...], count: int, is_largest: bool, kind: str) -> None:
    rng = np.random.default_rng(2)
    x, updates = (rng.standard_normal(s).astype(np.float32) for s in (shape, (count, *shape[1:])))
    if kind == "zeros":
        x, updates = (np.copysign(np.float32(0), v) for v in (x, updates))
    elif kind == "negative":
        x, updates = -np.abs(x), -np.abs(updates) * np.float32(1e-42)
        updates[::5] = -np.inf
    elif kind != "any":
        (x if kind == "NaN in x" else updates)[3] = np.nan
    targets = rng.integers(0, len(x), count).astype(np.int32)
    (result,) = interp.load(
        jax.jit(lambda x, i, u: x.at[i].max(u) if is_largest else x.at[i].min(u)).lower(x, targets, updates).as_text()
    )(x, targets, updates)

    def combined(a: Any, b: Any) -> Any:
        """The larger or smaller, NaN if either is; +0 is larger than -0."""
        ahead = (a > b) | ((a == b) & (np.signbit(a) < np.signbit(b)))
        best = np.where(ahead == is_largest, a, b)
        return np.where((a != a) | (b != b), np.float32(np.nan), best)

    assert _same(np.asarray(result), _one_by_one(x, targets, updates, combined))


def test_repeated_and_reversed_updates() -> None:
    """Arrays that do not lie in order."""
    x, updates = np.zeros(9, ml_dtypes.bfloat16), np.arange(1, 2001).astype(ml_dtypes.bfloat16)[::-2]
    targets = np.arange(1000, dtype=np.int32)[::-1] % 9
    got = interp.jit(lambda x, i, u: x.at[i].add(u))(x, targets, updates)
    assert _same(np.asarray(got), _one_by_one(x, targets, updates, lambda a, b: (a + b).astype(x.dtype)))
    same = interp.jit(lambda x, i: x.at[i].add(jnp.bfloat16(0.3)))(x, targets)
    once = np.full(1000, 0.3, x.dtype)
    assert _same(np.asarray(same), _one_by_one(x, targets, once, lambda a, b: (a + b).astype(x.dtype)))
