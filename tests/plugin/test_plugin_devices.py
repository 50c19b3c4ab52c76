"""The JAX platform `minihlo` with several simulated devices. What is computed does not depend on how it is sharded."""

import functools

from ..jax_child import run_jax

_MESH = """
        import functools
        mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
        sharded = lambda *spec: NamedSharding(mesh, P(*spec))
        x = np.arange(64.0).reshape(8, 8)
        same = lambda a, b: np.testing.assert_array_equal(np.asarray(a), b)
"""
run = functools.partial(run_jax, start=_MESH, devices=8)


def test_jit_with_shardings() -> None:
    run("""
        assert [d.id for d in jax.devices()] == list(range(8))
        a, b = jax.device_put(x, sharded("x", "y")), jax.device_put(x, sharded("y", None))
        same(a, x)
        same(a.addressable_shards[5].data, x[4:, 2:4])
        y = jax.jit(lambda a: 2 * a)(a)
        same(y, 2 * x)
        assert y.sharding.is_equivalent_to(sharded("x", "y"), 2)
        z = jax.jit(lambda a, b: a @ b, out_shardings=sharded(None, "y"))(a, b)
        same(z, x @ x)
        assert z.sharding.is_equivalent_to(sharded(None, "y"), 2)
        z = jax.jit(lambda a, b: (a @ b).T)(a, b)
        same(z, (x @ x).T)
        assert z.sharding.is_equivalent_to(sharded(None, "x"), 2)
        total = jax.jit(lambda a: a.sum())(a)
        assert total == x.sum() and total.sharding.is_fully_replicated
        same(jax.jit(lambda: jnp.ones((8, 8)), out_shardings=sharded("x"))(), np.ones((8, 8)))
        inner = jax.jit(lambda a: jax.lax.with_sharding_constraint(a + 1, sharded(None, ("x", "y"))))(a)
        same(inner, x + 1)
        same(inner.addressable_shards[3].data, x[:, 3:4] + 1)
        assert inner.sharding.is_equivalent_to(sharded(None, ("x", "y")), 2)
        product = jax.jit(lambda v, w: (v @ w, v[0]), donate_argnums=(0, 1))
        long, wide = (jax.device_put(np.ones(shape), sharded("x")) for shape in ((4, 2), (2, 8)))
        product(long, wide)  # (4, 8) and (2,): no result takes as many bytes as the first argument
        assert not long.is_deleted()
        assert not wide.is_deleted()
        jax.jit(lambda a: a + 1, donate_argnums=0)(a)
        assert a.is_deleted()
        moved = jax.device_put(jnp.ones(3), jax.devices()[6])
        assert (moved + 1).device.id == 6
        assert jax.jit(lambda b: b + 1).lower(b).compile().output_shardings.is_equivalent_to(sharded("y", None), 2)
    """)


def test_results_lie_as_far_as_the_program_says() -> None:
    """What is left open is cut as operands are, but into equal parts."""
    run("""
        a = jax.device_put(x, sharded("x", "y"))
        open_ = lambda v: jax.lax.with_sharding_constraint(v, sharded("x", P.UNCONSTRAINED))
        y = jax.jit(lambda v: open_(v * 2))(a)
        same(y, 2 * x)
        assert y.sharding.is_equivalent_to(sharded("x", "y"), 2)
        y = jax.jit(open_)(jax.device_put(x, sharded(None, "x")))
        assert y.sharding.is_equivalent_to(sharded("x"), 2)
        column = jax.device_put(x, sharded("x", "y"))[:, -1]
        same(column, x[:, -1])
        assert column.sharding.is_equivalent_to(sharded("x"), 1)
        numbers = jax.device_put(np.array([3, 0]), sharded("x"))
        rows = jax.jit(lambda v, i: v[i])(jax.device_put(x, sharded(None, "y")), numbers)
        same(rows, x[[3, 0]])
        assert rows.sharding.is_equivalent_to(sharded("x", "y"), 2)
        uneven = jax.jit(lambda: jax.lax.with_sharding_constraint(jnp.arange(7.0), sharded("x")))()
        same(uneven, np.arange(7))
        inner = lambda v: jax.lax.with_sharding_constraint(v * v, P("x"))
        f = jax.shard_map(inner, mesh=mesh, in_specs=P(), out_specs=P(), axis_names={"y"}, check_vma=False)
        y = jax.jit(f)(a)
        same(y, x * x)
        assert y.sharding.is_equivalent_to(sharded("x"), 2)
    """)


