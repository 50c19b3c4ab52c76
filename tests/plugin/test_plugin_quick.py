"""The short ways of the JAX platform `minihlo`: machine code that answers as Python does, and small programs."""

from ..jax_child import run_jax


def test_machine_code_answers_as_the_python_functions() -> None:
    run_jax("""
        import ctypes, platform
        from minihlo.interp.plugin import buffers, devices, executable, work
        from minihlo.interp.plugin.pjrt import native, runtime
        python, install = {}, native.install
        def spied():
            python.update({name: getattr(runtime.api, name) for name in native.functions()})
            install()
        native.install = spied
        add = jax.jit(lambda a, b: a + b)
        kept = add(jnp.ones((2, 3)), jnp.ones((2, 3)))
        gone = add(kept, kept)
        gone.delete()
        task = work.Task(lambda process: [], 1)
        kind = buffers.kind_of(devices.devices(1)[0].memories[0], 11, (4,))
        buffers.add(buffers.Buffer(task.outputs[0], kind))
        failed = buffers.ErrorObject(ValueError("no"))
        buffers.add(buffers.Buffer(failed, kind))
        handles = {
            "Buffer": [h for h, o in runtime.objects.items() if type(o) is buffers.Buffer],
            "Executable": [h for h, o in runtime.objects.items() if type(o) is executable.Executable],
            "Memory": [kind.memory.handle],
            "Event": [runtime.ready, runtime.pool.add(failed)],
        }
        states = {type(runtime.objects[h].array).__name__ for h in handles["Buffer"]}
        assert states == {"ndarray", "NoneType", "Deferred", "ErrorObject"}, states
        told = []
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda *given: told.append(given))
        at = ctypes.cast(callback, ctypes.c_void_p).value
        def thing(word):
            return runtime.objects.get(word, word)
        def ask(function, handle):
            words = (ctypes.c_uint64 * 6)(48, 0, handle, at, 77, 0xABCDEF)
            result = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(function)(ctypes.addressof(words))
            called = [(thing(error), argument) for error, argument in told]
            told.clear()
            return thing(result), [thing(w) for w in words], called
        try:
            native.executable_memory(b"\\xc3")
            is_native = sys.platform == "linux" and platform.machine() == "x86_64"
        except (OSError, AttributeError):  # a system that has no such memory
            is_native = False
        count = 0
        for name, function in python.items():
            assert (getattr(runtime.api, name) != function) == is_native, name
            for handle in handles[name.partition("_")[0]]:
                assert ask(getattr(runtime.api, name), handle) == ask(function, handle), name
                count += 1
        assert count > 40, count
        kept.block_until_ready()
    """)


def test_small_programs_repeated() -> None:
    run_jax("""
        import gc
        from minihlo.interp.plugin import executable; from minihlo.interp.plugin.pjrt import runtime
        f32 = np.float32
        def quick():
            return {e.name for e in runtime.objects.values() if type(e) is executable.Executable and e.quick}
        def several(a, b): return a + b, a.T, (a * b).sum(), jnp.float32(7)
        def same(a): return jax.lax.optimization_barrier(a)
        def narrow(a): return a.astype(jnp.float8_e4m3fnuz)
        def constant(): return jnp.arange(3.0)
        draw = np.random.default_rng(0)
        functions = [jax.jit(f) for f in (several, same, narrow, constant)]
        kept = []
        for turn in range(60):
            a, b = draw.normal(size=(2, 3, 3)).astype(f32)
            x, y = jax.device_put(a), jax.device_put(b)
            wanted = [(a + b, a.T, (a * b).sum(), f32(7)), (a,), (a.astype(ml_dtypes.float8_e4m3fnuz),),
                      (np.arange(3.0),)]
            for f, given, values in zip(functions, ((x, y), (x,), (x,), ()), wanted):
                f(*given)  # is dropped, so that its buffers are used again
                results = f(*given)
                results = results if isinstance(results, tuple) else (results,)
                kept += [(r, v) for r, v in zip(results, values)]
                assert all(r.unsafe_buffer_pointer() != x.unsafe_buffer_pointer() for r in results)
            if turn % 7 == 0:
                kept, views = kept[::2], [(np.asarray(r), v) for r, v in kept[1::2]]
        assert {"jit_several", "jit_same", "jit_narrow", "jit_constant"} <= quick(), quick()
        gc.collect(), runtime.pool.sweep()
        for result, value in [*kept, *views]:
            if value.dtype.itemsize == 1:
                assert np.asarray(result).tobytes() == value.tobytes()
            else:
                assert result.dtype == value.dtype and np.allclose(np.asarray(result), value, rtol=1e-5, atol=1e-6)
    """)


def test_small_programs_see_what_is_unusual() -> None:
    run_jax("""
        from minihlo import interp
        from minihlo.interp.plugin import executable; from minihlo.interp.plugin.pjrt import runtime
        def small(a, b): return a + b
        add = jax.jit(small)
        one, tiny = (jnp.asarray(x, jnp.float8_e4m3fn) for x in (1, 0.05))
        for _ in range(3):
            assert add(one, tiny) == 1
            with interp.policy(rounding="up"):
                assert add(one, tiny) == 1.125
        found = [e for e in runtime.objects.values() if type(e) is executable.Executable and e.name == "jit_small"]
        assert found and all(e.quick is not None for e in found)
        gone = add(one, one)
        gone.delete()
        fails(lambda: add(gone, one), "deleted")
        later = jax.jit(lambda n: jax.lax.while_loop(lambda i: i < n, lambda i: i + 1, 0).astype(jnp.float8_e4m3fn))
        for _ in range(3):
            assert add(later(96), one) == 96
        draw = jax.jit(lambda: jax.lax.rng_uniform(0.0, 1.0, (2,)))
        assert (draw() == draw()).all() and (draw() == draw()).all()
    """)


def test_threads_share_a_small_program() -> None:
    run_jax("""
        import threading
        from minihlo.interp.plugin.pjrt import runtime
        sys.setswitchinterval(1e-5)
        add = jax.jit(lambda a, b: a + b)
        wrong = []
        def work(k):
            x = jnp.full(4, k, jnp.int32)
            held = []
            for i in range(1500):
                held.append((add(x, i), k + i))
                if i % 5 == k % 5:
                    wrong.extend(w for y, w in held if y.tolist() != [w] * 4)
                    held.clear()
                if i % 50 == 0:
                    runtime.pool.sweep()
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not wrong, wrong
    """)
