"""How much the arrays of the JAX platform `minihlo` may take. Each test is a process of its own."""

import functools

from ..jax_child import run_jax

_START = """
        import gc, resource, time
        MiB = 1 << 20
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
        double = jax.jit(lambda a: a + a)
        array = lambda n: jax.device_put(np.broadcast_to(1.0, n * MiB // 8))
        array(1), double(array(1))
"""
run = functools.partial(run_jax, start=_START)
_FULL = "JaxRuntimeError: RESOURCE_EXHAUSTED"


def test_arrays_stay_below_the_limit() -> None:
    code = (
        _START
        + f"""
        kept = [array(10) for _ in range(9)]
        fails(lambda: array(20), "{_FULL}", "an array of float64 [2621440] takes 20.0 MiB, but only")
        fails(lambda: [double(k) for k in kept], "{_FULL}", "the result of jit__lambda takes 10.0 MiB")
        many = jax.jit(lambda a: jnp.concatenate([a] * 12).sum())
        fails(lambda: many(kept[0]), "{_FULL}")
        fails(lambda: [kept.append(jnp.ones(1000).block_until_ready()) for _ in range(20000)], "{_FULL}")
        assert double(jnp.ones(2)).tolist() == [2, 2]
        del kept
        kept = [double(array(10)) for _ in range(8)]
        for _ in range(50):
            kept[3] = double(kept[3])  # what is dropped makes room
        stats = jax.devices()[0].memory_stats()
        assert stats["bytes_limit"] == 100 * MiB and 80 * MiB <= stats["bytes_in_use"] <= 100 * MiB, stats
        """
    )
    run_jax(code, MINIHLO_MEMORY_LIMIT="100MiB")
    run_jax(code, JAX_PJRT_CLIENT_CREATE_OPTIONS="memory_limit:100MiB", MINIHLO_MEMORY_LIMIT="1GiB")


def test_memory_is_given_back_soon_after_an_array_is_dropped() -> None:
    run("""
        before = resident()
        big = array(300)
        view = np.asarray(array(100))
        assert resident() - before > 380 * MiB
        del big
        end = time.monotonic() + 20
        while resident() - before > 150 * MiB and time.monotonic() < end:
            time.sleep(0.05)
        assert 90 * MiB < resident() - before < 150 * MiB and view.all()
        del view
        while resident() - before > 50 * MiB and time.monotonic() < end:
            time.sleep(0.05)
        assert resident() - before < 50 * MiB
    """)
