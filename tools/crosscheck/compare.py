"""Runs the peers on the cases and makes rows of what differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from minihlo.interp.backends import BackendError
from minihlo.ops.programs.checks import INFINITELY_FAR, ulp_distance
from minihlo.ops.types import ElementType

from . import causes_reference, causes_rounding, causes_xla  # noqa: F401  they declare the causes
from .absent import is_absent
from .cases import Case, batches, operands
from .causes import CAUSES, assign
from .peers import PEERS, Codes, results
from .registry import ACCURACY
from .table import Row


@dataclasses.dataclass(frozen=True)
class Found:
    """What a comparison found: the rows, and the cases of which a peer gave no result, or gave one unexpectedly."""

    rows: tuple[Row, ...]
    missing: tuple[str, ...]


def compare(chosen: Iterable[Sequence[Case]] | None = None) -> Found:
    """Compare all peers on batches of cases (all of them by default)."""
    rows: list[Row] = []
    missing: list[str] = []
    # One thread for each peer in a process of its own: they run beside each other and beside what runs here.
    pools = {name: ThreadPoolExecutor(1) for name in PEERS if name in ("xla", "reference")}
    try:
        jobs = []
        for batch in batches() if chosen is None else chosen:
            codes = operands(batch[0].operand, batch[0].arity)
            futures = {name: pool.submit(_results, name, batch, codes) for name, pool in pools.items()}
            jobs.append((batch, codes, futures))
        for batch, codes, futures in jobs:
            ours = results("direct", batch, codes)
            for peer in PEERS:
                theirs = _of(futures[peer]) if peer in futures else _results(peer, batch, codes)
                for case, got, expected in zip(batch, theirs, ours, strict=True):
                    assert isinstance(expected, np.ndarray)
                    absent = isinstance(got, BackendError)
                    if absent != is_absent(peer, case):
                        told = f"gives no result: {got}" if absent else "gives a result, and should have none"
                        missing.append(f"{peer} {case.name} of {case.operand} {told}")
                    if not isinstance(got, BackendError):
                        rows += _rows(peer, case, codes, expected, got)
    finally:
        for pool in pools.values():
            pool.shutdown(cancel_futures=True)
    return Found(tuple(sorted(rows, key=Row.order)), tuple(missing))


def _of(future: Future[list[Codes | BackendError]]) -> list[Codes | BackendError]:
    return future.result()


def _results(peer: str, batch: Sequence[Case], codes: Sequence[Codes]) -> list[Codes | BackendError]:
    """The results of a peer. Cases that it is known to lack are run apart, since one of them fails a whole program."""
    lacks = [is_absent(peer, case) for case in batch]
    if all(lacks) and peer != "ml_dtypes":  # then one failure stands for all: each would end a process
        first = results(peer, batch[:1], codes)[0]
        return [first] * len(batch)
    there = iter(results(peer, [c for c, absent in zip(batch, lacks, strict=True) if not absent], codes))
    return [
        results(peer, [case], codes)[0] if absent else next(there) for case, absent in zip(batch, lacks, strict=True)
    ]


def _rows(peer: str, case: Case, codes: Sequence[Codes], expected: Codes, got: Codes) -> Iterator[Row]:
    for name, places in assign(peer, case, codes, expected, got):
        first = places[0]
        ulp = 0
        if name and CAUSES[name].kind == ACCURACY:
            ulp = _farthest(case.result_type, got[places], expected[places])
        yield Row(
            peer,
            case.op,
            case.operand,
            case.result,
            name,
            len(places),
            tuple(int(x[first]) for x in codes),
            int(got[first]),
            int(expected[first]),
            ulp,
        )


def _farthest(t: ElementType, got: Codes, expected: Codes) -> int:
    distance = int(ulp_distance(got.view(t.dtype), expected.view(t.dtype)).max())
    if distance == INFINITELY_FAR:
        raise ValueError("a result that is not finite is not a matter of accuracy")
    return distance
