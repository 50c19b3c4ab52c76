"""What is computed twice from the same values is computed once; everything else as often as it is written."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.explain import listing

X = np.array([0.5, -1.25, 3.0], np.float32)


def plan_of(body: str, results: int = 2, without: str = "") -> str:
    """The plan of a function of %x and %y, whose results are %a, %b."""
    t = "tensor<3xf32>"
    names = ["%a", "%b"][:results]
    text = f"func.func @main(%x: {t}, %y: {t}) -> ({', '.join([t] * results)}) {{\n{body}\nreturn {', '.join(names)} : "
    return listing(interp.load(text + f"{', '.join([t] * results)} }}", without=without).plan())


def count(body: str, word: str, **options: Any) -> int:
    return plan_of(body, **options).count(word)


def test_the_same_operation_of_the_same_operands() -> None:
    body = "%a = stablehlo.tanh %x : tensor<3xf32>\n%b = stablehlo.tanh %x : tensor<3xf32>"
    assert count(body, "stablehlo.tanh") == 1
    assert count(body, "stablehlo.tanh", without="blocks") == 2
    assert count(body.replace("tanh %x", "tanh %y", 1), "stablehlo.tanh") == 2


def test_what_follows_is_the_same_too() -> None:
    lines = []
    for i, name in enumerate(("a", "b")):
        lines += [
            f"%c{i} = stablehlo.constant dense<1.5> : tensor<3xf32>",
            f"%p{i} = stablehlo.power %x, %c{i} : tensor<3xf32>",
            f"%{name} = stablehlo.divide %y, %p{i} : tensor<3xf32>",
        ]
    body = "\n".join(lines)
    assert count(body, "stablehlo.power") == 1
    assert count(body.replace("1.5", "1.75", 1), "stablehlo.power") == 2


def test_zeros_of_both_signs_differ() -> None:
    body = "\n".join(
        f"%c{n} = stablehlo.constant dense<{z}> : tensor<3xf32>\n%{n} = stablehlo.atan2 %c{n}, %x : tensor<3xf32>"
        for n, z in (("a", "0.0"), ("b", "-0.0"))
    )
    assert count(body, "stablehlo.atan2") == 2
    assert count(body.replace("-0.0", "0.0"), "stablehlo.atan2") == 1


def test_attributes_differ() -> None:
    a, b = interp.jit(lambda: (lax.broadcasted_iota(np.int32, (3, 2), 0), lax.broadcasted_iota(np.int32, (3, 2), 1)))()
    assert np.array_equal(a, [[0, 0], [1, 1], [2, 2]])
    assert np.array_equal(b, [[0, 1], [0, 1], [0, 1]])


def test_what_is_drawn_is_drawn_twice() -> None:
    text = """func.func @main() -> (tensor<64xf32>, tensor<64xf32>) {
      %low = stablehlo.constant dense<0.0> : tensor<f32>
      %high = stablehlo.constant dense<1.0> : tensor<f32>
      %shape = stablehlo.constant dense<64> : tensor<1xi64>
      %a = stablehlo.rng %low, %high, %shape, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
      %b = stablehlo.rng %low, %high, %shape, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
      return %a, %b : tensor<64xf32>, tensor<64xf32>
    }"""
    a, b = interp.load(text)()
    assert not np.array_equal(a, b)


def test_a_barrier_keeps_what_is_computed_again() -> None:
    """As `jax.checkpoint` asks for."""
    body = """%z = stablehlo.optimization_barrier %x : tensor<3xf32>
      %a = stablehlo.tanh %x : tensor<3xf32>
      %b = stablehlo.tanh %z : tensor<3xf32>"""
    assert count(body, "stablehlo.tanh") == 2


def in_a_loop(x: Any) -> Any:
    return lax.fori_loop(0, 20, lambda i, c: (c[0] * 0.5 + jnp.sin(c[1]), jnp.sin(c[1]) - c[0] * 0.5), (x, x))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "returned twice": lambda x: (jnp.exp(x), jnp.exp(x), jnp.exp(x) + 1),
    "in a loop": in_a_loop,
    "in branches": lambda x: lax.cond(x[0] > 0, lambda v: (jnp.cos(v), v), lambda v: (v, jnp.cos(v) + jnp.cos(v)), x),
    "around a loop": lambda x: (jnp.exp(x), lax.fori_loop(0, 20, lambda i, c: c * 0.5 + jnp.exp(x), x), jnp.exp(x)),
    "in a body": lambda x: lax.reduce(x, np.float32(0), lambda a, b: (a + b) * 0.5 + (a + b) * 0.5, (0,)),
    "several operands": lambda x: lax.sort((x, x, jnp.negative(x), jnp.negative(x)), num_keys=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_program_as_written(name: str) -> None:
    text = jax.jit(FUNCTIONS[name]).lower(X).as_text()
    shared, written = interp.load(text)(X), interp.load(text, without="blocks,tables")(X)
    for got, wanted, jaxs in zip(shared, written, jax.tree.leaves(FUNCTIONS[name](X)), strict=True):
        assert got.tobytes() == wanted.tobytes()
        np.testing.assert_allclose(got, jaxs, rtol=1e-5)


def test_results_that_are_the_same_are_arrays_of_their_own() -> None:
    text = jax.jit(FUNCTIONS["returned twice"]).lower(X).as_text()
    first, second, _ = interp.load(text)(X)
    before = second.copy()
    first[:] = 7
    assert np.array_equal(second, before)
