"""Loops within independent turns that each make a number of turns of their own: side by side they change no bit.

What is expected is computed by Python itself, or by a program of one turn, in which there is nothing to run side by
side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.executors.loops import LoopsRunner
from minihlo.interp.compile.explain import listing
from minihlo.ops.types import ELEMENT_TYPES, TensorType

F8, BF16 = jnp.float8_e4m3fn, jnp.bfloat16


def text_of(function: Callable[..., Any], *arguments: Any) -> str:
    return jax.jit(function).lower(*arguments).as_text()


def codes(x: Any) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def collatz(n: Any) -> Any:
    """The turns that a number takes to 1, and the largest on the way."""
    return lax.while_loop(
        lambda c: c[0] > 1,
        lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1, jnp.maximum(c[2], c[0])),
        (n, jnp.int32(0), n),
    )[1:]


@pytest.mark.parametrize("count", [2, 16, 17, 300])
def test_each_loop_ends_after_its_own_turns(count):
    numbers = np.arange(count, dtype=np.int32)[::-1].copy()
    turns, largest = interp.load(text_of(lambda n: lax.map(collatz, n), numbers))(numbers)
    for n, t, most in zip(numbers.tolist(), np.asarray(turns), np.asarray(largest), strict=True):
        k, top, steps = n, n, 0
        while k > 1:
            top, k, steps = max(top, k), k // 2 if k % 2 == 0 else 3 * k + 1, steps + 1
        assert (t, most) == (steps, top), n


def _halved(v: Any) -> Any:
    return lax.while_loop(lambda c: c > 1, lambda c: c * np.asarray(0.5, c.dtype), v)


def _counted(v: Any) -> Any:
    """A state that is the same in all loops, beside one that is not."""
    return lax.while_loop(lambda c: c[0] > 1, lambda c: (c[0] / 2, c[1] + 1, c[1]), (v, jnp.int32(3), jnp.int32(0)))


def _newton(v: Any) -> Any:
    def step(c: Any) -> Any:
        y = c[0] - (c[0] ** 3 - v) / (3 * c[0] ** 2 + 0.001)
        return y, jnp.abs(y - c[0]).max(), c[2] + 1

    return lax.while_loop(lambda c: (c[1] > 1e-4) & (c[2] < 30), step, (jnp.ones_like(v), jnp.inf, 0))


def _nested(v: Any) -> Any:
    def outer(c: Any) -> Any:
        inner = lax.while_loop(lambda d: d > 1, lambda d: d * 0.6, c[0] + c[1])
        return c[0] * 0.7, c[1] + inner

    return lax.while_loop(lambda c: c[0] > 0.5, outer, (v, v * 0))


def _fori(v: Any) -> Any:
    return lax.fori_loop(0, jnp.clip(v, 0, 40).astype(np.int32), lambda i, c: c * 0.5 + i.astype(c.dtype), v)


def _rows(v: Any) -> Any:
    """A loop over rows, in which there is one that ends when it likes."""
    return lax.map(_halved, v) + lax.scan(lambda c, u: (c + _halved(u * c), c), v[0], v)[1]


def _fixed_within(v: Any) -> Any:
    """Bisection: the inner loop makes as many turns for all."""

    def turn(_: Any, c: Any) -> Any:
        middle = (c[0] + c[1]) / 2
        return jnp.where(middle * middle < v, middle, c[0]), jnp.where(middle * middle < v, c[1], middle)

    return lax.fori_loop(0, 24, turn, (v * 0, v + 1))


#: A body, and the shape of what it takes.
BODIES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[Any, ...]]] = {
    "halved": (_halved, (), (np.float32, BF16, F8)),
    "counted": (_counted, (), (np.float32, BF16)),
    "Newton": (_newton, (3,), (np.float32,)),
    "of rows": (_rows, (4,), (np.float32, BF16)),
    "nested": (_nested, (), (np.float32,)),
    "of as many turns as a number says": (_fori, (), (np.float32, F8)),
    "of a fixed number of turns": (_fixed_within, (), (np.float32, BF16)),
}
CASES = [(name, dtype) for name, (_, _, dtypes) in BODIES.items() for dtype in dtypes]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda v: v if isinstance(v, str) else np.dtype(v).name)
@np.errstate(all="ignore")
def test_the_bits_are_those_of_each_loop_by_itself(name, dtype):
    body, shape, _ = BODIES[name]
    x = (np.random.default_rng(5).standard_normal((40, *shape)) * 20).astype(dtype)
    x[:6] = np.array([0, -0.0, np.nan, 1, 300, -7], dtype).reshape(6, *[1] * len(shape))
    mapped = jax.jit(lambda x: lax.map(body, x)).lower(x).as_text()
    results = interp.load(mapped)(x)
    turn = interp.load(text_of(body, x[0]))
    expected = [turn(v) for v in x]
    for result, *rows in zip(results, *expected, strict=True):
        assert codes(result) == codes(np.stack([np.asarray(r) for r in rows]))
    assert "side by side" in listing(interp.load(mapped).plan())


def test_one_loop_goes_on_long_after_the_others():
    limits = np.full(700, 3, np.int32)
    limits[[5, 333, 699]] = 2000, 0, 1500

    def sum_below(n: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + c[0]), (jnp.int32(0), jnp.int32(0)))

    turns, sums = interp.load(text_of(lambda n: lax.map(sum_below, n), limits))(limits)
    assert np.asarray(turns).tolist() == limits.tolist()
    assert np.asarray(sums).tolist() == [n * (n - 1) // 2 for n in limits.tolist()]


def test_values_of_the_turn_that_the_loop_captures():
    """JAX hands on what a loop uses; programs in MLIR need not. Here it uses the number that counts, and a row."""
    text = """func.func @main(%x: tensor<40xi32>) -> tensor<40xi32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %start = stablehlo.constant dense<0> : tensor<40xi32>
      %r:2 = stablehlo.while(%i = %zero, %a = %start) : tensor<i32>, tensor<40xi32>
      cond {
        %n = stablehlo.constant dense<40> : tensor<i32>
        %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %v1 = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<40xi32>, tensor<i32>) -> tensor<1xi32>
        %v = stablehlo.reshape %v1 : (tensor<1xi32>) -> tensor<i32>
        %s:2 = stablehlo.while(%j = %zero, %t = %v) : tensor<i32>, tensor<i32>
        cond {
          %more = stablehlo.compare LT, %j, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %more : tensor<i1>
        } do {
          %k = stablehlo.add %j, %one : tensor<i32>
          %u = stablehlo.add %t, %v : tensor<i32>
          stablehlo.return %k, %u : tensor<i32>, tensor<i32>
        }
        %w = stablehlo.reshape %s#1 : (tensor<i32>) -> tensor<1xi32>
        %b = stablehlo.dynamic_update_slice %a, %w, %i : (tensor<40xi32>, tensor<1xi32>, tensor<i32>) -> tensor<40xi32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %b : tensor<i32>, tensor<40xi32>
      }
      return %r#1 : tensor<40xi32>
    }"""
    x = np.arange(7, 47, dtype=np.int32) * 3
    assert "40 loops side by side" in listing(interp.load(text).plan())
    (result,) = interp.load(text)(x)
    assert np.asarray(result).tolist() == [v * (i + 1) for i, v in enumerate(x.tolist())]


def test_a_loop_that_has_ended_is_not_run_on():
    """A runner gives no function a state that no loop has: here one that would raise."""
    t = TensorType((), ELEMENT_TYPES["i32"])

    def condition(_: np.ndarray, n: np.ndarray) -> tuple[np.ndarray]:
        assert (n >= 0).all()
        return (n > 0,)

    def body(taken: np.ndarray, n: np.ndarray) -> tuple[np.ndarray]:
        assert (n > 0).all()
        assert (taken == 100 - n % 10).all()
        return (n - 10 * (n > 10) - n * (n <= 10),)

    def single(_: np.ndarray, n: np.ndarray) -> tuple[np.ndarray]:
        while n > 0:
            n = n - 10 * (n > 10) - n * (n <= 10)
        return (n - 1,)

    numbers = np.array([n * 10 + n % 7 for n in range(1, 60)], np.int32)
    runner = LoopsRunner([59, 20, 8], 1, [True], 2, False, [t])
    (result,) = runner([condition, body] * 3 + [single], (100 - numbers % 10).astype(np.int32), numbers)
    assert result.tolist() == [0] * 57 + [-1] * 2


def test_what_a_loop_computes_after_it_has_ended_is_left_out():
    """Here a condition holds again after it has failed, and the state goes on to change."""
    t, left = TensorType((), ELEMENT_TYPES["i32"]), []

    def condition(limit: np.ndarray, n: np.ndarray) -> tuple[np.ndarray]:
        left.append(len(n))
        return (n % limit != 0,)

    def body(_: np.ndarray, n: np.ndarray) -> tuple[np.ndarray]:
        return (n + 1,)

    def single(limit: np.ndarray, n: np.ndarray) -> tuple[np.ndarray]:
        return (n + -n % limit,)

    limits, numbers = np.arange(1, 60, dtype=np.int32), np.arange(7, 66, dtype=np.int32) * 11
    runner = LoopsRunner([59, 20, 8], 1, [True], 2, True, [t])
    (result,) = runner([condition, body] * 3 + [single], limits, numbers)
    assert result.tolist() == [n + -n % m for m, n in zip(limits.tolist(), numbers.tolist(), strict=True)]
    assert set(left) == {59, 20, 8}
