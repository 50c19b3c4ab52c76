"""What is made only once it pays: lookup tables and the like, all kept within one bound on memory."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")

#: The most bytes that everything made takes together; what was made longest ago goes first.
MOST_BYTES = 1 << 27


class Amortised(Generic[T]):
    """A thing that takes work to make and saves work later: it is made once the work done without it has cost as much.

    make: gives it.
    price: the work that making it takes, in the unit of the caller's, mostly elements.
    per_call: the work that a call is, besides its own.
    nbytes: how much memory it takes; what takes any may be dropped later, and is then made anew in the same way.

    `value` is the thing, or None as long as there is none. Where a call has to be quick, ask `value or get(work)`.
    """

    __slots__ = ("_left", "_make", "_nbytes", "_per_call", "_price", "value")

    def __init__(
        self, make: Callable[[], T], price: float, per_call: float = 0, nbytes: Callable[[T], int] = lambda _: 0
    ) -> None:
        self._make, self._price, self._per_call, self._nbytes = make, price, per_call, nbytes
        self._left = price
        self.value: T | None = None

    def get(self, work: float) -> T | None:
        """The thing, if it is there or if it pays with so much work more; else None."""
        thing = self.value  # which another thread may drop at any time
        if thing is None:
            self._left -= work + self._per_call
            if self._left > 0:
                return None
            thing = self.value = self._make()
            nbytes = self._nbytes(thing)
            if nbytes:
                _kept.add(self, nbytes)
        return thing

    def made(self) -> T:
        """The thing, made now if it is not there."""
        thing = self.get(float("inf"))
        assert thing is not None
        return thing

    def drop(self) -> None:
        """Forget the thing, as if no work had been done."""
        self.value, self._left = None, self._price


class Latest:
    """What was made last for some operands, which are often those of the next call too, as weights and scales are."""

    def __init__(self) -> None:
        self._found: tuple[list[bytes], Sequence[Any]] | None = None

    def at(self, operands: Sequence[np.ndarray], make: Callable[[], Sequence[Any]], nbytes: int) -> Sequence[Any]:
        """What `make` gives, or has given for operands with the same bits; it takes so many bytes."""
        key, found = [v.tobytes() for v in operands], self._found
        if found is None or found[0] != key:
            self._found = found = key, make()
            _kept.add(self, nbytes)
        return found[1]

    def drop(self) -> None:
        self._found = None


class _Kept:
    """What has been made, in the order of making."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: collections.OrderedDict[Amortised[Any] | Latest, int] = collections.OrderedDict()
        self._total = 0

    def add(self, thing: Amortised[Any] | Latest, nbytes: int) -> None:
        with self._lock:
            self._total += nbytes - self._sizes.pop(thing, 0)
            self._sizes[thing] = nbytes
            while self._total > MOST_BYTES and len(self._sizes) > 1:
                oldest, size = self._sizes.popitem(last=False)
                self._total -= size
                oldest.drop()


_kept = _Kept()
