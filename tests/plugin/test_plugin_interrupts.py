"""Ctrl-C on the JAX platform `minihlo`: which running programs it stops, and which continue."""

import functools

from ..jax_child import run_jax

_START = """
        import signal, threading
        slow = jax.jit(lambda x, n: jax.lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] + 1, s[1] + 1), (x, 0))[0])
        forever = jax.jit(
            lambda x: jax.lax.while_loop(lambda s: s[0] > -1, lambda s: ((s[0] + 1) % 9, s[1] + 1), (0, x))[1])
        x = jnp.arange(4.0)
        slow(x, 1).block_until_ready()
        def press():
            try:
                signal.raise_signal(signal.SIGINT)
                raise AssertionError("not interrupted")
            except KeyboardInterrupt:
                pass
        found = {}
        def started_in_a_thread(function):
            def work():
                found["y"] = function()
            thread = threading.Thread(target=work)
            thread.start(), thread.join()
            return found["y"]
"""
run = functools.partial(run_jax, start=_START)


def test_second_sigint_stops_the_main_thread() -> None:
    run("""
        mine = forever(x)
        theirs = started_in_a_thread(lambda: slow(x, 1000))
        after = slow(mine, 10)
        press()
        assert not mine.is_ready()
        press()
        fails(lambda: mine, "CANCELLED", "interrupted")
        fails(lambda: after, "interrupted")
        assert theirs.tolist() == [1000, 1001, 1002, 1003]
        assert slow(x, 10)[0] == 10
    """)


def test_waiting_ends_before_the_thread() -> None:
    run("""
        theirs = started_in_a_thread(lambda: forever(x))
        mine = slow(x, 1000)
        uses = slow(theirs, 1000)
        press(), press()
        for y in (mine, uses):
            fails(lambda: y, "CANCELLED", "interrupted")
        assert not theirs.is_ready()
    """)


def test_sigint_is_deferred_inside_pjrt_callbacks() -> None:
    # An exception there goes to the hook, and the framework reads results that nobody has written.
    run("""
        import collections, time
        unraisable = []
        sys.unraisablehook = unraisable.append
        add = jax.jit(lambda a, b: a + b)
        y = jnp.ones((1000, 1000))
        calls = {
            "small": lambda: add(x, x), "large": lambda: add(y, y), "read": lambda: np.asarray(add(x, x)),
            "write": lambda: jnp.asarray(np.arange(5)), "wait": lambda: slow(x, 3).block_until_ready(),
            "delete": lambda: add(x, x).delete(),
        }
        for call in calls.values():
            call(), call()
        left, at = 0, None
        def trace(frame, event, _):
            global left, at
            if "minihlo.interp.plugin" not in str(frame.f_globals.get("__name__")):
                return trace if event == "call" else None
            left -= 1
            if left == 0:
                at = frame.f_globals["__name__"]
                signal.raise_signal(signal.SIGINT)
            return trace
        pressed, interrupted = collections.Counter(), collections.Counter()
        for name, call in calls.items():
            for k in range(1, 1000):
                left, at = k, None
                try:
                    sys.settrace(trace)
                    try:
                        call()
                    except jax.errors.JaxRuntimeError as error:
                        assert "CANCELLED" in str(error), error
                    sys.settrace(None)
                    if at:  # it was delayed
                        time.sleep(10)
                        raise AssertionError(f"{at}: not interrupted")
                except KeyboardInterrupt:
                    sys.settrace(None)
                    interrupted[name] += 1
                if at is None:
                    break
                pressed[name] += 1
            assert add(x, x).tolist() == [0, 2, 4, 6]
        assert not unraisable, unraisable
        assert pressed == interrupted and set(pressed) >= {"small", "large", "write"}, (pressed, interrupted)
    """)
