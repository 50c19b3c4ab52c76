"""Values that are made only when they pay, such as lookup tables, within a common limit of memory."""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from .speed import tuning

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")


class Amortised(Generic[T]):
    """A table, or another value that saves work: made once the work done without it has cost as much as making it.

    make: gives it.
    price: the work that making it takes, in the unit of the caller's, mostly elements; or a function that gives it.
    per_call: the work that a call is, besides its own.
    nbytes: how much memory it takes; what takes any may be dropped later, and is then made anew in the same way.
    cache: what holds the bound on that memory.

    `value` is what was made, None as long as nothing is. Where a call has to be quick, write `value or get(work)`.
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
        """The value, if it exists or would now pay, with `work` more to do; else None."""
        value = self.value  # which another thread may drop at any time
        if value is None:
            self._spent += work + _now(self._per_call)
            if self._spent < _now(self._price):
                return None
            value = self.value = self._make()
            nbytes = self._nbytes(value)
            if nbytes:
                self._cache.add(self, nbytes)
        return value

    def spend(self, work: float) -> None:
        """Count work that was done without the value. The value is not made yet, even if it would pay now."""
        self._spent += work

    def made(self) -> T:
        """The value, made now if it is not there."""
        value = self.get(float("inf"))
        assert value is not None
        return value

    def drop(self) -> None:
        """Drop the value, as if no work had been done."""
        self.value, self._spent = None, 0


def _now(number: float | Callable[[], float]) -> float:
    return number() if callable(number) else number


def kept(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Make a function of few different hashable arguments make each of its arrays once, as `functools.cache` does.

    The arrays count in the bounded cache: one that is dropped is made again when it is asked for.
    """
    entries: dict[tuple[Any, ...], Amortised[np.ndarray]] = {}

    @functools.wraps(make)
    def array(*key: Any) -> np.ndarray:
        entry = entries.get(key)
        if entry is None:
            made = Amortised(functools.partial(make, *key), 0, nbytes=lambda table: table.nbytes)
            entry = entries.setdefault(key, made)
        value = entry.value
        return entry.made() if value is None else value

    return array


class Latest:
    """What was made last for some operands, which are often those of the next call too, as weights and scales are."""

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = SHARED if cache is None else cache
        self._latest: tuple[list[bytes], Sequence[Any]] | None = None

    def at(self, operands: Sequence[np.ndarray], make: Callable[[], Sequence[Any]], nbytes: int) -> Sequence[Any]:
        """What `make` gives, or has given for operands with the same bits; it takes so many bytes."""
        key, latest = [v.tobytes() for v in operands], self._latest
        if latest is None or latest[0] != key:
            self._latest = latest = key, make()
            self._cache.add(self, nbytes)
        return latest[1]

    def drop(self) -> None:
        """Forget it: the next call makes it again."""
        self._latest = None


class Recent(dict[K, V]):
    """What was made for the last few keys, such as kernels for shapes; how many is said by the tuning."""

    def keep(self, key: K, value: V) -> V:
        """Adds a value, and drops the oldest if there are more than `Tuning.shapes` then. Returns the value."""
        for oldest in list(self)[: len(self) - tuning().shapes + 1]:
            self.pop(oldest, None)  # which another thread may have done
        self[key] = value
        return value


class Cache:
    """What has been made, in the order of making: the oldest is dropped when all takes too many bytes together.

    limit: the most bytes; by default those of the tuning (`Tuning.most_bytes`).
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._sizes: collections.OrderedDict[Amortised[Any] | Latest, int] = collections.OrderedDict()
        self._total = 0

    def add(self, owner: Amortised[Any] | Latest, nbytes: int) -> None:
        """Add the bytes that `owner` has made, and drop the oldest values above the limit."""
        with self._lock:
            self._total += nbytes - self._sizes.pop(owner, 0)
            self._sizes[owner] = nbytes
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
        for owner in dropped:
            owner.drop()


#: Holds everything that is not given a cache of its own.
SHARED = Cache()
