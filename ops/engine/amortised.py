"""What is made only once it pays: lookup tables and the like, all kept within one bound on memory."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from .speed import tuning

T = TypeVar("T")


class Amortised(Generic[T]):
    """A thing that takes work to make and saves work later: it is made once the work done without it has cost as much.

    make: gives it.
    price: the work that making it takes, in the unit of the caller's, mostly elements; or a function that gives it.
    per_call: the work that a call is, besides its own.
    nbytes: how much memory it takes; what takes any may be dropped later, and is then made anew in the same way.
    cache: what holds the bound on that memory.

    `value` is the thing, or None as long as there is none. Where a call has to be quick, ask `value or get(work)`.
    """

    __slots__ = ("_cache", "_make", "_nbytes", "_per_call", "_price", "_spent", "value")

    def __init__(
        self,
        make: Callable[[], T],
        price: float | Callable[[], float],
        per_call: float | Callable[[], float] = 0,
        nbytes: Callable[[T], int] = lambda _: 0,
        cache: Cache | None = None,
    ) -> None:
        self._make, self._price, self._per_call, self._nbytes = make, price, per_call, nbytes
        self._cache = SHARED if cache is None else cache
        self._spent: float = 0
        self.value: T | None = None

    def get(self, work: float) -> T | None:
        """The thing, if it is there or if it pays with so much work more; else None."""
        thing = self.value  # which another thread may drop at any time
        if thing is None:
            self._spent += work + _now(self._per_call)
            if self._spent < _now(self._price):
                return None
            thing = self.value = self._make()
            nbytes = self._nbytes(thing)
            if nbytes:
                self._cache.add(self, nbytes)
        return thing

    def made(self) -> T:
        """The thing, made now if it is not there."""
        thing = self.get(float("inf"))
        assert thing is not None
        return thing

    def drop(self) -> None:
        """Forget the thing, as if no work had been done."""
        self.value, self._spent = None, 0


def _now(number: float | Callable[[], float]) -> float:
    return number() if callable(number) else number


class Latest:
    """What was made last for some operands, which are often those of the next call too, as weights and scales are."""

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = SHARED if cache is None else cache
        self._found: tuple[list[bytes], Sequence[Any]] | None = None

    def at(self, operands: Sequence[np.ndarray], make: Callable[[], Sequence[Any]], nbytes: int) -> Sequence[Any]:
        """What `make` gives, or has given for operands with the same bits; it takes so many bytes."""
        key, found = [v.tobytes() for v in operands], self._found
        if found is None or found[0] != key:
            self._found = found = key, make()
            self._cache.add(self, nbytes)
        return found[1]

    def drop(self) -> None:
        self._found = None


class Cache:
    """What has been made, in the order of making: the oldest is dropped when all takes too many bytes together.

    limit: the most bytes; by default those of the tuning (`Tuning.most_bytes`).
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._sizes: collections.OrderedDict[Amortised[Any] | Latest, int] = collections.OrderedDict()
        self._total = 0

    def add(self, thing: Amortised[Any] | Latest, nbytes: int) -> None:
        with self._lock:
            self._total += nbytes - self._sizes.pop(thing, 0)
            self._sizes[thing] = nbytes
            limit = tuning().most_bytes if self._limit is None else self._limit
            while self._total > limit and len(self._sizes) > 1:
                oldest, size = self._sizes.popitem(last=False)
                self._total -= size
                oldest.drop()

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            dropped, self._total = list(self._sizes), 0
            self._sizes.clear()
        for thing in dropped:
            thing.drop()


#: Holds everything that is not given a cache of its own.
SHARED = Cache()
