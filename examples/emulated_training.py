"""Trains a small network with FP8 products, summed as two chips sum them, and compares the losses.

`python examples/emulated_training.py [--plot losses.png]`. The training step is emulated: XLA compiles it for the
device that JAX has, and each product has the bits of the chip's instruction. The last line tells after how many steps
the two chips differ, and by how much at the end.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from minihlo import interp

CHIPS = {"h100": jnp.float8_e4m3fn, "mi300": jnp.float8_e4m3fnuz}
STEPS, BATCH, WIDTH = 120, 64, 128


def dot(x: jax.Array, w: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """A product of matrices in FP8, each scaled to the range of the format, with results in f32."""
    largest = float(jnp.finfo(dtype).max)
    sx, sw = (jnp.exp2(jnp.floor(jnp.log2(largest / jnp.max(jnp.abs(v))))) for v in (x, w))
    product = jnp.dot((x * sx).astype(dtype), (w * sw).astype(dtype), preferred_element_type=jnp.float32)
    return product / (sx * sw)


def loss(weights: list[jax.Array], x: jax.Array, y: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The mean squared error of a network of two layers; gradients pass through the roundings."""

    @jax.custom_vjp
    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return dot(a, b, dtype)

    product.defvjp(
        lambda a, b: (dot(a, b, dtype), (a, b)),
        lambda saved, g: (dot(g, saved[1].T, dtype), dot(saved[0].T, g, dtype)),
    )
    hidden = jax.nn.relu(product(x, weights[0]))
    return jnp.mean((product(hidden, weights[1]) - y) ** 2)


def train(chip: str) -> list[float]:
    """Return the loss after each step."""
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (BATCH, WIDTH))
    y = jnp.sin(x @ jax.random.normal(keys[1], (WIDTH, 8)) / WIDTH**0.5)
    weights = [jax.random.normal(keys[2], (WIDTH, WIDTH)) / WIDTH**0.5, jax.random.normal(keys[3], (WIDTH, 8)) / 8]

    @interp.emulate(target=chip)
    def step(weights: list[jax.Array]) -> tuple[list[jax.Array], jax.Array]:
        value, gradient = jax.value_and_grad(loss)(weights, x, y, CHIPS[chip])
        return [w - 0.05 * g for w, g in zip(weights, gradient, strict=True)], value

    losses = []
    for _ in range(STEPS):
        weights, value = step(weights)
        losses.append(float(value))
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", metavar="FILE", help="draw both losses, by matplotlib")
    options = parser.parse_args()
    losses = {chip: train(chip) for chip in CHIPS}
    print("step  " + "  ".join(f"{chip:>9}" for chip in CHIPS))
    for i in range(0, STEPS, STEPS // 6):
        print(f"{i:4}  " + "  ".join(f"{v[i]:9.6f}" for v in losses.values()))
    first, second = (np.array(v) for v in losses.values())
    start = int(np.argmax(first != second))
    print(f"the losses differ from step {start} on, and by {abs(first - second)[-1]:.2e} at the end")
    if options.plot:
        from matplotlib import pyplot

        for chip, values in losses.items():
            pyplot.semilogy(values, label=chip)
        pyplot.xlabel("step")
        pyplot.ylabel("loss")
        pyplot.legend()
        pyplot.savefig(options.plot)


if __name__ == "__main__":
    main()
