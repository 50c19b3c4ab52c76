"""What nothing needs is not computed; but it is verified, and what has effects runs."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.compile.explain import listing

_BODY = "({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : "
#: A product and its sum that are not needed, and which are needed if `%x` in the last line is `%a`.
_PROGRAM = f"""func.func @main(%x: tensor<3x3xf32>, %i: tensor<f32>) -> tensor<3x3xf32> {{
  %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %r = "stablehlo.reduce"(%d, %i) {_BODY}tensor<f32> }}) {{dimensions = array<i64: 1>}}
    : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
  %a = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<3xf32>) -> tensor<3x3xf32>
  %b = stablehlo.negate %x : tensor<3x3xf32>
  return %b : tensor<3x3xf32>
}}"""


def listed(text: str, without: str = "") -> str:
    return listing(interp.load(text, without=without).plan())


def test_what_nothing_needs_is_left_out() -> None:
    assert "dot_general" not in listed(_PROGRAM)
    assert "stablehlo.reduce" not in listed(_PROGRAM)
    assert "dot_general" in listed(_PROGRAM, without="blocks")
    needed = listed(_PROGRAM.replace("negate %x", "negate %a"))
    assert "dot_general" in needed
    assert "stablehlo.reduce" in needed


def test_what_a_region_captures_is_needed() -> None:
    t = "tensor<f32>"
    text = f"""func.func @main(%x: {t}, %p: tensor<i1>) -> {t} {{
      %d = stablehlo.tanh %x : {t}
      %r = "stablehlo.if"(%p) ({{ stablehlo.return %d : {t} }}, {{ stablehlo.return %x : {t} }}) : (tensor<i1>) -> {t}
      return %r : {t}
    }}"""
    assert interp.load(text)(np.float32(0), np.array(True))[0] == 0
    assert "tanh" in listed(text)


def test_what_is_not_needed_is_verified() -> None:
    """A tensor that cannot be held is refused, whether it is needed or not."""
    large = "tensor<1000000x1000000x3x3xf32>"
    text = _PROGRAM.replace(
        "%b =", f"%c = stablehlo.broadcast_in_dim %a, dims = [2, 3] : (tensor<3x3xf32>) -> {large}\n%b ="
    )
    with pytest.raises(interp.ResourceError, match="broadcast_in_dim"):
        interp.load(text).plan()


_LOOP = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %c = stablehlo.constant dense<3> : tensor<i32>
  %r = stablehlo.while(%i = %x) : tensor<i32>
  cond {
    %p = stablehlo.compare NE, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.multiply %i, %i : tensor<i32>
    stablehlo.return %j : tensor<i32>
  }
  %s = "stablehlo.if"(%q) ({ stablehlo.return %r : tensor<i32> }, { stablehlo.return %c : tensor<i32> })
    : (tensor<i1>) -> tensor<i32>
  return RESULT : tensor<i32>
}""".replace("%x: tensor<i32>)", "%x: tensor<i32>, %q: tensor<i1>)")


def test_loops_and_branches() -> None:
    """The loop does not end from 0 on; nothing needs it then."""
    assert interp.load(_LOOP.replace("RESULT", "%c"))(np.int32(0), np.array(True))[0] == 3
    assert interp.load(_LOOP.replace("RESULT", "%s"))(np.int32(3), np.array(True))[0] == 3
    assert "while" in listed(_LOOP.replace("RESULT", "%s"))
    assert "while" not in listed(_LOOP.replace("RESULT", "%c"))


def test_effects_stay_in_loops_too() -> None:
    seen = []

    def f(x: jax.Array) -> jax.Array:
        def turn(i: jax.Array, y: jax.Array) -> jax.Array:
            jax.debug.callback(lambda v: seen.append(int(v)), i, ordered=True)
            return y * 2

        jax.lax.fori_loop(0, 2, turn, x)
        return -x

    interp.jit(f)(np.ones(3, np.float32))
    assert seen == [0, 1]


def test_effects_stay() -> None:
    seen = []

    def f(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda v: seen.append(float(v)), jnp.sum(x * 2), ordered=True)
        return -x

    interp.jit(f)(np.ones(3, np.float32))
    assert seen == [6.0]


def test_a_gradient_without_its_value() -> None:
    """The gradient is of ones where x is its row's largest; the logarithm of the value is not needed for it."""

    def f(x: jax.Array) -> jax.Array:
        return jnp.log(jnp.sum(x * x))

    x = np.arange(1, 7, dtype=np.float32)
    text = jax.jit(lambda x: jax.vjp(f, x)[1](jnp.float32(1))[0], keep_unused=True).lower(x).as_text()
    np.testing.assert_allclose(interp.load(text)(x)[0], 2 * x / np.sum(x * x), rtol=1e-6)


def test_small_values_are_held_no_longer_than_they_are_needed() -> None:
    """Sixty products in a chain, of 9 kB each: two of them are there at a time."""
    t = "tensor<48x48xf32>"
    lines = [
        f"%v{i + 1} = stablehlo.dot_general %v{i}, %v0, contracting_dims = [1] x [0] : ({t}, {t}) -> {t}"
        for i in range(60)
    ]
    program = interp.load(f"func.func @main(%v0: {t}) -> {t} {{\n" + "\n".join(lines) + f"\nreturn %v60 : {t} }}")
    x = np.eye(48, dtype=np.float32)
    program(x)
    tracemalloc.start()
    program(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * x.nbytes
