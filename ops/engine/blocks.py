"""Large arrays taken in parts that fit the cache, by several threads.

Parts have 2**17 elements: a few arrays of this size fit the second-level cache. Smaller parts would fit the first
level, but Python runs one thread at a time between calls of numpy, and threads that make many short calls wait for each
other. An array of at most this size is one part: waking another thread for it costs more than it saves.

Measured with two threads on 10**6 elements, in ms, with parts of 2**15 and of 2**17: quantize 4.0 and 2.9, softmax 8.8
and 7.2, silu(a) * b 2.4 and 1.5.

Several threads can still take longer than one, where calls of numpy are short or other processes are busy. Repeated
work is timed both ways from time to time, and done in the faster way (`Pace`).
"""

from __future__ import annotations

import contextvars
import itertools
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from . import speed
from .native.squares import squares

Part = TypeVar("Part")


#: Bytes that a cache moves together.
LINE = 64
#: The first cache of a processor: its bytes, and those after which its places repeat.
_CACHE, _PERIOD = 1 << 15, 1 << 12

_pool: ThreadPoolExecutor | None = None


def block(size: int, steps: int = 1) -> int:
    """How many elements of an array of `size` are to be worked on at a time, by so many operations."""
    tuned = speed.tuning()
    is_long = steps >= tuned.block_long
    if size <= (tuned.block_of_long if is_long else tuned.block):
        return size
    most = max(tuned.block_of_long, size >> 3) if is_long else tuned.block
    return min(size >> 2, most, tuned.block)


def blocks(shape: Sequence[int], limit: int) -> Iterator[tuple[slice, ...]]:
    """Parts of an array of this shape, in row-major order, each of about `limit` elements at most."""
    split = next((d for d in range(len(shape)) if math.prod(shape[d + 1 :]) <= max(limit, 1)), 0)
    if not shape:
        yield ()
        return
    step = max(limit // max(math.prod(shape[split + 1 :]), 1), 1)
    whole = tuple(slice(0, n) for n in shape[split + 1 :])
    for outer in itertools.product(*(range(n) for n in shape[:split])):
        for start in range(0, shape[split], step):
            yield (*(slice(i, i + 1) for i in outer), slice(start, min(start + step, shape[split])), *whole)


def apart(x: np.ndarray) -> np.ndarray:
    """`x`, or a copy of it that is quicker to lay the other way round: with gaps between what are rows in memory.

    It is wanted for a matrix whose columns lie together in memory, so far from each other that they share few places of
    the cache, which do not hold a line of each. 256 such columns of 256 f32 are laid out in 0.08 ms as they are, by way
    of the copy in 0.04.
    """
    if x.ndim != 2 or x.strides[0] != x.itemsize or x.shape[1] * math.gcd(x.strides[1], _PERIOD) <= _CACHE:
        return x
    rows = np.empty((x.shape[1], x.shape[0] + LINE // x.itemsize), x.dtype)[:, : x.shape[0]]
    rows[...] = x.T
    return rows.T


def array_to_fill(out: np.ndarray | None, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """`out` if it is a contiguous array of this shape, else a new array."""
    if out is not None and out.shape == shape and out.flags.c_contiguous:
        return out
    return empty(shape, dtype)


def empty(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """`np.empty`; large arrays begin at a line of the cache: such results JAX takes as they are, and copies others."""
    size = math.prod(shape) * dtype.itemsize
    if size < speed.tuning().aligned_bytes:
        return np.empty(shape, dtype)
    room = np.empty(size + LINE, np.uint8)
    start = -room.__array_interface__["data"][0] % LINE
    return room[start : start + size].view(dtype).reshape(shape)


def repeated(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`np.broadcast_to`, which takes 5 µs, in 1 µs: a view that is not to be written to."""
    return np.nditer((x,), flags=_VIEWED, op_flags=_READ, itershape=shape, order="C").itviews[0]  # type: ignore[call-overload]


_VIEWED, _READ = ["multi_index", "refs_ok", "zerosize_ok"], [["readonly"]]


def in_order(x: np.ndarray) -> np.ndarray:
    """A copy whose elements lie together in C's order; of a large matrix that lies across, square by square.

    Rows and columns of a square are in the cache together, which whole columns are not.
    """
    if x.ndim != 2 or x.strides[0] != x.itemsize:
        return x.copy()
    tuned = speed.tuning()
    side = tuned.across_side
    if min(x.shape) < side:
        return x.copy()
    result, (height, width) = empty(x.shape, x.dtype), x.shape
    if x.strides[1] % _PERIOD == 0:
        side //= 2  # the columns fall on the same places of the cache
    lay = squares(x.size, x.itemsize)

    def work(i: int) -> None:
        if lay is not None:
            lay(x[i : i + side], result[i : i + side])
            return
        for j in range(0, width, side):
            result[i : i + side, j : j + side] = x[i : i + side, j : j + side]

    for_each(range(0, height, side), work, x.size, "across")
    return result


class Pace:
    """Whether several threads do some work sooner than one: the work is timed both ways, and again after a while."""

    def __init__(self) -> None:
        self._calls = 0
        self._best = {True: math.inf, False: math.inf}

    def pays(self) -> bool:
        """Whether the work is to be done by several threads this time."""
        tuned = speed.tuning()
        call = self._calls % tuned.pace_calls
        self._calls += 1
        if call < tuned.pace_trials:
            if call == 0:
                self._best = {True: math.inf, False: math.inf}
            return call % 2 == 0
        return self._best[True] < self._best[False]

    def took(self, is_shared: bool, seconds: float) -> None:
        """Record how long the work took, by several threads or by one."""
        self._best[is_shared] = min(self._best[is_shared], seconds)


#: Of kinds of work, by their names and by the bits of the number of elements.
_paces: defaultdict[tuple[str, int], Pace] = defaultdict(Pace)


def for_each(parts: Sequence[Part], work: Callable[[Part], object], size: int, pace: Pace | str | None = None) -> None:
    """`work(part)` for all parts of an array of `size` elements, in any order, by several threads if that pays.

    The threads see the context variables of the caller, numpy's error state among them. `pace` is that of this work, or
    names a kind of work, on arrays of all sizes; without it, several threads are taken to pay.
    """
    now = speed.current()
    workers = min(now.workers, len(parts)) if size > now.tuning.block else 1
    if workers > 1 and pace is not None:
        pace = _paces[pace, size.bit_length()] if isinstance(pace, str) else pace
        is_shared, start = pace.pays(), time.perf_counter()
        _for_each(parts, work, workers if is_shared else 1)
        pace.took(is_shared, time.perf_counter() - start)
    else:
        _for_each(parts, work, workers)


def _for_each(parts: Sequence[Part], work: Callable[[Part], object], workers: int) -> None:
    if workers == 1:
        for part in parts:
            work(part)
        return
    left, do = iter(parts), work

    def take_some() -> None:
        for part in left:
            do(part)

    helpers = [_threads().submit(contextvars.copy_context().run, take_some) for _ in range(workers - 1)]
    try:
        take_some()
    finally:
        # A helper that has not begun has nothing left to do; and waiting for it could be waiting for ourselves.
        started = [h for h in helpers if not h.cancel()]
        for helper in started:
            helper.result()
        # A helper that was cancelled stays in the queue for a while: results that it had would be copied (`owned.py`).
        do = _nothing


def _nothing(_: object) -> None:
    """Takes the place of work that is done."""


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(os.cpu_count() or 1, 1), "minihlo")
    return _pool


def _forget_threads() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
