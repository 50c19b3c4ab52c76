"""Programs on the JAX platform `minihlo` that run while their caller goes on. Each test is a process of its own."""

import functools

import pytest

from ..jax_child import run_jax
from ..thinned import rotated

_START = """
        import gc, signal, threading, time, logging, warnings
        logging.disable(logging.CRITICAL)
        # n iterations of a loop, microseconds each. As n is not known before, it runs beside its caller.
        slow = jax.jit(lambda x, n: jax.lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] + 1, s[1] + 1), (x, 0))[0])
        endless = lambda x: jax.lax.while_loop(lambda s: s[0] > -1, lambda s: ((s[0] + 1) % 9, s[1] + 1), (0, x))[1]
        forever = jax.jit(endless)
        add = jax.jit(lambda a, b: a + b)
        x = jnp.arange(4.0)
        slow(x, 1).block_until_ready(), add(x, x)
        # A program that runs until it is let go.
        from minihlo.ops.programs import custom_call
        entered, let_go = threading.Event(), threading.Event()
        @custom_call.target("minihlo.wait")
        def wait(a):
            entered.set()
            assert let_go.wait(100)
            time.sleep(0.02)  # so that no program of the kind is counted as a quick one
            return a
        waits = jax.jit(lambda a: jax.ffi.ffi_call("minihlo.wait", jax.ShapeDtypeStruct(a.shape, a.dtype))(slow(a, 1)))
        def begun(a):
            entered.clear(), let_go.clear()
            result = waits(a)
            assert entered.wait(100)
            return result
        def interrupted(function):
            # Ctrl-C soon after the function has begun, which does not end by itself.
            try:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                function()
            except KeyboardInterrupt:
                return
            except jax.errors.JaxRuntimeError as error:  # where it was our function that waited
                assert "CANCELLED" in str(error), error
                try:
                    time.sleep(100)
                except KeyboardInterrupt:
                    return
            raise AssertionError("not interrupted")
"""
run = functools.partial(run_jax, start=_START)
_N = 100_000


def test_a_call_returns_while_the_work_runs() -> None:
    run("""
        y = begun(x)
        z = add(y, y)
        y.shape, y.dtype, y.nbytes, y.device, y.is_deleted(), repr(y.sharding)
        assert not y.is_ready() and not z.is_ready()
        let_go.set()
        assert y.block_until_ready().is_ready() and y.tolist() == [1, 2, 3, 4]
        assert z.tolist() == [2, 4, 6, 8]
        y = begun(x)
        threading.Timer(0.1, let_go.set).start()
        assert np.asarray(y).tolist() == [1, 2, 3, 4]
    """)


def test_a_program_that_has_been_quick_runs_at_once() -> None:
    run("""
        # A scatter into many elements looks long, but takes only the time of a copy.
        few = jax.jit(lambda a: a.at[jnp.arange(10)].add(1.))
        a = jnp.zeros(100_000)
        assert not few(a).block_until_ready()[11]
        assert any(few(a).is_ready() for _ in range(100))  # not all, on a machine that has other work
    """)


def test_errors_come_when_the_result_is_wanted() -> None:
    run(f"""
        @jax.jit
        def fails_late(x):
            y = jax.lax.while_loop(lambda s: s[1] < {_N}, lambda s: (s[0] + 1, s[1] + 1), (x, 0))[0]
            return jax.ffi.ffi_call("minihlo.fail",
                (jax.ShapeDtypeStruct((2, 2), x.dtype), jax.ShapeDtypeStruct((2,), x.dtype)), has_side_effect=True)(y)
        @custom_call.target("minihlo.fail")
        def fail(a):
            raise ValueError("the matrix is sad")
        v, w = fails_late(jnp.ones((2, 2)))
        later = add(v, v)
        fails(lambda: w, "JaxRuntimeError: INTERNAL", "the matrix is sad")
        fails(lambda: np.asarray(v), "the matrix is sad")
        fails(lambda: later, "JaxRuntimeError: INTERNAL", "the matrix is sad")
        fails(lambda: add(later, later), "the matrix is sad")
        assert add(x, x).tolist() == [0, 2, 4, 6]
    """)


