"""interp.load of what JAX has lowered or exported. Expected values are JAX's on CPU."""

from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp


def model(d: dict[str, Any], n: int, *, scale: Any) -> Any:
    return {"y": d["a"].astype(jnp.float32) @ d["b"] * n, "z": (scale * 2, None)}


D = {"a": np.ones((2, 3), jnp.float8_e4m3fn), "b": np.arange(3.0), "unused": np.zeros(7)}


def lowered() -> Any:
    return jax.jit(model, static_argnums=1).lower(D, 3, scale=0.5)


def test_a_lowered_function_takes_and_gives_its_trees() -> None:
    program = interp.load(lowered())
    actual = program.call(D, scale=0.5)
    assert jax.tree.structure(actual) == jax.tree.structure(model(D, 3, scale=0.5))
    assert actual["y"].tolist() == [9, 9]
    assert (actual["y"].dtype, type(actual["y"])) == (np.float32, np.ndarray)
    assert float(actual["z"][0]) == 1


def test_or_a_flat_list_of_all_its_arrays() -> None:
    program = interp.load(lowered())
    y, z = program(D["a"], D["b"].astype(np.float32), D["unused"].astype(np.float32), np.float32(0.5))
    assert y.tolist() == [9, 9]
    assert float(z) == 1


def test_policy_of_a_lowered_function() -> None:
    program = interp.load(jax.jit(jnp.exp).lower(jnp.float8_e4m3fn(1)))
    down = interp.Policy(rounding="toward_zero")
    one = jnp.float8_e4m3fn(1)
    assert [float(program(one)[0]), float(program.call(one, policy=down))] == [2.75, 2.5]


def test_keys_of_random_numbers() -> None:
    key = jax.random.key(3)
    program = interp.load(jax.jit(lambda k: jax.random.bits(k, (2,))).lower(key))
    assert np.array_equal(program.call(key), jax.random.bits(key, (2,)))


def test_effects_in_order_are_no_arrays() -> None:
    def f(x: Any) -> Any:
        jax.debug.print("{}", x, ordered=True)
        return x + 1

    traced = jax.jit(f).trace(1.0)
    with pytest.raises(interp.ProgramError, match=r"stablehlo\.custom_call: .*callback"):  # of XLA's CPU
        interp.load(traced.lower()).call(1.0)


@pytest.mark.parametrize("platforms", [("cpu",), ("cuda", "cpu"), ("tpu",)])
def test_an_exported_function_for_any_sizes(platforms: tuple[str, ...]) -> None:
    def f(x: Any, y: Any, _: Any) -> Any:
        wide = x.astype(jnp.float32) @ jnp.ones((x.shape[1], 3))
        return {"all": (wide, x.reshape(-1), jnp.concatenate([x, x[:1]])), "sum": y.sum() + x.shape[0]}

    a, b = jax.export.symbolic_shape("a, b", constraints=["a >= b"])
    like = jax.ShapeDtypeStruct
    avals = like((a, b), jnp.float8_e4m3fn), like((b,), jnp.float32), like((), jnp.int32)
    exported = jax.export.export(jax.jit(f), platforms=platforms)(*avals)
    program = interp.load(exported)
    for rows, columns in ((4, 2), (3, 3), (7, 1)):
        x = np.arange(rows * columns).reshape(rows, columns).astype(jnp.float8_e4m3fn)
        arguments = x, np.arange(columns, dtype=np.float32), np.int32(3)
        actual, wanted = program.call(*arguments), f(*arguments)
        assert jax.tree.structure(actual) == jax.tree.structure(wanted)
        for p, w in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
            assert (p.dtype, p.shape) == (w.dtype, w.shape)
            assert np.array_equal(p, w)
    with pytest.raises(interp.ExecutionError, match="do not match the symbolic shape constraint a >= b"):
        program.call(np.ones((1, 2), jnp.float8_e4m3fn), np.ones(2, np.float32), np.int32(3))


def test_errors() -> None:
    program = interp.load(lowered())
    with pytest.raises(interp.InputError, match=r"^jit\(model\): expected the arguments of the function: "):
        program.call(D)
    with pytest.raises(interp.InputError, match=r"^jit\(model\): expected 4 arrays, got 1$"):
        program(1)
    with pytest.raises(interp.InputError, match="input 0: expected shape"):
        program.call(D | {"a": np.ones(3, jnp.float8_e4m3fn)}, scale=0.5)
    any_size = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), np.float32)
    with pytest.raises(interp.InputError, match=r"or a function of jax\.export, got symbols$"):
        interp.load(jax.jit(jnp.negative).lower(any_size))
    with pytest.raises(interp.InputError, match=r"^expected a path, .* jax\.export\.Exported, got int$"):
        interp.load(3)
