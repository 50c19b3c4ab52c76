"""Recurrences over vectors too long for registers, as code of their own, give the bits of a call for each operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo.ops.engine import compiled
from minihlo.ops.engine.fast.turns.memory import LINE, Memory, runs_of, steady, turned_columns

from ..conftest import Tune
from .test_recurrences import codes
from .test_vector_turns import check, check_with_numpy, made

__all__ = ["made"]

needs_numba = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")
TURNS = 9
RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


Body = tuple[Callable[..., Any], Any, Any]


def _recurrent(cell: Callable[..., Any], batch: int, inputs: int, units: int, gates: int) -> Callable[..., Any]:
    """The gradient of a cell's weights through all turns."""

    def loss(weights: Any, rows: Any) -> Any:
        state = (jnp.zeros((batch, units)),) * 2
        last, every = lax.scan(lambda s, x: cell(weights, s, x), state, rows)
        return jnp.square(last[0]).sum() + every.mean()

    weights = {"x": normal(inputs, gates * units) * 0.3, "h": normal(units, gates * units) * 0.3}
    rows = normal(TURNS, batch, inputs)
    return lambda scale: jax.value_and_grad(loss)(jax.tree.map(lambda w: w * scale, weights), rows)


def _lstm(w: Any, state: Any, x: Any) -> Any:
    h, c = state
    i, f, g, o = jnp.split(x @ w["x"] + h @ w["h"], 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def _gru(w: Any, state: Any, x: Any) -> Any:
    h, other = state
    a, b = jnp.split(x @ w["x"], 3, -1), jnp.split(h @ w["h"], 3, -1)
    z = jax.nn.sigmoid(a[1] + b[1])
    h = (1 - z) * jnp.tanh(a[2] + jax.nn.sigmoid(a[0] + b[0]) * b[2]) + z * h
    return (h, other), h


def _rnn(w: Any, state: Any, x: Any) -> Any:
    h = jnp.tanh(x @ w["x"] + state[0] @ w["h"])
    return (h, state[0]), h


@needs_numba
@pytest.mark.parametrize("sizes", [(16, 8, 32), (7, 5, 37), (2, 3, 130)])
@pytest.mark.parametrize(("cell", "gates"), [(_lstm, 4), (_gru, 3), (_rnn, 1)])
def test_gradients_of_recurrent_networks(
    cell: Callable[..., Any], gates: int, sizes: tuple[int, int, int], made: list[tuple[int, int]]
) -> None:
    check(_recurrent(cell, *sizes, gates), np.float32(0.9))
    assert sum(done for done, _ in made) > TURNS


@needs_numba
def test_products_of_many_terms(made: list[tuple[int, int]]) -> None:
    w = normal(128, 128) * np.float32(0.1)
    check(lambda c, v: lax.scan(lambda c, v: (jnp.tanh(c @ w) + v, c), c, v), normal(48, 128), normal(TURNS, 48, 1))
    assert made[0][0] == TURNS


def _swapped(c: Any, v: Any) -> Any:
    a, b = c
    return (b, a * 0.5 + v), a


def _sine_after(c: Any, v: Any) -> Any:
    """A function that may stop the turn is all that the second state is, but for an element of the first."""
    a, b = c
    a = a * 0.5 + v
    return (a, jnp.sin(b + v) + a[0]), a


def _window(c: Any, v: Any) -> Any:
    at = (v[0] * 40).astype(jnp.int32)
    part = lax.dynamic_slice(c, (at, jnp.int32(1)), (12, 13))
    return lax.dynamic_update_slice(c, part * 0.5, (at - 3, jnp.int32(0))), part


BODIES: dict[str, Body] = {
    "swapped states": (_swapped, (normal(200), normal(200)), normal(TURNS)),
    "a state that another becomes": (lambda c, v: ((c[1] + v, c[0]), None), (normal(300), normal(300)), normal(TURNS)),
    "one state twice": (lambda c, v: ((c[0] * v, c[0] * v), c[1]), (normal(150), normal(150)), normal(TURNS)),
    "the state before": (lambda c, v: (c * 0.5 + v, (c, c * 0.5 + v)), normal(150), normal(TURNS, 150)),
    "squares turned": (lambda c, v: (c.T.reshape(32, 48) + v, c.T), normal(32, 48), normal(TURNS)),
    "odd squares turned": (lambda c, v: (c.T.reshape(13, 17) * v, c.T), normal(13, 17), normal(TURNS)),
    "three dimensions turned": (
        lambda c, v: (c.transpose(2, 0, 1).reshape(c.shape) + v, c[1]),
        normal(4, 6, 10),
        normal(TURNS),
    ),
    "backwards": (lambda c, v: (c[::-1, :] + v, c[:, ::-1]), normal(12, 13), normal(TURNS)),
    "slices": (
        lambda c, v: (jnp.concatenate([c[:, 64:], c[:, :32] * v, c[:, 32:64]], 1), c[:, ::2]),
        normal(5, 80),
        normal(TURNS),
    ),
    "repeated": (
        lambda c, v: (c + v[:, None] + c[0] + v[0], jnp.broadcast_to(v, (4, 20)) * c[:4]),
        normal(20, 20),
        normal(TURNS, 20),
    ),
    "one number everywhere": (
        lambda c, v: (jnp.broadcast_to(c[3, 2] + v, (20, 20)), c * c[0, 0]),
        normal(20, 20),
        normal(TURNS),
    ),
    "short of long": (lambda c, v: (c * v + c[0, :7].sum(), c[2:4, 3:9]), normal(20, 20), normal(TURNS)),
    "sums of rows": (
        lambda c, v: (c - jnp.sum(c, 0) * 0.1 + jnp.max(c, 1)[:, None] * v, c),
        normal(9, 40),
        normal(TURNS),
    ),
    "a function after a state": (_sine_after, (normal(200), normal(200)), normal(TURNS)),
    "windows": (_window, normal(16, 16), np.abs(normal(TURNS, 1))),
    "bf16": (lambda c, v: (c * v + c, c), jnp.ones(300, jnp.bfloat16), normal(TURNS, 300).astype(jnp.bfloat16)),
    "f16": (lambda c, v: (c * v + c, c), jnp.ones(300, jnp.float16), normal(TURNS, 300).astype(np.float16)),
    "bytes": (
        lambda c, v: ((c[0] * 3 + v, c[1] + 1), (c[0] ^ v, c[1] > 0)),
        (np.arange(200, dtype=np.uint8), normal(200)),
        RNG.integers(0, 256, (TURNS, 200)).astype(np.uint8),
    ),
    "truths": (
        lambda c, v: (jnp.where(c > v, ~(c > 0), c < 1).astype(c.dtype) + c, c > v),
        normal(150),
        normal(TURNS, 150),
    ),
    "whole numbers": (
        lambda c, v: (c * 7 ^ (v >> 3), c < v),
        np.arange(300, dtype=np.int32),
        RNG.integers(0, 1 << 20, (TURNS, 300)).astype(np.int32),
    ),
}


@needs_numba
@pytest.mark.parametrize("name", BODIES)
def test_turns_are_made_by_code(name: str, made: list[tuple[int, int]]) -> None:
    body, first, rows = BODIES[name]
    check(lambda c, v: lax.scan(body, c, v), first, rows)
    assert made
    assert made[0][0] > TURNS / 2


HALF = np.float32(0.5)
#: Bodies, the same by numpy, states and rows. States need each other, or they would be loops of their own.
BY_NUMPY: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, np.ndarray]] = {
    "ops on vectors of different lengths": (
        lambda c, v: ((c[0] * 0.5 + c[1][7], c[1] * v - c[0][3]), c[1]),
        lambda c, v: ((c[0] * HALF + c[1][7], c[1] * v - c[0][3]), c[1]),
        (normal(200), normal(300)),
        normal(TURNS),
    ),
    "the state before is needed behind the one after": (
        lambda c, v: ((c[0] * v + c[1], (c[0] * v + c[1])[::-1] - c[0]), c[1]),
        lambda c, v: ((c[0] * v + c[1], (c[0] * v + c[1])[::-1] - c[0]), c[1]),
        (normal(200), normal(200)),
        normal(TURNS),
    ),
    "nothing but what is put around": (
        lambda c, v: (c * 0.5 + lax.pad(c, v[1], ((-200, 200, 0),)), c),
        lambda c, v: (c * HALF + v[1], c),
        normal(200),
        normal(TURNS, 2),
    ),
}


