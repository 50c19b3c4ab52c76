"""`interp.profiling`: which calls are sampled, that nothing of the program changes, and that faults do not end it."""

import functools
import warnings
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import pjit

from minihlo import interp

from .profile_oracle import assert_same, counts


def make() -> Any:
    """A training step, jitted before anything is profiled."""

    @functools.partial(jax.jit, donate_argnums=0, static_argnames="n")
    def step(w: Any, x: Any, n: int = 2) -> Any:
        g = (x * w).astype(jnp.float8_e4m3fn)
        return w - 0.25 * n * g.astype(jnp.float32), g

    return step


def loop(step: Any, key: Any, iterations: int = 7) -> list[np.ndarray]:
    noise = jax.jit(lambda key: jax.random.normal(key, (8,)))
    w, out = jnp.ones(8), []
    for i in range(iterations):
        w, g = step(w, jnp.full(8, 2.0 ** -(i + 5)), n=3)
        out += [np.asarray(g), np.asarray(noise(jax.random.fold_in(key, i))), np.asarray(jnp.where(w > 0, w, 0))]
    return out


def converted(p: interp.profiling) -> Any:
    (tensor,) = [t for t in p.tensors if t.short == "convert" and t.statistics.format.name == "f8E4M3FN"]
    return tensor


@pytest.mark.parametrize("explicit", [False, True])
def test_a_sample_of_calls_is_counted_and_no_result_changes(explicit: bool) -> None:
    step, key = make(), jax.random.key(1)
    plain = loop(step, key)
    if explicit:
        p = interp.profiling(every=3)
        watched = loop(p(step), key)
    else:
        with interp.profiling(every=3) as p:
            watched = loop(step, key)
    again = loop(step, key)
    for a, b, c in zip(plain, watched, again, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
    assert p.failures == []
    assert [s["step"] for s in p.steps if s["program"] == "jit(step)"] == [0, 3, 6]
    results = [int(c) for i in (0, 3, 6) for c in plain[3 * i].view(np.uint8)]
    right = counts("f8E4M3FN", results)
    assert_same(converted(p).statistics.data(), right)
    assert [s.step for s in converted(p).steps] == [0, 3, 6]
    assert converted(p).source == "g = (x * w).astype(jnp.float8_e4m3fn)"


def test_calls_are_chosen_by_their_numbers() -> None:
    with interp.profiling(calls=[1, 4]) as p:
        loop(make(), jax.random.key(1))
    assert [s["step"] for s in p.steps if s["program"] == "jit(step)"] == [1, 4]
    assert [s["step"] for s in p.steps if "lambda" in s["program"]] == [1, 4]


def test_jax_functions_are_not_sampled() -> None:
    before = pjit._pjit_call_impl_python, pjit._get_fastpath_data
    with interp.profiling(every=1) as p:
        jnp.where(jnp.arange(3) > 1, 1.0, 0.0) + jnp.ones(3)
    assert (p.steps, p.failures) == ([], [])
    make()(jnp.ones(8), jnp.ones(8))
    assert p.steps == []
    with pytest.raises(ZeroDivisionError), interp.profiling():
        _ = 1 / 0
    assert (pjit._pjit_call_impl_python, pjit._get_fastpath_data) == before


def test_failed_samples_do_not_stop_the_program() -> None:
    @jax.jit
    def f(x: Any) -> Any:
        return jax.pure_callback(lambda x: 1 / 0, jax.ShapeDtypeStruct((), jnp.float32), x)

    @jax.jit
    def g(x: Any) -> Any:
        return x + 1

    with warnings.catch_warnings(record=True) as caught, interp.profiling(every=1) as p:
        warnings.simplefilter("always")
        with pytest.raises(Exception, match="division by zero"):
            f(jnp.float32(1)).block_until_ready()
        assert float(g(jnp.float32(1))) == 2
    assert len(p.failures) == 1
    assert "call 0 was not profiled: " in p.failures[0]
    assert "division by zero" in p.failures[0]
    assert any("was not profiled" in str(w.message) for w in caught)
    assert [s["program"] for s in p.steps] == ["jit(g)"]


def test_effects_happen_once() -> None:
    seen = []

    @jax.jit
    def f(x: Any) -> Any:
        jax.experimental.io_callback(lambda x: seen.append(float(x)), None, x)
        return x

    with warnings.catch_warnings(), interp.profiling(every=1) as p:
        warnings.simplefilter("ignore")
        f(jnp.float32(2)).block_until_ready()
        jax.effects_barrier()
    assert "expected a function without effects, which must not happen twice, got IO" in p.failures[0]
    assert (seen, p.steps, len(p.failures)) == ([2.0], [], 1)


def test_gradients_and_plain_functions_are_sampled() -> None:
    f = jax.jit(lambda x: (x * x).astype(jnp.bfloat16))
    with interp.profiling(every=1) as p:
        jax.grad(lambda x: f(x).sum().astype(jnp.float32))(jnp.ones(3))
    assert {t.statistics.format.name for t in p.tensors if t.short == "convert"} == {"f32", "bf16"}
    q = interp.profiling(every=1)
    assert q(lambda x: x * 2)(np.float32(3)) == 6  # not jitted, of numpy
    assert [t.short for t in q.tensors if t.rounds] == ["multiply"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": 0}, "expected an integer of at least 1, got 0"),
        ({"every": 1.5}, "expected an integer of at least 1, got 1.5"),
        ({"every": 2, "calls": [1]}, "expected every or calls, got both"),
        ({"calls": ["a"]}, "expected numbers of calls"),
        ({"calls": 3}, "expected numbers of calls, got 3"),
        ({"blocks": "mxfp9"}, "expected a block format"),
    ],
)
def test_options_that_are_not_valid_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(interp.InputError, match=words):
        interp.profiling(**options)
    with pytest.raises(interp.InputError, match="expected a function, got int"):
        interp.profiling()(3)  # type: ignore[arg-type]
