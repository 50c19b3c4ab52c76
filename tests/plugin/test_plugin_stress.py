"""The JAX platform `minihlo` survives what a process goes through. A death by a signal fails these tests."""

import functools

import pytest

from ..jax_child import run_jax

pytestmark = pytest.mark.stress

_START = """
        import gc, signal, threading, time, random, logging, warnings
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


def test_threads_with_errors_and_garbage_collection() -> None:
    run("""
        errors = []
        def work():
            for k in range(400):
                y = f(x, x)
                if k % 40 == 0:
                    errors.append(fails_once())
                if k % 97 == 0:
                    gc.collect()
                if k % 7 == 0:
                    np.asarray(y)
        before = live()
        gc.set_threshold(1)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads], [t.join() for t in threads]
        gc.set_threshold(700)
        assert errors == [1] * 80 and live() - before < 10
    """)


def test_memory_stays_bounded() -> None:
    run("""
        import resource
        big = jnp.ones(1 << 20)  # 8 MiB
        for n in (50, 200):
            for _ in range(n):
                big = f(big, big * 0)
            if n == 50:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10
    """)


def test_control_c() -> None:
    out = run("""
        armed = stop = False
        hits = cancelled = 0
        def press():
            while not stop:
                time.sleep(random.random() * 0.005)
                if armed:
                    os.kill(os.getpid(), signal.SIGINT)
                    # It may be lost where Python ignores exceptions, such as in a callback of the garbage collector.
                    for _ in range(50):
                        time.sleep(0.01 * armed)
        def until_pressed():
            global cancelled
            while True:
                try:
                    y = f(x, x)
                    np.asarray(y)[0], jnp.asarray(np.arange(5)).block_until_ready(), y.is_deleted(), x.device
                except jax.errors.JaxRuntimeError as error:
                    assert "CANCELLED" in str(error), error
                    cancelled += 1
        thread = threading.Thread(target=press)
        thread.start()
        end = time.time() + 4
        while time.time() < end:
            try:
                armed = True
                until_pressed()
            except KeyboardInterrupt:
                armed = False
                hits += 1
        stop = True
        thread.join()
        print(hits)
        assert f(x, x)[3] == 6
    """)
    assert int(out) > 1


def test_control_c_breaks_off_a_long_program() -> None:
    run("""
        forever = jax.jit(lambda n: jax.lax.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, n))
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.time()
        try:
            forever(0)
            time.sleep(5)
        except KeyboardInterrupt:
            pass
        except jax.errors.JaxRuntimeError as error:
            assert "CANCELLED" in str(error)
            try:
                time.sleep(5)
            except KeyboardInterrupt:
                pass
        assert time.time() - start < 4
    """)


def test_fork() -> None:
    run("""
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(f(x, x), 2 * np.arange(16)) else 1)
        assert os.waitpid(child, 0)[1] == 0
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
