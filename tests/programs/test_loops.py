"""Loops: each iteration gives what its body gives alone; results against Python, numpy and JAX."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp

from ..thinned import thinned

F8, BF16, I16 = jnp.float8_e4m3fnuz, jnp.bfloat16, np.int16
RNG = np.random.default_rng(7)
TABLE = RNG.standard_normal((5, 4)).astype(np.float32)
MATRIX = (RNG.standard_normal((4, 4)) / 4).astype(np.float32)
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38]


def random_array(dtype: Any, *shape: int) -> np.ndarray:
    """Numbers with NaN, infinities, both zeros and subnormals among them; for integers small ones."""
    if np.issubdtype(np.dtype(dtype), np.integer):
        return RNG.integers(-3, 9, shape).astype(dtype)
    x = RNG.standard_normal(shape).astype(np.float32)
    x.reshape(-1)[: x.size // 4] = np.resize(SPECIAL, x.size // 4)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def bits(x: Any) -> bytes:
    """The bits, with one NaN for all."""
    x = np.asarray(x)
    if x.dtype.kind not in "iub":
        x = x.copy()
        x[np.isnan(x.astype(np.complex128))] = np.nan
    return np.ascontiguousarray(x).tobytes()


def load(function: Callable[..., Any], *arguments: Any) -> interp.LoadedProgram:
    return interp.load(jax.jit(function).lower(*arguments).as_text())


MAPPED: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "chain": (lambda v: jnp.where(v > 0, jnp.exp(-v), v / 3) - jnp.abs(v), (4,)),
    "softmax": (lambda v: jax.nn.softmax(v.astype(np.float32)), (7,)),
    "argmax": (lambda v: jnp.argmax(v), (9,)),
    "sort": (lambda v: jnp.sort(v, 0), (5, 2)),
    "pad": (lambda v: jnp.pad(v, ((1, 2), (0, 1))), (3, 4)),
    "pool": (lambda v: lax.reduce_window(v, np.asarray(0, v.dtype), lax.add, (3,), (2,), "SAME"), (9,)),
    "cumulative sum": (lambda v: jnp.cumsum(v), (9,)),
    "gather of a shared table": (lambda v: jnp.asarray(TABLE)[jnp.argsort(v)[:2]], (4,)),
    "scatter by its own indices": (lambda v: jnp.zeros(6, v.dtype).at[jnp.argsort(v)].add(v), (4,)),
    "slice at its own place": (lambda v: lax.dynamic_slice(v, (jnp.argmax(v),), (2,)), (6,)),
    "three branches": (
        lambda v: lax.switch(jnp.argmax(v), [lambda u: u + 1, lambda u: u * u[0], lambda u: u[:1] - u], v),
        (5,),
    ),
    "branches in a branch": (
        lambda v: lax.cond(v[0] > 0, lambda u: lax.cond(u[1] > 0, lambda t: t, lambda t: t + t, u), lambda u: -u, v),
        (3,),
    ),
    "inner loop": (lambda v: lax.fori_loop(0, 11, lambda i, c: c * v + i.astype(v.dtype), v), (3,)),
    "inner loop of its own length": (
        lambda v: lax.while_loop(lambda c: c > 1, lambda c: c * np.asarray(0.5, c.dtype), jnp.minimum(v[0], 99)),
        (2,),
    ),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned(
        itertools.product(MAPPED, (np.float32, BF16, F8, np.int32)),
        lambda name, dtype: list(MAPPED).index(name) % 4 == [np.float32, BF16, F8, np.int32].index(dtype),
    ),
)
@np.errstate(all="ignore")
def test_map_gives_the_bits_of_single_iterations(name: str, dtype: Any) -> None:
    body, shape = MAPPED[name]
    x = random_array(dtype, 17, *shape)
    single = load(body, x[0])
    (found,) = load(lambda x: lax.map(body, x), x)(x)
    assert bits(found) == bits(np.stack([single(v)[0] for v in x]))


#: A body, the first state, and a row.
SCANNED: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "average": (lambda c, v: (0.9 * c + v, c), np.float32(0), np.float32(0)),
    "running sum": (lambda c, v: (c + v, (c, c + v)), np.float32(1), np.float32(0)),
    "running product": (lambda c, v: (c * v, c), BF16(1), BF16(0)),
    "no output": (lambda c, v: (0.5 * c + v, None), np.zeros(3, np.float32), np.zeros(3, np.float32)),
    "f8": (lambda c, v: (c * F8(0.75) + v, c[::-1]), np.ones(5, F8), np.zeros(5, F8)),
    "f8 and f32": (lambda c, v: ((c.astype(np.float32) * 0.5 + v).astype(F8), c), F8(1), np.float32(0)),
    "f8 maximum": (lambda c, v: (jnp.maximum(c, v), jnp.where(c > v, c / v, v)), np.ones(5, F8), np.zeros(5, F8)),
    "several states": (lambda c, v: ((c[1] + v, c[0] * v - c[1]), c[1]), (np.float32(0), np.float32(2)), np.float32(0)),
    "row before": (lambda c, v: (v, v - c), np.float32(3), np.float32(0)),
    "booleans": (lambda c, v: (c != (v > 0), c), np.bool_(True), np.float32(0)),
    "cell": (
        lambda c, v: ((h := jnp.tanh(MATRIX @ c + MATRIX.T @ v)), h * 2),
        np.zeros(4, np.float32),
        np.zeros(4, np.float32),
    ),
    "f16 and other types": (
        lambda c, v: (jnp.tanh(c * 2 - v).astype(np.float16), (c > 0.5, c.astype(F8), c.astype(np.int32))),
        np.ones(3, np.float16),
        np.zeros(3, np.float16),
    ),
    "computed places": (
        lambda c, v: (lax.dynamic_update_slice(c, v[:2] + c[1], (v[0].astype(np.int32),)), c[v[1].astype(np.int32)]),
        np.zeros(4, np.float32),
        np.zeros(2, np.float32),
    ),
    "branch": (
        lambda c, v: (lax.cond(v[0] > 0, lambda: c + v, lambda: c * 0.5 - v[::-1]), c[0]),
        np.ones(3, np.float32),
        np.zeros(3, np.float32),
    ),
    "complex": (lambda c, v: (c * (v * np.float32(0.3)) - v, c), np.complex64(0), np.complex64(0)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SCANNED)
@np.errstate(all="ignore")
def test_scan_gives_the_bits_of_single_iterations(name: str, reverse: bool) -> None:
    body, first, row = SCANNED[name]
    rows = random_array(np.asarray(row).dtype, 40, *np.shape(row))
    single = load(body, first, rows[0])
    state, given = [np.asarray(c) for c in jax.tree.leaves(first)], []
    width = len(state)
    for row in rows[::-1] if reverse else rows:
        results = [np.asarray(r) for r in single(*state, row)]
        state = results[:width]
        given.append(results[width:])
    expected = [*state, *(np.stack(g) for g in zip(*(given[::-1] if reverse else given), strict=True))]
    program, leaves = load(lambda c, v: lax.scan(body, c, v, reverse=reverse), first, rows), jax.tree.leaves(first)
    for _ in range(2):
        assert [bits(r) for r in program(*leaves, rows)] == [bits(e) for e in expected]
