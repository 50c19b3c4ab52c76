"""interp.jit under JAX's transformations, and functions with effects. Expected values are JAX's, or from hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from minihlo import interp

from ..thinned import thinned

#: e lies between 2.5 and 2.75 of f8E4M3FN, nearer to the latter.
DOWN = interp.Policy(rounding="toward_zero")

X, W = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4), np.linspace(1, -1, 8, dtype=np.float32).reshape(4, 2)


def layer(x: Any, w: Any) -> Any:
    return jax.nn.gelu(x @ w).sum() + jax.nn.logsumexp(x)


def summed(f: Any, x: Any) -> Any:
    return jax.lax.scan(lambda c, w: (c + f(x, w), c), 0.0, np.stack([W, -W]))


HERE = interp.jit(layer)
TRANSFORMED: dict[str, Any] = {
    "grad": lambda f: jax.value_and_grad(f, (0, 1))(X, W),
    "jit of grad": lambda f: jax.jit(jax.grad(f, (0, 1)))(X, W),
    "grad of jit": lambda f: jax.grad(jax.jit(f), 1)(X, W),
    "jvp": lambda f: jax.jvp(f, (X, W), (X, W)),
    "jvp of one": lambda f: jax.jvp(lambda x: f(x, W), (X,), (X,)),
    "forward": lambda f: jax.jacfwd(f, 1)(X, W),
    "second derivatives": lambda f: jax.hessian(f, 1)(X, W),
    "vmap": lambda f: jax.vmap(f, (1, None))(np.stack([X, 2 * X], 1), W),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f), (None, -1))(X, np.stack([W, -W, W * W], -1)),
    "grad of vmap": lambda f: jax.grad(lambda x: jax.vmap(f, (0, None))(x, W).sum())(np.stack([X, 2 * X])),
    "jit of vmap": lambda f: jax.jit(jax.vmap(f, (0, None)))(np.stack([X, 2 * X]), W),
    "scan": lambda f: summed(f, X),
    "grad of scan": lambda f: jax.grad(lambda x: summed(f, x)[0])(X),
    "grad in scan": lambda f: jax.lax.scan(lambda w, _: (w - 0.1 * jax.grad(f, 1)(X, w), 0), W, None, 3)[0],
    "while": lambda f: jax.lax.fori_loop(0, jnp.int32(3), lambda _, s: f(X * s, W), jnp.float32(1)),
    "cond": lambda f: jax.lax.cond(X[0, 0] < 0, f, lambda x, w: w.sum(), X, W),
    "remat": lambda f: jax.grad(jax.checkpoint(f), 1)(X, W),
    "closed over": lambda f: jax.grad(lambda w: interp.jit(lambda x: f(x, w))(X))(W),
    "linearize": lambda f: jax.linearize(lambda w: f(X, w), W)[1](W),
    "shapes": lambda f: jnp.zeros(jax.eval_shape(f, X, W).shape),
    "inside": lambda f: interp.jit(jax.grad(f))(X, W),
    "inside, mapped": lambda f: interp.jit(jax.vmap(f, (0, None)))(np.stack([X, 2 * X]), W),
}


#: Two transformations that are tried by themselves, or together the other way round.
_TWO = ("forward", "second derivatives", "jit of grad", "grad of jit", "grad of vmap", "jit of vmap", "grad in scan")


@pytest.mark.parametrize("name", thinned(TRANSFORMED, lambda name: name not in _TWO))
def test_transformations(name: str) -> None:
    actual, wanted = TRANSFORMED[name](HERE), TRANSFORMED[name](layer)
    assert jax.tree.structure(actual) == jax.tree.structure(wanted)
    for f, w in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
        assert (f.shape, f.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(f, w, rtol=3e-5, atol=1e-6)


def test_derivatives_are_evaluated_here_too() -> None:
    def f(x: Any) -> Any:
        return jnp.exp(x.astype(jnp.float8_e4m3fn)).astype(jnp.float32)

    for g in (jax.grad(interp.jit(f)), jax.jit(jax.grad(interp.jit(f)))):
        assert float(g(jnp.float32(1))) == 2.75
    with interp.policy(DOWN):
        assert float(jax.grad(interp.jit(f))(jnp.float32(1))) == 2.5


def test_custom_derivatives_are_kept() -> None:
    twice = jax.custom_vjp(lambda x: 2 * x)
    twice.defvjp(lambda x: (2 * x, None), lambda _, ct: (100 * ct,))
    assert float(jax.grad(interp.jit(lambda x: twice(x) + 1))(3.0)) == 100
    assert float(jax.grad(interp.jit(jax.nn.relu))(0.0)) == 0


def test_integers_and_extra_results_have_no_derivatives() -> None:
    f = interp.jit(lambda x, n: (x**2 * n, {"n": n, "x": jnp.int32(x)}))
    (value, extra), slope = jax.value_and_grad(f, has_aux=True)(3.0, 2)
    assert (float(value), int(extra["x"]), float(slope)) == (18, 3, 12)
    assert jax.grad(interp.jit(lambda n, x: n * x), allow_int=True)(2, 3.0).dtype == jax.dtypes.float0


def test_loops_forward_but_not_in_reverse() -> None:
    def f(x: Any) -> Any:
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, 1.5 * s[1]), (0, x))[1]

    assert [float(v) for v in jax.jvp(interp.jit(f), (2.0,), (1.0,))] == [6.75, 3.375]
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        jax.grad(interp.jit(f))(2.0)


def test_batches_that_have_names() -> None:
    f = interp.jit(lambda x: jax.lax.psum(x, "i") + jax.lax.axis_index("i"))
    assert jax.vmap(f, axis_name="i")(jnp.arange(3.0)).tolist() == [3, 4, 5]
    unmapped = interp.jit(lambda a, b: (a + b, 2 * b))
    assert jax.vmap(unmapped, (0, None), (0, None))(jnp.arange(2.0), 3.0)[1].shape == ()


def test_prints_and_calls_of_python(capfd: pytest.CaptureFixture[str]) -> None:
    reported: list[float] = []

    def f(x: Any) -> Any:
        jax.debug.print("x = {}", x, ordered=True)
        jax.debug.print("2x = {}", 2 * x, ordered=True)
        y = io_callback(
            lambda v: reported.append(float(v)) or np.float32(v + 1), jax.ShapeDtypeStruct((), np.float32), x
        )
        return y + jax.pure_callback(lambda v: np.float32(10 * v), jax.ShapeDtypeStruct((), np.float32), x)

    for g in (interp.jit(f), jax.jit(interp.jit(f))):
        assert float(g(jnp.float32(3))) == 34
    jax.effects_barrier()
    assert reported == [3, 3]
    assert capfd.readouterr().out == "x = 3.0\n2x = 6.0\n" * 2
