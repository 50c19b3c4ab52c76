"""A transformer block with FP8 activations and weights, in JAX, and the StableHLO it lowers to.

`python examples/transformer_block.py` writes beside this file transformer_block.mlir, its input transformer_block_x.npy
and what JAX computes on the CPU, transformer_block_jax.npy. The matrix products take f8E4M3FNUZ operands and give f32;
activations are brought to the format's range by a scale before each cast (a "scaled cast"); GELU is computed in
f8E4M3FNUZ itself.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from minihlo.interp.values import npy
from minihlo.ops.types import element_type

F8 = jnp.float8_e4m3fnuz
F8_MAX = 240.0
TOKENS, WIDTH, HEADS, HIDDEN = 8, 32, 2, 64


def scaled_cast(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """x as FP8 and the factor that undoes the scaling; the largest element becomes the format's largest number."""
    scale = jnp.maximum(jnp.max(jnp.abs(x)), 1e-6) / F8_MAX
    return jnp.clip(x / scale, -F8_MAX, F8_MAX).astype(F8), scale


def matmul(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x @ weight: FP8 operands, f32 result."""
    x8, scale = scaled_cast(x)
    return jnp.matmul(x8, weight, preferred_element_type=jnp.float32) * scale


def layer_norm(x: jax.Array) -> jax.Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def attention(x: jax.Array, weights: dict[str, jax.Array]) -> jax.Array:
    def heads(y: jax.Array) -> jax.Array:
        return y.reshape(TOKENS, HEADS, WIDTH // HEADS).transpose(1, 0, 2)

    query, key, value = (heads(matmul(x, weights[n])) for n in ("query", "key", "value"))
    scores = matmul(query, scaled_cast(key)[0].transpose(0, 2, 1)) * scaled_cast(key)[1] / np.sqrt(WIDTH // HEADS)
    mask = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))
    probabilities = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    value8, scale = scaled_cast(value)
    mixed = matmul(probabilities, value8) * scale
    return matmul(mixed.transpose(1, 0, 2).reshape(TOKENS, WIDTH), weights["output"])


def block(x: jax.Array, weights: dict[str, jax.Array]) -> jax.Array:
    """One pre-norm transformer block: [TOKENS, WIDTH] f8E4M3FNUZ to the same."""
    y = x.astype(jnp.float32)
    y = y + attention(layer_norm(y), weights)
    hidden = jax.nn.gelu(matmul(layer_norm(y), weights["up"]).astype(F8), approximate=True)
    return (y + matmul(hidden.astype(jnp.float32), weights["down"])).astype(F8)


def example() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """An input and weights; the weights are scaled so that activations stay near one."""
    rng = np.random.default_rng(0)
    shapes = dict.fromkeys(("query", "key", "value", "output"), (WIDTH, WIDTH)) | {
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    weights = {n: (rng.normal(size=s) / np.sqrt(s[0])).astype(np.float32).astype(F8) for n, s in shapes.items()}
    return rng.normal(size=(TOKENS, WIDTH)).astype(np.float32).astype(F8), weights


def main() -> None:
    x, weights = example()
    function = jax.jit(lambda x: block(x, weights))
    here = Path(__file__).parent
    (here / "transformer_block.mlir").write_text(function.lower(x).as_text())
    for name, array in (("x", x), ("jax", np.asarray(function(x)))):
        npy.save(str(here / f"transformer_block_{name}.npy"), array, element_type("f8E4M3FNUZ"))


if __name__ == "__main__":
    main()
