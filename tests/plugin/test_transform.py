"""interp.jit: JAX functions evaluated here. Expected values are JAX's on CPU, or worked out by hand."""

import subprocess
import sys
import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp

from ..jax_child import run_jax
from ..thinned import thinned

#: e lies between 2.5 and 2.75 of f8E4M3FN, nearer to the latter.
UP, DOWN = interp.Policy(rounding="up"), interp.Policy(rounding="toward_zero")
FLOAT8 = ("e3m4", "e4m3", "e4m3fn", "e4m3fnuz", "e4m3b11fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
NAMES = (
    *(f"{kind}int{bits}" for kind in ("", "u") for bits in (2, 4, 8, 16, 32, 64)),
    *("bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float4_e2m1fn"),
    *(f"float8_{name}" for name in FLOAT8),
)


def same(result: Any, wanted: Any, tolerance: float = 0) -> None:
    """Trees of arrays of the same types, weak or not, and values."""
    assert jax.tree.structure(result) == jax.tree.structure(wanted)
    for f, w in zip(jax.tree.leaves(result), jax.tree.leaves(wanted), strict=True):
        assert isinstance(f, jax.Array)
        assert (f.shape, f.dtype, f.weak_type) == (w.shape, w.dtype, w.weak_type)
        np.testing.assert_allclose(np.asarray(f, np.float64), np.asarray(w, np.float64), rtol=tolerance)


#: A name of each kind and of each width of storage; `test_every_code_survives` has the others of eight bits.
_KINDS = ("bool", "int2", "uint4", "int8", "uint16", "int32", "uint64", "bfloat16", "float16", "float32", "float64",
          "complex64", "complex128", "float4_e2m1fn", "float8_e4m3fn", "float8_e8m0fnu")  # fmt: skip


@pytest.mark.parametrize("name", thinned(NAMES, lambda name: name in _KINDS))
def test_arrays_of_every_type(name: str) -> None:
    dtype = np.dtype(name if name == "bool" else getattr(ml_dtypes, name, name))
    with jax.enable_x64(True):
        for x in (np.array([[1, 0, 1], [1, 1, 0]]).astype(dtype), np.array(1).astype(dtype), np.zeros((0, 3), dtype)):
            turned = interp.jit(lambda a: (a.T, a))
            for f in (turned, jax.jit(turned)):  # the latter by a call back from XLA
                for argument in (x, jnp.asarray(x)):
                    transposed, whole = f(argument)
                    assert transposed.dtype == dtype
                    assert np.asarray(transposed).tobytes() == x.T.tobytes()
                    assert np.asarray(whole).tobytes() == x.tobytes()


def test_every_code_survives() -> None:
    codes = np.arange(256, dtype=np.uint8)  # NaN with payloads too
    for name in FLOAT8:
        x = codes.view(getattr(ml_dtypes, f"float8_{name}"))
        for f in (interp.jit(lambda a: a[::-1]), jax.jit(interp.jit(lambda a: a[::-1]))):
            assert np.array_equal(np.asarray(f(x)).view(np.uint8), codes[::-1])


def test_pytrees_and_weak_types() -> None:
    def f(d: dict[str, Any], *rest: Any, scale: Any) -> Any:
        return {"sum": (d["x"] + d["y"][0], None), "all": [*rest, 2 * scale, d["x"].shape[0]]}

    arguments = {"x": jnp.arange(3.0), "y": (jnp.float32(2),)}, jnp.int8(3), 1
    same(interp.jit(f)(*arguments, scale=0.5), jax.jit(f)(*arguments, scale=0.5))
    assert interp.jit(lambda: None)() is None


def test_numbers_of_python_and_of_64_bits() -> None:
    def double(a: Any) -> Any:
        return jax.tree.map(lambda v: v + v, a)

    for x in (2, 2.5, True, np.float64(2.5), np.int64(3), [1.0, 2]):
        same(interp.jit(double)(x), jax.jit(double)(x))


def test_tracing_once_per_types() -> None:
    traces = []

    def double(a: Any) -> Any:
        traces.append(jnp.result_type(a))
        return a + a

    ours = interp.jit(double)
    calls = (
        2,
        3,
        np.float32(2),
        jnp.float32(2),
        jnp.asarray(2.5),
        np.ones(2, np.float32),
        np.ones(3, np.float32),
        True,
    )
    for x in (*calls, *calls):
        before = len(traces)
        wanted = jax.jit(lambda a: a + a)(x)
        same(ours(x), wanted)
        assert len(traces) - before <= 1
    assert len(traces) <= len(calls)
    same(jax.vmap(ours)(jnp.arange(3.0)), 2 * jnp.arange(3.0))  # a tracer is no array that is known
    assert jax.jit(lambda: ours(np.float32(2)))() == 4
    with jax.enable_x64(True):
        same(ours(np.float64(2.5)), jax.jit(lambda a: a + a)(np.float64(2.5)))
        same(ours(2), jax.jit(lambda a: a + a)(2))


def test_static_arguments() -> None:
    def f(x: Any, n: int, *, k: int = 2) -> Any:
        return jnp.full(n, k) * x

    numbered, named = interp.jit(f, static_argnums=1, static_argnames="k"), interp.jit(f, static_argnames=("n", "k"))
    for g in (numbered, named):
        assert g(2, 3).tolist() == [4, 4, 4]
        assert g(2, 1, k=5).tolist() == [10]
    assert named(2, n=2).tolist() == [4, 4]
    assert interp.jit(f, static_argnums=1)(2, n=1).tolist() == [4]  # JAX finds the name
    assert interp.jit(lambda *a: jnp.zeros(a[-1]) + a[0], static_argnums=-1)(1.0, 2).tolist() == [1, 1]
    with pytest.raises(ValueError, match="hash"):
        numbered(2, [3])


def test_methods_and_decorators() -> None:
    class Scale:
        factor = 3

        @interp.jit(static_argnums=0, policy=UP)
        def __call__(self, x: Any) -> Any:
            "Documented."
            return x * self.factor

    assert Scale.__call__.__doc__ == "Documented."
    assert float(Scale()(2.0)) == 6


def test_keys_of_random_numbers() -> None:
    def draw(key: Any) -> Any:
        first, second = jax.random.split(key)
        return jax.random.bits(first, (3,)), second

    for implementation in ("threefry2x32", "rbg"):
        key = jax.random.key(7, impl=implementation)
        actual, wanted = interp.jit(draw)(key), draw(key)
        assert np.array_equal(actual[0], wanted[0])
        assert actual[1].dtype == wanted[1].dtype
        assert np.array_equal(jax.random.key_data(actual[1]), jax.random.key_data(wanted[1]))
    keys = jax.random.split(jax.random.key(7), 4)
    assert np.array_equal(jax.vmap(interp.jit(draw))(keys)[0], jax.vmap(draw)(keys)[0])


def test_what_has_no_general_form_is_lowered_for_us() -> None:
    a = jnp.array([[2.0, 1], [1, 3]])
    for f in (jnp.linalg.eigvalsh, jnp.linalg.inv, lambda m: jnp.linalg.qr(m)[1], lambda m: jax.lax.linalg.svd(m)[1]):
        np.testing.assert_allclose(interp.jit(f)(a), f(a), rtol=1e-6)


def test_minifloats_are_exact() -> None:
    x = jnp.arange(16, dtype=jnp.float8_e5m2fnuz)  # 9 rounds to 8, 11 to 12 …
    assert float(interp.jit(jnp.dot)(x, x)) == 1280
    assert float(interp.jit(jnp.exp)(jnp.float8_e4m3fn(1))) == 2.75


def test_policies() -> None:
    e, one = interp.jit(jnp.exp), jnp.float8_e4m3fn(1)
    fixed, in_jit = interp.jit(jnp.exp, policy=DOWN), jax.jit(lambda x: e(x))
    assert float(fixed(one)) == 2.5
    for _ in range(2):  # what was compiled under one policy is not taken for another
        assert [float(f(one)) for f in (e, in_jit)] == [2.75, 2.75]
        with interp.policy(rounding="toward_zero"):
            assert [float(f(one)) for f in (e, in_jit)] == [2.5, 2.5]
            with interp.policy(UP):
                assert [float(f(one)) for f in (e, in_jit, fixed, jax.jit(fixed))] == [2.75, 2.75, 2.5, 2.5]


def test_policy_of_inner_functions() -> None:
    inner, fixed = interp.jit(jnp.exp), interp.jit(jnp.exp, policy=UP)
    outer = interp.jit(lambda x: (inner(x), fixed(x), jnp.exp(x)), policy=DOWN)
    one = jnp.float8_e4m3fn(1)
    assert [float(y) for y in outer(one)] == [2.5, 2.75, 2.5]
    assert [float(y) for y in jax.jit(outer)(one)] == [2.5, 2.75, 2.5]


DEVICES = """
    from minihlo import interp
    devices = jax.devices()
    f = interp.jit(lambda a, b=1: a + b)
    x = np.arange(8.0)
    assert f(x).devices() == {devices[0]} and not f(x).committed
    with jax.default_device(devices[3]):
        assert f(x).devices() == {devices[3]}
    there = f(jax.device_put(x, devices[2]), 2)
    assert there.devices() == {devices[2]} and there.committed
    fails(lambda: f(jax.device_put(x, devices[2]), jax.device_put(x, devices[1])), "InputError", "cpu:1 and cpu:2")
    mesh = Mesh(np.array(devices), ("x",))
    spread = jax.device_put(x, NamedSharding(mesh, P("x")))
    whole = f(spread)
    assert whole.sharding == NamedSharding(mesh, P()) and np.array_equal(whole, x + 1)
    assert np.array_equal(jax.jit(lambda a: f(a) * 2)(spread), 2 * (x + 1))
    mapped = jax.shard_map(lambda a: f(a), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    assert np.array_equal(jax.jit(mapped)(spread), x + 1)
"""


def test_where_results_go() -> None:
    run_jax(DEVICES, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=4")


def test_on_our_own_platform() -> None:
    run_jax("""
        from minihlo import interp
        e, one = interp.jit(jnp.exp), jnp.float8_e4m3fn(1)
        assert e(one).devices() == {jax.devices("minihlo")[0]}
        inside = jax.jit(interp.jit(jnp.exp, policy=interp.Policy(rounding="toward_zero")))
        assert float(e(one)) == 2.75 and float(inside(one)) == 2.5
    """)


def test_errors() -> None:
    with pytest.raises(interp.InputError, match=r"^jit: expected a function, got int$"):
        interp.jit(3)  # type: ignore[arg-type]
    with pytest.raises(interp.InputError, match=r"^policy: expected a minihlo\.interp\.Policy, got str$"):
        interp.jit(jnp.exp, policy="exact")  # type: ignore[arg-type]
    huge = interp.jit(lambda x: jnp.zeros((10**7, 10**7)) + x)
    with pytest.raises(interp.ResourceError, match=r"test_transform\.py:\d+:\d+: stablehlo\.\w+: tensor<10000000x1"):
        huge(1.0)
    cell = jax.new_ref(jnp.zeros(3))

    def read(x: Any) -> Any:
        return x + cell[...]

    with pytest.raises(interp.ProgramError, match=r"read takes a Ref\{float32\[3\]\}; minihlo takes arrays only"):
        interp.jit(read)(1.0)


def test_an_error_in_a_python_function() -> None:
    def wrong(x: Any) -> Any:
        return jax.pure_callback(lambda v: np.zeros(7, np.float32), jax.ShapeDtypeStruct((), np.float32), x)

    with pytest.raises(interp.ExecutionError, match="Incorrect output shape"):
        interp.jit(wrong)(jnp.float32(1))


def test_without_jax_one_line_says_so() -> None:
    code = """
        import sys
        sys.modules["jax"] = None
        from minihlo import interp
        assert interp.load and interp.Policy()
        try:
            interp.jit
        except AttributeError as error:
            print(error)
    """
    actual = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert actual.stdout == "minihlo.interp.jit needs JAX, which is not installed (pip install jax)\n"


def test_importing_interp_does_not_import_jax() -> None:
    code = "import sys; from minihlo import interp; interp.load; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
