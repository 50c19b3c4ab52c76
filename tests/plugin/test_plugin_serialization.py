"""The JAX platform `minihlo`: serialized executables, the persistent compilation cache, costs and memory."""

from pathlib import Path

import pytest

from minihlo.interp.plugin import serialization
from minihlo.interp.plugin.pjrt.errors import PluginError

from ..jax_child import run_jax


def test_bytes_that_are_damaged_are_refused_in_one_line() -> None:
    data = serialization.dump(b"ML\xefR program", b"options")
    assert serialization.load(data) == (b"ML\xefR program", b"options")
    assert serialization.load(serialization.dump(b"", b"")) == (b"", b"")
    damaged = [data[:n] for n in range(len(data))]
    damaged += [data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :] for i in range(len(data)) for bit in range(8)]
    damaged += [data + b"\0", serialization.dump(b"ML\xefR programo", b"ptions")[:40] + data[40:], b"\x80" * 300]
    for text in damaged:
        with pytest.raises(PluginError, match=r"^expected a serialized executable of [^\n]*$"):
            serialization.load(text)


def test_executables_are_serialized_and_loaded() -> None:
    run_jax(
        """
        from jax.experimental import serialize_executable
        x = jnp.arange(8.0)
        compiled = jax.jit(lambda a: (a * 2, {"sum": a.sum()})).lower(x).compile()
        parts = serialize_executable.serialize(compiled)
        loaded = serialize_executable.deserialize_and_load(*parts, execution_devices=jax.devices()[:1])
        y, found = loaded(x)
        assert y.tolist() == (2 * np.arange(8)).tolist() and found["sum"] == 28
        mesh = Mesh(np.array(jax.devices()), ("x",))
        a = jax.device_put(x, NamedSharding(mesh, P("x")))
        compiled = jax.jit(lambda a: a[::-1]).lower(a).compile()
        parts = serialize_executable.serialize(compiled)
        y = serialize_executable.deserialize_and_load(*parts, execution_devices=jax.devices())(a)
        assert y.tolist() == [*range(7, -1, -1)] and len(y.sharding.device_set) == 4
        data = compiled.runtime_executable().serialize()
        client, devices = jax.devices()[0].client, jax._src.lib.xla_client.DeviceList(tuple(jax.devices()))
        fails(lambda: client.deserialize_executable(data[:-9], devices, None), "expected a serialized executable")
        """,
        devices=4,
    )


def test_the_persistent_cache_is_filled_and_read(tmp_path: Path) -> None:
    code = """
        from jax import monitoring
        events = []
        monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))
        y = jax.jit(lambda a: jnp.tanh(a) @ a.T)(jnp.eye(3))
        assert np.array_equal(y, np.tanh(np.eye(3)))
        # The Python function of a program in the cache is this process's own.
        seen = []
        jax.jit(lambda a: jax.debug.callback(lambda v: seen.append(int(v)), a))(3)
        jax.effects_barrier()
        assert seen == [3]
        print(events.count("cache_hits"), events.count("cache_misses"))
    """
    options = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        "JAX_RAISE_PERSISTENT_CACHE_ERRORS": "1",
    }
    hits, misses = map(int, run_jax(code, **options).split())
    assert hits == 0
    assert misses >= 2
    again, left = map(int, run_jax(code, **options).split())
    assert again == misses - left
    assert left <= 1  # the program with a Python function is not shared
    for file in tmp_path.glob("*-cache"):
        file.write_bytes(file.read_bytes()[:-7])
    options["JAX_RAISE_PERSISTENT_CACHE_ERRORS"] = "0"
    assert run_jax(code, **options).split()[0] == "0"  # damaged entries are compiled anew


def test_costs_and_memory_of_programs() -> None:
    # Counted by hand, as XLA does: a product of 4x4 matrices is 2 * 4^3 operations, a sum of n numbers n - 1.
    run_jax(
        """
        x = jnp.ones((4, 4), np.float32)
        def analysis(f, *arguments, **options):
            compiled = jax.jit(f, **options).lower(*arguments).compile()
            costs, memory = compiled.cost_analysis(), compiled.memory_analysis()
            return [costs[k] for k in ("flops", "transcendentals", "bytes accessed")], [
                getattr(memory, f"{k}_size_in_bytes") for k in ("argument", "output", "alias", "temp")]
        assert analysis(lambda a: jnp.sin(a @ a), x) == ([128, 16, 64 * 5], [64, 64, 0, 64])
        assert analysis(lambda a: a + a, x, donate_argnums=0) == ([16, 0, 64 * 3], [64, 64, 64, 0])
        assert analysis(lambda a: jnp.sin(jnp.cos(a @ a)), x) == ([128, 32, 64 * 7], [64, 64, 0, 128])
        reduced = lambda a: jax.lax.reduce(a, np.float32(0), jax.lax.add, (0, 1))
        assert analysis(reduced, x)[0] == [15, 0, 64 + 4 + 4]
        loop = lambda a: jax.lax.fori_loop(0, 10, lambda i, v: v @ v, a)
        assert analysis(loop, x)[0][0] == 10 * (128 + 1 + 1)
        convolved = lambda a, k: jax.lax.conv(a, k, (1, 1), "VALID")
        image, kernel = jnp.ones((1, 3, 6, 6)), jnp.ones((2, 3, 3, 3))
        assert analysis(convolved, image, kernel)[0][0] == 2 * (2 * 4 * 4) * (3 * 3 * 3)
        mesh = Mesh(np.array(jax.devices()), ("x",))
        cut = jax.device_put(x, NamedSharding(mesh, P("x")))
        assert analysis(lambda a: a + 1, cut)[1][:2] == [32, 32]
    """,
        devices=2,
    )


def test_export_for_several_platforms() -> None:
    run_jax("""
        from jax import export, lax
        cpu = jax.devices("cpu")[0]
        x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)))
        def both(f, platforms=("cpu", "minihlo")):
            data = export.export(jax.jit(f), platforms=platforms)(x).serialize()
            exported = export.deserialize(data)
            assert exported.platforms == platforms
            here, there = exported.call(x), exported.call(jax.device_put(x, cpu))
            assert all(y.device.platform == "minihlo" for y in jax.tree.leaves(here))
            assert all(y.device.platform == "cpu" for y in jax.tree.leaves(there))
            return [(np.asarray(a), np.asarray(b)) for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there))]
        for f in (jnp.sin, jnp.cumsum, lambda x: lax.top_k(x, 2), lambda x: jax.random.normal(jax.random.key(1), (3,)),
                  lambda x: jax.scipy.linalg.schur(x)[0], lambda x: jax.scipy.linalg.hessenberg(x),
                  lambda x: tuple(jnp.linalg.eigh(x)), lambda x: jnp.linalg.svd(x, compute_uv=False),
                  lambda x: jnp.linalg.inv(x), lambda x: tuple(jnp.linalg.eig(x))[0].sum()):
            for platforms in (("cpu", "minihlo"), ("minihlo", "cpu")):
                for a, b in both(f, platforms):
                    np.testing.assert_allclose(abs(a), abs(b), atol=1e-12)
        chosen = lambda x: lax.platform_dependent(x, minihlo=lambda x: x + 2, default=lambda x: x + 1)
        ((here, there),) = both(chosen)
        assert np.array_equal(here, x + 2) and np.array_equal(there, x + 1)
        here = jax.jit(chosen)(x)
        assert np.array_equal(here, x + 2)
    """)
