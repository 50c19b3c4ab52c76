"""Train on scikit-learn's digits while a backend is checked, which begins to compute tanh wrongly at step 57.

    python examples/numerics_watch.py

The training runs on JAX's own platform and learns as ever; the faulty backend stands for a second machine that is to be
trusted. `interp.watch` writes what it finds to watch.jsonl. Needs `pip install jax scikit-learn`.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from minihlo import interp

STEPS = 200


class Faulty:
    """The CPU, of which tanh is one in 8,192 too large from step 57 on."""

    name = "faulty"
    step = 0

    def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        results = [np.asarray(r) for r in interp.load(text)(*arrays)]
        return [r + r.dtype.type(1 << 10) for r in results] if "tanh" in text and self.step >= 57 else results


def loss(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x.astype(jnp.bfloat16).astype(jnp.float32) @ weights[0])
    return -jnp.mean(jax.nn.log_softmax(hidden @ weights[1])[jnp.arange(len(y)), y])


@jax.jit
def train(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    value, slopes = jax.value_and_grad(loss)(weights, x, y)
    return [w - 0.5 * s for w, s in zip(weights, slopes, strict=True)], value


def run(x: np.ndarray, y: np.ndarray, backend: Faulty) -> list[float]:
    rng = np.random.default_rng(0)
    weights = [jnp.asarray(rng.normal(size=s).astype(np.float32) / 8) for s in ((64, 32), (32, 10))]
    losses = []
    for backend.step in range(STEPS):
        weights, value = train(weights, x, y)
        losses.append(float(value))
    return losses


def main() -> None:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("numerics_watch.py needs scikit-learn (pip install scikit-learn)")
    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)
    backend = Faulty()
    plain = run(x, y, backend)
    Path("watch.jsonl").unlink(missing_ok=True)
    with interp.watch(backend, budget=1.0) as w:
        watched = run(x, y, backend)
    print(f"loss {plain[0]:.3f} to {plain[-1]:.3f}; watched: {'the same' if plain == watched else 'other'} losses")
    print(f"{w.checks} checks, {len(w.failures)} wrong in the program:")
    for line in Path("watch.jsonl").read_text().splitlines():
        found = json.loads(line)
        if found["event"] == "failure":
            print(f"  call {found['call']}, {found['op']}: {found['source']}")


if __name__ == "__main__":
    main()
