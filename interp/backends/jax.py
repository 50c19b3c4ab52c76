"""Any platform of JAX, and so any PJRT plugin that JAX knows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import Evaluate, Kind

KIND = Kind(
    "jax:PLATFORM",
    rest=r"\w+",
    modules=("jax",),
    extra="jax",
    packages=("jax", "jaxlib"),
    environment=lambda platform: {"JAX_PLATFORMS": platform, "JAX_ENABLE_X64": "1"},
)

#: The number of compiled programs to keep, for programs that run repeatedly, such as the ops of a loop.
_KEPT = 256


def start(platform: str) -> Evaluate:
    """Compile the text unchanged with the client of the platform."""
    import jax
    from jax.extend.mlir import ir
    from jaxlib import lapack, xla_client

    from ..parse.parser import make_context

    if platform == "cpu":  # whose custom calls of LAPACK end the process otherwise
        lapack.prepare_lapack_call("potrf_ffi", np.dtype(np.float32))
    device = jax.devices(platform)[0]
    client: Any = device.client
    devices = xla_client.DeviceList((device,))

    @functools.lru_cache(_KEPT)
    def compile_program(text: str) -> Any:
        with make_context(text.__contains__), ir.Location.unknown():
            return client.compile_and_load(ir.Module.parse(text), devices, xla_client.CompileOptions())

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        program = compile_program(text)
        return [np.asarray(r) for r in program.execute([jax.device_put(a, device) for a in arrays])]

    return evaluate
