"""Asynchronous forms of ops: a collective begins, and its result is waited for later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..grid.exchange import Later
from ..grid.parallel import current
from ..op import BY_BODY, Call, OpError, Run, op
from ..traits import Effects, OpTraits
from ..types import FutureType


@op("async_start", values="regions", accuracy=BY_BODY, has_effects=True, traits=OpTraits(effects=Effects.PROCESSES))
def async_start(call: Call) -> Run:
    """Starts the collective op in its body with the operands of this process, and does not wait.

    A slice is computed at once. (C3) the body takes the operands. (C4) the result is a future of what it gives. That it
    is a single op, of those, (C1, C2) is up to the parser.
    """
    if len(call.bodies) != 1 or len(call.results) != 1:
        raise OpError(f"{len(call.bodies)} regions and {len(call.results)} results (expected one and one)")
    (body,), (result,) = call.bodies, call.results
    if body.arguments != call.operands:
        raise OpError(f"the body has type {body} (expected one that takes the operands)")
    if result != FutureType(body.results):
        raise OpError(f"the result is {result} (expected {FutureType(body.results)})")

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
    if call.operands[0] != FutureType(call.results):
        raise OpError(f"the operand is {call.operands[0]} (expected {FutureType(call.results)})")
    is_single = len(call.results) == 1

    def kernel(future: tuple[Any, ...]) -> Any:
        values = tuple(v.get() if isinstance(v, Later) else v for v in future)
        return values[0] if is_single else values

    return kernel
