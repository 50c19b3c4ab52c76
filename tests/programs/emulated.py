"""Runs programs emulated by XLA's CPU, for the tests of emulation."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir
from jaxlib import xla_client

from minihlo import interp
from minihlo.interp.emulate.program import emulate_text
from minihlo.interp.parse.parser import make_context
from minihlo.ops.policy import Policy


@functools.lru_cache(64)
def _compile(text: str) -> Any:
    device = jax.devices("cpu")[0]
    client: Any = device.client
    with make_context(text.__contains__), ir.Location.unknown():
        devices = xla_client.DeviceList((device,))
        return client.compile_and_load(ir.Module.parse(text), devices, xla_client.CompileOptions())


def run(text: str, arrays: Sequence[np.ndarray] = (), policy: Policy | None = None) -> list[np.ndarray]:
    """Return the results of a program that is emulated and run by XLA."""
    device = jax.devices("cpu")[0]
    program = _compile(emulate_text(text, policy))
    with jax.enable_x64(True):
        return [np.asarray(r) for r in program.execute([jax.device_put(a, device) for a in arrays])]


def check(text: str, arrays: Sequence[np.ndarray] = (), policy: Policy | None = None) -> None:
    """Assert that the emulated program and the interpreter give the same bits."""
    expected = interp.load(text)(*arrays, policy=policy)
    for x, y in zip(expected, run(text, arrays, policy), strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        differing = np.flatnonzero(bits(x) != bits(y))
        assert differing.size == 0, f"{differing.size} of {x.size} differ, first at {differing[0]}: {y.reshape(-1)[differing[0]]} for {x.reshape(-1)[differing[0]]}"  # fmt: skip  # noqa: E501


def bits(x: np.ndarray) -> np.ndarray:
    """Return the codes of elements, in one dimension."""
    return np.ascontiguousarray(x).reshape(-1).view(f"u{x.dtype.itemsize}")