@needs_numba
@pytest.mark.parametrize("name", BY_NUMPY)
def test_turns_are_those_of_numpy(name: str, made: list[tuple[int, int]]) -> None:
    check_with_numpy(*BY_NUMPY[name])
    assert made[0] == (TURNS, 0)


@needs_numba
def test_products_are_never_negative_zero(made: list[tuple[int, int]]) -> None:
    """What is too small and negative ends as -0 in a BLAS that joins products and sums."""
    w = np.full((16, 16), 1e-30, np.float32) * np.arange(1, 17, dtype=np.float32)
    check_with_numpy(
        lambda c, v: (jnp.minimum(c @ w, c) * v, c @ w),
        lambda c, v: (np.minimum(c @ w, c) * v, c @ w + np.float32(0)),
        np.full((16, 16), -1e-30, np.float32),
        np.ones(TURNS, np.float32),
    )
    assert sum(made[0]) == TURNS


@needs_numba
@pytest.mark.parametrize("name", ["the state before", "squares turned", "slices", "sums of rows"])
def test_rows_backwards(name: str, made: list[tuple[int, int]]) -> None:
    body, first, rows = BODIES[name]
    check(lambda c, v: lax.scan(body, c, v, reverse=True), first, rows)
    assert made[0][0] == TURNS


