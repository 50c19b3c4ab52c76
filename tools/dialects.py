"""The ops that the StableHLO of this jaxlib knows, and that peers can therefore be asked for."""

from __future__ import annotations

import functools

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, stablehlo


@functools.cache
def is_registered(op: str) -> bool:
    """Whether the StableHLO or CHLO of this jaxlib has an op: others are read in generic form alone."""
    context = ir.Context()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    return context.is_registered_operation(op)
