"""The random bits of a run: random ops draw from one stream, in program order; each rounding has draws of its own."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Iterator

import numpy as np

from .draws import Draws
from .policy import Policy


class RandomStream(threading.local):
    """A reproducible stream: the same seed gives the same bits in every run, on every thread and machine.

    Each process of a grid has a stream of its own, which `spawn` begins.
    """

    def __init__(self) -> None:
        self._generator: np.random.Generator | None = None
        self._key: np.ndarray | None = None
        self._shared: Draws | None = None
        self.restart(0)

    def restart(self, seed: int | np.random.SeedSequence) -> None:
        """Begin the stream of `seed` anew, as every run of a program does."""
        self._seed, self._generator, self._key, self._roundings = seed, None, None, itertools.count()

    @property
    def generator(self) -> np.random.Generator:
        """The generator, made when it is first asked for."""
        if self._generator is None:
            self._generator = np.random.Generator(np.random.Philox(self._seed))
        return self._generator

    def draws(self, policy: Policy) -> Draws | None:
        """The draws of the next rounding; None where the policy does not round by them."""
        if policy.rounding != "stochastic":
            return None
        if self._shared is not None:
            return self._shared
        if self._key is None:
            seed = self._seed if isinstance(self._seed, np.random.SeedSequence) else np.random.SeedSequence(self._seed)
            self._key = seed.generate_state(2, np.uint64)
        return Draws(self._key, functools.partial(next, self._roundings))

    @contextlib.contextmanager
    def one_rounding(self, policy: Policy) -> Iterator[None]:
        """All roundings in the meantime count as one: they take its draws one after the other."""
        self._shared = self.draws(policy)
        try:
            yield
        finally:
            self._shared = None

    def spawn(self, count: int) -> list[np.random.SeedSequence]:
        """The seeds of streams that have nothing to do with this one, nor with those that were spawned before."""
        if isinstance(self._seed, int):
            self._seed = np.random.SeedSequence(self._seed)
        return self._seed.spawn(count)

    @contextlib.contextmanager
    def aside(self, seed: np.random.SeedSequence) -> Iterator[None]:
        """Draw from the stream of `seed` for a while, and then go on where this one was."""
        before = self._seed, self._generator, self._key, self._roundings
        self.restart(seed)
        try:
            yield
        finally:
            self._seed, self._generator, self._key, self._roundings = before


def first_draws(policy: Policy) -> Draws | None:
    """The draws of the first rounding of a run; None where the policy does not round by them."""
    random = RandomStream()
    random.restart(policy.seed)
    return random.draws(policy)
