"""Programs that JAX itself exports, run here and by JAX on the CPU: layers, gradients, random numbers, solvers.

How near must two float results be? Neither is exact. So the function is computed by JAX once more on float64 inputs,
and our float32 result may lie at most four times as far from that as JAX's own float32 result does, and a few roundings
of the largest element more. Integers, booleans and random bits must be equal.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from minihlo.interp import load

from ..thinned import thinned

Function = Callable[..., Any]

#: How many times as far from the truth as JAX's result ours may be, and how many roundings of the largest element.
FACTOR, ROUNDINGS = 4, 16


def leaves(values: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in jax.tree.leaves(values)]


def exported(f: Function, *arguments: Any, platform: str = "cpu") -> tuple[bytes, list[np.ndarray]]:
    """The artifact JAX saves, and the arguments that it kept."""
    artifact = jax.export.export(jax.jit(f), platforms=(platform,))(*arguments)
    flat = leaves(arguments)
    return artifact.mlir_module_serialized, [flat[i] for i in artifact.module_kept_var_idx]


def wide(values: Any) -> Any:
    """Floats of 32 bits as float64; all else as it is."""
    return jax.tree.map(lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, values)


def assert_near(ours: list[np.ndarray], theirs: list[np.ndarray], truths: list[np.ndarray]) -> None:
    assert len(ours) == len(theirs) == len(truths)
    for mine, yours, truth in zip(ours, theirs, truths, strict=True):
        assert (mine.shape, mine.dtype) == (yours.shape, yours.dtype)
        if mine.dtype.kind in "biu":
            np.testing.assert_array_equal(mine, yours)
            continue
        rounding = float(ml_dtypes.finfo(mine.dtype).eps)
        mine, yours, truth = (x.astype(np.complex128) for x in (mine, yours, truth))
        allowed = FACTOR * np.abs(yours - truth).max(initial=0) + ROUNDINGS * rounding * np.abs(truth).max(initial=0)
        assert np.isfinite(allowed)
        assert (np.abs(mine - truth) <= allowed).all()


def agree(f: Function, *arguments: Any, platform: str = "cpu") -> list[np.ndarray]:
    """Export, run here, compare; our results."""
    program, kept = exported(f, *arguments, platform=platform)
    ours = load(program)(*kept)
    with jax.enable_x64(True):
        truths = leaves(jax.jit(f)(*wide(arguments)))
    assert_near(ours, leaves(jax.jit(f)(*arguments)), truths)
    return ours


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (scale * np.random.default_rng([seed, *shape]).standard_normal(shape)).astype(np.float32)


def convolve(x: Any, kernel: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def cnn_loss(parameters: dict[str, Any], images: Any, labels: Any) -> tuple[Any, Any]:
    """Convolution, batch normalization of the batch, maximum and mean pooling, a dense layer, cross entropy."""
    x = convolve(images, parameters["first"])
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    x = (x - mean) * lax.rsqrt(variance + 1e-3) * parameters["scale"] + parameters["offset"]
    x = lax.reduce_window(jax.nn.relu(x), -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = convolve(x, parameters["second"], stride=2)
    x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME") / 4
    logits = x.reshape(x.shape[0], -1) @ parameters["dense"]
    one_hot = jax.nn.one_hot(labels, logits.shape[-1])
    return -jnp.mean(jnp.sum(one_hot * jax.nn.log_softmax(logits), -1)), logits.argmax(-1)


CNN = {
    "first": numbers(3, 3, 1, 4, scale=0.4),
    "scale": 1 + numbers(4, scale=0.1),
    "offset": numbers(4, seed=1, scale=0.1),
    "second": numbers(3, 3, 4, 6, scale=0.2),
    "dense": numbers(24, 5, scale=0.3),
}
IMAGES, LABELS = numbers(3, 8, 8, 1), np.array([0, 3, 4], np.int32)


def test_cnn_training_step() -> None:
    def step(parameters: dict[str, Any], images: Any, labels: Any) -> Any:
        (loss, _), gradients = jax.value_and_grad(cnn_loss, has_aux=True)(parameters, images, labels)
        return loss, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

    loss, *updated = agree(step, CNN, IMAGES, LABELS)
    better, _ = load(exported(cnn_loss, CNN, IMAGES, LABELS)[0])(*updated, IMAGES, LABELS)
    assert better < loss


def lstm(parameters: dict[str, Any], inputs: Any) -> Any:
    """An LSTM by lax.scan: the last state and all outputs."""
    size = parameters["hidden"].shape[0]

    def cell(state: tuple[Any, Any], x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ parameters["input"] + h @ parameters["hidden"] + parameters["bias"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    start = jnp.zeros((inputs.shape[1], size), inputs.dtype)
    return lax.scan(cell, (start, start), inputs)


LSTM = {"input": numbers(3, 16, scale=0.5), "hidden": numbers(4, 16, scale=0.5), "bias": numbers(16, scale=0.1)}
SEQUENCE = numbers(7, 2, 3)


def test_lstm_gradient_through_time() -> None:
    agree(jax.grad(lambda p, x: jnp.sum(lstm(p, x)[1] ** 2)), LSTM, SEQUENCE)


def block(parameters: dict[str, Any], tokens: Any, key: Any, rate: float = 0.2) -> Any:
    """Embedding, causal attention with dropout, GELU, layer normalization: logits."""
    x = parameters["embedding"][tokens]
    length, width = x.shape[-2:]

    def normalized(x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)

    def dropped(x: Any, key: Any) -> Any:
        return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)

    q, k, v = jnp.split(normalized(x) @ parameters["attention"], 3, axis=-1)
    q, k, v = (y.reshape(*y.shape[:-1], 2, width // 2) for y in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // 2).astype(np.float32)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    first, second = jax.random.split(key)
    weights = dropped(jax.nn.softmax(scores), first)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
    x = x + dropped(jax.nn.gelu(normalized(x) @ parameters["up"], approximate=False) @ parameters["down"], second)
    return normalized(x) @ parameters["embedding"].T


TRANSFORMER = {
    "embedding": numbers(11, 8),
    "attention": numbers(8, 24, scale=0.4),
    "up": numbers(8, 16, scale=0.4),
    "down": numbers(16, 8, scale=0.4),
}
TOKENS = np.array([[1, 5, 2, 9, 0], [3, 3, 10, 4, 7]], np.int32)
GENERATORS = ("threefry2x32", "rbg")


def key_data(generator: str) -> np.ndarray:
    return np.asarray(jax.random.key_data(jax.random.key(7, impl=generator)))


@pytest.mark.parametrize("generator", thinned(GENERATORS, lambda generator: generator == GENERATORS[0]))
def test_sampling_a_sequence(generator: str) -> None:
    """A loop that samples a token and puts it into the sequence: the same tokens."""

    def sample(parameters: Any, data: Any) -> Any:
        def step(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            tokens, key = state
            key, dropout, choice = jax.random.split(key, 3)
            logits = block(parameters, tokens[None], dropout)[0, i]
            token = jax.random.categorical(choice, logits / 4).astype(tokens.dtype)
            return tokens.at[i + 1].set(token), key

        key = jax.random.wrap_key_data(data, impl=generator)
        return lax.fori_loop(0, 7, step, (jnp.zeros(8, jnp.int32), key))[0]

    program, kept = exported(sample, TRANSFORMER, key_data(generator))
    (ours,) = load(program)(*kept)
    theirs = np.asarray(jax.jit(sample)(TRANSFORMER, key_data(generator)))
    assert len(set(theirs.tolist())) > 2
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("generator", thinned(GENERATORS, lambda generator: generator == GENERATORS[0]))
def test_random_numbers(generator: str) -> None:
    def draw(data: Any) -> Any:
        key = jax.random.wrap_key_data(data, impl=generator)
        a, b, c, d, e = jax.random.split(key, 5)
        return (
            jax.random.bits(a, (33,)),
            jax.random.uniform(b, (5, 3)),
            jax.random.randint(c, (9,), -5, 100),
            jax.random.permutation(d, 12),
            jax.random.key_data(jax.random.fold_in(e, 3)),
            jax.random.bernoulli(a, 0.3, (20,)),
        )

    program, kept = exported(draw, key_data(generator))
    for mine, theirs in zip(load(program)(*kept), leaves(jax.jit(draw)(key_data(generator))), strict=True):
        np.testing.assert_array_equal(mine, theirs, strict=True)


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz, jnp.float4_e2m1fn])
def test_quantized_layer_is_exact(dtype: Any) -> None:
    """Numbers whose products and sums are exact in f32: every element must be the same."""

    def f(x: Any, w: Any) -> Any:
        x, w = x.astype(dtype), w.astype(dtype)
        if dtype == jnp.float4_e2m1fn:  # which XLA on the CPU has no products of
            x, w = x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)
        y = lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)
        low = jnp.clip(y / 4, -4, 4).astype(dtype)
        return y, low, (low + low).astype(jnp.float32), jnp.maximum(low, low.astype(jnp.float32).mean().astype(dtype))

    x, w = (np.random.default_rng(s).integers(-3, 4, n).astype(np.float32) for s, n in ((0, (5, 8)), (1, (8, 6))))
    program, kept = exported(f, x, w)
    for mine, theirs in zip(load(program)(*kept), leaves(jax.jit(f)(x, w)), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine.astype(np.float32), theirs.astype(np.float32))


def special_functions(x: Any) -> Any:
    """What JAX lowers to CHLO, or expands by itself."""
    from jax.scipy import special

    y = jnp.abs(x) + 0.5
    return (
        special.erf(x), special.erfc(x), special.erfinv(x / 8), special.gammaln(y), special.digamma(y),
        jnp.arcsin(x / 8), jnp.arccosh(y + 1), jnp.arctanh(x / 8), jnp.sinh(x), jnp.tan(x), jnp.cbrt(y), special.i0e(x),
    )  # fmt: skip


def composed(x: Any) -> Any:
    """A composite, a rematerialized function, a barrier, a branch and a switch."""
    scaled = lax.composite(lambda y: y * 2 + 1, "model.scaled")(x)
    saved = jax.grad(lambda y: jnp.sum(jax.checkpoint(jnp.sin)(y)))(x)
    chosen = lax.cond(x.sum() > 0, jnp.cos, jnp.sin, x)
    switched = lax.switch(jnp.int32(2), [jnp.negative, jnp.abs, jnp.square], lax.optimization_barrier(x))
    return scaled, saved, chosen, switched


def ordered(x: Any) -> Any:
    """Sorting, searching, scanning and indexing."""
    row = jnp.sort(x[0])
    return (
        jnp.argsort(x), lax.top_k(x, 3), jnp.median(x), jnp.searchsorted(row, x[1]), jnp.cumsum(x, 1), lax.cummax(x),
        lax.associative_scan(jnp.multiply, x), x.at[jnp.array([1, 2])].add(2.0), jnp.nonzero(x > 0, size=5),
        jnp.unique(jnp.round(x), size=4), jnp.take(x, jnp.array([0, 9]), axis=0, mode="clip"),
    )  # fmt: skip


@pytest.mark.parametrize("f", [special_functions, composed, ordered], ids=lambda f: f.__name__)
def test_functions(f: Function) -> None:
    agree(f, numbers(6, 6))
