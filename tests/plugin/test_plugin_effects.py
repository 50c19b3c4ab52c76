"""The JAX platform `minihlo`: programs with effects, donations and compiler options that are wrong. As on XLA's CPU."""

import functools

import numpy as np

from minihlo.interp.plugin.options import read_compile_options
from minihlo.interp.plugin.pjrt import protobuf

from ..jax_child import run_jax

_START = """
        import logging
        from jax.experimental import io_callback
        logging.disable(logging.CRITICAL)
        def bad(v):
            raise ValueError("no such number")
        x = jnp.ones(2)
"""
run = functools.partial(run_jax, start=_START, devices=4)


def test_callback_errors_are_raised_once() -> None:
    run_jax(
        _START
        + """
        programs = {
            "ordered, no result": lambda x: io_callback(bad, None, x, ordered=True),
            "ordered": lambda x: io_callback(bad, x, x, ordered=True),
            "unordered, no result": lambda x: io_callback(bad, None, x),
            "unordered": lambda x: io_callback(bad, x, x),
            "debug": lambda x: (jax.debug.callback(bad, x, ordered=True), x)[1],
            "debug, unordered": lambda x: (jax.debug.callback(bad, x), x)[1],
            "pure": lambda x: jax.pure_callback(bad, x, x),
        }
        good = jax.jit(lambda x: io_callback(lambda v: v + 1, x, x, ordered=True))
        for name, program in programs.items():
            run = jax.jit(program)
            for _ in range(2):
                fails(lambda: run(x), "JaxRuntimeError", "ValueError: no such number")
                jax.effects_barrier()
                assert good(x).tolist() == [2, 2], name
        # One that fails when it has been run before.
        left = [2]
        def later(v):
            left[0] -= 1
            return v if left[0] >= 0 else bad(v)
        for program in (lambda x: jax.pure_callback(later, x, x), lambda x: io_callback(later, x, x, ordered=True)):
            left[0], run = 2, jax.jit(program)
            run(x), run(x)
            fails(lambda: run(x), "INTERNAL: ValueError: no such number")
            assert good(x).tolist() == [2, 2]
        # What fails without a callback leaves no token behind either.
        gone = jnp.ones(3)
        gone.delete()
        fails(lambda: jax.jit(lambda g, x: io_callback(lambda v: v, g, g, ordered=True))(gone, x), "deleted")
        assert good(x).tolist() == [2, 2]
    """
    )


def test_callbacks_of_several_devices() -> None:
    run("""
        mesh = Mesh(np.array(jax.devices()), ("x",))
        a = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("x")))
        seen = []
        see = lambda v: seen.append(np.asarray(v).tolist())
        everything, parts = [[*range(8)]], [[0, 1], [2, 3], [4, 5], [6, 7]]
        for ordered in (False, True):
            for program, calls in (
                (lambda v: io_callback(see, None, v, ordered=ordered), everything),
                (jax.shard_map(lambda v: io_callback(see, None, v, ordered=ordered), mesh=mesh, in_specs=P("x"),
                    out_specs=P()), parts),
                (jax.shard_map(lambda v: io_callback(lambda v: see(v) or np.asarray(v), v, v, ordered=ordered),
                    mesh=mesh, in_specs=P("x"), out_specs=P("x")), parts),
            ):
                y = jax.jit(program)(a)
                jax.effects_barrier()
                assert sorted(seen) == calls, seen
                assert y is None or y.tolist() == [*range(8)]
                seen.clear()
        assert jax.jit(lambda v: None)(a) is None
    """)


def test_callbacks_say_on_which_device_they_run() -> None:
    """The program says so as JAX's does for its CPU, also of the token of an ordered call."""
    run("""
        mesh = Mesh(np.array(jax.devices()), ("x",))
        a = jax.device_put(jnp.arange(4.0), NamedSharding(mesh, P("x")))
        where = jax.sharding.SingleDeviceSharding(jax.devices()[2])
        add = lambda v: np.asarray(v) + 1
        for program, values in (
            (lambda v: jax.pure_callback(add, v, v, sharding=where), "<@maximal_mesh_2, []>"),
            (lambda v: io_callback(add, v, v, sharding=where), "<@maximal_mesh_2, []>"),
            (lambda v: io_callback(add, v, v, sharding=where, ordered=True), ", ".join(["<@maximal_mesh_2, []>"] * 2)),
            (lambda v: io_callback(lambda v: None, None, v, sharding=where, ordered=True), "<@maximal_mesh_2, []>"),
        ):
            f = jax.jit(program)
            text = f.lower(a).as_text()
            assert f"sdy.sharding = #sdy.sharding_per_value<[{values}]>" in text, text
            y = f(a)
            assert y is None or y.tolist() == [1, 2, 3, 4]
    """)


