"""Where a JAX backend is wrong: XLA's CPU compiler converts the largest f4E2M1FN, 6, to the largest integer."""

import jax.numpy as jnp

from minihlo import interp


def dequantize(codes, scale):
    return codes.astype(jnp.int8).astype(jnp.float32) * scale


codes = jnp.arange(-6, 7).astype(jnp.float4_e2m1fn)
print(interp.compare(dequantize, codes, 0.5, backend="cpu"))
