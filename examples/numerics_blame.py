"""Which operation ruins a character-level transformer in FP8: a softmax whose exponentials overflow, a missing scale.

    python examples/numerics_blame.py

The model learns to continue the text of this file. It is trained in f32; then one batch is computed in FP8 by two
variants that each hold a mistake, and `interp.blame` compares FP8 with f32. Needs `pip install jax`.
"""

import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from minihlo import interp

F8 = jnp.float8_e4m3fn
WIDTH, LENGTH, BATCH = 32, 24, 16
TEXT = np.frombuffer(Path(__file__).read_bytes(), np.uint8)
CHARACTERS, CODES = np.unique(TEXT, return_inverse=True)


@jax.jit  # so that the calls of it are told apart
def f8(x: jax.Array, scale: float = 1.0) -> jax.Array:
    """`x` rounded to FP8, multiplied by a scale before and divided after."""
    return (x * scale).astype(F8).astype(jnp.float32) / scale


def softmax(scores: jax.Array) -> jax.Array:
    """In FP8, with the largest subtracted, so that no exponential is above 1."""
    e = f8(jnp.exp(scores - jnp.max(scores, -1, keepdims=True)))
    return e / jnp.sum(e, -1, keepdims=True)


def overflowing(scores: jax.Array) -> jax.Array:
    """The mistake: exp(7) is beyond the largest number of f8E4M3FN, 448."""
    e = f8(jnp.exp(scores))
    return e / jnp.sum(e, -1, keepdims=True)


def logits(
    weights: dict[str, Any], codes: jax.Array, soft: Callable[..., Any], scale: float, sharp: float
) -> jax.Array:
    x = weights["embed"][codes] + weights["place"]
    q, k, v = (f8(x, 16) @ f8(weights[name], 16) for name in "qkv")
    scores = sharp * jnp.einsum("bid,bjd->bij", q, k) / WIDTH**0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    x = x + soft(scores) @ v
    small = jnp.tanh(x @ weights["up"]) / 4096  # a unit that makes its activations small
    return x @ weights["out"] + (f8(small, scale) * 4096) @ weights["down"]


def loss(
    weights: dict[str, Any],
    codes: jax.Array,
    soft: Callable[..., Any] = softmax,
    scale: float = 65536.0,
    sharp: float = 1.0,
) -> jax.Array:
    guesses = jax.nn.log_softmax(logits(weights, codes[:, :-1], soft, scale, sharp))
    return -jnp.mean(jnp.take_along_axis(guesses, codes[:, 1:, None], -1))


def batch(step: int) -> jax.Array:
    starts = np.random.default_rng(step).integers(0, len(CODES) - LENGTH - 1, BATCH)
    return jnp.asarray(np.stack([CODES[s : s + LENGTH + 1] for s in starts]), jnp.int32)


def trained(steps: int) -> dict[str, Any]:
    sizes = {
        "embed": (len(CHARACTERS), WIDTH),
        "place": (LENGTH, WIDTH),
        "up": (WIDTH, 64),
        "down": (64, len(CHARACTERS)),
    }
    sizes |= dict.fromkeys("qkv", (WIDTH, WIDTH)) | {"out": (WIDTH, len(CHARACTERS))}
    keys = jax.random.split(jax.random.key(0), len(sizes))
    weights = {n: 0.2 * jax.random.normal(k, s) for k, (n, s) in zip(keys, sizes.items(), strict=True)}
    step = jax.jit(lambda w, b: jax.tree.map(lambda p, g: p - 0.3 * g, w, jax.grad(loss)(w, b)))
    for i in range(steps):
        weights = step(weights, batch(i))
    return weights


def main() -> None:
    weights, codes = trained(200), batch(1000)
    print(f"loss {loss(weights, codes):.3f}")
    for name, soft, scale, sharp in (
        ("a softmax that overflows", overflowing, 65536.0, 40.0),
        ("activations without a scale", softmax, 1.0, 1.0),
    ):
        found = interp.blame(
            lambda w, c, soft=soft, scale=scale, sharp=sharp: loss(w, c, soft, scale, sharp),
            weights,
            codes,
            good="f32",
            bad="exact",
            measure="loss",
        )
        print(f"\n{name}: the loss differs by {found.total}; of {len(found.ranking)} operations that round")
        for op in found.explains:
            print(f"  {op.op.removeprefix('stablehlo.')} in line {op.location.line}: {op.source}")
            for call in op.calls:
                print(f"    called in line {call.line}: {linecache.getline(call.file, call.line).strip()}")


if __name__ == "__main__":
    main()
