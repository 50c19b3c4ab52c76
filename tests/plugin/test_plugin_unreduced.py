"""Unreduced and reduced arrays on the JAX platform `minihlo`. Expected values are those of the devices' own parts."""

import functools

import pytest

from ..jax_child import run_jax

_MESH = """
        from jax.sharding import AxisType
        import functools
        from jax import reshard
        mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
        jax.set_mesh(mesh)
        x = np.arange(64.0).reshape(8, 8)
        put = lambda a, *spec, **more: jax.device_put(a, P(*spec, **more))
        same = lambda a, b: np.testing.assert_array_equal(np.asarray(a), b)
        def held(a, *expected):
            assert len(a.addressable_shards) == len(expected)
            for shard, e in zip(a.addressable_shards, expected):
                same(shard.data, e)
"""
run = functools.partial(run_jax, start=_MESH, devices=8)


def test_products_and_sums_have_the_addends_of_the_devices() -> None:
    run("""
        a, b = put(x, None, "x"), put(x, "x", None)
        spec = P(None, None, unreduced={"x"})
        f = jax.jit(lambda a, b: jnp.einsum("ab,bc->ac", a, b, out_sharding=spec))
        product = f(a, b)
        assert product.sharding == NamedSharding(mesh, spec)
        held(product, *[x[:, :4] @ x[:4]] * 4, *[x[:, 4:] @ x[4:]] * 4)
        same(reshard(product, P()), x @ x)
        same(reshard(product, P("x", "y")), x @ x)
        g = jax.jit(lambda p: (lambda q: (q, reshard(q, P("y"))))((p + p).T))
        double, whole = g(product)
        held(double, *[2 * (x[:, :4] @ x[:4]).T] * 4, *[2 * (x[:, 4:] @ x[4:]).T] * 4)
        same(whole, 2 * (x @ x).T)
        total = jax.jit(lambda a: jax.lax.reduce_sum(a, axes=(0, 1), out_sharding=P(unreduced={"x", "y"})))
        held(total(put(x, "x", "y")), *[x[i : i + 4, j : j + 2].sum() for i in (0, 4) for j in (0, 2, 4, 6)])
        rows = put(np.array([0, 0, 1, 1, 1, 2, 2, 3]), "y")
        sums = jax.jit(lambda a, i: jax.ops.segment_sum(a, i, num_segments=4, out_sharding=P(unreduced={"y"})))
        each = [[1, 0, 0, 0], [0, 5, 0, 0], [0, 4, 5, 0], [0, 0, 6, 7]]
        if jax.__version_info__ >= (0, 10):  # before, a segment_sum had no out_sharding
            held(sums(put(np.arange(8), "y"), rows), *each, *each)
    """)


def test_a_value_becomes_the_sum_of_its_parts() -> None:
    run("""
        zero = np.zeros((8, 8))
        def only(rows, columns):
            found = zero.copy()
            found[rows, columns] = x[rows, columns]
            return found
        unreduced = {n: P(None, None, unreduced=set(n)) for n in ("x", "y", "xy")}
        held(reshard(put(x), unreduced["x"]), *[x] * 4, *[zero] * 4)
        held(reshard(put(x), unreduced["y"]), *[x, zero, zero, zero] * 2)
        parts = [only(slice(i, i + 4), slice(j, j + 2)) for i in (0, 4) for j in (0, 2, 4, 6)]
        held(reshard(put(x, "x", "y"), unreduced["xy"]), *parts)
        rows = [x[:4], *[zero[:4]] * 3, x[4:], *[zero[:4]] * 3]
        held(reshard(put(x, "x", None), P("x", None, unreduced={"y"})), *rows)
        for spec in unreduced.values():
            for before in (P(), P("x"), P("y", "x"), P(("x", "y"))):
                there = reshard(put(x, *before), spec)
                assert there.sharding.spec == spec
                same(reshard(there, before), x)
        fewer = jax.jit(lambda a: reshard(reshard(a, unreduced["xy"]), unreduced["x"]))(put(x))
        held(fewer, *[x] * 4, *[zero] * 4)
        more = jax.jit(lambda a: reshard(a, unreduced["xy"]))(reshard(put(x, "x"), unreduced["x"]))
        held(more, only(slice(0, 4), slice(0, 8)), *[zero] * 3, only(slice(4, 8), slice(0, 8)), *[zero] * 3)
        held(reshard(jnp.float32(3), P(unreduced={"x"})), *[3] * 4, *[0] * 4)
    """)


def test_gradients_of_reduced_arrays_are_unreduced() -> None:
    run("""
        weights = put(x, None, None, reduced={"x", "y"})
        data = put(x + 1, "x", "y")
        loss = lambda w, d: jnp.sum(reshard(w, P("x", "y")) * d)
        gradient = jax.jit(jax.grad(loss))(weights, data)
        assert gradient.sharding.spec == P(None, None, unreduced={"x", "y"})
        same(reshard(gradient, P()), x + 1)
        expected = np.zeros((8, 8))
        expected[4:, 6:] = (x + 1)[4:, 6:]
        same(gradient.addressable_shards[7].data, expected)
        same(reshard(jax.jit(jax.grad(lambda w: (w + w).sum()))(weights), P()), np.full((8, 8), 2.0))
        # What JAX takes an all_gather of is the same on each device; its gradient is not multiplied by their number.
        gather = lambda a: jax.shard_map(
            lambda b: jax.lax.all_gather(b, "x", tiled=True, to="reduced"), in_specs=P("x"), out_specs=P(reduced={"x"})
        )(a)
        same(jax.jit(jax.grad(lambda a: gather(a).sum()))(put(x, "x")), np.ones((8, 8)))
    """)


