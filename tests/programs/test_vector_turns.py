"""Recurrences over small vectors as code of their own give the bits of one call for each operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.executors import vector_turns
from minihlo.interp.compile.executors.vector_turns import VectorTurns
from minihlo.interp.compile.explain import listing
from minihlo.ops.engine import blas_calls, compiled
from minihlo.ops.engine.speed import NAMES

from ..conftest import Tune
from .random_vectors import random_recurrence
from .test_recurrences import codes, text_of

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")

TURNS = 40
RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def made(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Loops run as code at once; for each run the turns that code has made, and those that Python has."""
    tune(vector_seconds=0, loop_seconds=0, recurrence_turns=2, vector_turns=7, vector_left=1)
    runs: list[tuple[int, int]] = []
    run = VectorTurns.run

    def noted(self: VectorTurns, states: Any, given: Any, results: Any, otherwise: Any) -> Any:
        left = []
        done, states = run(self, states, given, results, lambda s, a, b: left.append(b - a) or otherwise(s, a, b))
        runs.append((done - sum(left), sum(left)))
        return done, states

    monkeypatch.setattr(VectorTurns, "run", noted)
    return runs


def check(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The results, which are those of one call for each operation."""
    text, flat = jax.jit(function, keep_unused=True).lower(*arguments).as_text(), jax.tree.leaves(arguments)
    wanted, found = (interp.load(text, without=w)(*flat) for w in (",".join(NAMES), ""))
    wanted, found = (list(r) if isinstance(r, tuple | list) else [r] for r in (wanted, found))
    assert [codes(x) for x in found] == [codes(x) for x in wanted]
    return found


def check_with_numpy(body: Callable[..., Any], by_numpy: Callable[..., Any], states: Any, rows: np.ndarray) -> None:
    """Compare a loop with the same turns made by numpy, one after the other."""
    found, kept = check(lambda c, v: lax.scan(body, c, v), states, rows), []
    for row in rows:
        states, result = by_numpy(states, row)
        kept.append(result)
    assert [codes(x) for x in found] == [codes(x) for x in (*jax.tree.leaves(states), np.stack(kept))]


def _forward(c: Any, v: Any) -> Any:
    matrix = jnp.asarray(np.abs(np.arange(36, dtype=np.float32).reshape(6, 6) % 7 - 3.2))
    largest = jnp.max(c)
    c = jnp.log(jnp.exp(c - largest) @ matrix) + largest + v
    return c, jnp.sum(c)


def _best(c: Any, v: Any) -> Any:
    scores = c[:, None] + jnp.asarray(np.arange(25, dtype=np.float32).reshape(5, 5) % 3)
    return jnp.max(scores, 0) + v, jnp.argmax(scores, 0)


def _window(c: Any, v: Any) -> Any:
    index = jnp.int32(c[0] * 3)
    part = lax.dynamic_slice(c, (index,), (3,))
    return lax.dynamic_update_slice(c, part[::-1] + v[0], (index - 4,)) * 0.9 + v, part


def _cells(weights: Any) -> Callable[[Any, Any], Any]:
    """Gates, as recurrent networks have them, in the type of the weights."""

    def turn(c: Any, v: Any) -> Any:
        update, reset, new = jnp.split(jnp.concatenate([c, v], -1) @ weights, 3, -1)
        return jax.nn.sigmoid(update) * c + jax.nn.sigmoid(reset) * jnp.tanh(new) - jnp.exp(-jnp.abs(new)), c

    return turn


def _summed_in_f32(c: Any, v: Any) -> Any:
    wide = lax.dot(c, WEIGHTS[0], preferred_element_type=jnp.float32)
    return jnp.tanh(wide[:, :7] + v).astype(jnp.bfloat16), wide


HALVES = jnp.bfloat16, jnp.float16
WEIGHTS = [(normal(7, 12) * 0.4).astype(dtype) for dtype in HALVES]


def _cache(c: Any, v: Any) -> Any:
    """A row that is written where a number says, outside at times; and the first of the largest of many numbers."""
    table, at = c
    table = table.at[at].set(v * 0.5 + table[1], mode="drop", wrap_negative_indices=False)
    table = table.at[1, at].add(jnp.float32(0.25), mode="drop", wrap_negative_indices=False)
    best = jnp.argmax(table, axis=1).sum() + jnp.argmin(jnp.concatenate([jnp.round(v), v[::-1]]))
    return (table, (at * 5 + best.astype(jnp.int32)) % 9 - 2), best


def _first_of_many(c: Any, v: Any) -> Any:
    """What stands beside the first of the largest of many numbers, of which some are equal."""

    def keep(p: Any, q: Any) -> Any:
        is_ahead = (p[0] >= q[0]) | (p[0] != p[0])
        return tuple(jnp.where(is_ahead, x, y) for x, y in zip(p, q, strict=True))

    _, beside = lax.reduce((jnp.round(v), c), (np.float32(-9), np.float32(0)), keep, (0,))
    return jnp.roll(c, 1) * 0.5 + beside + v, beside


BODIES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "forward": (_forward, normal(6), normal(TURNS, 6)),
    "best path": (_best, normal(5), normal(TURNS, 5)),
    "windows": (_window, normal(8), normal(TURNS, 8)),
    "gates": (lambda c, v: ((1 - jax.nn.sigmoid(c @ jnp.eye(8))) * c + jnp.tanh(v), c), normal(8), normal(TURNS, 8)),
    "gradient": (lambda c, v: (c - 0.1 * (jnp.dot(c, v) - 1) * v, None), normal(8), normal(TURNS, 8)),
    "repeated rows": (
        lambda c, v: (c - jnp.dot(c, v[0]) * v[0] / (jnp.exp(v[1]) + jnp.abs(c)), None),
        normal(8),
        (normal(TURNS, 8), normal(TURNS)),
    ),
    "matrices": (lambda c, v: (c @ v / jnp.max(jnp.abs(c)), c), np.eye(6, dtype=np.float32), normal(TURNS, 6, 6)),
    "whole numbers": (lambda c, v: ((c * 7 + v) % 8 + (c >> 3), c > v), np.arange(5), RNG.integers(0, 99, (TURNS, 5))),
    "cells of bf16": (_cells(WEIGHTS[0]), normal(3, 4).astype(HALVES[0]), normal(TURNS, 3, 3).astype(HALVES[0])),
    "cells of f16": (_cells(WEIGHTS[1]), normal(3, 4).astype(HALVES[1]), normal(TURNS, 3, 3).astype(HALVES[1])),
    "a row of bf16": (_cells(WEIGHTS[0]), normal(1, 4).astype(HALVES[0]), normal(TURNS, 1, 3).astype(HALVES[0])),
    "the first of many": (_first_of_many, normal(41), normal(TURNS, 41)),
    "a cache": (_cache, (normal(5, 40), np.int32(3)), normal(TURNS, 40)),
    "outer products of f16": (
        lambda c, v: (c * 0.5 + v[:, None] @ v[None, ::-1], c),
        normal(4, 4).astype(HALVES[1]),
        normal(TURNS, 4).astype(HALVES[1]),
    ),
    "bf16 summed in f32": (_summed_in_f32, normal(3, 7).astype(HALVES[0]), normal(TURNS, 3, 7)),
    "bf16": (lambda c, v: (c * v + c, c), jnp.ones(4, jnp.bfloat16), normal(TURNS, 4).astype(jnp.bfloat16)),
}


@pytest.mark.parametrize("name", [n for n in BODIES if n != "whole numbers"])
def test_turns_are_made_by_code(name: str, made: list[tuple[int, int]]) -> None:
    body, first, rows = BODIES[name]
    check(lambda c, v: lax.scan(body, c, v), first, rows)
    assert made
    assert all(done > TURNS / 2 for done, _ in made)


@pytest.mark.parametrize("dtype", HALVES, ids=["bf16", "f16"])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "exp", "log", "expm1", "log1p", "sin", "cos"])
def test_functions_of_every_number_of_16_bits(name: str, dtype: Any, made: list[tuple[int, int]]) -> None:
    """The function of f32, rounded once more, is not that of f16 of a few numbers."""
    function = jax.nn.sigmoid if name == "sigmoid" else getattr(jnp, name)
    every = np.arange(1 << 16).astype(np.uint16)
    sizes = every & 0x7FFF
    every = every[sizes <= np.array(np.inf, dtype).view(np.uint16)].view(dtype)  # without NaN
    numbers = np.append(every, every[: -len(every) % 256]).reshape(-1, 256)

    def turn(c: Any, v: Any) -> Any:
        result = function(v + c)  # c is zero
        return jnp.where(result > 1, c, -c), result

    check(lambda c, v: lax.scan(turn, c, v), np.zeros(256, dtype), numbers)
    assert made
    assert sum(done for done, _ in made) > 0


def test_indices_of_few_bits_scatter_into_long_arrays(made: list[tuple[int, int]]) -> None:
    """The last place is beyond the type of the index."""
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))

    def turn(c: Any, v: Any) -> Any:
        table, at = c
        table = lax.scatter_add(table, at[None], v[0] + table[5], numbers)
        return (table, at * np.int8(3) + np.int8(7)), table[at.astype(np.int32)]

    states = normal(300), np.array(3, np.int8)
    check(lambda c, v: lax.scan(turn, c, v), states, normal(TURNS, 2))
    assert made


def test_short_vectors_one_behind_the_other(made: list[tuple[int, int]]) -> None:
    """The first element of the second one counts too."""
    check_with_numpy(
        lambda c, v: (jnp.concatenate([c[3:], v]) * 0.5, c),
        lambda c, v: (np.concatenate([c[3:], v]) * np.float32(0.5), c),
        normal(5),
        normal(TURNS, 3),
    )
    assert sum(made[0]) == TURNS


def test_turns_with_nan_are_made_again(made: list[tuple[int, int]]) -> None:
    rows = normal(TURNS, 5)
    rows[3, 2], rows[30] = np.nan, -np.nan
    check(lambda c, v: lax.scan(lambda c, v: (jnp.where(c > v, c, v + 0 * c[0]) * 0.5, c), c, v), normal(5), rows)
    assert made
    assert 0 < made[0][1] < TURNS


def test_turns_with_a_function_in_doubt_are_left_to_python(made: list[tuple[int, int]]) -> None:
    rows = np.zeros((TURNS, 3), np.float32)
    rows[11] = 1e30  # too large for what reduces angles
    check(lambda c, v: lax.scan(lambda c, v: (jnp.sin(c + v), c), c, v), normal(3), rows)
    assert [left for _, left in made] == [1]


def test_a_loop_that_is_often_in_doubt_goes_on_as_python(made: list[tuple[int, int]], tune: Tune) -> None:
    tune(vector_left=0.1)
    rows = np.full((TURNS, 3), 1e30, np.float32)
    check(lambda c, v: lax.scan(lambda c, v: (jnp.sin(c + v), c), c, v), normal(3), rows)
    assert made
    assert sum(made[0]) < 5


def test_a_product_that_is_not_numpys_is_left_to_numpy(
    made: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    body, first, rows = BODIES["gradient"]
    monkeypatch.setattr(blas_calls, "functions_named", lambda _: [])
    blas_calls.function_of.cache_clear()
    check(lambda c, v: lax.scan(body, c, v), first, rows)
    blas_calls.function_of.cache_clear()
    assert not made


def test_large_matrices_that_lie_by_columns_are_left_to_numpy(made: list[tuple[int, int]]) -> None:
    """The small ones are copied first, so that it is all one how they lie."""
    body = lambda m: lambda c, v: (jnp.tanh(c @ m * 0.1 + v), c[0])  # noqa: E731
    for rows, size in ((3, 8), (64, 80)):
        states, given = normal(rows, size), normal(TURNS, rows, size)
        text = text_of(lambda m, c, v: lax.scan(body(m), c, v), normal(size, size), states, given)
        for matrix, lies_well in ((normal(size, size), True), (normal(size, size).T, False)):
            made.clear()
            flat = matrix, states, given
            wanted, found = (interp.load(text, without=w)(*flat) for w in (",".join(NAMES), ""))
            assert list(map(codes, found)) == list(map(codes, wanted))
            assert bool(sum(map(sum, made))) == (lies_well or rows == 3)


def test_states_that_begin_as_one_number_are_made_by_numpy_once(made: list[tuple[int, int]]) -> None:
    """Where BLAS would be given them in another way; small ones are copied first."""
    for rows, size, expected in ((3, 8, (TURNS, 0)), (64, 80, (TURNS - 1, 1))):
        made.clear()
        zeros = jnp.zeros((rows, size), jnp.float32)
        body = lambda m: lambda c, v: (c @ m * 0.1 + v, c[0])  # noqa: E731
        check(lambda m, v, b=body, z=zeros: lax.scan(b(m), z, v), normal(size, size), normal(TURNS, rows, size))
        assert made == [expected]


def test_steps_of_gradient_descent_are_made_by_code(made: list[tuple[int, int]]) -> None:
    """Gradients of weights come out transposed."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2)

    def step(w: Any, v: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(w, *v)
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, gradient), value

    weights, rows = (normal(5, 9), normal(9, 2)), (normal(TURNS, 7, 5), normal(TURNS, 7, 2))
    check(lambda w, v: lax.scan(step, w, v), weights, rows)
    assert made == [(TURNS, 0)]


@pytest.mark.parametrize("length", [5, 8, 16, 33])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
def test_products_are_numpys(length: int, turned: tuple[bool, bool]) -> None:
    """Each is compared with numpy when it is asked for; a call with other strides is not numpy's."""
    product = blas_calls.Product(3, length, 7, *turned)
    found = blas_calls.function_of(product)
    assert found is not None
    wrong = blas_calls.Product(3, length, 7, not turned[0], turned[1])
    assert not blas_calls._is_numpys(found, _Turned(product, wrong))


class _Turned:
    """A product, with the call of another one."""

    def __init__(self, product: blas_calls.Product, other: blas_calls.Product) -> None:
        self.rows, self.length, self.columns = product.rows, product.length, product.columns
        self.is_left_turned, self.is_right_turned = product.is_left_turned, product.is_right_turned
        self.call, self.has_out = other.call, other.has_out


def test_plans_say_how_they_run() -> None:
    body, first, rows = BODIES["forward"]
    text = text_of(lambda c, v: lax.scan(body, c, v), first, rows)
    assert "code for all 40 turns on small vectors" in listing(interp.load(text).plan())
    assert "small vectors" not in listing(interp.load(text, without="compiled").plan())


@pytest.mark.parametrize("start", [0, 10])
def test_random_bodies_give_the_bits_of_single_operations(start: int, made: list[tuple[int, int]]) -> None:
    for seed in range(start, start + 10):
        function, arguments = random_recurrence(seed, 20)
        check(function, *arguments)
    assert len(made) > 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(2000, 3000, 100))
def test_many_random_bodies_give_the_bits_of_single_operations(start: int, made: list[tuple[int, int]]) -> None:
    for seed in range(start, start + 100):
        function, arguments = random_recurrence(seed, 20)
        check(function, *arguments)
    assert made


def test_compiled_turns_stop_with_their_grid(made: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    class Grid:
        is_stopped = True

        def stop_here_if_stopped(self) -> None:
            raise Stopped

    body, first, rows = BODIES["best path"]
    program = interp.load(text_of(lambda c, v: lax.scan(body, c, v), first, rows))
    monkeypatch.setattr(vector_turns, "current_grid", Grid)
    with pytest.raises(Stopped):
        program(first, rows)
    assert not made