def test_what_is_started_keeps_its_arguments() -> None:
    run(
        """
        donates = jax.jit(lambda a, b: a + b, donate_argnums=0)
        donates(x + 1, x), jax.device_put(x, jax.devices()[1])  # compiled
        y = begun(x)
        moved = jax.device_put(y, jax.devices()[1])
        z = donates(y, x)
        assert y.is_deleted() and not z.is_ready() and not moved.is_ready()
        fails(lambda: y + 1, "deleted")
        dropped = add(z, z)
        dropped.delete()
        again = add(z, z)
        del z, dropped
        gc.collect()
        let_go.set()
        assert again.tolist() == [2 * (1 + 2 * i) for i in range(4)]
        assert moved.tolist() == [1 + i for i in range(4)] and moved.device.id == 1
        fails(lambda: begun(jnp.ones(3)).delete() or let_go.set() or y, "deleted")
        """,
        devices=2,
    )


def test_numpy_reads_what_has_been_deleted() -> None:
    run("""
        gives = jax.jit(lambda a: a + 1, donate_argnums=0)
        for forget in (lambda a: a.delete(), gives, lambda a: None):
            a = jnp.arange(1000.0) + 1
            view = np.asarray(a)
            forget(a)
            del a
            for k in range(300):
                jnp.full(1000, float(k))
            assert (view == np.arange(1000.0) + 1).all()
    """)


def test_python_functions_and_work_in_flight() -> None:
    # A program that calls Python waits for its arguments, and runs where it is called.
    out = run(f"""
        where = []
        def host(a):
            where.append(threading.current_thread() is threading.main_thread())
            inner = slow(x, {_N // 10})  # a program that a called function starts, and waits for
            return np.asarray(a) + np.asarray(inner)[0]
        @jax.jit
        def calls(a, k):
            jax.debug.print("{{}} {{}}", k, a[0], ordered=True)
            return jax.pure_callback(host, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
        y = slow(x, {_N})
        z = calls(y, 1)
        quick = calls(x, 2)
        jax.effects_barrier()
        assert z[0] == {_N + _N // 10} and quick[0] == {_N // 10} and where == [True, True]
    """)
    assert out.split("\n")[:2] == [f"1 {_N}.0", "2 0.0"]


def test_many_programs_from_many_threads() -> None:
    run("""
        results = {}
        def work(k):
            y = jnp.full(4, float(k))
            kept = []
            for i in range(60):
                y = slow(y, 200)
                if i % 7 == k:
                    kept.append(np.asarray(y)[0])
                if i % 13 == k:
                    y = add(y, y) - y
                if i % 11 == 0:
                    gc.collect()
            results[k] = float(y[0]), kept
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert results == {k: (k + 12000, [k + 200 * (i + 1) for i in range(60) if i % 7 == k]) for k in range(6)}
    """)


def test_memory_stays_bounded_however_far_ahead_the_caller_is() -> None:
    run("""
        import resource
        from minihlo.interp.plugin.pjrt import runtime
        steps = jax.jit(lambda x, n: jax.lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] + 1, s[1] + 1), (x, 0))[0])
        a = jnp.zeros(1 << 20)  # 8 MiB
        def run(n):
            y = a
            for _ in range(n):
                y = steps(y, 2)
            assert y[0] == 2 * n
        run(60)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(200)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 << 10
        gc.collect(), runtime.pool.sweep()
        assert len(runtime.objects) < 200
    """)


def test_several_devices() -> None:
    run(
        f"""
        mesh = Mesh(np.array(jax.devices()), ("x",))
        def sums(a):
            return jax.lax.fori_loop(0, 3000, lambda i, s: s + jax.lax.psum(a, "x"), a)
        mapped = jax.jit(jax.shard_map(sums, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
        y = mapped(np.arange(4.0))
        z = y + 1
        assert z.tolist() == [18001, 18002, 18003, 18004]
        p = jax.pmap(lambda a: slow(jax.lax.psum(a, "i") * jnp.ones(2), {_N // 100}), axis_name="i")
        assert p(np.arange(4.0)).tolist() == [[6 + {_N // 100}] * 2] * 4
        """,
        devices=4,
    )


