"""Transfers of values: send and recv between processes, infeed and outfeed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import Call, Run, op
from ..require import require, unpack
from ..traits import Effects, OpTraits
from ..types import TensorType, TokenType
from .exchange import type_text
from .parallel import current
from .process_groups import Pairs, channel_of

_OUTSIDE = OpTraits(effects=Effects.OUTSIDE)


@op("send", has_effects=True, traits=_OUTSIDE)
def send(call: Call) -> Run:
    """Sends values on a channel and does not wait for the receiver. Returns a token.

    A process that source_target_pairs does not name as a source sends nothing. Without pairs, as in a transfer to the
    host, the channel leads from the process that sends on it to the one that receives.

    (C1, C2, C3, C4) the pairs are distinct sources and distinct targets of the grid. (C5) is_host_transfer decides, not
    the type of the channel.
    """
    _check_sink(call)
    pairs, channel = _pairs(call), channel_of(call)

    def kernel(*values: Any) -> None:
        process, values = current(), values[:-1]
        if pairs is None:
            process.claim(channel, "send")
            process.send(channel, values)
        elif (target := pairs.of(process)[1]) is not None:
            process.send(("send", channel, process.id, target), values)

    return kernel


@op("recv", operands=1, has_effects=True, traits=_OUTSIDE)
def recv(call: Call) -> Run:
    """The values that a process has sent on a channel, and a token. Waits for them.

    A process that source_target_pairs does not name as a target receives zeros.

    (C1, C2, C3, C4) and (C5) as of send.
    """
    _check_source(call)
    pairs, channel = _pairs(call), channel_of(call)
    zeros = _zeros(call)
    what = f"{call.name} (channel {channel})"

    def kernel(_: Any) -> Any:
        process = current()
        if pairs is None:
            process.claim(channel, "receive")
            values = process.receive(channel, what, None, zeros).get()
        else:
            source, _ = pairs.of(process)
            name = ("send", channel, source, process.id)
            values = zeros if source is None else process.receive(name, what, source, zeros).get()
        return unpack((*values, None))

    return kernel


@op("infeed", operands=1, has_effects=True, traits=_OUTSIDE)
def infeed(call: Call) -> Run:
    """The next values of the process's infeed, and a token.

    (C1) there is a result. (C2, C3) the last is a token, the others tensors.
    """
    _check_source(call)
    wanted = [type_text(z) for z in _zeros(call)]

    def kernel(_: Any) -> Any:
        queue = current().infeed
        require(queue, "the infeed is empty")
        values = queue.popleft()()
        given = [type_text(v) for v in values]
        require(given == wanted, f"the infeed holds {', '.join(given)} (expected {', '.join(wanted)})")
        return unpack((*values, None))

    return kernel


@op("outfeed", has_effects=True, traits=_OUTSIDE)
def outfeed(call: Call) -> Run:
    """Takes values out of the program, where nothing reads them. Returns a token."""
    _check_sink(call)
    return lambda *_: None


def _pairs(call: Call) -> Pairs | None:
    """The pairs of a transfer between devices; None where there are none, and where it is one to or from the host."""
    if bool(call.attributes.get("is_host_transfer", False)) or not np.size(
        call.attributes.get("source_target_pairs", ())
    ):
        return None
    return Pairs(call)


def _check_sink(call: Call) -> None:
    got = ", ".join(map(str, (*call.operands[-1:], *call.results)))
    fits = call.operands[-1:] == call.results == (TokenType(),)
    require(fits, f"expected a token as last operand and as only result, got {got}")


def _check_source(call: Call) -> None:
    *payload, last = call.results or (None,)
    fits = isinstance(last, TokenType) and all(isinstance(t, TensorType) for t in payload)
    require(fits, f"results are {', '.join(map(str, call.results))} (expected tensors and then a token)")


def _zeros(call: Call) -> tuple[np.ndarray, ...]:
    """Zeros of the types of the results."""
    return tuple(np.zeros(call.shape(i), call.result(i).element.dtype) for i in range(len(call.results) - 1))
