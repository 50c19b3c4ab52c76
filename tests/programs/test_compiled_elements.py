"""Compiled loops that read and write elements of arrays give the bits that numpy gives, turn by turn."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.compiled_loops.loops import CompiledLoop
from minihlo.interp.compile.executors.recurrence import RecurrenceRunner

from ..conftest import Tune
from ..thinned import thinned
from .table_loops import Eager, Lazy, random_table_loop
from .test_recurrences import codes


@pytest.fixture
def at_once(compiler: str, tune: Tune) -> str:
    """Loops are compiled before their first turn, and come back soon."""
    tune(loop_seconds=0, vector_steps=0, loop_turns=7, compiled_turns=7, number_elements=1)
    return compiler


def is_compiled(program: interp.LoadedProgram) -> bool:
    """Whether a loop that is in no other one runs compiled."""
    scope = program.plan().entry.__globals__.values()
    turns = [v.compiled for v in scope if isinstance(v, RecurrenceRunner) and v.compiled is not None]
    return any(v.is_compiled for v in scope if isinstance(v, CompiledLoop)) or any(t.is_ready for t in turns)


def _distance(f: Any, a: Any, b: Any, table: Any) -> Any:
    """How many letters of two texts differ: a loop within a loop, over a table."""

    def column(i: Any, j: Any, t: Any) -> Any:
        differs = f.where(f.get(a, (i,)) == f.get(b, (j,)), np.int32(0), np.int32(1))
        left, up = f.get(t, (i + np.int32(1), j)) + np.int32(1), f.get(t, (i, j + np.int32(1))) + np.int32(1)
        least = f.where(left < up, left, up)
        both = f.get(t, (i, j)) + differs
        return f.put(t, (i + np.int32(1), j + np.int32(1)), f.where(both < least, both, least))

    return f.loop(9, lambda i, t: f.loop(9, lambda j, t: column(i, j, t), t), table)


def _union(f: Any, pairs: Any, parents: Any) -> Any:
    """Sets that are joined: `while` loops that read what turns of the outer loop write to."""

    def root(p: Any, x: Any) -> Any:
        return f.until(lambda x: f.get(p, (x,)) != x, lambda x: f.get(p, (x,)), x)

    def turn(p: Any, pair: Any) -> Any:
        a, b = root(p, f.get(pair, (np.int32(0),))), root(p, f.get(pair, (np.int32(1),)))
        return f.put(p, (a,), b), a == b

    return f.scan(turn, parents, pairs)


def _changing_places(f: Any, x: Any, y: Any) -> Any:
    """Two arrays of which each turn writes to one and hands both on the other way round."""

    def turn(i: Any, s: Any) -> Any:
        a, b = s
        n = np.int32(40)
        return f.put(b, (i * np.int32(3) % n,), f.get(a, (i % n,)) * np.float32(0.5) + f.get(b, (i * i % n,))), a

    return f.loop(33, turn, (x, y))


def _snapshots(f: Any, places: Any, counts: Any) -> Any:
    """What is kept of each turn is the whole array, before it is written to."""
    return f.scan(lambda c, i: (f.put(c, (i,), f.get(c, (i,)) + np.int32(1)), c), counts, places)


def _truncated(f: Any, x: Any, counts: Any) -> Any:
    """Floats as places."""

    def turn(c: Any, v: Any) -> Any:
        place = f.where(v > 0, f.where(v < 40, v, np.float32(39)), np.float32(0)).astype(np.int32)
        return f.put(c, (place,), f.get(c, (place,)) + np.int32(1)), place

    return f.scan(turn, counts, x)


_LETTERS = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5], np.int32)
_TABLE = np.add.outer(np.arange(10), np.arange(10)).astype(np.int32)
_PAIRS = np.random.default_rng(0).integers(0, 50, (60, 2)).astype(np.int32)
_X = np.random.default_rng(1).standard_normal((2, 40)).astype(np.float32)
_PLACES = np.random.default_rng(2).integers(0, 40, 70).astype(np.int32)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (_distance, (_LETTERS, _LETTERS[::-1].copy(), _TABLE)),
        (_union, (_PAIRS, np.arange(50, dtype=np.int32))),
        (_changing_places, (_X[0], _X[1])),
        (_snapshots, (_PLACES, np.zeros(40, np.int32))),
        (_truncated, (_X.reshape(-1) * 30, np.zeros(40, np.int32))),
    ],
    ids=lambda v: v.__name__[1:] if callable(v) else "",
)
@pytest.mark.usefixtures("at_once")
def test_loops_over_tables_run_compiled(function: Any, arguments: tuple[np.ndarray, ...]) -> None:
    text = jax.jit(lambda *a: function(Lazy, *a), keep_unused=True).lower(*arguments).as_text()
    expected = jax.tree.leaves(function(Eager, *arguments))
    program = interp.load(text)
    for x, y in zip(program(*arguments), expected, strict=True):
        assert codes(x) == codes(np.asarray(y, x.dtype))
    assert is_compiled(program)


def test_rows_of_a_table_are_read_in_compiled_code(compiler: str, tune: Tune) -> None:  # noqa: ARG001
    """Each turn reads a row, goes on by its largest number, and writes to the row; a truth value is a number."""
    tune(loop_seconds=0, vector_steps=0, compiled_turns=7)
    table = np.random.default_rng(3).standard_normal((7, 5)).astype(np.float32)

    def turn(c: Any, i: Any) -> Any:
        table, at = c
        best = jnp.argmax(table[at]).astype(jnp.int32)
        new = table[at, best] * np.float32(0.5) + (at == 3).astype(jnp.float32)
        return (table.at[at, best].set(new), (at * 3 + best + i) % 7), best

    program = interp.load(jax.jit(lambda t, i: lax.scan(turn, (t, 2), i)).lower(table, np.arange(90)).as_text())
    (got, last, best), expected, at = program(table, np.arange(90, dtype=np.int32)), table.copy(), 2
    assert is_compiled(program)
    for i in range(90):
        k = int(expected[at].argmax())
        assert best[i] == k
        expected[at, k] = expected[at, k] * np.float32(0.5) + np.float32(at == 3)
        at = (at * 3 + k + i) % 7
    assert got.tobytes() == expected.tobytes()
    assert last == at


@pytest.mark.usefixtures("at_once")
def test_what_is_given_is_not_written_to() -> None:
    x, places = np.arange(50, dtype=np.int32), _PLACES
    text = jax.jit(lambda *a: _mixed(Lazy, *a), keep_unused=True).lower(x, places).as_text()
    program, expected = interp.load(text), _mixed(Eager, x.copy(), places)
    for _ in range(2):
        assert program(x, places)[0].tolist() == expected.tolist()
        assert x.tolist() == [*range(50)]
    assert is_compiled(program)


def _mixed(f: Any, x: Any, places: Any) -> Any:
    n = np.int32(50)
    return f.scan(lambda c, i: (f.put(c, (i,), f.get(c, (i * i % n,)) + f.get(c, (i,))), i), x, places)[0]


def check(seed: int) -> None:
    loop = random_table_loop(seed)
    text = jax.jit(lambda *a: loop.run(Lazy, *a), keep_unused=True).lower(*loop.arrays).as_text()
    with np.errstate(all="ignore"):
        expected = jax.tree.leaves(loop.run(Eager, *loop.arrays))
    program = interp.load(text)
    for _ in range(2):  # the second time all is compiled
        found = program(*loop.arrays)
        for i, (x, y) in enumerate(zip(found, expected, strict=True)):
            assert codes(x) == codes(np.asarray(y, x.dtype)), f"seed {seed}, result {i}"


@pytest.mark.parametrize("start", thinned(range(0, 240, 12), lambda start: start < 24 or start in (84, 108)))
def test_random_loops_over_tables(at_once: str, start: int) -> None:
    for seed in range(start, start + (12 if at_once == "python" else 2)):
        check(seed)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("start", range(1000, 1240, 12))
def test_many_random_loops_over_tables(start: int) -> None:
    for seed in range(start, start + 12):
        check(seed)
