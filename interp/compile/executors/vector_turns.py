"""Many turns of a loop on vectors by code of its own (`ops/engine/fast/turns`), once that pays.

The rule. The code is made when Python has spent as long on the turns as LLVM takes, or beforehand where so many turns
would take as long. Where a function of f32 cannot tell how its result is rounded, that turn is made as Python and the
code goes on behind it. Which of two NaN comes out is up to the compiler, so turns that gave a NaN are made again.

Measured with one thread, 10**4 turns, µs for each as calls of numpy and as code: forward algorithm of 6 states 10 and
0.22, gradient descent on 8 parameters 8.0 and 0.03, RNN of 8 units 7.4 and 0.11, best path through 6 states 13 and
0.29. Whole training steps, ms, with groups compiled and with turns compiled: LSTM of 20 turns of 16 rows of 64 units
1.65 and 1.05; RNN of 30 turns 1.38 and 0.51.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ops.engine.amortised import Amortised
from ....ops.engine.fast.turns.run import Run, run_of
from ....ops.engine.gemm import ALONE
from ....ops.engine.speed import tuning
from ....ops.grid.parallel import current_grid
from ....ops.types import TensorType
from ..vectors.build import Vectors
from ..vectors.lies import Lies, lies_of

#: Makes some turns as Python, from one to another, and puts their rows into the results; takes states and gives them.
Otherwise = Callable[[Sequence[Any], int, int], Sequence[Any]]


class VectorTurns:
    """The turns of one recurrence."""

    def __init__(self, vectors: Vectors, count: int, states: Sequence[TensorType]) -> None:
        self._turn, self._count, self._states = vectors.turn, count, states
        self.shared = len(vectors.shared)
        #: Seconds are spent on it.
        self._code: Amortised[tuple[Run | None]] = Amortised(self._made, lambda: tuning().vector_seconds)
        self._has_products = any(p.terms > ALONE for p in vectors.turn.products)
        self._whole = vectors.whole

    def _made(self) -> tuple[Run | None]:
        return (run_of(self._turn),)

    def is_ready(self, is_slow: bool) -> bool:
        """Whether the code is there; `is_slow`: turns are calls of numpy otherwise."""
        code = self._code.value
        if code is None:
            expected = self._count * len(self._turn.instructions) * tuning().array_cost * 1e-6 if is_slow else 0
            code = self._code.get(expected)
            if code is None and is_slow:
                self._code.spend(-expected)  # what it takes is counted when it has run
        return code is not None and code[0] is not None

    def spend(self, seconds: float) -> None:
        """Add the time that turns have taken as Python."""
        self._code.spend(seconds)

    def run(
        self, states: Sequence[Any], given: Sequence[np.ndarray], results: Sequence[np.ndarray], otherwise: Otherwise
    ) -> tuple[int, Sequence[Any]]:
        """Make turns, and give the number of those that are done and the states after them.

        `given` are the rows and what is shared. `results` get the rows of all turns.
        """
        code = self._code.value
        if code is None or code[0] is None:
            return 0, states
        rows, shared = given[: len(given) - self.shared], given[len(given) - self.shared :]
        done, left, grid = 0, 0, current_grid()
        if self._has_products and not self._lie_well(states, [row[0, ...] for row in rows], shared):
            # numpy calls other functions of BLAS then. What it makes of states lies whole.
            if not self._lie_well((), [row[0, ...] for row in rows], shared):
                return 0, states
            states, done = otherwise(states, 0, 1), 1
        rows = [r if r[0].flags.c_contiguous else np.ascontiguousarray(r) for r in rows]
        shared, strides = [np.ascontiguousarray(v) for v in shared], [r.strides[0] for r in rows]
        while done < self._count:
            own = [np.array(s, t.element.dtype, order="C") for s, t in zip(states, self._states, strict=True)]
            end = min(done + tuning().vector_turns, self._count)
            stopped = code[0]([*own, *rows, *results, *shared], strides, done, end)
            if any(map(_has_nan, own)) or any(_has_nan(r[done:stopped]) for r in results):
                states = otherwise(states, done, stopped)
            else:
                states = own
            done = stopped
            if stopped < end:
                states = otherwise(states, stopped, stopped + 1)
                done, left = done + 1, left + 1
                if left > 1 + done * tuning().vector_left:
                    break
            if grid is not None and grid.is_stopped:
                grid.stop_here_if_stopped()
        return done, states

    def _lie_well(self, states: Sequence[Any], rows: Sequence[np.ndarray], shared: Sequence[np.ndarray]) -> bool:
        """Whether what comes from outside lies in memory so that BLAS is given what the code gives it."""
        for kind, values in (("state", states), ("row", rows), ("shared", shared)):
            for i, value in enumerate(map(np.asarray, values)):
                lies = lies_of(value)
                if lies is not Lies.WHOLE and ((kind, i) in self._whole or (value.ndim > 1 and lies is Lies.UNKNOWN)):
                    return False
        return True


def _has_nan(x: np.ndarray) -> bool:
    return x.dtype.kind in "fV" and bool(np.isnan(x).any())
