"""Optimizations. None of them changes a result: each can be turned off, and a test compares the results."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import os
from collections.abc import Callable, Iterator

from .tuning import DEFAULT as UNTUNED
from .tuning import Tuning


@dataclasses.dataclass(frozen=True)
class Speed:
    """The optimizations; all are on unless turned off.

    tables: groups of elementwise ops that depend on 16 bits or less become one lookup in a table of all cases.
    blocks: other elementwise groups, and reductions of them, run block by block instead of op by op.
    turns: turns of loops that do not depend on each other run side by side.
    scalars: ops on single numbers, and loops and branches, become plain Python instead of calls.
    compiled: large arrays are handed to kernels that numba compiles, where it is installed.
    heap: freed memory is kept for the next large array, where the C library is glibc.
    threads: how many threads may work on one large array; 0 means as many as there are processors, at most 8.
    tuning: the thresholds and block sizes.
    """

    tables: bool = True
    blocks: bool = True
    turns: bool = True
    scalars: bool = True
    compiled: bool = True
    heap: bool = True
    threads: int = 0
    tuning: Tuning = UNTUNED

    @property
    def workers(self) -> int:
        """The number of threads that may work on one array."""
        return self.threads or _processors()

    def without(self, names: str) -> Speed:
        """This, with the optimizations that a list such as `tables,threads` names turned off. Raises ValueError."""
        off: dict[str, bool | int] = {}
        for name in filter(None, map(str.strip, names.split(","))):
            if name not in NAMES:
                raise ValueError(f"expected an optimization ({', '.join(NAMES)}), got {name!r}")
            off[name] = 1 if name == "threads" else False
        return dataclasses.replace(self, **off)  # pyright: ignore[reportArgumentType]


#: The optimizations that can be turned off.
NAMES = tuple(f.name for f in dataclasses.fields(Speed) if f.name != "tuning")
NONE = Speed().without(",".join(NAMES))
#: The environment variable that lists what is turned off where nothing else is said.
VARIABLE = "MINIHLO_WITHOUT"


def _default() -> Speed:
    try:
        return Speed().without(os.environ.get(VARIABLE, ""))
    except ValueError:  # the planner reports it
        return Speed()


DEFAULT = _default()
_current: contextvars.ContextVar[Speed] = contextvars.ContextVar("minihlo speed", default=DEFAULT)

#: What the kernels that run now may use; and how to set it, which gives what undoes it.
current: Callable[[], Speed] = _current.get
enter = _current.set
leave = _current.reset


@contextlib.contextmanager
def entered(speed: Speed) -> Iterator[None]:
    """A context in which kernels are made and run with these optimizations."""
    token = enter(speed)
    try:
        yield
    finally:
        leave(token)


def tuning() -> Tuning:
    """The thresholds and block sizes of the kernels that run now, or that are made now for a plan."""
    return current().tuning


def _processors() -> int:
    """How many processors this process may use; as everywhere, OMP_NUM_THREADS can say fewer."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(min(count, int(limit) if limit.isdecimal() else count, 8), 1)