def test_control_c_goes_to_the_caller_and_the_work_goes_on() -> None:
    run("""
        for wait in (lambda y: y.block_until_ready(), np.asarray, lambda y: time.sleep(100)):
            y = begun(x)
            interrupted(lambda: wait(y))
            assert not y.is_ready()
            let_go.set()
            assert y.tolist() == [1, 2, 3, 4]  # nothing is lost
    """)


def test_control_c_pressed_twice_breaks_off_what_runs() -> None:
    run("""
        y = forever(x)
        z = add(y, y)
        for _ in range(2):
            interrupted(y.block_until_ready)
        fails(lambda: y, "CANCELLED", "interrupted")
        fails(lambda: z, "interrupted")
        assert float(slow(x, 10)[0]) == 10
    """)


def test_fork_with_work_in_flight() -> None:
    run(f"""
        warnings.simplefilter("ignore")
        y = slow(x, {_N})
        z = add(y, y)
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            ok = np.asarray(z)[0] == 2 * {_N} and np.asarray(slow(x, 2000))[1] == 2001
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert z[0] == 2 * {_N}
    """)


@pytest.mark.parametrize("how", rotated(["pass", "sys.exit()", "y.copy_to_host_async()", "del y"], every=2))
def test_exit_with_work_in_flight(how: str) -> None:
    run(
        f"""
        many = [slow(x, {_N}) for _ in range(5)]
        y = forever(x)
        after = [add(y, y) for _ in range(10)]
        time.sleep(0.05)
        {how}
    """,
        is_new=True,
    )


def test_garbage_collection_in_the_thread_that_computes() -> None:
    # What is freed there runs the user's code, which may wait for what that thread is to compute next.
    run("""
        seen = []
        class Odd:
            def __init__(self):
                self.me = self
            def __del__(self):
                y = slow(x, 50)
                seen.append((threading.current_thread().name, np.asarray(y)[0], np.asarray(add(y, y))[0]))
        gc.set_threshold(50)
        for _ in range(40):
            [Odd() for _ in range(20)]
            y = slow(x, 500)
            assert np.asarray(y)[1] == 501
        gc.set_threshold(700)
        # Whether that thread collects by itself hangs on how much is allocated there; here it surely does.
        @custom_call.target("minihlo.collect")
        def collect(a):
            gc.collect()
            time.sleep(0.02)  # so that no program of the kind is counted as a quick one
            return a
        target = jax.ffi.ffi_call("minihlo.collect", jax.ShapeDtypeStruct(x.shape, x.dtype))
        collects = jax.jit(lambda a: target(slow(a, 1)))
        gc.disable()
        for _ in range(5):
            [Odd() for _ in range(20)]
            assert np.asarray(collects(x))[1] == 2
        gc.enable()
        end = time.monotonic() + 60
        while len(seen) < 900 and time.monotonic() < end:
            time.sleep(0.01)
            gc.collect()
        assert len(seen) == 900 and {(a, b) for _, a, b in seen} == {(50, 100)}, (len(seen), seen[:5])
        assert "minihlo" in {name for name, _, _ in seen}
    """)


def test_arrays_freed_while_exceptions_unwind() -> None:
    run("""
        from minihlo.interp.plugin.pjrt import runtime
        def bad(v):
            raise ValueError("boo")
        broken = jax.jit(lambda a: jax.pure_callback(bad, jax.ShapeDtypeStruct((), a.dtype), a))
        def live():
            gc.collect()
            runtime.pool.sweep()
            return len(runtime.objects)
        def unwinding():
            y = add(x, x) + 1
            z = np.asarray(y)[::2]
            raise KeyError
        def all_three():
            try:
                unwinding()
            except KeyError:
                pass
            try:
                add(add(x, x), jnp.ones(3))
            except TypeError:
                pass
            fails(lambda: broken(x).block_until_ready(), "boo")
        all_three()
        before = live()
        for _ in range(100):
            all_three()
        assert live() - before < 10
    """)


def test_recursion_to_the_limit() -> None:
    run("""
        def deeper(a):
            return deeper(add(a, a))
        for limit in range(200, 240):
            sys.setrecursionlimit(limit)
            fails(lambda: deeper(x))
        sys.setrecursionlimit(1000)
        assert add(x, x)[3] == 6
    """)
