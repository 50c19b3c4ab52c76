"""What loops compute with a number that is repeated as a tensor is computed with the number, with the same bits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp

TYPES = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]


def program(function: Any, *arguments: Any) -> Any:
    with jax.enable_x64(True):
        return interp.load(jax.jit(function).lower(*arguments).as_text())


def source(loaded: Any) -> str:
    return "".join(s.text for s in loaded.plan().sources.values() if s.label == "@main")


@pytest.mark.parametrize("dtype", TYPES)
def test_operations_on_counters(dtype):
    """Every turn writes a row of what is computed with the repeated counter, beside a state that has to be there."""

    def rows(x: Any) -> Any:
        def turn(s: Any) -> Any:
            i, state, out = s
            n = jnp.broadcast_to(i, state.shape)
            half = lax.div(n, jnp.full_like(n, 2))
            values = [
                half,
                lax.rem(n, half),  # a remainder of 0 at first
                n * jnp.full_like(n, 77) - half,
                lax.shift_left(n, jnp.full_like(n, 5)) ^ lax.shift_right_logical(n, half),
                jnp.where(lax.rem(n, jnp.full_like(n, 2)) == 0, n, half),
                lax.shift_left(n, n * n),
            ]
            state = state * 3 + sum(values[1:], values[0])
            return i + 1, state, out.at[i.astype(np.int32)].set(jnp.stack(values))

        out = jnp.zeros((12, 6, 5), dtype)
        return lax.while_loop(lambda s: (s[0] < 12) & (s[1][0] != 123), turn, (dtype(0), x, out))

    x = np.arange(5).astype(dtype)
    loaded = program(rows, x)
    _, state, out = (np.asarray(r) for r in loaded(x))
    bits, low = 8 * dtype().itemsize, np.iinfo(dtype).min
    wrap = lambda v: (v - low) % (1 << bits) + low  # noqa: E731
    expected = [int(v) for v in x]
    for i in range(12):
        half = i // 2
        # Division by zero: the remainder is the number itself, as the specification's reference and XLA have it.
        values = [half, i % half if half else i, wrap(i * 77 - half)]
        values += [wrap((i << 5) ^ (i >> half if half < bits else 0)), i if i % 2 == 0 else half]
        values += [wrap(i << (i * i)) if wrap(i * i) in range(bits) and i * i < bits else 0]
        assert out[i].tolist() == [[v] * 5 for v in values], i
        expected = [wrap(v * 3 + sum(values)) for v in expected]
    assert state.tolist() == expected


def test_a_remainder_of_the_counter_is_a_number():
    def turns(x: Any) -> Any:
        def turn(s: Any) -> Any:
            i, x = s
            n = jnp.full(x.shape, i)
            return i + 1, jnp.where(n % 2 == 0, x * 0.5, x + 1)

        return lax.while_loop(lambda s: (s[0] < 100) & (jnp.max(s[1]) < 60), turn, (0, x))

    x = np.linspace(0, 3, 40).astype(np.float32)
    loaded = program(turns, x)
    count, found = loaded(x)
    i = 0
    while i < 100 and x.max() < 60:
        x, i = (x * np.float32(0.5) if i % 2 == 0 else x + np.float32(1)), i + 1
    assert np.asarray(count).item() == i
    assert np.asarray(found).tobytes() == x.tobytes()
    assert " % 2" in source(loaded)


def test_numbers_that_become_floats_and_branches():
    def turns(x: Any) -> Any:
        def turn(s: Any) -> Any:
            i, x = s
            n = jnp.full(x.shape, i)
            scaled = (n * 3 - 40).astype(np.float16).astype(np.float32)
            x = lax.cond(x[0] > 5, lambda: x - (n & 7).astype(np.float32), lambda: x + scaled)
            return i + 1, x + (n * jnp.arange(4, dtype=jnp.int32)).astype(np.float32)

        return lax.while_loop(lambda s: (s[0] < 50) & (s[1][1] < 1e6), turn, (0, x))[1]

    x = np.array([1, 2, -3, 0.25], np.float32)
    found = np.asarray(program(turns, x)(x))
    for i in range(50):
        x = x - np.float32(i & 7) if x[0] > 5 else x + np.float32(np.float16(i * 3 - 40))
        x = x + (i * np.arange(4)).astype(np.float32)
    assert found.tobytes() == x.tobytes()


def test_a_number_that_is_converted_is_repeated_once_more():
    """What is repeated is repeated again along another dimension."""

    def turns(start: Any) -> Any:
        def turn(s: Any) -> Any:
            row = jnp.broadcast_to(s[0], (4,)).astype(jnp.bfloat16).reshape(1, 4)
            return s[0] + 1, lax.broadcast_in_dim(row, (10, 4), (0, 1)).reshape(40)

        return lax.while_loop(lambda s: s[0] < 7, turn, (start, jnp.zeros(40, jnp.bfloat16)))[1]

    start = np.int32(0)
    (found,) = program(turns, start)(start)
    assert np.asarray(found).astype(np.float32).tolist() == [6.0] * 40
