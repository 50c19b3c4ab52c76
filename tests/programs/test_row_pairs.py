"""Sums of lookups along rows in which one code stays the same: two rows at a time, with the bits of single steps."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.compile.executors import row_pairs
from minihlo.ops.engine.speed import NONE

from ..conftest import Tune, tuned

FNUZ, E5M2 = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2


def softmax_sums(x):
    wide = x.astype(jnp.float32)
    return jnp.exp(wide - wide.max(-1, keepdims=True)).sum(-1)


def sums_from_the_row(scale, x):
    return jax.lax.reduce(jnp.maximum(scale[:, None], x).astype(jnp.float32) / 3, np.float32(0.1), jax.lax.add, (1,))


def numbers(seed: int, shape: tuple[int, ...], dtype: type, below: int) -> np.ndarray:
    """Numbers of codes below one of them."""
    return np.random.default_rng(seed).integers(0, below, shape, np.uint8).view(dtype)


def case(name: str) -> tuple:
    if name == "softmax":
        x = np.random.default_rng(5).standard_normal((300, 41), np.float32) * 3
        return softmax_sums, [x.astype(FNUZ)]
    scale = np.repeat(np.array([1.5, 2, 0]), (33, 51, 7)).astype(E5M2)  # odd numbers of rows, and few of one
    if name == "few alike":
        return sums_from_the_row, [np.arange(91, dtype=np.uint8).view(E5M2), numbers(2, (91, 40), E5M2, 0x7C)]
    # Code 0x7C is infinite, and those from 0x7D on are NaN.
    below = {"finite": 0x78, "infinite": 0x7D, "NaN": 0x100}[name]
    return sums_from_the_row, [scale, numbers(3, (91, 40), E5M2, below)]


@pytest.mark.parametrize("name", ["softmax", "few alike", "finite", "infinite", "NaN"])
@pytest.mark.parametrize("block", [64, 1 << 17])
def test_two_rows_at_a_time(name: str, block: int, tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    function, operands = case(name)
    loaded = interp.load(jax.jit(function).lower(*operands).as_text())
    loaded.speed = NONE
    (expected,) = loaded(*operands)
    tune(row_pairs_rows=10, row_pairs_steps=8, fuse_many=1, group_call_cost=1 << 20, pairs_from=1, block=block)
    seen: list[bool] = []
    split = row_pairs.parts_of

    def parts(*of):
        made = split(*of)
        seen.extend(pairs is not None for _, pairs in made)
        return made

    monkeypatch.setattr(row_pairs, "parts_of", parts)
    fast = interp.load(jax.jit(function).lower(*operands).as_text())
    fast.speed = tuned(dataclasses.replace(NONE, tables=True, blocks=True))
    (got,) = fast(*operands)
    assert np.array_equal(got.view(np.uint32), expected.view(np.uint32))
    assert any(seen) == (name != "few alike")


def test_it_is_chosen_for_many_long_rows(tune: Tune) -> None:
    def reasons(shape: tuple[int, int]) -> str:
        program = interp.load(jax.jit(softmax_sums).lower(np.zeros(shape, FNUZ)).as_text())
        program.speed = tuned(dataclasses.replace(NONE, tables=True, blocks=True))
        return " ".join(str(c.decision) for c in program.plan().chosen)

    tune(fuse_many=1)
    assert "two rows" in reasons((600, 600))
    assert "two rows" not in reasons((64, 600))
    assert "two rows" not in reasons((600, 64))
