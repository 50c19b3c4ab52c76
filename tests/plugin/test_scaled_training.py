"""A small model of flax whose products are of blocks trains on the platform, nearly as well as in f32."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

STEPS = 200


def train(mode: str | None, steps: int) -> list[float]:
    """The losses of a regression by two layers, whose products are of f32 or of a mode of `scaled_dot_general`."""
    nn = pytest.importorskip("flax.linen")
    optax = pytest.importorskip("optax")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 32)).astype(np.float32)
    y = np.tanh(x @ rng.standard_normal((32, 32)).astype(np.float32) / 6)

    def product(lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None):
        del precision, preferred_element_type
        # JAX takes no traced scale of a tensor; this one is for magnitudes of up to 8.
        scale = [jnp.float32(8 / (6 * 448))] if mode == "nvfp4" else []
        config = jax.nn.get_scaled_dot_general_config(mode, *scale)
        return jax.nn.scaled_dot_general(lhs, rhs, dimension_numbers, jnp.float32, [config] * 3)

    class Model(nn.Module):
        @nn.compact
        def __call__(self, v):
            options = {} if mode is None else {"dot_general": product}
            v = nn.relu(nn.Dense(64, **options)(v))
            return nn.Dense(32, **options)(v)

    model, optimizer = Model(), optax.adam(1e-2)
    parameters = model.init(jax.random.key(0), x)
    state = optimizer.init(parameters)

    @functools.partial(jax.jit)
    def step(parameters, state):
        def loss(p):
            return ((model.apply(p, x) - y) ** 2).mean()

        value, slopes = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(slopes, state)
        return optax.apply_updates(parameters, updates), state, value

    losses = []
    for _ in range(steps):
        parameters, state, value = step(parameters, state)
        losses.append(float(value))
    return losses


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_it_trains(mode: str) -> None:
    with jax.default_device(jax.devices("minihlo")[0]):
        losses, plain = train(mode, STEPS), train(None, STEPS)
    print(f"{mode}: {losses[0]:.4f} -> {losses[-1]:.4f}, f32: {plain[0]:.4f} -> {plain[-1]:.4f}")
    assert losses[-1] < losses[0] / 4
    assert losses[-1] < 0.05 + 2 * plain[-1]
