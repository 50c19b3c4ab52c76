# %% [markdown]
# Choose formats for a trained model.
#
#     python examples/numerics_plan.py
#
# The network of `numerics_profile.py` has learned scikit-learn's digits. `interp.quantize_plan` finds the cheapest
# format for each operand of its matmuls with which no more than one picture in 200 is taken for another digit than
# before. Needs `pip install scikit-learn`.

# %%
from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numerics_profile import RATE, digits, train

from minihlo import interp


def network(weights: Any, x: Any) -> jax.Array:
    """The network without any rounding."""
    return jnp.maximum(x @ weights[0], 0) @ weights[1]


def loss(weights: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """The cross entropy."""
    return -jnp.mean(jax.nn.log_softmax(network(weights, x))[jnp.arange(len(y)), y])


@jax.jit
def step(weights: Any, x: jax.Array, y: jax.Array) -> Any:
    """A step of training in f32."""
    value, gradient = jax.value_and_grad(loss)(weights, x, y)
    return [w - RATE * g for w, g in zip(weights, gradient, strict=True)], value


def changed(before: np.ndarray, after: np.ndarray) -> float:
    """The share of pictures that are taken for another digit."""
    return float(np.mean(before.argmax(axis=1) != after.argmax(axis=1)))


# %%
def main(_: Any = None) -> None:
    """Train, find a plan on one half of the pictures, and try it on the other."""
    x, y = digits()
    half = len(x) // 2
    weights, _ = train(step, x[:half], y[:half])
    plan = interp.quantize_plan(network, weights, x[:half], measure=changed, bound=0.005)
    print(plan)
    before, after = (np.asarray(f(weights, x[half:])) for f in (network, plan.apply(network)))
    right = [f"{np.mean(v.argmax(axis=1) == y[half:]):.1%}" for v in (before, after)]
    print(f"\nof the other pictures {right[0]} are right before, and {right[1]} with the plan")


if __name__ == "__main__":
    main()
