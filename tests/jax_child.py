"""Runs a piece of Python in a process of its own, with JAX on platform minihlo."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

_START = """
import os, sys
import jax, jax.numpy as jnp, numpy as np, ml_dtypes
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.config.update("jax_enable_x64", True)

def fails(function, *parts):
    try:
        jax.block_until_ready(function())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        assert all(part in text for part in parts), text
    else:
        raise AssertionError("nothing was raised")
"""


def run_jax(code: str, *, start: str = "", devices: int = 1, timeout: float = 120, **environment: str) -> str:
    """What the process printed; `start` comes before the code. Fails the test where it ends otherwise than well."""
    variables = {"JAX_PLATFORMS": "minihlo", "MINIHLO_NUM_DEVICES": str(devices), **environment}
    result = subprocess.run(
        [sys.executable, "-c", _START + textwrap.dedent(start + code)],
        env={**{k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "MINIHLO_"))}, **variables},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr[-4000:]}"
    return result.stdout
