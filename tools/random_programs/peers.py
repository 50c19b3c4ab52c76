"""The peers: XLA's CPU compiler and StableHLO's C++ interpreter, as backends in child processes that may die."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minihlo.interp import transport
from minihlo.interp.backends import BackendError, ChildBackend
from minihlo.interp.diff.source import Source

from .program import Module

#: The names of the peers and of their backends.
PEERS = {"xla": "jax:cpu", "reference": "reference"}
_SECONDS = 120.0
_FLAGS = "--xla_allow_excess_precision=false --xla_cpu_multi_thread_eigen=false"
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "XLA_FLAGS": _FLAGS}


class Peer:
    """A peer that is started on first use, and again after it has died."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._backend = ChildBackend(PEERS[name], _ENVIRONMENT, _SECONDS)
        self.close = self._backend.close

    def run(self, module: Module, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | BackendError:
        """The results of a module, or why there are none."""
        try:
            if self.name == "xla":
                return self._backend.evaluate(module.named(), arrays)
            body = (source := Source.of_text(module.named(), "program.mlir")).function.body
            assert body is not None
            pairs = zip(arrays, module.arguments, strict=True)
            sent = [part for x, t in pairs for part in transport.pack(x, t.element)]
            parts = iter(self._backend.evaluate(source.instrument(body.returns), sent))
            return [transport.unpack(parts, t.element) for t in module.results]
        except BackendError as error:
            return error
