"""In loops what is the same for several slices of a tensor is computed before they are taken: no bit depends on it.

What is expected is computed op by op, by numpy's array functions.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.ops.engine.speed import NAMES

from ..conftest import Tune
from .test_recurrences import codes, plan_of, text_of
from .test_single_numbers import rows_of

BF16 = jnp.bfloat16


def _zeros() -> Any:
    """Zeros of both signs, a constant of the turn: JAX hands an array of its own on from turn to turn."""
    return (1 - 2 * (lax.iota(np.float32, 20) % 2)) * np.float32(0)


def _gates(c: Any, v: Any) -> Any:
    x = jnp.concatenate([v, c[None].repeat(3, 0).ravel()])[:160]
    i, f, u, o = jnp.split(x, 4)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(u)
    return c, jax.nn.sigmoid(o) * jnp.tanh(c)


#: A turn: what the loop carries has 40 elements, a row has 40.
TURNS: dict[str, Any] = {
    "gates": _gates,
    "overlapping": lambda c, v: ((c[1:] - c[:-1])[:1] * 0.5 + v, jnp.exp(c[1:-1]) + jnp.exp(c[2:]) * jnp.exp(c[:-2])),
    "by itself": lambda c, v: (c * 0.5 + v, (c[:20] * c[:20]) - (c[20:] * c[20:])),
    "a number of the turn": lambda c, v: (
        c * 0.5 + v,
        (c[:20] * v[3] + 2, v[3] * c[20:], v[3] - c[20:], c[20:] * v[3]),
    ),
    "matrices": lambda c, v: (c * 0.5 + v, -(m := c.reshape(8, 5))[:4, 1:] * jnp.sqrt(m)[4:, 1:] - jnp.sqrt(m[:4, :4])),
    "steps": lambda c, v: (c * 0.5 + v, jnp.tanh(c[::2]) * jnp.tanh(c[1::2]) - jnp.tanh(c[:20])),
    "conversions": lambda c, v: (
        c * 0.5 + v,
        (c[:20].astype(BF16) * 3, c[20:].astype(BF16) * 3, c[20:].astype(np.int8)),
    ),
    "zeros": lambda c, v: (c * 0.5 + v, (c[:20] * _zeros(), c[20:] * _zeros())),
    "integers": lambda c, v: (
        (c.astype(np.int32) * 3) * np.float32(0.1) + v,
        (jnp.sign(c[:9]) + 1, jnp.sign(c[9:]) + 2),
    ),
}


@pytest.mark.parametrize("name", TURNS)
def test_no_bit_depends_on_it(name: str, tune: Tune) -> None:
    state, rows = rows_of(40)[::-1].copy(), rows_of(30, 40)

    def run(state: Any, rows: Any) -> Any:
        return lax.scan(TURNS[name], state, rows)

    text = text_of(run, state, rows)
    expected = [codes(v) for v in interp.load(text, without=",".join(NAMES))(state, rows)]
    assert [codes(v) for v in interp.load(text)(state, rows)] == expected
    tune(slices_wasted=1 << 12)
    assert [codes(v) for v in interp.load(text)(state, rows)] == expected


def _count(function: Any, *arguments: Any) -> int:
    """How often a plan without compiled code calls an exponential."""
    plan = plan_of(function, *arguments)
    return sum(" = k" in line and "stablehlo.exponential" in line for line in plan.splitlines())


def test_gates_of_a_cell_are_computed_together(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    monkeypatch.setattr("minihlo.interp.compile.planner.is_available", lambda: False)

    def run(size: int) -> Any:
        def turn(c: Any, v: Any) -> Any:
            x = jnp.outer(c, v).ravel()
            return jnp.exp(x[: size * 8]) + jnp.exp(x[size * 8 : size * 16]) * jnp.exp(x[-8 * size :]), None

        return lambda c, rows: lax.scan(turn, c, rows)[0]

    def count(size: int) -> int:
        return _count(run(size), np.zeros(8 * size, np.float32), rows_of(20, 8))

    assert count(6) == 1
    assert count(16) == 3  # of 1,024 elements 640 would be for nothing
    tune(slices_wasted=640)
    assert count(16) == 1
    tune(slices_most=1000)
    assert count(16) == 3
