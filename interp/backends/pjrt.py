"""A PJRT plugin, given as the path of its library: JAX loads it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import jax
from .base import Evaluate, Kind

#: The name of the platform in JAX. It need not be the plugin's own name, since programs go to its compiler unchanged.
_PLATFORM = "pjrt_plugin"


def _environment(path: str) -> Mapping[str, str]:
    if not os.path.isfile(path):
        raise ValueError("expected a file, got none")
    return {**jax.KIND.environment(_PLATFORM), "PJRT_NAMES_AND_LIBRARY_PATHS": f"{_PLATFORM}:{os.path.abspath(path)}"}


KIND = Kind(
    "pjrt:/PATH/PLUGIN.so",
    rest="[^:,]+",  # JAX splits the variable at : and ,
    modules=jax.KIND.modules,
    extra=jax.KIND.extra,
    packages=jax.KIND.packages,
    environment=_environment,
)


def start(_: str) -> Evaluate:
    """Return the function that runs a program on the plugin loaded by JAX."""
    return jax.start(_PLATFORM)