def test_shard_map_and_pmap() -> None:
    run("""
        def run(f, spec, out, **options):
            return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=out, **options))(x)
        same(run(lambda a: jax.lax.all_gather(a, "y", axis=1, tiled=True), P("x", "y"), P("x"), check_vma=False), x)
        step = [(i, (i + 1) % 4) for i in range(4)]
        same(run(lambda a: jax.lax.ppermute(a, "y", step), P("x", "y"), P("x", "y")), np.roll(x, 2, 1))
        same(run(lambda a: jax.lax.psum_scatter(a, "y", tiled=True), P("x"), P(("x", "y")), check_vma=False), 4 * x)
        same(run(lambda a: jax.lax.all_to_all(a, "y", 0, 1, tiled=True), P("x", "y"), P(("x", "y"))), x)
        outer = lambda a: jax.shard_map(lambda b: jax.lax.psum(b, "y"), in_specs=P(None, "y"), out_specs=P())(a)
        nested = run(outer, P("x"), P("x"), axis_names={"x"})
        same(nested, x.reshape(8, 4, 2).sum(1))
        lines = []
        run(lambda a: jax.debug.callback(lambda v: lines.append(float(v)), a[0, 0]) or a, P("x", "y"), P("x", "y"))
        assert sorted(lines) == [0, 2, 4, 6, 32, 34, 36, 38], lines
        same(jax.pmap(lambda a, b: jax.lax.psum(a * b, "i"), axis_name="i")(x, x), np.tile((x * x).sum(0), (8, 1)))
        same(jax.pmap(lambda a, b: a @ b, in_axes=(0, None))(x, x[0]), x @ x[0])
        from jax.experimental.custom_partitioning import custom_partitioning
        own = custom_partitioning(lambda a: a.T + 1)
        own.def_partition(partition=None, infer_sharding_from_operands=None, sharding_rule="i j -> j i")
        same(jax.jit(own)(jax.device_put(x, sharded("x", "y"))), x.T + 1)
    """)


def test_devices_keep_what_differs_between_them() -> None:
    """Where a program says without a check that they have the same."""
    run("""
        held = lambda a: [np.asarray(s.data).tolist() for s in a.addressable_shards]
        copies, rows = jax.pmap(lambda a, b: (a, b), in_axes=(0, None), out_axes=(None, 0))(x[:, :2], x[0])
        assert held(copies) == x[:, :2].tolist(), held(copies)
        same(rows, np.tile(x[0], (8, 1)))
        options = {"mesh": mesh, "check_vma": False}
        hide = jax.shard_map(lambda a: a, in_specs=P("x", "y"), out_specs=P(), **options)
        hidden = jax.jit(hide)(jax.device_put(x, sharded("x", "y")))
        parts = [x[i : i + 4, j : j + 2] for i in (0, 4) for j in (0, 2, 4, 6)]
        assert held(hidden) == [p.tolist() for p in parts]
        show = jax.shard_map(lambda a: jax.lax.psum(a, ("x", "y")), in_specs=P(), out_specs=P(), **options)
        same(jax.jit(show)(hidden), sum(parts))
        same(jax.jit(lambda a: show(hide(a)))(x), sum(parts))
        fails(lambda: jax.jit(lambda a: hide(a) + 1)(x), "devices 0 and 1 have different values")
        # An argument that is used elsewhere too is whole; so is a result that is.
        double = jax.shard_map(lambda c: 2 * c, in_specs=P("x"), out_specs=P("x"), **options)
        twice, thrice = jax.jit(lambda a: (double(a), double(a) + a))(jax.device_put(x, sharded("x")))
        same(twice, 2 * x)
        same(thrice, 3 * x)
        given = jax.device_put(x, sharded("x", "y"))
        passed = jax.jit(jax.shard_map(lambda a: a, in_specs=P("x", "y"), out_specs=P("x", "y"), **options))(given)
        for s, t in zip(given.addressable_shards, passed.addressable_shards):
            assert s.data.unsafe_buffer_pointer() != t.data.unsafe_buffer_pointer()
        # Outside of jit, the result of a callback is said to be the same on all.
        explicit = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
        add = lambda a: jax.pure_callback(lambda b: b + 1, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
        with jax.set_mesh(explicit):
            same(jax.shard_map(add, in_specs=P("x"), out_specs=P("x"))(jax.device_put(x, P("x"))), x + 1)
    """)


def test_shard_map_here_and_from_a_file() -> None:
    """Programs of GSPMD run as those of Shardy, also where only some axes are manual."""
    run("""
        from minihlo.interp import load
        lax, a = jax.lax, jax.device_put(x, sharded("x", "y"))

        @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("x", None), out_specs=P(None), axis_names={"x"},
                           check_vma=False)
        def partial(v):
            return lax.psum(v * lax.axis_index("x"), "x")

        @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("x", "y"), out_specs=P("y", "x"), check_vma=False)
        def whole(v):
            return lax.psum(v, "x").T + lax.axis_index("x")

        @functools.partial(jax.shard_map, mesh=mesh, in_specs=(), out_specs=P(("y", "x")), check_vma=False)
        def numbers():
            return lax.axis_index("x")[None] * 10 + lax.axis_index("y")

        def all_(v):
            looped = lax.fori_loop(0, 3, lambda _, c: jnp.tile(partial(c), (2, 1)), v)
            return partial(v) + 1, whole(v), numbers(), whole(whole(v)[:, :8]), looped

        total = x[:4] + x[4:]
        twice = lambda v: np.concatenate([v.T, v.T + 1], 1)
        expected = (
            x[4:] + 1, twice(total), [10 * i + j for j in range(4) for i in range(2)],
            twice(twice(total)[:4] + twice(total)[4:]), np.tile(x[4:], (2, 1)),
        )
        for is_shardy, form, part in (
            (False, "stablehlo", "SPMDFullToShardShape"),
            (True, "stablehlo", "sdy.manual_computation"),
            (True, "hlo", "xla.sdy.GlobalToLocalShape"),
        ):
            jax.config.update("jax_use_shardy_partitioner", is_shardy)
            text = jax.jit(all_).lower(a).as_text(form)
            assert part in text
            for mine, loaded, wanted in zip(jax.jit(all_)(a), load(text)(x), expected, strict=True):
                same(mine, wanted)
                same(loaded, wanted)
    """)
