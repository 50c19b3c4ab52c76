"""The programs of the speed measurements: FP8 programs of models, and a few that are hard only for an interpreter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

FNUZ = ml_dtypes.float8_e4m3fnuz
FN = ml_dtypes.float8_e4m3fn
E5M2 = ml_dtypes.float8_e5m2
E3M4 = ml_dtypes.float8_e3m4


@dataclasses.dataclass(frozen=True)
class Program:
    """A function that JAX can trace, and its arguments."""

    name: str
    function: Callable[..., Any]
    arguments: Sequence[np.ndarray]


def normal(seed: int, shape: tuple[int, ...], dtype: Any, scale: float = 1.0) -> np.ndarray:
    """Numbers of a normal distribution."""
    return (np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)).astype(dtype)


def quantize(x, dtype=FNUZ):
    """f32 to eight bits, scaled so that the largest element becomes the largest number."""
    largest = float(ml_dtypes.finfo(dtype).max)
    scale = jnp.max(jnp.abs(x)) / largest
    return jnp.clip(x / scale, -largest, largest).astype(dtype), scale


def scale_to_format(x, scale, bias):
    return x * scale + bias


def softmax(x):
    return jax.nn.softmax(x.astype(jnp.float32), axis=-1).astype(x.dtype)


def layer_norm(x, gain, bias):
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return (normal * gain.astype(jnp.float32) + bias.astype(jnp.float32)).astype(x.dtype)


def attention(q, k, v):
    scores = jax.lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32) / 8
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jax.lax.dot(weights, v, preferred_element_type=jnp.float32).astype(v.dtype)


def convolution(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def max_pool(x):
    return jax.lax.reduce_window(x, jnp.array(-jnp.inf, x.dtype), jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def row_sum(x):
    # jnp.sum would add in f32.
    return jax.lax.reduce(x, np.array(0, x.dtype), jax.lax.add, (1,))


def scan(start, xs):
    def step(carry, x):
        carry = carry * jnp.array(0.875, x.dtype) + x
        return carry, carry

    return jax.lax.scan(step, start, xs)


def count(x):
    def step(state):
        i, y = state
        return i + 1, ((y * 3) + i) ^ 1

    return jax.lax.while_loop(lambda state: state[0] < 10_000, step, (jnp.int32(0), x))[1]


MILLION, SQUARE = (1_000_000,), (1000, 1000)
ROWS = np.random.default_rng(9).integers(0, 20_000, (5000, 1), np.int32)

PROGRAMS = [
    Program("gelu, 1e6 f8E4M3FNUZ", jax.nn.gelu, [normal(1, MILLION, FNUZ)]),
    Program("silu(a) * b, 1e6 f8E4M3FNUZ", lambda a, b: jax.nn.silu(a) * b, [normal(i, MILLION, FNUZ) for i in (1, 2)]),
    Program(
        "x * scale + bias, 1000² f8E5M2",
        scale_to_format,
        [normal(1, SQUARE, E5M2), *(normal(i, (1000,), E5M2) for i in (2, 3))],
    ),
    Program("add, 1e6 f8E4M3FN", jnp.add, [normal(i, MILLION, FN) for i in (1, 2)]),
    Program("exp, 1e6 f8E4M3FNUZ", jnp.exp, [normal(1, MILLION, FNUZ)]),
    Program("quantize, 1e6 f32 to f8E4M3FNUZ", quantize, [normal(1, MILLION, np.float32)]),
    Program(
        "dequantize, 1e6 f8E4M3FNUZ to f32",
        lambda x, s: x.astype(jnp.float32) * s,
        [normal(1, MILLION, FNUZ), np.float32(0.01)],
    ),
    Program("matmul 512² f8E4M3FNUZ", jnp.matmul, [normal(i, (512, 512), FNUZ) for i in (1, 2)]),
    Program(
        "matmul 512² f8E4M3FN to f32",
        lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.float32),
        [normal(i, (512, 512), FN) for i in (1, 2)],
    ),
    Program("softmax through f32, 1000² f8E4M3FNUZ", softmax, [normal(1, SQUARE, FNUZ, 3)]),
    Program(
        "layer norm, 1000² f8E4M3FNUZ",
        layer_norm,
        [normal(1, SQUARE, FNUZ), *(normal(i, (1000,), FNUZ) for i in (2, 3))],
    ),
    Program("attention 256×64 f8E4M3FNUZ", attention, [normal(i, (256, 64), FNUZ) for i in (1, 2, 3)]),
    Program(
        "convolution 3×3, 32 channels, 4×32×32 f8E4M3FNUZ",
        convolution,
        [normal(1, (4, 32, 32, 32), FNUZ), normal(2, (3, 3, 32, 32), FNUZ)],
    ),
    Program("max pool 2×2, 4×64×64×32 f8E5M2", max_pool, [normal(1, (4, 64, 64, 32), E5M2)]),
    Program("row max, 1000² f8E3M4", lambda x: jnp.max(x, axis=-1), [normal(1, SQUARE, E3M4)]),
    Program("row sum, 1000² f8E4M3FNUZ", row_sum, [normal(1, SQUARE, FNUZ)]),
    Program("sort, 1e5 f8E4M3FNUZ", jnp.sort, [normal(1, (100_000,), FNUZ)]),
    Program("gather 5,000 rows of 64, f8E4M3FNUZ", lambda x, i: x[i[:, 0]], [normal(1, (20_000, 64), FNUZ), ROWS]),
    Program(
        "scatter-add 5,000 rows of 64, f8E4M3FNUZ",
        lambda x, i, u: x.at[i[:, 0]].add(u),
        [normal(1, (20_000, 64), FNUZ), ROWS, normal(2, (5000, 64), FNUZ)],
    ),
    Program("scan, 1,000 steps of 64 f8E4M3FNUZ", scan, [normal(1, (64,), FNUZ), normal(2, (1000, 64), FNUZ)]),
    Program(
        "scan for its end, 1,000 steps of 64 f8E4M3FNUZ",
        lambda start, xs: scan(start, xs)[0],
        [normal(1, (64,), FNUZ), normal(2, (1000, 64), FNUZ)],
    ),
    Program("scalar while, 10,000 iterations of 5 ops", count, [np.int32(1)]),
    Program("add, 16 f8E4M3FNUZ", jnp.add, [normal(i, (16,), FNUZ) for i in (1, 2)]),
]
