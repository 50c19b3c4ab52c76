"""Recurrences of complex numbers in chunks: the bits of each op alone, and numbers near those of f64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.explain import listing
from minihlo.ops.engine.speed import NONE

TURNS = 1500


def _number(c: Any, v: Any) -> Any:
    return (c * (0.8 - 0.3j) + v,) * 2


def _vector(c: Any, v: Any) -> Any:
    new = c * jnp.exp(1j * jnp.arange(3)).astype(np.complex64) * np.float32(0.7) + v
    return new, new.real


def _product(c: Any, v: Any) -> Any:
    return c * (v * np.float32(0.3)) - v, c


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("body", "shape"), [(_number, ()), (_vector, (3,)), (_product, ())])
def test_chunks_have_the_bits_of_each_op_alone(body, shape, special):
    draw = np.random.default_rng(5)
    rows = draw.standard_normal((2, TURNS, *shape)) @ np.eye(shape[0]) if shape else draw.standard_normal((2, TURNS))
    rows = (rows[0] + 1j * rows[1]).astype(np.complex64)
    if special:  # NaN stay in the state, so few chunks settle after them
        rows[[3, 50]], rows[700] = np.complex64(-0.0), np.complex64(1e-42)
        rows[1200] = np.complex64(complex(np.inf, -0.0))
    first = np.zeros(shape, np.complex64)
    text = jax.jit(lambda c, r: lax.scan(body, c, r)).lower(first, rows).as_text()
    loaded, alone = interp.load(text), interp.load(text)
    alone.speed = NONE
    assert "chunks of" in listing(loaded.plan())
    found, expected = loaded(first, rows), alone(first, rows)
    for x, y in zip(found, expected, strict=True):
        x, y = (
            np.where(np.isnan(v), np.float32(np.nan), v) for v in (np.atleast_1d(z).view(np.float32) for z in (x, y))
        )
        assert x.tobytes() == y.tobytes()
    if body is _number and not special:
        state = np.complex128(0)
        for v in rows.tolist():
            state = state * (0.8 - 0.3j) + v
        assert abs(found[0] - state) < 1e-5
