"""Loops of few turns are written out; their results are those of JAX's own platform, and of the loop."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.explain import listing
from minihlo.interp.errors import ProgramError

X = np.arange(24, dtype=np.uint32).reshape(2, 12) * np.uint32(2654435761)


def rounds(turns: int) -> Callable[[Any], Any]:
    """Turns that add and rotate by amounts that are carried around, as random bits do."""

    def turn(i: Any, carried: Any) -> Any:
        x, y, amounts, others = carried
        for amount in (amounts[0], amounts[1]):
            x, y = x + y, (x << amount) | (y >> (32 - amount))
        return x, x ^ y ^ i.astype(jnp.uint32), others, amounts

    return lambda x: lax.fori_loop(0, turns, turn, (x, ~x, np.uint32([13, 15]), np.uint32([17, 29])))[:2]


def swapped(x: Any) -> Any:
    """Values that are handed on as they are, in another place, and one from outside."""
    return lax.fori_loop(0, 5, lambda i, c: (c[1], c[0] + x, c[1]), (x, x + 1, x))


def branching(x: Any) -> Any:
    """A branch in the body, which captures what the turn computes."""

    def turn(i: Any, c: Any) -> Any:
        y = c * 3 + i.astype(jnp.uint32)
        return lax.cond(i % 2 == 0, lambda z: z + y, lambda z: z ^ y, c)

    return lax.fori_loop(0, 4, turn, x)


def constant(x: Any) -> Any:
    """A value that every turn sets to the same number."""
    return lax.fori_loop(0, 3, lambda i, c: (c[0] * 5 + c[1], jnp.full((2, 12), 7, jnp.uint32)), (x, x))


def nested(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 3, lambda j, d: d * 5 + (i * j).astype(jnp.uint32), c), x)


def stages(x: Any) -> Any:
    """Products of a few elements, of which each turn writes a column."""
    weights = (jnp.arange(72, dtype=jnp.uint32) * 40503).reshape(6, 12)
    return lax.fori_loop(0, 6, lambda i, c: c.at[:, 2 * i].set(c @ weights[i] + jnp.asarray(x)[:, i]), jnp.asarray(x))


CASES = {
    "stages": stages,
    "rounds": rounds(5),
    "swapped": swapped,
    "branching": branching,
    "constant": constant,
    "nested": nested,
    "most turns": rounds(8),
}


def text_of(function: Callable[..., Any], *arguments: Any) -> str:
    return jax.jit(function).lower(*arguments).as_text()


def plan_of(text: str, without: str = "") -> str:
    """What `--print-plan` prints."""
    return listing(interp.load(text, without=without).plan())


@pytest.mark.parametrize("name", CASES)
def test_short_loops_are_written_out(name: str) -> None:
    text = text_of(CASES[name], X)
    assert "while True" in plan_of(text, "turns")
    assert "while True" not in plan_of(text)
    results = interp.jit(CASES[name])(X)
    for got, wanted in zip(jax.tree.leaves(results), jax.tree.leaves(CASES[name](X)), strict=True):
        assert np.array_equal(got, wanted)
    for got, wanted in zip(interp.load(text)(X), jax.tree.leaves(results), strict=True):
        assert np.array_equal(got, wanted)


def test_random_bits_are_those_of_jax() -> None:
    key = np.array([3, 1 << 31], np.uint32)

    def bits(key: Any) -> Any:
        return jax.random.bits(key, (7, 5))

    text = text_of(bits, key)
    assert "stablehlo.while" in text
    assert "while True" not in plan_of(text)
    assert np.array_equal(interp.load(text)(key)[0], bits(key))


def test_longer_loops_stay() -> None:
    text = text_of(rounds(9), X)
    assert "while True" in plan_of(text)
    for got, wanted in zip(interp.load(text)(X), rounds(9)(X), strict=True):
        assert np.array_equal(got, wanted)


def test_a_loop_that_prints_stays() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %end = stablehlo.constant dense<3> : tensor<i32>
      %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<2xf32>
      cond {
        %go = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %z = stablehlo.add %y, %y : tensor<2xf32>
        interpreter.print %z : tensor<2xf32>
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %z : tensor<i32>, tensor<2xf32>
      }
      return %0#1 : tensor<2xf32>
    }"""
    assert "while True" in plan_of(text)
    assert "while True" not in plan_of(text.replace("interpreter.print %z : tensor<2xf32>", ""))


def test_an_error_in_a_loop_has_its_place() -> None:
    t = "tensor<2x12xui32>"
    text, count = re.subn(
        rf"stablehlo\.or (%\w+), (%\w+) : {t}",
        rf"stablehlo.custom_call @nobody(\1, \2) : ({t}, {t}) -> {t}",
        text_of(rounds(5), X),
        count=1,
    )
    assert count == 1
    line = next(n for n, words in enumerate(text.splitlines(), 1) if "@nobody" in words)
    with pytest.raises(ProgramError, match=rf":{line}:\d+: stablehlo\.custom_call: .*nobody"):
        interp.load(text)(X)


def test_many_short_loops_are_not_all_written_out() -> None:
    """The plan of a program stays of the size of the program, but for some thousand operations."""

    function = jax.jit(rounds(5))

    def many(x: Any) -> Any:
        for _ in range(60):
            x = function(x)[0]
        return x

    text = text_of(many, X)
    assert "while True" in plan_of(text)
    assert np.array_equal(interp.load(text)(X)[0], many(X))
