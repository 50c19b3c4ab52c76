# %% [markdown]
# Find out why a model does not learn in FP8.
#
#     python examples/numerics_profile.py [--html report.html]
#
# A small network learns scikit-learn's handwritten digits. Operands of its matmuls are FP8, and so are the gradients
# that go back through them. Something is missing, and the loss hardly moves. `interp.profiling` says what.
# Needs `pip install scikit-learn`. The cells can be run one by one in an editor that knows `# %%`.

# %%
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from minihlo import interp

WIDTH, STEPS, RATE = 48, 60, 0.5


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 pictures of 8x8 pixels from 0 to 1, and the digit that each shows."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        print("this example needs scikit-learn (pip install scikit-learn)")
        sys.exit(0)
    data: Any = load_digits()
    return data.data.astype(np.float32) / 16, data.target.astype(np.int32)


# %% The backward pass is where the fault is: which format gradients have, and by what they are multiplied before.
def matmul_in(backward: Any, scale: float) -> Any:
    """A matmul of f8E4M3FN operands whose gradient is multiplied by `scale` and rounded to the type `backward`."""

    @jax.custom_vjp
    def matmul(x: jax.Array, w: jax.Array) -> jax.Array:
        return forward(x, w)[0]

    def forward(x: jax.Array, w: jax.Array) -> Any:
        x8, w8 = x.astype(jnp.float8_e4m3fn), w.astype(jnp.float8_e4m3fn)
        return jnp.matmul(x8.astype(jnp.bfloat16), w8.astype(jnp.bfloat16)).astype(jnp.float32), (x8, w8)

    def transposed(kept: Any, gradient: jax.Array) -> Any:
        x, w = (v.astype(jnp.float32) for v in kept)
        g = (gradient * scale).astype(backward).astype(jnp.float32) / scale
        return g @ w.T, x.T @ g

    matmul.defvjp(forward, transposed)
    return matmul


def step_of(backward: Any, scale: float = 1.0) -> Any:
    """A step of training: the new weights and the loss."""
    matmul = matmul_in(backward, scale)

    def loss(weights: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        hidden = jnp.maximum(matmul(x, weights[0]), 0)
        return -jnp.mean(jax.nn.log_softmax(matmul(hidden, weights[1]))[jnp.arange(len(y)), y])

    @jax.jit
    def step(weights: Any, x: jax.Array, y: jax.Array) -> Any:
        value, gradient = jax.value_and_grad(loss)(weights, x, y)
        return [w - RATE * g for w, g in zip(weights, gradient, strict=True)], value

    return step


def train(step: Any, x: np.ndarray, y: np.ndarray, steps: int = STEPS) -> tuple[list[Any], float]:
    """The weights after some steps on all pictures, and the loss."""
    rng, loss = np.random.default_rng(0), jnp.nan
    weights: list[Any] = [rng.normal(size=s) / 8 for s in ((x.shape[1], WIDTH), (WIDTH, 10))]
    weights = [jnp.asarray(w, jnp.float32) for w in weights]
    for _ in range(steps):
        weights, loss = step(weights, x, y)
    return weights, float(loss)


# %%
def main(arguments: Sequence[str] | None = None) -> None:
    """Train with the fault, look for it, and train without."""
    parser = argparse.ArgumentParser(description="Find out why a model does not learn in FP8.")
    parser.add_argument("--html", help="write the profile as a page")
    options = parser.parse_args(arguments)
    x, y = digits()
    with interp.profiling(every=20) as profile:
        _, loss = train(step_of(jnp.float8_e4m3fn), x, y)
    print(f"gradients in f8E4M3FN: loss {loss:.3f}")
    worst = profile.findings[0]
    print(f"line {worst.line.line}: {worst.source}\n  {worst.sentence()}")
    if options.html:
        profile.html(options.html)
    scale = 2.0 ** (worst.statistics.scale or 0) / 4  # with room for larger gradients
    for name, step in (
        ("f8E5M2", step_of(jnp.float8_e5m2)),
        (f"f8E4M3FN, multiplied by {scale:g}", step_of(jnp.float8_e4m3fn, scale)),
    ):
        print(f"gradients in {name}: loss {train(step, x, y)[1]:.3f}")


if __name__ == "__main__":
    main()
