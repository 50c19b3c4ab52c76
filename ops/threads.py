"""Threads that share the parts of a large array. No result depends on how many there are."""

from __future__ import annotations

import concurrent.futures
import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Part = TypeVar("Part")
_NONE = object()

#: The most threads that share an array; more gain nothing for what fits the memory's bandwidth.
MOST = 8
#: How many threads may share an array now; 0 stands for as many as there are processors, at most `MOST`.
limit: contextvars.ContextVar[int] = contextvars.ContextVar("threads", default=0)

_pool: concurrent.futures.ThreadPoolExecutor | None = None


def count() -> int:
    """Return how many threads may share an array. As everywhere, OMP_NUM_THREADS can say fewer."""
    return limit.get() or _PROCESSORS


def for_each(work: Callable[[Part], Any], parts: Sequence[Part]) -> None:
    """Call `work` for each part, in any order, by several threads. Raises what it raises.

    The calling thread never waits for a part that has not begun: beside busy processes it does the parts itself.
    """
    global _pool
    helpers = min(count(), len(parts)) - 1
    if helpers < 1:
        for part in parts:
            work(part)
        return
    left = iter(parts)
    lock = threading.Lock()

    def run() -> None:
        while True:
            with lock:
                part = next(left, _NONE)
            if part is _NONE:
                return
            work(part)  # pyright: ignore[reportArgumentType]

    if _pool is None:
        _pool = concurrent.futures.ThreadPoolExecutor(MOST, "minihlo")
    others = [_pool.submit(contextvars.copy_context().run, run) for _ in range(helpers)]
    run()
    for other in others:
        if not other.cancel():
            other.result()


def _processors() -> int:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return max(min(processors, int(given) if given.isdecimal() else processors, MOST), 1)


_PROCESSORS = _processors()


if hasattr(os, "register_at_fork"):  # in a child the threads of the pool are not there
    os.register_at_fork(after_in_child=lambda: globals().update(_pool=None))
