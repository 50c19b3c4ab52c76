"""Asynchronous forms of ops: a collective begins, and its result is waited for later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..op import Call, Run, op
from ..require import require, unpack
from ..traits import Effects, OpTraits
from ..types import FutureType
from .exchange import Future
from .parallel import current


@op("async_start", values="regions", has_effects=True, traits=OpTraits(effects=Effects.PROCESSES))
def async_start(call: Call) -> Run:
    """Starts the collective op in its body with the operands of this process, and does not wait.

    A slice is computed at once. (C3) the body takes the operands. (C4) the result is a future of what it gives. That it
    is a single op, of those, (C1, C2) is up to the parser.
    """
    counts = len(call.bodies), len(call.results)
    require(counts == (1, 1), f"{counts[0]} regions and {counts[1]} results (expected one and one)")
    (body,), (result,) = call.bodies, call.results
    require(body.arguments == call.operands, f"the body has type {body} (expected one that takes the operands)")
    require(result == FutureType(body.results), f"the result is {result} (expected {FutureType(body.results)})")

    def kernel(regions: tuple[Callable[..., tuple[Any, ...]]], *values: Any) -> tuple[Any, ...]:
        process = current()
        process.defers = True
        try:
            return regions[0](*values)
        finally:
            process.defers = False

    return kernel


@op("async_done", operands=1, has_effects=True, traits=OpTraits(effects=Effects.PROCESSES))
def async_done(call: Call) -> Run:
    """Waits for the op that async_start has started, and returns its results.

    (C1) they have the types that the future is of.
    """
    (operand,), expected = call.operands, FutureType(call.results)
    require(operand == expected, f"the operand is {operand} (expected {expected})")
    return lambda future: unpack(tuple(v.get() if isinstance(v, Future) else v for v in future))
