"""Arrays that loops and branches change: by each op alone and by numpy's own loops, and without copies."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.ops.engine.speed import NONE

SIZE, TURNS = 90, 60


def _swapped(c: Any, i: Any, j: Any) -> Any:
    return c.at[i].set(c[j]).at[j].set(c[i])


def _in_a_branch(c: Any, i: Any, j: Any) -> Any:
    return lax.cond(i % 3 > 0, lambda c: c.at[i].set(c[j] * 2), lambda c: c, c)


def _twice_in_branches(c: Any, i: Any, j: Any) -> Any:
    c = lax.cond(i > j, lambda c: _swapped(c, i, j), lambda c: c.at[j].add(1), c)
    return lax.switch(i % 3, [lambda c: c, lambda c: c.at[i].set(c[0]), lambda c: _swapped(c, i, j)], c)


def _read_before_a_branch(c: Any, i: Any, j: Any) -> Any:
    window = lax.dynamic_slice(c, (j,), (4,))
    c = lax.cond(i % 2 == 0, lambda c: c.at[i].set(-5), lambda c: _swapped(c, i, j), c)
    return lax.dynamic_update_slice(c, window + 1, (i,))


def _read_after_a_branch(c: Any, i: Any, j: Any) -> Any:
    changed = lax.cond(i % 2 == 0, lambda c: c.at[i].set(-5), lambda c: c, c)
    return changed.at[j].set(c[i])


def _chosen(c: Any, i: Any, j: Any) -> Any:
    c = jnp.where(i > j, c.at[i].set(-c[j]), c)
    c = jnp.where(i % 2 == 0, c, lax.dynamic_update_slice(c, c[3:6] + 1, (j,)))
    return jnp.where(c[0] > 3, c.at[i * 2].add(c[j] % 9), c)


def _chosen_together(c: Any, i: Any, j: Any) -> Any:
    c = jnp.where(c[i] > c[j], _swapped(c, i, j), c)
    both = c.at[i].set(7).at[jnp.stack([j, i, j + 60])].add(1)
    return jnp.where(i % 3 == 0, lax.dynamic_update_slice(both, c[:4], (j,)), c)


def _in_an_inner_loop(c: Any, i: Any, j: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < i % 4, lambda s: (s[0] + 1, _swapped(s[1], j, s[0])), (0, c))[1]


def _in_a_condition(c: Any, i: Any, j: Any) -> Any:
    goes_on = lambda s: (s[0] < 3) & (lax.dynamic_update_slice(s[1], s[1][:1] * 0 + 9, (j,)).sum() < 4100)  # noqa: E731
    return lax.while_loop(goes_on, lambda s: (s[0] + 1, s[1].at[i].add(1)), (0, c))[1]


@pytest.mark.parametrize(
    "turn",
    [
        _swapped,
        _in_a_branch,
        _twice_in_branches,
        _read_before_a_branch,
        _read_after_a_branch,
        _in_an_inner_loop,
        _in_a_condition,
        _chosen,
        _chosen_together,
    ],
)
def test_arrays_are_changed_as_by_each_op_alone(turn: Callable[..., Any]):
    def function(c: Any, places: Any) -> Any:
        return lax.fori_loop(0, TURNS, lambda k, c: turn(c, places[k], places[k + TURNS]), c)

    first, places = np.arange(SIZE, dtype=np.int32), np.random.default_rng(3).integers(0, SIZE, 2 * TURNS, np.int32)
    text, kept = jax.jit(function).lower(first, places).as_text(), first.copy()
    fast, slow = interp.load(text), interp.load(text)
    slow.speed = NONE
    expected = np.asarray(slow(first, places)[0]).tolist()
    assert [np.asarray(fast(first, places)[0]).tolist() for _ in range(2)] == [expected] * 2
    assert first.tolist() == kept.tolist()
    if turn is _swapped:
        for i, j in zip(places[:TURNS], places[TURNS:], strict=True):
            kept[i], kept[j] = kept[j], kept[i]
        assert expected == kept.tolist()


@pytest.mark.parametrize("turn", [_swapped, _in_a_branch, _twice_in_branches, _in_an_inner_loop, _chosen])
def test_a_turn_takes_no_time_for_the_rest_of_the_array(turn: Callable[..., Any]):
    # A copy takes some 2 ms, a turn without one a part of 0.1.
    function = jax.jit(lambda c: lax.fori_loop(0, 500, lambda k, c: turn(c, k * 7 % 1000, k * 3 % 100), c))
    first = np.zeros(3_000_000, np.int32)
    loaded = interp.load(function.lower(first).as_text())
    plan = loaded.plan()
    start = time.perf_counter()
    loaded.run(plan, (first,))
    assert time.perf_counter() - start < 0.4
