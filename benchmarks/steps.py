"""Whole steps as people write them: training steps of small models, an optimizer's update, a loop that samples tokens.

Each is a function that JAX can trace and the arrays it is called with; `python -m benchmarks.training` measures them.
Products of the FP8 models quantize both operands by their largest element, forward and backward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .programs import FN, normal

Product = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class Step:
    """A function that JAX can trace, and its arguments: trees of arrays."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def _quantize(x: Any) -> tuple[Any, Any]:
    scale = jnp.max(jnp.abs(x)) / 448
    return (x / scale).astype(FN), scale


def _matmul(a: Any, b: Any) -> Any:
    numbers = (((a.ndim - 1,), (0,)), ((), ()))
    return jax.lax.dot_general(a, b, numbers, preferred_element_type=jnp.float32)


def _fp8_forward(a: Any, b: Any) -> Any:
    (qa, sa), (qb, sb) = _quantize(a), _quantize(b)
    return _matmul(qa, qb) * sa * sb


@jax.custom_vjp
def fp8(a: Any, b: Any) -> Any:
    """The product of f32 operands that are quantized to f8E4M3FN, as are those of its gradient."""
    return _fp8_forward(a, b)


def _fp8_saved(a: Any, b: Any) -> tuple[Any, tuple[Any, Any]]:
    return _fp8_forward(a, b), (a, b)


def _fp8_gradient(saved: tuple[Any, Any], gradient: Any) -> tuple[Any, Any]:
    a, b = saved
    rows, flat = a.reshape(-1, a.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    return _fp8_forward(flat, b.T).reshape(a.shape), _fp8_forward(rows.T, flat)


fp8.defvjp(_fp8_saved, _fp8_gradient)


def bf16(a: Any, b: Any) -> Any:
    return _matmul(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16))


def descend(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step of gradient descent: the loss and the new parameters."""

    def step(parameters: Any, *data: Any) -> tuple[Any, Any]:
        value, gradients = jax.value_and_grad(loss)(parameters, *data)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

    return step


def _likelihood(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def _normalize(x: Any, axes: Any = -1) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(axes, keepdims=True) + 1e-5)


# -- a character-level GPT of two layers -------------------------------------------------------------------------------

_VOCABULARY, _WIDTH, _LENGTH, _HEADS, _BATCH = 64, 64, 32, 4, 8


def _gpt_logits(parameters: Any, tokens: Any, product: Product) -> Any:
    batch, length = tokens.shape
    h = parameters["embedding"][tokens] + parameters["positions"][:length]
    for layer in parameters["layers"]:
        heads = jnp.split(product(_normalize(h), layer["qkv"]), 3, -1)
        q, k, v = (t.reshape(batch, length, _HEADS, -1).transpose(0, 2, 1, 3) for t in heads)
        scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(_WIDTH // _HEADS))
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, _WIDTH)
        h = h + product(mixed, layer["out"])
        h = h + product(jax.nn.gelu(product(_normalize(h), layer["up"])), layer["down"])
    return product(_normalize(h), parameters["head"])


def _gpt_parameters() -> Any:
    w = _WIDTH
    shapes = {"qkv": (w, 3 * w), "out": (w, w), "up": (w, 4 * w), "down": (4 * w, w)}
    return {
        "embedding": normal(1, (_VOCABULARY, w), np.float32, 0.05),
        "positions": normal(2, (_LENGTH, w), np.float32, 0.05),
        "head": normal(3, (w, _VOCABULARY), np.float32, 0.05),
        "layers": [
            {name: normal(10 * i + j, shape, np.float32, 0.05) for j, (name, shape) in enumerate(shapes.items())}
            for i in range(2)
        ],
    }


def _tokens(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, _VOCABULARY, (_BATCH, _LENGTH)).astype(np.int32)


def _gpt(product: Product) -> Callable[..., Any]:
    return descend(lambda p, x, y: _likelihood(_gpt_logits(p, x, product), y))


def sample_tokens(parameters: Any, key: Any) -> Any:
    """Sixteen tokens, one after the other, each sampled from the model's output for the preceding ones."""

    def iteration(carry: Any, i: Any) -> tuple[Any, Any]:
        tokens, key = carry
        key, draw = jax.random.split(key)
        logits = _gpt_logits(parameters, tokens, _matmul)[:, i]
        drawn = jax.random.categorical(draw, logits).astype(jnp.int32)
        return (tokens.at[:, i + 1].set(drawn), key), drawn

    start = jnp.zeros((1, _LENGTH), jnp.int32)
    return jax.lax.scan(iteration, (start, key), jnp.arange(16))[1]


# -- convolutions ------------------------------------------------------------------------------------------------------

_LAYOUT = ("NHWC", "HWIO", "NHWC")


def _convolution(x: Any, w: Any, stride: int = 1) -> Any:
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=_LAYOUT)


def _cnn(parameters: Any, images: Any, labels: Any) -> Any:
    h = images
    for w in parameters["kernels"]:
        h = jax.nn.relu(_convolution(h, w))
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return _likelihood(h.reshape(h.shape[0], -1) @ parameters["dense"], labels)