@needs_numba
def test_a_turn_that_a_function_stops_begins_anew(made: list[tuple[int, int]]) -> None:
    rows = normal(TURNS)
    rows[4] = 1e30  # too large for what reduces angles
    check(lambda c, v: lax.scan(_sine_after, c, v), (normal(200), normal(200)), rows)
    assert made[-1] == (4, TURNS - 4)  # the state stays as large


@needs_numba
def test_a_state_is_the_old_one_where_a_function_stops_the_turn(made: list[tuple[int, int]]) -> None:
    def body(c: Any, v: Any) -> Any:
        a, b = c
        after = a * 0.5 + jnp.where(b > 2, b, v)  # no sine is
        return (after, jnp.sin(jnp.minimum(a, 1) + v)), after

    a, rows, kept = normal(200), normal(TURNS), []
    rows[4] = 1e30  # too large for what reduces angles
    found = check(lambda c, v: lax.scan(body, c, v), (a, np.zeros(200, np.float32)), rows)
    for row in rows:
        a = a * HALF + row
        kept.append(a)
    assert [codes(found[0]), codes(found[2])] == [codes(a), codes(np.stack(kept))]
    assert made == [(TURNS - 1, 1)]


@needs_numba
def test_turns_with_nan_are_made_again(made: list[tuple[int, int]]) -> None:
    rows = normal(TURNS, 200)
    rows[3, 150] = -np.nan
    check(lambda c, v: lax.scan(lambda c, v: (jnp.where(c > v, c, v) * 0.5, c), c, v), normal(200), rows)
    assert made[0][1] > 0


@needs_numba
def test_vectors_that_are_too_long_are_left_to_numpy(made: list[tuple[int, int]], tune: Tune) -> None:
    tune(vector_long=299)
    check(lambda c, v: lax.scan(lambda c, v: (c * v, c), c, v), normal(300), normal(TURNS))
    assert not made


def test_memory_is_used_again() -> None:
    memory = Memory()
    first, second, third = (memory.take(n) for n in (100, 64, 1))
    assert (first, second, third, memory.size) == (0, 128, 192, 256)
    memory.give(second, 64)
    assert memory.take(65) == 256
    memory.give(first, 100)
    assert memory.take(192) == 0
    memory.give(third, 1)
    memory.give(0, 192)
    assert memory.take(256) == 0
    assert memory.size % LINE == 0


def test_memory_grows_by_what_is_free_at_its_end() -> None:
    memory = Memory()
    memory.take(64)
    memory.give(memory.take(64), 64)
    assert (memory.take(128), memory.size) == (64, 192)


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (2, 7)])
def test_a_matrix_that_is_turned_round(shape: tuple[int, int]) -> None:
    places = np.arange(12 * 28).reshape(-1, shape[1])[: shape[0]].T.ravel().tolist()
    assert turned_columns(places) == shape[1]
    assert turned_columns([*places[1:], places[0]]) is None


@pytest.mark.parametrize(
    ("places", "wanted"),
    [
        ([4, 5, 0, 1, 6, 7, 2, 3], [(0, 2, (0, 2), (2, 6)), (1, 2, (0, 2), (0, 4))]),
        ([0, 1, 2, 3, 4, 5], [(0, 4, (0,), (0,)), (1, 2, (0,), (4,))]),
        ([3, 2, 1], [(0, 1, (3, 2, 1), (0, 1, 2))]),
        ([5, 5, 5], [(1, 1, (1, 1, 1), (0, 1, 2))]),
        ([0, 1, 2, 0, 1], [(0, 1, (0, 1, 2, 0, 1), (0, 1, 2, 3, 4))]),
    ],
)
def test_runs(places: Sequence[int], wanted: Sequence[Any]) -> None:
    assert [(r.operand, r.length, r.sources, r.targets) for r in runs_of(places, [4, 4])] == wanted


def test_steady_numbers() -> None:
    assert [steady(n) for n in ([3], [3, 5, 7], [4, 4], [0, 1, 3])] == [0, 2, 0, None]
