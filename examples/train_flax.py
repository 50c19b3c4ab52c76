"""Train a small transformer with flax and optax, its activations rounded to f8E4M3FNUZ, on any JAX platform.

    JAX_PLATFORMS=minihlo python examples/train_flax.py --losses minihlo.txt
    JAX_PLATFORMS=cpu     python examples/train_flax.py --losses cpu.txt --against minihlo.txt

The task: a sequence of digits, a separator, and the same digits backwards. Master weights and optimizer state are f32;
what goes into a layer's matrix product is FP8, with a scale of its own. Half way everything is written to a checkpoint
and read back. Needs `pip install flax optax orbax-checkpoint`.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx

FP8 = jnp.float8_e4m3fnuz
LARGEST = float(jnp.finfo(FP8).max)
DIGITS, SEPARATOR = 10, 10
LENGTH, WIDTH, HEADS, LAYERS, BATCH = 8, 32, 2, 2, 16


def quantized(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`x` in FP8, and what to multiply that by."""
    scale = jnp.max(jnp.abs(x)) / LARGEST + 1e-12
    return (x / scale).astype(FP8), scale


@jax.custom_vjp
def product(x: jax.Array, w: jax.Array) -> jax.Array:
    """`x @ w` of FP8 numbers, summed in f32. Their gradients are f32, and see the rounded numbers."""
    return product_and_kept(x, w)[0]


def product_and_kept(x: jax.Array, w: jax.Array) -> tuple[jax.Array, Any]:
    (x8, x_scale), (w8, w_scale) = kept = quantized(x), quantized(w)
    y = jax.lax.dot_general(x8, w8, (((x.ndim - 1,), (0,)), ((), ())), preferred_element_type=jnp.float32)
    return y * (x_scale * w_scale), kept


def gradients(kept: Any, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, w = (q.astype(jnp.float32) * scale for q, scale in kept)
    leading = list(range(x.ndim - 1))
    return g @ w.T, jnp.tensordot(x, g, (leading, leading))


product.defvjp(product_and_kept, gradients)


class Dense(nnx.Linear):
    """A layer whose matrix product is of FP8 numbers. Its weights are kept in f32."""

    def __call__(self, inputs: jax.Array) -> jax.Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        return product(inputs, self.kernel[...]) + self.bias[...]


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.before_attention, self.before_mlp = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.qkv, self.out = Dense(WIDTH, 3 * WIDTH, rngs=rngs), Dense(WIDTH, WIDTH, rngs=rngs)
        self.up, self.down = Dense(WIDTH, 4 * WIDTH, rngs=rngs), Dense(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        batch, length, _ = x.shape
        qkv = self.qkv(self.before_attention(x)).reshape(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = (qkv[:, :, i] for i in range(3))
        scores = jnp.einsum("bihd,bjhd->bhij", q, k) / (WIDTH // HEADS) ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        mixed = jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores), v)
        x = x + self.out(mixed.reshape(batch, length, WIDTH))
        return x + self.down(jax.nn.gelu(self.up(self.before_mlp(x))))


class Transformer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(DIGITS + 1, WIDTH, rngs=rngs)
        self.places = nnx.Embed(2 * LENGTH, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm, self.head = nnx.LayerNorm(WIDTH, rngs=rngs), Dense(WIDTH, DIGITS + 1, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.places(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch(step: int) -> jax.Array:
    """Rows of digits, the separator, and the digits backwards. A step has the same on every platform."""
    digits = np.random.default_rng(step).integers(0, DIGITS, (BATCH, LENGTH), np.int32)
    rows = [digits, np.full((BATCH, 1), SEPARATOR, np.int32), digits[:, ::-1]]
    return jnp.asarray(np.concatenate(rows, axis=1))


def loss_of(model: Transformer, tokens: jax.Array) -> jax.Array:
    """The mean cross entropy of the digits after the separator."""
    logits = model(tokens[:, :-1])[:, LENGTH:]
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, LENGTH + 1 :]).mean()


@nnx.jit
def train(model: Transformer, optimizer: nnx.Optimizer, tokens: jax.Array) -> jax.Array:
    loss, slopes = nnx.value_and_grad(loss_of)(model, tokens)
    optimizer.update(model, slopes)
    return loss


def start(steps: int) -> tuple[Transformer, nnx.Optimizer]:
    """A new model, and an optimizer whose learning rate rises and then falls."""
    model = Transformer(nnx.Rngs(0))
    rate = optax.warmup_cosine_decay_schedule(0, 1e-2, min(20, steps // 4), steps, 1e-4)
    return model, nnx.Optimizer(model, optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate)), wrt=nnx.Param)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--losses", type=Path, help="a file for the loss of each step")
    parser.add_argument("--against", type=Path, help="such a file, to compare with")
    options = parser.parse_args()

    model, optimizer = start(options.steps)
    losses = []
    for step in range(options.steps):
        if step == options.steps // 2:
            model, optimizer = through_a_checkpoint(model, optimizer, options.steps)
        losses.append(train(model, optimizer, batch(step)))
        if step % 20 == 0 or step == options.steps - 1:
            print(f"step {step:3}  loss {losses[-1]:.4f}", flush=True)

    found = np.array(losses, np.float32)
    if options.losses:
        options.losses.write_text("".join(f"{float(loss)!r}\n" for loss in found))
    if options.against:
        others = np.loadtxt(options.against, dtype=np.float32)
        for step in (0, 1, 10, 50, 100, len(found) - 1):
            print(f"step {step:3}  {found[step]:.6f} and {others[step]:.6f}")
        print(f"largest difference {np.abs(found - others).max():.4f}")


def through_a_checkpoint(model: Transformer, optimizer: nnx.Optimizer, steps: int) -> tuple[Transformer, nnx.Optimizer]:
    """The same model and optimizer, written to a directory and read into new ones."""
    with tempfile.TemporaryDirectory() as directory, ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(Path(directory) / "half way", nnx.to_pure_dict(nnx.state((model, optimizer))))
        checkpointer.wait_until_finished()
        model, optimizer = start(steps)
        state = nnx.state((model, optimizer))
        stored = checkpointer.restore(Path(directory) / "half way", nnx.to_pure_dict(state))
    nnx.replace_by_pure_dict(state, stored)
    nnx.update((model, optimizer), state)
    return model, optimizer


if __name__ == "__main__":
    main()
