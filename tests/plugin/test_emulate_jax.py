"""`interp.emulate`: functions of JAX compiled by XLA with the interpreter's minifloats, transformed and sharded."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from minihlo import interp

F8 = jnp.float8_e4m3fnuz
ROOT = Path(__file__).parents[2]


def _numbers(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def _gelu(x: Any, y: Any) -> Any:
    return jax.nn.gelu(x.astype(F8)) + y.astype(F8)


def _same(x: Any, y: Any) -> bool:
    return all(
        np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True)
    )


def test_calls_with_trees() -> None:
    def function(tree: dict[str, Any], *, scale: Any) -> dict[str, Any]:
        return {"a": _gelu(tree["x"], tree["y"]) * scale.astype(F8), "b": [tree["x"]]}

    tree = {"x": _numbers(0, 50), "y": _numbers(1, 50)}
    scale = jnp.float32(1.7)
    assert _same(interp.emulate(function)(tree, scale=scale), interp.jit(function)(tree, scale=scale))


def test_transformations() -> None:
    x, y = _numbers(0, 6, 20), _numbers(1, 6, 20)
    expected = interp.jit(_gelu)(x, y)
    emulated = interp.emulate(_gelu)
    assert _same(jax.vmap(emulated)(x, y), expected)
    assert _same(emulated(x, y), expected)
    assert _same(jax.jit(lambda x, y: emulated(x, y))(x, y), expected)
    inside = interp.emulate(lambda x, y: jax.vmap(_gelu, in_axes=(0, None))(x, y))
    assert _same(inside(x, y[0]), interp.jit(lambda x, y: jax.vmap(_gelu, in_axes=(0, None))(x, y))(x, y[0]))


def test_gradients() -> None:
    def loss(w: Any, x: Any) -> Any:
        return jnp.sum((x.astype(F8) * w.astype(F8)).astype(jnp.float32))

    w, x = _numbers(0, 30), _numbers(1, 30)
    expected = interp.jit(jax.grad(loss))(w, x)
    assert _same(interp.emulate(jax.grad(loss))(w, x), expected)
    assert _same(jax.grad(lambda w, x: interp.emulate(loss)(w, x))(w, x), expected)


def test_options_of_jit() -> None:
    @interp.emulate(static_argnums=1, static_argnames="kind")
    def function(x: Any, power: int, kind: str = "") -> Any:
        assert isinstance(power, int)
        return x.astype(F8) * F8(power) if kind else x.astype(F8)

    x = _numbers(0, 10)
    assert _same(function(x, 3, kind="a"), x.astype(F8) * F8(3))
    donated = interp.emulate(lambda x: x + jnp.float32(1), donate_argnums=0)
    given = _numbers(0, 10) + 0
    donated(given)
    assert given.is_deleted()
    assert interp.emulate(_gelu).lower(x, x).compile().memory_analysis() is not None


def test_policies() -> None:
    x = _numbers(0, 40) * 300
    cast, saturated = lambda x: x.astype(F8), interp.Policy(overflow="saturate")
    expected = interp.jit(cast, policy=saturated)(x)
    assert _same(interp.emulate(cast, policy=saturated)(x), expected)
    with interp.policy(overflow="saturate"):
        assert _same(interp.emulate(cast)(x), expected)
    a, b = (_numbers(i, 9, 70).astype(jnp.float8_e4m3fn) for i in range(2))
    product = lambda a, b: jnp.dot(a, b.T, preferred_element_type=jnp.float32)  # noqa: E731
    chip = interp.Policy.target("h100")
    assert _same(interp.emulate(product, target="h100")(a, b), interp.jit(product, policy=chip)(a, b))


def test_what_jax_calls_by_name() -> None:
    x = _numbers(0, 4, 30).astype(F8)
    for function in (
        lambda x: (jax.lax.approx_max_k(x, 3), x.astype(jnp.complex64) * (1 + 2j)),
        lambda x: jnp.tanh(jax.pure_callback(np.abs, x, x)) + interp.jit(jnp.tanh)(x),
    ):
        assert _same(interp.emulate(function)(x), interp.jit(function)(x))


def test_errors() -> None:
    with pytest.raises(interp.InputError, match="expected a function"):
        interp.emulate(3)
    with pytest.raises(interp.InputError, match="expected a minihlo"):
        interp.emulate(_gelu, policy="saturate")
    with pytest.raises(interp.Error, match=r"test_emulate_jax\.py:\d+:\d+: .*known sizes"):
        export.export(interp.emulate(jnp.tanh))(jax.ShapeDtypeStruct(export.symbolic_shape("n"), F8))
    with pytest.raises(interp.InputError, match="h1000"):
        interp.emulate(_gelu, target="h1000")


_SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from functools import partial
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from minihlo import interp
from minihlo.ops.minifloat.formats import FORMATS

names = {names}
rng = np.random.default_rng(0)
mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
for name in names:
    dtype = FORMATS[name].dtype
    a, b = (rng.integers(0, 1 << FORMATS[name].bits, (16, 16), np.uint8).view(dtype) for _ in range(2))
    product = interp.emulate(lambda a, b: jnp.dot(a, b))
    expected = np.asarray(product(a, b)).tobytes()
    for x, y in ((("x", None), ()), ((), (None, "x")), ((None, "x"), ("x", None)), (("x", None), (None, "x"))):
        assert np.asarray(product(put(a, *x), put(b, *y))).tobytes() == expected, (name, x, y)

F8 = jnp.float8_e4m3fn
x = rng.standard_normal((16, 64)).astype(np.float32).astype(F8)
def constrained(x):
    y = jax.lax.with_sharding_constraint(jnp.tanh(x), NamedSharding(mesh, P(None, "x")))
    return y * x
plain = interp.jit(lambda x: jnp.tanh(x) * x)(x)
assert np.asarray(interp.emulate(constrained)(put(x, "x"))).tobytes() == np.asarray(plain).tobytes()
@partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
def inside(x):
    return interp.emulate(lambda x: jnp.exp(x) * x)(x)
assert np.asarray(inside(put(x, "x"))).tobytes() == np.asarray(interp.jit(lambda x: jnp.exp(x) * x)(x)).tobytes()
collectives = {{
    "all gather": (lambda x: jax.lax.all_gather(jnp.exp(x), "x", tiled=True)[:2], P("x")),
    "psum": (lambda x: jax.lax.psum(x, "x"), P(None)),
    "pmax": (lambda x: jax.lax.pmax(jnp.tanh(x), "x"), P(None)),
    "permute": (lambda x: jax.lax.ppermute(x, "x", [(i, (i + 1) % 8) for i in range(8)]), P("x")),
    "all to all": (lambda x: jax.lax.all_to_all(x, "x", 1, 1, tiled=True), P("x")),
}}
for name, (function, out) in collectives.items():
    mapped = jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False)
    expected = np.asarray(interp.jit(mapped)(x)).tobytes()
    for given in (put(x, "x"), x):  # that of one device goes where the program is
        assert np.asarray(interp.emulate(mapped)(given)).tobytes() == expected, name
"""


def test_bits_do_not_depend_on_shardings() -> None:
    names = ["f8E4M3FN", "f8E5M2FNUZ"]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    code = _SHARDED.format(names=names)
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
