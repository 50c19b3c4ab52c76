"""Processes on the JAX platform `minihlo` end well, whatever their threads do then. An abort or a hang fails these."""

import functools

import pytest

from ..jax_child import run_jax

run = functools.partial(run_jax, is_new=True)

#: What daemon threads do until the end comes: calls, errors, work in flight that they wait for or not, new programs.
_THREADS = """
        import gc, logging, random, threading, time
        logging.disable(logging.CRITICAL)
        draw = random.Random(seed)
        add = jax.jit(lambda a, b: a + b)
        slow = jax.jit(lambda x, n: jax.lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] + 1, s[1] + 1), (x, 0))[0])
        forever = jax.jit(
            lambda x: jax.lax.while_loop(lambda s: s[0] > -1, lambda s: ((s[0] + 1) % 9, s[1] + 1), (0, x))[1])
        x = jnp.arange(16.0)
        def bad(_):
            raise ValueError("boo")
        broken = jax.jit(lambda a: jax.pure_callback(bad, jax.ShapeDtypeStruct((), a.dtype), a))
        add(x, x), slow(x, 1), fails(lambda: broken(x))
        lengths = 10, 1000, 30000
        actions = [
            lambda r: add(x, x),
            lambda r: broken(x).block_until_ready(),
            lambda r: slow(x, r.choice(lengths)),
            lambda r: np.asarray(slow(x, r.choice(lengths))),
            lambda r: np.asarray(add(slow(x, 5000), x)),
            lambda r: jax.jit(lambda a: a * r.randrange(1000))(x),
            lambda r: jnp.asarray(np.arange(9)),
            lambda r: gc.collect(),
            lambda r: time.sleep(r.random() * 0.02),
        ]
        chosen = draw.sample(actions, draw.randrange(1, len(actions)))
        def work(k):
            mine = random.Random(100 * seed + k)
            while True:
                try:
                    mine.choice(chosen)(mine)
                except jax.errors.JaxRuntimeError:
                    pass
        for k in range(seed % 4):
            threading.Thread(target=work, args=(k,), daemon=True).start()
        if draw.random() < 0.3:
            gc.set_threshold(draw.choice([1, 50]))
        kept = [add(x, x) for _ in range(draw.randrange(50))]
        kept.append(kept)
        kept += [slow(x, 100000) for _ in range(draw.randrange(4))]
        if draw.random() < 0.4:
            last = forever(x)
            kept += [add(last, last) for _ in range(5)]
        time.sleep(draw.random() * 0.15)
        draw.choice([sys.exit, gc.collect, lambda: None])()
"""


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100))
def test_exit_with_threads_at_work(seed: int) -> None:
    run(f"        seed = {seed}" + _THREADS)


@pytest.mark.parametrize("seed", [2, 3])
def test_exit_with_a_few_threads_at_work(seed: int) -> None:
    run(f"        seed = {seed}" + _THREADS)


def test_exit_while_a_thread_holds_a_lock() -> None:
    # Such as a logger that writes an array which is not there yet.
    out = run("""
        import atexit, threading
        lock, begun = threading.Lock(), threading.Event()
        atexit.register(lambda: print(lock.acquire()))
        forever = jax.jit(
            lambda x: jax.lax.while_loop(lambda s: s[0] > -1, lambda s: ((s[0] + 1) % 9, s[1] + 1), (0, x))[1])
        def work():
            with lock:
                y = forever(jnp.arange(4.0))
                begun.set()
                str(y)
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
    """)
    assert out == "True\n"