def test_loops_carry_addends() -> None:
    run("""
        spec = P(None, None, unreduced={"x"})
        def f(a, b):
            def step(total, scale):
                part = jnp.einsum("ab,bc->ac", a, b, out_sharding=spec)
                return total + part, scale
            zeros = reshard(jnp.zeros((8, 8)), spec)
            total, _ = jax.lax.scan(step, zeros, jnp.arange(3.0))
            chosen = jax.lax.cond(a.sum() > 0, lambda t: t, lambda t: t + t, total)
            return total, chosen, reshard(chosen, P())
        total, chosen, whole = jax.jit(f)(put(x, None, "x"), put(x, "x", None))
        expected = [*[3 * (x[:, :4] @ x[:4])] * 4, *[3 * (x[:, 4:] @ x[4:])] * 4]
        held(total, *expected)
        held(chosen, *expected)
        same(whole, 3 * (x @ x))
    """)


@pytest.mark.parametrize("axes", ["x", "xy"])
def test_manual_computations_take_and_give_addends(axes: str) -> None:
    run_jax(
        _MESH
        + f"""
        axes = tuple({axes!r})
        """
        + """
        from jax._src.lax.parallel import unreduced_psum, vary_unreduced_cast
        spec = P(None, None, unreduced=set(axes))
        give = jax.jit(jax.shard_map(lambda a: vary_unreduced_cast(a, axes), in_specs=P(axes), out_specs=spec))
        take = jax.jit(jax.shard_map(lambda a: unreduced_psum(a, axes), in_specs=spec, out_specs=P()))
        given = give(put(x, axes))
        count = 2 if axes == ("x",) else 8
        parts = np.split(x, count)
        held(given, *[p for p in parts for _ in range(8 // count)])
        same(reshard(given, P()), sum(parts))
        same(take(given), sum(parts))
        same(jax.jit(lambda a: take(give(a) + give(a)))(put(x, axes)), 2 * sum(parts))
        """,
        devices=8,
    )


def test_an_op_that_is_not_linear_takes_the_sum() -> None:
    """JAX makes no such program; others may."""
    run_jax(
        """
        from jax._src.lib import xla_client
        from jaxlib.mlir import ir
        text = '''
        module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
          sdy.mesh @mesh = <["x"=2]>
          func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>})
              -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
            %0 = stablehlo.multiply %a, %a : tensor<4xf32>
            %1 = stablehlo.maximum %0, %a : tensor<4xf32>
            return %1 : tensor<4xf32>
          }
        }'''
        from minihlo.interp import planner; from minihlo.interp.parse import parser
        from minihlo.interp.plugin.sharding.partition import Partition
        program = parser.parse(text)
        partition = Partition(program.functions["main"], program, 2)
        from minihlo.ops.policy import Policy
        plan = planner.plan(partition.program, "main", Policy())
        first, second = partition.run(plan, 1, [[np.float32([1, 2, -3, -1])], [np.float32([1, -2, 1, 1.5])]], None)
        np.testing.assert_array_equal(first, [4, 0])
        np.testing.assert_array_equal(second, [4, 0.5])
        """
    )


@pytest.mark.parametrize(
    "text",
    [
        '#sdy.sharding<@mesh, [{"x"}], other={"y"}>',
        '#sdy.sharding<@mesh, [{"z"}]>',
        '#sdy.sharding<@other, [{"x"}]>',
        '#sdy.sharding<@mesh, [{"x"}], unreduced={"y":(1)2}>',
        '#sdy.sharding<@mesh, [{"x"}, {}]>',
        "{devices=[2]<=[2] last_tile_dims={unreduced}}",
        "{manual}",
        "{devices=[2,2]<=[2]}",
    ],
)
def test_a_sharding_that_is_not_understood_is_an_error(text: str) -> None:
    from minihlo.interp.errors import ProgramError
    from minihlo.interp.parse import parser
    from minihlo.interp.parse.attributes import Opaque
    from minihlo.interp.plugin.sharding.partition import Partition

    program = parser.parse("""
        sdy.mesh @mesh = <["x"=2, "y"=4]>
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }
    """)
    function = program.functions["main"]
    kind = "sdy.sharding" if "#sdy" in text else "mhlo.sharding"
    function.attributes["arg_attrs"] = ({kind: Opaque(text)},)
    with pytest.raises(ProgramError, match="expected"):
        Partition(function, program, 8 if "#sdy" in text else 2)


def test_the_largest_and_smallest_of_addends() -> None:
    run("""
        if jax.__version_info__ >= (0, 12):
            for kind, ours in (("max", np.maximum), ("min", np.minimum)):
                spec = P(None, unreduced={"x"}, unreduced_kind=jax.sharding.UnreducedKind[kind])
                reduce = functools.partial(getattr(jax.lax, f"reduce_{kind}"), axes=(0,), out_sharding=spec)
                extreme = jax.jit(reduce)(put(-x, "x", None))
                held(extreme, *[ours.reduce(-x[:4])] * 4, *[ours.reduce(-x[4:])] * 4)
                same(reshard(extreme, P()), ours.reduce(-x))
                same(reshard(extreme, P("y")), ours.reduce(-x))
                double = jax.jit(lambda a: reshard(a, P(None)) * 2)(extreme)
                same(double, 2 * ours.reduce(-x))
    """)
