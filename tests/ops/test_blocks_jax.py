"""`interp.quantize` in JAX programs: jit, vmap and grad give what it gives of numpy arrays, on any platform."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.blocks.formats import BLOCK_FORMATS

NAMES = tuple(name for name, f in BLOCK_FORMATS.items() if f.scale_format.has_dtype)


def sample(dtype: str = "float32", shape: tuple[int, ...] = (3, 40)) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(shape)
    x[0, 3], x[1, 39] = np.nan, -0.0
    return x.astype(dtype)


def check(found, want) -> None:
    for a, b in zip(found, want, strict=True):
        assert np.asarray(a).shape == np.asarray(b).shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def round_trip(x, name: str):
    codes, scales, *rest = interp.quantize(x, name)
    return interp.dequantize(codes, scales, name, tensor_scale=rest[0] if rest else None)


@pytest.mark.parametrize("platform", ["cpu", "minihlo"])
@pytest.mark.parametrize("name", NAMES)
def test_jit(name: str, platform: str) -> None:
    x = sample()
    there = jax.device_put(x, jax.devices(platform)[0])
    want = interp.quantize(x, name, scale="rceil")
    check(interp.quantize(there, name, scale="rceil"), want)
    check(jax.jit(lambda v: interp.quantize(v, name, scale="rceil"))(there), want)
    check(interp.jit(lambda v: interp.quantize(v, name, scale="rceil"))(there), want)
    check([jax.jit(lambda v: round_trip(v, name))(there)], [round_trip(x, name)])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "int8", "float8_e5m2", "bool"])
def test_dtypes(dtype: str) -> None:
    x = np.nan_to_num(sample(), nan=-3).astype(getattr(ml_dtypes, dtype, None) or dtype)
    for name in ("mxfp8_e4m3", "nvfp4"):
        check(jax.jit(lambda v, n=name: interp.quantize(v, n, rounding="up"))(jnp.asarray(x)),
              interp.quantize(x, name, rounding="up"))  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_vmap_is_each_by_itself(name: str) -> None:
    """The scale of the tensor is that of each."""
    x = sample()
    mapped = jax.vmap(lambda row: interp.quantize(row, name))(jnp.asarray(x))
    columns = jax.jit(jax.vmap(lambda row: interp.quantize(row, name), in_axes=1))(jnp.asarray(x.T))
    back = jax.vmap(lambda row: round_trip(row, name))(jnp.asarray(x))
    for i, row in enumerate(x):
        want = interp.quantize(row, name)
        check([np.asarray(part)[i] for part in mapped], want)  # an index of XLA's may give another NaN
        check([np.asarray(part)[i] for part in columns], want)
        check([back[i]], [round_trip(row, name)])


def test_vmap_of_the_scale_of_the_tensor() -> None:
    x = jnp.asarray(sample()[1:])
    given = jnp.array([0.001, 0.002], np.float32)
    found = jax.vmap(lambda row, scale: interp.quantize(row, "nvfp4", tensor_scale=scale))(x, given)
    shared = jax.vmap(lambda row: interp.quantize(row, "nvfp4", tensor_scale=given[0]))(x)
    for i in range(2):
        check([p[i] for p in found], interp.quantize(np.asarray(x[i]), "nvfp4", tensor_scale=float(given[i])))
        check([p[i] for p in shared], interp.quantize(np.asarray(x[i]), "nvfp4", tensor_scale=0.001))


@pytest.mark.parametrize("name", NAMES)
def test_the_derivative_is_straight_through(name: str) -> None:
    x = jnp.asarray(sample()[1:])
    weights = jnp.asarray(np.random.default_rng(1).standard_normal(x.shape).astype(np.float32))
    for function in (interp.straight_through, round_trip):
        value, slope = jax.value_and_grad(lambda v, f=function: (f(v, name) * weights).sum())(x)
        assert np.array_equal(slope, weights)
        assert np.array_equal(jax.jit(jax.grad(lambda v, f=function: (f(v, name) * weights).sum()))(x), weights)
        want = (jnp.asarray(round_trip(np.asarray(x), name)) * weights).sum()
        assert value == want
    assert interp.straight_through(x.astype(jnp.bfloat16), name).dtype == jnp.bfloat16


def test_the_derivative_of_elements_by_themselves() -> None:
    x = jnp.asarray(sample()[1:])
    codes, scales = interp.quantize(x, "mxfp8_e5m2")
    slope = jax.grad(lambda v: interp.quantize(v, "mxfp8_e5m2")[0].astype(np.float32).sum())(x)
    assert np.array_equal(slope, 1 / np.repeat(np.asarray(scales, np.float32), 32, 1)[:, :40])
    moved = jax.grad(lambda c: interp.dequantize(c, scales, "mxfp8_e5m2").sum())(codes)
    assert np.array_equal(np.asarray(moved, np.float32), np.repeat(np.asarray(scales, np.float32), 32, 1)[:, :40])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: interp.quantize(x.astype(jnp.complex64), "mxint8"), "expected an array of real numbers"),
        (lambda x: interp.quantize(x, "mxint8", tensor_scale=1), "tensor_scale: expected none for mxint8"),
        (lambda x: interp.dequantize(x, x, "mxint8"), "codes: expected dtype int8 or uint8, got float32"),
        (
            lambda x: interp.dequantize(x.astype(np.int8), x.astype(np.uint8), "mxint8"),
            r"scales: expected shape \[2, 2\]",
        ),
        (lambda x: interp.quantize(x, "mxint8", axis=2), "axis: expected from -2 to 1, got 2"),
    ],
)
def test_bad_arguments(call, message: str) -> None:
    with pytest.raises(interp.InputError, match=message):
        call(jnp.asarray(sample()[1:]))
