"""The JAX platform `minihlo` survives what a process goes through. A death by a signal fails these tests."""

import functools

import pytest

from ..jax_child import run_jax

pytestmark = pytest.mark.stress

_START = """
        import gc, signal, threading, time, random, logging
        logging.disable(logging.CRITICAL)
        from minihlo.interp.plugin.pjrt import runtime
        f = jax.jit(lambda a, b: a + b)
        x = jnp.arange(16.0)
        def bad(v):
            raise ValueError("boo")
        broken = jax.jit(lambda a: jax.pure_callback(bad, jax.ShapeDtypeStruct((), a.dtype), a))
        def fails_once():
            try:
                broken(x).block_until_ready()
            except jax.errors.JaxRuntimeError:
                return 1
        f(x, x), fails_once()
        def live():
            gc.collect()
            runtime.pool.sweep()
            return len(runtime.objects)
"""
run = functools.partial(run_jax, start=_START)


def test_arrays_freed_while_exceptions_unwind() -> None:
    run("""
        def unwinding():
            y = f(x, x) + 1
            z = np.asarray(y)[::2]
            raise KeyError
        before = live()
        for _ in range(500):
            try:
                unwinding()
            except KeyError:
                pass
            try:
                f(f(x, x), jnp.ones(3))
            except TypeError:
                pass
            fails_once()
        assert live() - before < 10
    """)


def test_recursion_to_the_limit() -> None:
    run("""
        def deeper(a):
            return deeper(f(a, a))
        for limit in range(200, 240):
            sys.setrecursionlimit(limit)
            fails(lambda: deeper(x))
        sys.setrecursionlimit(1000)
        assert f(x, x)[3] == 6
    """)


def test_everything_at_once() -> None:
    out = run(
        """
        slow = jax.jit(lambda x, n: jax.lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] + 1, s[1] + 1), (x, 0))[0])
        slow(x, 1), fails_once()
        calls, wrong, memory = [0] * 8, [], []
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
        def work(k):
            for i in range(10_000):
                y = f(x, x)
                calls[k] += 1
                if i % 100 == k:
                    fails_once() or wrong.append((k, i, "no error"))
                if i % 50 == k:
                    np.asarray(slow(y, 100))[3] == 106 or wrong.append((k, i))
                if i % 1000 == k:
                    gc.collect()
                    memory.append(resident())
                if i % 7 == k:
                    y[3] == 6 or wrong.append((k, i))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        armed = False
        def press():
            while any(t.is_alive() for t in threads):
                time.sleep(random.random() * 0.02)
                if armed:
                    seen = hits
                    os.kill(os.getpid(), signal.SIGINT)
                    for _ in range(100):
                        time.sleep(0.01 * (hits == seen))
        before, hits = live(), 0
        [t.start() for t in threads]
        presser = threading.Thread(target=press)
        presser.start()
        cancelled = 0
        def until_the_end():
            global armed, cancelled
            while presser.is_alive():
                try:
                    armed = True
                    np.asarray(slow(f(x, x), 100)), f(x, x).block_until_ready()
                except jax.errors.JaxRuntimeError as error:
                    "CANCELLED" in str(error) or wrong.append(error)
                    cancelled += 1
            time.sleep(0.1)
        def enduring(function):
            global armed, hits
            while True:
                try:
                    return function()
                except KeyboardInterrupt:
                    armed = False
                    hits += 1
        # Another interrupt may come while one is handled.
        enduring(lambda: enduring(lambda: enduring(until_the_end)))
        [t.join() for t in threads]
        after = live()
        print(f"{sum(calls)} calls, {hits} interrupts, {cancelled} cancelled, {after - before} more handles, "
            f"{memory[16]} MiB after a quarter, {memory[-1]} MiB at the end")
        assert calls == [10_000] * 8 and not wrong and hits > 1, (calls, wrong[:5], hits)
        assert after - before < 20 and memory[-1] - memory[16] < 20, (before, after, memory)
        """,
        timeout=900,
    )
    print(out)
