"""Programs over ordinary types, f32, bf16, f16 and int8: `python -m benchmarks.training --ordinary` measures them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from .programs import FN, normal
from .steps import Step

_F32, _F16, _BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
_FLOATS = {"f32": _F32, "bf16": _BF16, "f16": _F16}
_SHAPE = (1000, 1000)


def _of(name: str, function, *shapes: tuple[int, ...], scale: float = 1.0, types=_FLOATS) -> list[Step]:
    """The function on arrays of such shapes, once for each type."""
    return [
        Step(f"{name}, {t}", function, tuple(normal(i, s, dtype, scale) for i, s in enumerate(shapes)))
        for t, dtype in types.items()
    ]


def _layer_norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def _int8_product(x, y):
    return jax.lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)


def _mixed_product(x, y):
    return jax.lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)


def _dequantize(codes, scales):
    return (codes.astype(jnp.float32).reshape(-1, 32) * scales[:, None]).reshape(codes.shape)


_INT8 = np.random.default_rng(0).integers(-128, 128, (512, 512), np.int8)
_KEY = np.array([0, 1], np.uint32)

ORDINARY = (
    *_of("add", lambda x, y: x + y, _SHAPE, _SHAPE),
    *_of("multiply, add, maximum", lambda x, y: jnp.maximum(x * y + x, y), _SHAPE, _SHAPE),
    *_of("compare and select", lambda x, y: jnp.where(x < y, x, 2 * y), _SHAPE, _SHAPE),
    *_of("exp", jnp.exp, _SHAPE),
    *_of("gelu", jax.nn.gelu, _SHAPE),
    *_of("silu", jax.nn.silu, _SHAPE),
    *_of("tanh", jnp.tanh, _SHAPE),
    *_of("softmax", jax.nn.softmax, _SHAPE),
    *_of("layer norm", _layer_norm, _SHAPE),
    *_of("sum of rows", lambda x: x.sum(-1), _SHAPE),
    *_of("sum of columns", lambda x: x.sum(0), _SHAPE),
    *_of("maximum of rows", lambda x: x.max(-1), _SHAPE),
    *_of("transpose, add 1", lambda x: x.T + 1, _SHAPE),
    *_of("sort of rows", lambda x: jnp.sort(x, -1), (100, 1000)),
    *_of("batched small products", lambda x, y: x @ y, (256, 16, 16), (256, 16, 16)),
    *_of("product, 256³", lambda x, y: x @ y, (256, 256), (256, 256)),
    Step("log and sqrt, f32", lambda x: jnp.log(x * x + 1) + jnp.sqrt(jnp.abs(x)), (normal(0, _SHAPE, _F32),)),
    Step("normal numbers, f32", lambda key: jax.random.normal(key, _SHAPE), (_KEY,)),
    Step("uniform numbers, f32", lambda key: jax.random.uniform(key, _SHAPE), (_KEY,)),
    Step("int8 product, 512³", _int8_product, (_INT8, _INT8)),
    Step(
        "int8 add, saturated", lambda x, y: jnp.clip(x.astype(jnp.int32) + y, -128, 127).astype(jnp.int8), (_INT8,) * 2
    ),
    Step("bf16 by f8E4M3FN product", _mixed_product, (normal(0, (256, 256), _BF16), normal(1, (256, 256), FN))),
    Step("dequantized blocks of 32", _dequantize, (normal(0, (1024, 1024), FN), normal(1, (32768,), _F32))),
)
