"""The random bits of a run: stochastic rounding and random ops draw from one stream, in program order."""

from __future__ import annotations

import threading

import numpy as np


class RandomStream(threading.local):
    """A reproducible stream: the same seed gives the same bits in every run, on every thread and machine."""

    def __init__(self) -> None:
        self._generator: np.random.Generator | None = None
        self._seed = 0

    def restart(self, seed: int) -> None:
        """Begin the stream of `seed` anew, as every run of a program does."""
        self._seed, self._generator = seed, None

    @property
    def generator(self) -> np.random.Generator:
        if self._generator is None:
            self._generator = np.random.Generator(np.random.Philox(self._seed))
        return self._generator
