"""Turns that read and write windows of one array at places that are known: by each op alone, and by numpy's loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.explain import listing
from minihlo.interp.compile.passes.writes_last import writes_last
from minihlo.interp.compile.planner import find_function
from minihlo.ops.engine.speed import NONE

TOGETHER = "turns together"
SIZE, TURNS = 240, 700


def _update(c: Any, v: Any, i: Any, j: Any) -> Any:
    return lax.dynamic_update_slice(c, lax.dynamic_slice(c, (j,), (5,)) * 3 + v, (i,)), None


def _head(c: Any, v: Any, i: Any, j: Any) -> Any:
    return lax.dynamic_update_slice(c, c[:6:2] - v, (i,)), c[j]


def _set(c: Any, v: Any, i: Any, j: Any) -> Any:
    return c.at[i].set(c[j] + v), c[i]


def _add(c: Any, v: Any, i: Any, j: Any) -> Any:
    return c.at[i].add(c[j] - v), c[i]


def _larger(c: Any, v: Any, i: Any, j: Any) -> Any:
    return c.at[i].max(c[j] + v), v


def _multiply(c: Any, v: Any, i: Any, j: Any) -> Any:
    return c.at[i].mul(v), c[j]


def _rows(c: Any, v: Any, i: Any, j: Any) -> Any:
    m = c.reshape(-1, 3)
    return m.at[i % 90].add(m[j % 70] + v).reshape(-1), None


def _near(c: Any, v: Any, i: Any, j: Any) -> Any:
    return c.at[i % 3].set(c[j % 3] + v), c[i]


def _square(c: Any, v: Any, i: Any, j: Any) -> Any:
    # Of four columns the second index is often out of bounds, which drops the update and moves the read.
    return c.at[i % 60, j % 5].set(v - c[j % 60, i % 6]), c[i % 50, 1:3]


BODIES: dict[str, Callable[..., Any]] = {
    f.__name__.strip("_"): f for f in (_update, _head, _set, _add, _larger, _multiply, _rows, _near, _square)
}


def _arguments(dtype: Any, turns: int = TURNS) -> tuple[np.ndarray, ...]:
    draw = np.random.default_rng(7)
    numbers = draw.integers(-40, 40, SIZE + turns)
    if dtype != np.int32:
        numbers = np.where(numbers == 39, np.inf, np.where(numbers == 38, -0.0, numbers / 8))
    first, rows = numbers[:SIZE].astype(dtype), numbers[SIZE:].astype(dtype)
    # Some places are out of bounds.
    return first, rows, *draw.integers(-5, SIZE + 5, (2, turns), np.int32)


def _scan(name: str) -> Callable[..., Any]:
    def function(first: Any, *rows: Any) -> Any:
        if name == "square":
            first = first.reshape(60, 4)
        return lax.scan(lambda c, r: BODIES[name](c, *r), first, rows)

    return function


def _codes(values: Any) -> list[bytes]:
    """The bits of results; which NaN a sum gives is open."""
    return [(v if v.dtype.kind == "i" else np.where(np.isnan(v), v.dtype.type(np.nan), v)).tobytes() for v in values]


@pytest.mark.parametrize(
    "dtype", [np.int32, np.float32, jnp.bfloat16, jnp.float8_e4m3fn], ids=lambda d: np.dtype(d).name
)
@pytest.mark.parametrize("name", BODIES)
def test_the_bits_are_those_of_each_op_alone(name, dtype):
    arguments = _arguments(dtype)
    text = jax.jit(_scan(name)).lower(*arguments).as_text()
    loaded, alone = interp.load(text), interp.load(text)
    alone.speed = NONE
    assert _codes(loaded(*arguments)) == _codes(alone(*arguments))
    assert (TOGETHER in listing(loaded.plan())) == (name != "rows"), "there a turn reshapes the whole array"


def test_the_last_of_many_turns_is_that_of_numpy():
    # More turns than are looked at together, and not a multiple of them.
    first, rows, at, other = _arguments(np.int32, 10_007)
    (result, given) = interp.jit(_scan("set"))(first, rows, at, other)
    expected, seen = first.copy(), list[int]()
    for v, i, j in zip(rows.tolist(), at.tolist(), other.tolist(), strict=True):
        i, j = (k + SIZE if k < 0 else k for k in (i, j))  # as indices of Python
        new = expected[min(j, SIZE - 1)] + v
        seen.append(int(expected[min(i, SIZE - 1)]))
        if i < SIZE:
            expected[i] = new
    assert np.asarray(result).tolist() == expected.tolist()
    assert np.asarray(given).tolist() == seen


def test_turns_that_need_each_other_are_made_one_by_one():
    first, rows, *_ = _arguments(np.int32)
    one, two = np.full(TURNS, 3, np.int32), np.full(TURNS, 4, np.int32)
    turns = interp.jit(_scan("set"))
    expected = first.copy()
    expected[3] = rows[-1] + first[4]
    assert np.asarray(turns(first, rows, one, two)[0]).tolist() == expected.tolist()
    expected[3] = first[3] + rows.sum()
    for _ in range(4):  # then they are not tried together any more
        assert np.asarray(turns(first, rows, one, one)[0]).tolist() == expected.tolist()


def test_an_array_is_read_before_it_is_changed():
    def function(first: Any) -> Any:
        def turn(c: Any) -> Any:
            k, array, total = c
            changed = lax.dynamic_update_slice(array, total[None], (lax.rem(total, 9),))
            return k + 1, changed, total + lax.reduce(array, np.int32(0), lax.add, (0,))

        return lax.while_loop(lambda c: c[2] < 900, turn, (0, first, np.int32(0)))

    first = np.arange(9, dtype=np.int32)
    body = find_function(interp.load(jax.jit(function).lower(first).as_text()).program).body
    assert body is not None
    (loop,) = [o for o in writes_last(body).operations if o.name == "stablehlo.while"]
    names = [o.name for o in loop.regions[1].operations]
    assert names.index("stablehlo.reduce") < names.index("stablehlo.dynamic_update_slice")
    array, total, turns = first.copy(), 0, 0
    while total < 900:
        before = int(array.sum())
        array[total % 9] = total
        turns, total = turns + 1, total + before
    found = interp.jit(function)(first)
    assert [np.asarray(v).tolist() for v in found] == [turns, array.tolist(), total]


def test_elements_that_change_places_are_read_first():
    def swap(c: Any, k: Any) -> Any:
        return c.at[k].set(c[0]).at[0].set(c[k]), None

    first, places = np.arange(40, dtype=np.int32), np.random.default_rng(2).integers(0, 40, 90, np.int32)
    loaded = interp.load(jax.jit(lambda c, k: lax.scan(swap, c, k)[0]).lower(first, places).as_text())
    expected = first.copy()
    for k in places.tolist():
        expected[[k, 0]] = expected[[0, k]]
    assert np.asarray(loaded(first, places)[0]).tolist() == expected.tolist()
    assert ".copy()" not in listing(loaded.plan()), "a read stands behind a write"
