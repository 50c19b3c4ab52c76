"""Loops that read and write rows of one array: by numpy's own indexing in a loop in Python, on integers and floats."""

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

N = 40
#: What a turn writes at which row, and how the plan runs the loop.
SIDE, ROWS, LOOP = "side by side", "over rows", "while True"
LOOPS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], str]] = {
    "its own row": (lambda a, i: a[i] * 2 + 1, lambda i: i, SIDE),
    "a row to come": (lambda a, i: a[i + 1] * 3, lambda i: i, SIDE),
    "a row to come, and its own": (lambda a, i: a[i + 2] - a[i], lambda i: i, SIDE),
    "the row before": (lambda a, i: a[i] * 3 + a[i + 1], lambda i: i + 1, ROWS),
    "two rows before": (lambda a, i: a[i] + a[i + 1], lambda i: i + 2, ROWS),
    "the fourth row before, and one to come": (lambda a, i: a[i] + a[i + 5], lambda i: i + 4, ROWS),
    "the fifth row before": (lambda a, i: a[i] + 1, lambda i: i + 5, ROWS),
    "backwards": (lambda a, i: a[N - 1 - i] * 5 + a[N - 2 - i], lambda i: N - 2 - i, ROWS),
    "backwards, rows to come": (lambda a, i: a[N - 9 - i] * 5, lambda i: N - 1 - i, SIDE),
    "the other way": (lambda a, i: a[N - 1 - i] + 1, lambda i: i, ROWS),
    "a row that stays": (lambda a, i: a[3] + a[i], lambda i: i, ROWS),
    "all rows": (lambda a, i: a.max(0) + a[i], lambda i: i, ROWS),
    "each second row": (lambda a, i: a[i] + 7, lambda i: 2 * i, ROWS),
    "a row that the array says": (lambda a, i: a[(i * 7) % 11] + 1, lambda i: i, ROWS),
}
TURNS = 20


def _of(name: str, rank: int) -> tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray], str]:
    """The loop by JAX and by numpy, on arrays of one dimension or of two."""
    value, at, way = LOOPS[name]

    def by_jax(a: Any) -> Any:
        return lax.fori_loop(0, TURNS, lambda i, a: a.at[at(i)].set(value(a, i)), a)

    def by_slices(a: Any) -> Any:
        def turn(i: Any, a: Any) -> Any:
            return lax.dynamic_update_slice_in_dim(a, value(a, i)[None], at(i), 0)

        return lax.fori_loop(0, TURNS, turn, a)

    def by_numpy(a: np.ndarray) -> np.ndarray:
        a = a.copy()
        for i in range(TURNS):
            a[at(i)] = value(a, i)
        return a

    return (by_jax if rank == 1 else by_slices), by_numpy, way


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("name", LOOPS)
@np.errstate(all="ignore")
def test_rows_are_those_of_numpy(name, rank, dtype):
    by_jax, by_numpy, way = _of(name, rank)
    a = np.random.default_rng(4).integers(0, 50, (N, 3)[:rank]).astype(dtype)
    loaded = interp.load(jax.jit(by_jax).lower(a).as_text())
    (result,) = loaded(a)
    assert np.asarray(result).tolist() == by_numpy(a).tolist()
    if dtype == np.int32:
        assert way in listing(loaded.plan())


@np.errstate(all="ignore")
def test_columns():
    def turn(j: Any, a: Any) -> Any:
        column = lax.dynamic_slice(a, (0, j), (5, 1)) * 2 + lax.dynamic_slice(a, (0, j + 1), (5, 1))
        return lax.dynamic_update_slice(a, column, (0, j + 1))

    a = np.arange(150, dtype=np.int32).reshape(5, 30)
    loaded = interp.load(jax.jit(lambda a: lax.fori_loop(0, 29, turn, a)).lower(a).as_text())
    expected = a.copy()
    for j in range(29):
        expected[:, j + 1] += expected[:, j] * 2
    assert np.asarray(loaded(a)[0]).tolist() == expected.tolist()
    assert ROWS in listing(loaded.plan())


def test_parts_of_rows_that_are_not_what_is_written():
    """A turn writes the left half of a row, and reads the right one, or some of both."""
    for first in (0, 1, 2):

        def turn(i: Any, a: Any, first: int = first) -> Any:
            part = lax.dynamic_slice(a, (i, first), (1, 2)) + 1
            return lax.dynamic_update_slice(a, part, (i + 1, 0))

        a = np.arange(100, dtype=np.int32).reshape(25, 4)
        expected = a.copy()
        for i in range(24):
            expected[i + 1, :2] = expected[i, first : first + 2] + 1
        (result,) = interp.load(jax.jit(lambda a, t=turn: lax.fori_loop(0, 24, t, a)).lower(a).as_text())(a)
        assert np.asarray(result).tolist() == expected.tolist()


def test_what_is_out_of_bounds_is_not_written():
    def turn(i: Any, a: Any) -> Any:
        return a.at[i + 10].set(a[i] + 1, mode="drop")

    a = np.arange(20, dtype=np.int32)
    (result,) = interp.load(jax.jit(lambda a: lax.fori_loop(0, 20, turn, a)).lower(a).as_text())(a)
    assert np.asarray(result).tolist() == [*range(10), *range(1, 11)]


def test_two_arrays_of_which_each_reads_the_other():
    def turn(i: Any, c: Any) -> Any:
        a, b = c
        return a.at[i + 1].set(b[i] + a[i]), b.at[i + 1].set(a[i] ^ b[i + 1])

    start = np.arange(1, 31, dtype=np.int32)
    text = jax.jit(lambda x: lax.fori_loop(0, 29, turn, (x, x * 3))).lower(start).as_text()
    a, b = start.copy(), start * 3
    for i in range(29):
        a[i + 1], b[i + 1] = b[i] + a[i], a[i] ^ b[i + 1]
    for result, expected in zip(interp.load(text)(start), (a, b), strict=True):
        assert np.asarray(result).tolist() == expected.tolist()


@pytest.mark.parametrize("update", ["set", "add", "max"])
def test_a_scatter_into_rows_that_the_data_choose_is_in_place(update):
    """The argument is not written over, nor what a turn has read before it writes."""

    def turn(i: Any, c: Any) -> Any:
        a, seen = c
        at = jnp.abs(a[i]) % 23
        old = lax.dynamic_slice(a, (at,), (2,))
        return getattr(a.at[at], update)(i), seen + old * i

    a = np.random.default_rng(3).integers(-90, 90, 25).astype(np.int32)
    before = a.copy()
    results = interp.load(jax.jit(lambda a: lax.fori_loop(0, 25, turn, (a, jnp.zeros(2, int)))).lower(a).as_text())(a)
    expected, seen = a.copy(), np.zeros(2, np.int32)
    for i in range(25):
        at = abs(int(expected[i])) % 23
        seen += expected[at : at + 2] * i
        expected[at] = {"set": i, "add": expected[at] + i, "max": max(expected[at], i)}[update]
    assert [np.asarray(r).tolist() for r in results] == [expected.tolist(), seen.tolist()]
    assert a.tolist() == before.tolist()
