"""JAX functions whose cost `benchmarks.growth` measures from small arrays to large ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

F8, BF16 = jnp.float8_e4m3fn, jnp.bfloat16
_KEY = jax.random.key(0)


@dataclasses.dataclass(frozen=True)
class Subject:
    """A function, and the kinds of its arguments: `f` for f32 with a normal distribution, `i` for i32 below 1,000."""

    name: str
    function: Callable[..., Any]
    kinds: str = "f"

    def arguments(self, size: int) -> list[np.ndarray]:
        """Arguments of so many elements each, the same every time."""
        rng = np.random.default_rng(size)
        return [
            rng.standard_normal(size).astype(np.float32) if kind == "f" else rng.integers(0, 1000, size, np.int32)
            for kind in self.kinds
        ]


def _pool(x: jax.Array, init: float, body: Callable[..., Any], window: int, stride: int) -> jax.Array:
    return lax.reduce_window(x, init, body, (window,), (stride,), "SAME")


def _sum_and_largest(x: jax.Array) -> Any:
    zero = np.float32(0)
    return lax.reduce((x, x), (zero, zero), lambda p, q: (p[0] + q[0], jnp.maximum(p[1], q[1])), (0,))


def _welford(p: Any, q: Any) -> Any:
    n, d = p[0] + q[0], q[1] - p[1]
    share = q[0] / jnp.where(n == 0, 1, n)
    return n, p[1] + d * share, p[2] + q[2] + d * d * p[0] * share


def _branch(c: Any, v: Any) -> Any:
    return lax.cond(v > 0, lambda c: c + v, lambda c: c * 0.5, c), c


def _checksum(c: Any, v: Any) -> Any:
    iteration = lambda _, b: jnp.where(b & 1 == 1, (b >> 1) ^ 0x6DB88320, b >> 1)  # noqa: E731
    return lax.fori_loop(0, 8, iteration, c ^ v), None


def _collatz(n: jax.Array) -> Any:
    iteration = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)  # noqa: E731
    return lax.while_loop(lambda s: s[0] > 1, iteration, (n, 0))[1]


def _softmax_sum(c: Any, v: Any) -> Any:
    largest = jnp.maximum(c[0], v)
    return (largest, c[1] * jnp.exp(c[0] - largest) + jnp.exp(v - largest)), None


def _smooth(x: jax.Array, places: jax.Array) -> jax.Array:
    iteration = lambda c, i: (lax.dynamic_update_slice(c, c[:3] * 0.5, (i % c.size,)), None)  # noqa: E731
    return lax.scan(iteration, x, places[: places.size // 10])[0]


def _tridiagonal(x: jax.Array) -> jax.Array:
    return lax.linalg.tridiagonal_solve(x.at[0].set(0), x + 5, x.at[-1].set(0), x[:, None])


def _named(kinds: str, names: str, *modules: Any) -> list[Subject]:
    return [Subject(n, getattr(next(m for m in modules if hasattr(m, n)), n), kinds) for n in names.split()]


#: Some 150 functions. Sizes are multiples of 100.
SUBJECTS = [
    *_named("f", "cumsum cumprod sort argsort argmax argmin mean var std median prod diff nanmax", jnp),
    *_named("f", "nanmean isnan nan_to_num round sign trapezoid gradient exp tanh", jnp),
    *_named("f", "cummax cummin cumlogsumexp log logistic erf rsqrt sin cbrt expm1 lgamma digamma erf_inv", lax),
    *_named("f", "softmax logsumexp gelu silu", jax.nn),
    *_named("i", "population_count clz", lax),
    Subject("cumsum, reverse", lambda x: lax.cumsum(x, reverse=True)),
    Subject("cumsum, rows", lambda x: jnp.cumsum(x.reshape(-1, 10), 1)),
    Subject("cumsum, bf16", lambda x: jnp.cumsum(x.astype(BF16))),
    Subject("cumsum, f8", lambda x: jnp.cumsum(x.astype(F8))),
    Subject("cummax, f8", lambda x: lax.cummax(x.astype(F8))),
    Subject("cumsum, i32", jnp.cumsum, "i"),
    Subject("nonzero", lambda x: jnp.nonzero(x > 0, size=x.size // 2)),
    Subject("unique", lambda x: jnp.unique(x, size=1000), "i"),
    Subject("bincount", lambda x: jnp.bincount(x, length=1000), "i"),
    Subject("histogram", lambda x: jnp.histogram(x, 10)[0]),
    Subject("searchsorted", lambda x, y: jnp.searchsorted(jnp.sort(x), y), "ff"),
    Subject("top_k", lambda x: lax.top_k(x, 10)),
    Subject("approx_max_k", lambda x: lax.approx_max_k(x, 10)),
    Subject("take", lambda x, i: x[i % x.size], "fi"),
    Subject("scatter, add", lambda x, i: jnp.zeros(1000).at[i].add(x), "fi"),
    Subject("scatter, add f8", lambda x, i: jnp.zeros(1000, F8).at[i].add(x.astype(F8)), "fi"),
    Subject("scatter, add bf16", lambda x, i: jnp.zeros(1000, BF16).at[i].add(x.astype(BF16)), "fi"),
    Subject("scatter, max", lambda x, i: jnp.zeros(1000).at[i].max(x), "fi"),
    Subject("scatter, max f8", lambda x, i: jnp.zeros(1000, F8).at[i].max(x.astype(F8)), "fi"),
    Subject("scatter, multiply", lambda x, i: jnp.ones(1000).at[i].mul(x), "fi"),
    Subject("scatter, set", lambda x, i: jnp.zeros(1000).at[i].set(x), "fi"),
    Subject("scatter, apply", lambda x, i: x.at[i % x.size].apply(jnp.sin), "fi"),
    Subject("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 1000), "fi"),
    Subject("segment_max", lambda x, i: jax.ops.segment_max(x, i, 1000), "fi"),
    Subject("segment_prod, f8", lambda x, i: jax.ops.segment_prod(x.astype(F8), i, 1000), "fi"),
    Subject("map", lambda x: lax.map(lambda v: v * v + 1, x)),
    Subject("scan", lambda x: lax.scan(lambda c, v: (0.9 * c + v, c), 0.0, x)[0]),
    Subject("scan, sum", lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x)),
    Subject("scan, largest", lambda x: lax.scan(lambda c, v: (jnp.maximum(c, v), c), 0.0, x)),
    Subject("scan, remainders", lambda x: lax.scan(lambda c, v: (((c * 5 + v) % 97),) * 2, np.int32(1), x)[1], "i"),
    Subject("scan, random numbers", lambda x: lax.scan(lambda c, v: (c * 1664525 + 1013904223, c ^ v), 1, x)[1], "i"),
    Subject("scan, tanh", lambda x: lax.scan(lambda c, v: (jnp.tanh(c + v),) * 2, 0.0, x)[1]),
    Subject("scan, branches", lambda x: lax.scan(_branch, 0.0, x)[1]),
    Subject("scan, checksum", lambda x: lax.scan(_checksum, np.int32(-1), x)[0], "i"),
    Subject("scan, hash", lambda x: lax.scan(lambda c, v: ((c * 31 + v) % 1000003, None), np.int32(0), x)[0], "i"),
    Subject(
        "scan, lengths of runs", lambda x: lax.scan(lambda c, v: (jnp.where(v < 500, c + 1, 0),) * 2, 0, x)[1], "i"
    ),
    Subject("scan, softmax number by number", lambda x: lax.scan(_softmax_sum, (np.float32(-np.inf), 0.0), x)[0]),
    Subject("scan, updates of slices", _smooth, "fi"),
    Subject("while_loop, Collatz of each", lambda x: jax.vmap(_collatz)(x + 1), "i"),
    Subject("fori_loop, single number", lambda x: lax.fori_loop(0, x.size, lambda i, c: c * 0.999 + i, x[0])),
    Subject("map, softmax of rows", lambda x: lax.map(jax.nn.softmax, x.reshape(-1, 100))),
    Subject("associative_scan", lambda x: lax.associative_scan(jnp.add, x)),
    Subject("fori_loop", lambda x: lax.fori_loop(0, 10, lambda _, c: c * 1.1, x)),
    Subject("while_loop", lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] + 1), (0, x))[1]),
    Subject("convolve", lambda x: jnp.convolve(x, jnp.ones(16))),
    Subject("average pool of 16", lambda x: _pool(x, 0.0, lax.add, 16, 1)),
    Subject("max pool of 300", lambda x: _pool(x, -np.inf, lax.max, 300, 1)),
    Subject("max pool, gradient", jax.grad(lambda x: _pool(x, -np.inf, lax.max, 4, 4).sum())),
    Subject("tridiagonal system", _tridiagonal),
    Subject("fft", jnp.fft.fft),
    Subject("rfft", jnp.fft.rfft),
    Subject("reduce, sum and largest", _sum_and_largest),
    Subject(
        "reduce, Welford", lambda x: lax.reduce((jnp.ones_like(x), x, 0 * x), (np.float32(0),) * 3, _welford, (0,))
    ),
    Subject("reduce, logaddexp", lambda x: lax.reduce(x, np.float32(-np.inf), jnp.logaddexp, (0,))),
    Subject("reduce, hypot of bf16", lambda x: lax.reduce(x.astype(BF16), BF16(0), jnp.hypot, (0,))),
    Subject("reduce, f8", lambda x: lax.reduce(x.astype(F8), F8(0), lax.add, (0,))),
    Subject("reduce, bf16", lambda x: lax.reduce(x.astype(BF16), BF16(0), lax.add, (0,))),
    Subject("reduce, xor", lambda x: jnp.bitwise_xor.reduce(x), "i"),
    Subject("argmax, bf16", lambda x: jnp.argmax(x.astype(BF16))),
    Subject("argmax, rows", lambda x: jnp.argmax(x.reshape(-1, 100), 1)),
    Subject("transpose", lambda x: x.reshape(-1, 100).T + 1),
    Subject("roll", lambda x: jnp.roll(x, 3)),
    Subject("repeat", lambda x: jnp.repeat(x, 3)),
    Subject("tile", lambda x: jnp.tile(x, 3)),
    Subject("concatenate", lambda x: jnp.concatenate([x, x])),
    Subject("pad", lambda x: jnp.pad(x, 5)),
    Subject("pad, reflect", lambda x: jnp.pad(x, 5, mode="reflect")),
    Subject("split", lambda x: sum(jnp.split(x, 10))),
    Subject("dynamic_slice", lambda x: lax.dynamic_slice(x, (3,), (x.size // 2,))),
    Subject("dynamic_update_slice", lambda x: lax.dynamic_update_slice(x, x[:10], (3,))),
    Subject("arange", lambda x: x + jnp.arange(x.size)),
    Subject("sort, two keys", lambda x, i: lax.sort((i, x), num_keys=2), "fi"),
    Subject("sort, f8", lambda x: jnp.sort(x.astype(F8))),
    Subject("lexsort", lambda x, i: jnp.lexsort((x, i)), "fi"),
    Subject("percentile", lambda x: jnp.percentile(x, 30)),
    Subject("random.normal", lambda x: jax.random.normal(_KEY, x.shape)),
    Subject("random.uniform", lambda x: jax.random.uniform(_KEY, x.shape)),
    Subject("random.permutation", lambda x: jax.random.permutation(_KEY, x)),
    Subject("random.categorical", lambda x: jax.random.categorical(_KEY, x)),
    Subject("random.randint", lambda x: jax.random.randint(_KEY, x.shape, 0, 9)),
    Subject("random.bernoulli", lambda x: jax.random.bernoulli(_KEY, 0.5, x.shape)),
    Subject("random.choice", lambda x: jax.random.choice(_KEY, x, (x.size,))),
    Subject("random.gamma", lambda x: jax.random.gamma(_KEY, 2.0, (x.size // 100,))),
    Subject("random.poisson", lambda x: jax.random.poisson(_KEY, 2.0, (x.size // 100,))),
    Subject("remainder", lambda x: x % 7, "i"),
    Subject("power of 5", lambda x: x**5, "i"),
    Subject("power", lambda x: jnp.abs(x) ** 1.7),
    Subject("floor_divide", lambda x: x // 7),
    Subject("atan2", jnp.arctan2, "ff"),
    Subject("convert to f8", lambda x: x.astype(F8)),
    Subject("add, f8", lambda x: x.astype(F8) + x.astype(F8)),
    Subject("dot", jnp.dot, "ff"),
    Subject("matrix times vector", lambda x: x.reshape(-1, 100) @ jnp.ones(100)),
    Subject("einsum", lambda x: jnp.einsum("ij,kj->ik", x.reshape(-1, 10)[:100], x.reshape(-1, 10))),
    Subject("interp", lambda x: jnp.interp(x, jnp.arange(10.0), jnp.arange(10.0))),
    Subject("digitize", lambda x: jnp.digitize(x, jnp.arange(10.0))),
    Subject("clip", lambda x: jnp.clip(x, -1, 1)),
    Subject("piecewise", lambda x: jnp.piecewise(x, [x < 0, x >= 0], [jnp.negative, jnp.square])),
    Subject("where", lambda x, y: jnp.where(x > y, x, y), "ff"),
    Subject("bitcast", lambda x: lax.bitcast_convert_type(x, np.int32)),
    Subject("cov", lambda x: jnp.cov(x.reshape(10, -1))),
    Subject("one_hot", lambda i: jax.nn.one_hot(i % 10, 10), "i"),
    Subject("betainc", lambda x: special.betainc(1.0, 2.0, jnp.abs(x) % 1)),
    Subject("betainc, gradient", jax.grad(lambda x: special.betainc(1.5, 2.5, jnp.abs(x) % 1).sum())),
    Subject("gammainc", lambda x: special.gammainc(2.0, jnp.abs(x))),
    Subject("polygamma", lambda x: special.polygamma(1, jnp.abs(x) + 1)),
    Subject("ndtri", lambda x: special.ndtri(jnp.abs(x) % 1)),
    Subject("i0", special.i0),
]