def _resnet(parameters: Any, images: Any) -> Any:
    h = jax.nn.relu(_normalize(_convolution(images, parameters[0]), (0, 1, 2)))
    h = _normalize(_convolution(h, parameters[1]), (0, 1, 2))
    return jnp.square(jax.nn.relu(h + images)).mean()


def _unet(parameters: Any, images: Any, noise: Any, time: Any) -> Any:
    signal = jnp.cos(time * np.float32(np.pi / 2))[:, None, None, None]
    noisy = signal * images + jnp.sqrt(1 - signal * signal) * noise
    first = jax.nn.silu(_convolution(noisy, parameters["in"]) + parameters["time"] * time[:, None, None, None])
    low = jax.nn.silu(_normalize(_convolution(first, parameters["down"], 2), (1, 2)))
    low = jax.nn.silu(_normalize(_convolution(low, parameters["middle"]), (1, 2)))
    up = jax.image.resize(low, (*first.shape[:3], low.shape[3]), "nearest")
    h = jax.nn.silu(_convolution(jnp.concatenate([first, up], -1), parameters["up"]))
    return jnp.square(_convolution(h, parameters["out"]) - noise).mean()


# -- others ------------------------------------------------------------------------------------------------------------


def _lstm(parameters: Any, inputs: Any, labels: Any) -> Any:
    def cell(state: Any, x: Any) -> tuple[Any, Any]:
        h, c = state
        i, f, g, o = jnp.split(x @ parameters["input"] + h @ parameters["hidden"] + parameters["bias"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((inputs.shape[1], parameters["hidden"].shape[0]))
    (h, _), _ = jax.lax.scan(cell, (zeros, zeros), inputs)
    return _likelihood(h @ parameters["head"], labels)


def adam(parameters: Any, gradients: Any, first: Any, second: Any, count: Any) -> Any:
    """The update of every leaf by Adam."""
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    a, b = 1 - 0.9**count, 1 - 0.999**count
    moved = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / a) / (jnp.sqrt(v / b) + 1e-8), parameters, first, second)
    return moved, first, second


def random_numbers(key: Any) -> Any:
    """Random numbers of an initializer, a dropout mask and a noise draw."""
    keys = jax.random.split(key, 4)
    return (
        jax.random.normal(keys[0], (256, 256)),
        jax.random.uniform(keys[1], (256, 256)),
        jax.random.bernoulli(keys[2], 0.9, (256, 256)),
        jax.random.categorical(keys[3], jnp.zeros((64, 100))),
    )


def _leaves(seed: int) -> list[np.ndarray]:
    return [np.abs(normal(seed + i, (32, 32) if i % 2 else (32,), np.float32, 0.05)) for i in range(200)]


def _labels(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 10, count).astype(np.int32)


def _weights(scale: float, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {name: normal(i, shape, np.float32, scale) for i, (name, shape) in enumerate(shapes.items())}


_KEY = np.array([0, 1], np.uint32)
_CNN = {
    "kernels": [normal(1, (3, 3, 1, 16), np.float32, 0.2), normal(2, (3, 3, 16, 32), np.float32, 0.1)],
    "dense": normal(3, (128, 10), np.float32, 0.1),
}
_UNET = _weights(
    0.1,
    {
        "in": (3, 3, 3, 16),
        "time": (16,),
        "down": (3, 3, 16, 32),
        "middle": (3, 3, 32, 32),
        "up": (3, 3, 48, 16),
        "out": (3, 3, 16, 3),
    },
)
_LSTM = _weights(0.1, {"input": (32, 256), "hidden": (64, 256), "bias": (256,), "head": (64, 10)})

STEPS = (
    Step("GPT, FP8 products", _gpt(fp8), (_gpt_parameters(), _tokens(1), _tokens(2))),
    Step("GPT, bf16 products", _gpt(bf16), (_gpt_parameters(), _tokens(1), _tokens(2))),
    Step("GPT, f32", _gpt(_matmul), (_gpt_parameters(), _tokens(1), _tokens(2))),
    Step("CNN on digits", descend(_cnn), (_CNN, normal(5, (32, 8, 8, 1), np.float32), _labels(32))),
    Step(
        "LSTM of 20 steps",
        descend(_lstm),
        (
            _LSTM,
            normal(5, (20, 16, 32), np.float32),
            _labels(16),
        ),
    ),
    Step(
        "ResNet block with its gradient",
        descend(_resnet),
        ([normal(i, (3, 3, 32, 32), np.float32, 0.1) for i in range(2)], normal(5, (8, 16, 16, 32), np.float32)),
    ),
    Step("Adam, 200 leaves", adam, (_leaves(0), _leaves(200), _leaves(400), _leaves(600), np.float32(3))),
    Step("random numbers", random_numbers, (_KEY,)),
    Step(
        "UNet, a diffusion step",
        descend(_unet),
        (
            _UNET,
            normal(6, (4, 16, 16, 3), np.float32),
            normal(7, (4, 16, 16, 3), np.float32),
            np.array([0.1, 0.4, 0.6, 0.9], np.float32),
        ),
    ),
    Step("16 tokens sampled", sample_tokens, (_gpt_parameters(), _KEY)),
)