def test_callbacks_of_parts() -> None:
    """A partitioned callback is called for each device with its part, whatever its size; the others with the whole."""
    run("""
        from jax._src import debugging
        mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
        put = lambda v, *spec: jax.device_put(v, NamedSharding(mesh, P(*spec)))
        seen = []
        def see(*values):
            seen.append([np.asarray(v).tolist() for v in values])
        def calls(program, *values):
            seen.clear()
            with jax.set_mesh(mesh):
                jax.jit(program)(*values)
            jax.effects_barrier()
            return sorted(seen)
        each = lambda *v: debugging.debug_callback(see, *v, partitioned=True)
        a, b = put(jnp.arange(4), "x"), put(jnp.arange(8).reshape(2, 4), "y", "x")
        assert calls(lambda a: jax.debug.callback(see, a), a) == [[[0, 1, 2, 3]]]
        assert calls(each, a) == [[[0, 1]], [[0, 1]], [[2, 3]], [[2, 3]]]
        assert calls(lambda b: each(b.T + 1), b) == [[[[1], [2]]], [[[3], [4]]], [[[5], [6]]], [[[7], [8]]]]
        assert calls(lambda a, b: each(b, a, a.sum()), a, b) == [
            [[[0, 1]], [0, 1], 6], [[[2, 3]], [2, 3], 6], [[[4, 5]], [0, 1], 6], [[[6, 7]], [2, 3], 6]]
        local = jax.shard_map(each, mesh=mesh, in_specs=P("x", "y"), out_specs=P())
        assert calls(local, put(jnp.arange(4).reshape(2, 2), "x", "y")) == [[[[0]]], [[[1]]], [[[2]]], [[[3]]]]
    """)


def test_shardings_can_be_inspected() -> None:
    """They are reported once at compilation, of values anywhere; in a manual computation there is none."""
    run("""
        mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
        sharded = lambda *spec: NamedSharding(mesh, P(*spec))
        a = jax.device_put(jnp.arange(16.0).reshape(4, 4), sharded("x", "y"))
        seen = []
        inspect = lambda v: jax.debug.inspect_array_sharding(v, callback=seen.append)
        def inner(v):
            inspect(v.T)
            return v
        def branch(v):
            inspect(v.sum(1))
            return v
        def program(v):
            inspect(v)
            v = jax.lax.cond(v[0, 0] > 0, inner, branch, v)
            v = jax.lax.fori_loop(0, 3, lambda _, v: inner(v), v)
            v = jax.shard_map(inner, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))(v)
            inspect(jnp.ones(3))
            return v + 1
        f = jax.jit(program)
        assert (np.asarray(f(a)) == np.arange(16.0).reshape(4, 4) + 1).all()
        assert all(s.mesh == mesh for s in seen)
        expected = [("x", "y"), ("x",), ("y", "x"), ("y", "x"), (), ()]
        specs = [s.spec for s in seen]
        assert sorted(map(str, specs)) == sorted(str(P(*e)) for e in expected), specs
        f(a)
        assert len(seen) == 6
    """)


def test_a_buffer_is_donated_once() -> None:
    run_jax(
        _START
        + """
        import warnings
        warnings.simplefilter("ignore")
        both = jax.jit(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))
        message = "INVALID_ARGUMENT: expected a donated buffer to be passed once, got the same one as arguments 0 and 1"
        fails(lambda: both(x, x), message)
        fails(lambda: jax.jit(lambda a, b: a + b, donate_argnums=0)(x, x), message)
        fails(lambda: jax.jit(lambda a, b: a + b, donate_argnums=1)(x, x), message.replace("0 and 1", "1 and 0"))
        assert not x.is_deleted() and (x + x).tolist() == [2, 2]
        y = jnp.zeros(2)
        assert [r.tolist() for r in both(x, y)] == [[1, 1], [1, 1]] and x.is_deleted() and y.is_deleted()
        z = jnp.ones(2)
        assert jax.jit(lambda a, b, c: a + b + c, donate_argnums=0)(jnp.ones(2), z, z).tolist() == [3, 3]
        """
    )


def test_compiler_options_are_those_of_xla() -> None:
    run_jax(
        _START
        + """
        compiled = lambda **options: jax.jit(lambda a: a + 1).lower(x).compile(compiler_options=options)(x)
        fails(lambda: compiled(no_such_option=True), "INVALID_ARGUMENT: No such compile option: 'no_such_option'")
        fails(lambda: compiled(xla_embed_ir_in_execuble=True), "No such compile option: 'xla_embed_ir_in_execuble'")
        fails(lambda: jax.jit(lambda a: a + 1, compiler_options={"invalid": 1})(x), "No such compile option: 'invalid'")
        for options in (dict(xla_embed_ir_in_executable="blue"), dict(xla_embed_ir_in_executable=3)):
            fails(lambda: compiled(**options), "setting option xla_embed_ir_in_executable", "not a valid bool value")
        fails(lambda: compiled(xla_dump_max_hlo_modules="many"), "'many' is not a valid int value")
        assert compiled(xla_embed_ir_in_executable=True, xla_cpu_enable_fast_math="False").tolist() == [2, 2]
        assert compiled(xla_dump_max_hlo_modules=3, xla_dump_to="").tolist() == [2, 2]
        assert compiled(xla_gpu_auto_spmd_partitioning_memory_budget_ratio=0.5).tolist() == [2, 2]
    """
    )


def test_compiler_options_are_read_from_their_message() -> None:
    values: list[tuple[int, str | int]] = [(1, "blue"), (2, 1), (3, 7)]
    entries = [(7, protobuf.message((1, f"o{n}"), (2, protobuf.message((n, value))))) for n, value in values]
    # A double is eight bytes after its key, whose kind is 1.
    entries.append((7, protobuf.message((1, "o4"), (2, bytes([4 << 3 | 1]) + np.float64(2.5).tobytes()))))
    read = read_compile_options(protobuf.message(*entries))
    assert read.overrides == {"o1": "blue", "o2": True, "o3": 7, "o4": 2.5}
