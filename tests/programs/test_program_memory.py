"""Programs hold what is still needed, and no more; sums over iterations are in order."""

import tracemalloc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.transform import primitive

TURNS, ROWS, INPUTS, WIDTH = 25, 8, 16, 32
RNG = np.random.default_rng(31)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.1).astype(np.float32)


def gated(p: Any, x: Any) -> Any:
    def cell(h: Any, v: Any) -> Any:
        r, z = (jax.nn.sigmoid(v @ p[k] + h @ p[k.upper()]) for k in "rz")
        n = jnp.tanh(v @ p["n"] + r * (h @ p["N"]))
        h = (1 - z) * n + z * h
        return h, h

    return jnp.square(lax.scan(cell, jnp.zeros((ROWS, WIDTH)), x)[1]).mean()


def program() -> tuple[str, list[np.ndarray]]:
    weights = {k: normal(INPUTS, WIDTH) for k in "rzn"} | {k: normal(WIDTH, WIDTH) for k in "RZN"}
    arguments = weights, normal(TURNS, ROWS, INPUTS)
    return jax.jit(jax.grad(gated)).lower(*arguments).as_text(), jax.tree.leaves(arguments)


def peak(text: str, arguments: list[np.ndarray]) -> int:
    """The most bytes that a run holds beside its arguments."""
    run = interp.load(text)
    for _ in range(2):
        run(*arguments)
    tracemalloc.start()
    try:
        run(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_backward_passes_have_used_is_not_held() -> None:
    most = peak(*program())
    # Seven values of each iteration are needed backward, and five are made there. The products for the gradients of
    # six weights take 0.5 MB if those of all iterations are held together.
    assert most < 20 * TURNS * ROWS * WIDTH * 4


def test_results_that_jax_copies_are_dropped_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    held, real = [], primitive.xla_client.batched_device_put

    def put(aval: Any, sharding: Any, arrays: list[np.ndarray], *rest: Any) -> Any:
        assert [array() for array in held] == [None] * len(held)
        held.append(weakref.ref(arrays[0]))
        return real(aval, sharding, [arrays[0].copy()], *rest)

    monkeypatch.setattr(primitive.xla_client, "batched_device_put", put)
    leaves = [normal(i + 1) for i in range(20)]
    results = interp.jit(lambda xs: [x + 1 for x in xs])(leaves)
    for x, y in zip(leaves, results, strict=True):
        np.testing.assert_array_equal(y, x + np.float32(1))
    assert len(held) == len(leaves)
