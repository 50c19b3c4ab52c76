"""The check of one jitted program: a sample of its ops on a backend, each on operands that the program has computed.

The program runs here, which gives each op operands; the op then runs alone here and on the backend. The work is a
generator that yields the estimated cost of its next part, so that it can be continued in a later call.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ops.op import call_attribute
from ...ops.policy import Policy
from ...ops.types import TensorType
from ..backends import OPERATIONS, Backend
from ..diff.examiner import Examiner, types_of
from ..diff.judge import rounds
from ..diff.report import OpReport
from ..diff.source import Source, inputs, is_movable
from ..program import Operation
from .observe import ObservedProgram, runs_operations

#: The cost of an op's first run on a backend, with compilation: 20 to 40 ms on XLA's CPU, 2 on minihlo.
_FIRST = 0.03


class CheckedProgram:
    """A watched program: its ops, the number of checks of each kind, and the cost of checking."""

    def __init__(self, source: Source, backend: Backend, policy: Policy, memory: int) -> None:
        """`memory` limits the bytes of operands that are held. Raises errors of `interp`."""
        self.source, self._memory = source, memory
        self._examiner = Examiner(source, backend, policy)
        self._observed = ObservedProgram(source.program, source.function, policy, self._see)
        #: The kind of each op that can be checked: its name and types.
        self.kinds = {o: (o.name, types_of(o)) for o in self._observed.operations if _is_checked(o, backend)}
        self._rounding = {o: rounds(o) for o in self.kinds}
        self._times: Counter[Any] = Counter()  #: of a kind of ops, and of an op
        self._random = np.random.default_rng(0)
        self._wanted: set[Operation] = set()
        self._seen: dict[Operation, Sequence[Any]] = {}
        self._runs: Counter[Operation] = Counter()
        self._cost, self._run_cost = _FIRST, 0.0
        self.verdicts: Counter[str] = Counter()

    def run(self, arrays: Sequence[Any], report: Callable[[Operation, OpReport], None]) -> Iterator[float]:
        """Checks a sample on the arguments of one call; yields the estimated seconds of the next part.

        First one op of each kind, those that round before the others, the least checked first; then all others.
        """
        yield self._run_cost
        before = time.perf_counter()
        order = self._order()
        self._wanted, self._seen = set(self._select_fitting(order)), {}
        self._runs.clear()
        self._observed.run(arrays)
        self._run_cost = time.perf_counter() - before
        self.verdicts = Counter()
        for operation in filter(self._wanted.__contains__, order):
            operands = self._seen.pop(operation, None)
            if operands is None:
                continue
            yield self._cost
            before = time.perf_counter()
            made = self._check(operation, operands)
            if made.failed:
                report(operation, made)
            self._times.update((self.kinds[operation], operation))
            # The largest recent cost, so that the budget holds. It decays, as ops are faster once they are compiled.
            self._cost = max(time.perf_counter() - before, self._cost * 0.95)

    def _order(self) -> list[Operation]:
        chance = dict(zip(self.kinds, self._random.random(len(self.kinds)), strict=True))
        order = sorted(self.kinds, key=lambda o: (self._times[o], chance[o]))
        first = {self.kinds[o]: o for o in reversed(order)}.values()

        def rank(o: Operation) -> tuple[Any, ...]:
            checks = self._times[self.kinds[o]]
            # Ops that only move elements are checked a third as often.
            return checks if self._rounding[o] else 3 * checks, not self._rounding[o], chance[o]

        return list(dict.fromkeys([*sorted(first, key=rank), *order]))

    def _select_fitting(self, order: Sequence[Operation]) -> Iterator[Operation]:
        room = self._memory
        for operation in order:
            size = sum(v.type.nbytes for v in operation.operands if isinstance(v.type, TensorType))
            if size <= room:
                room -= size
                yield operation

    def _see(self, operation: Operation, operands: Sequence[Any], _: Sequence[Any]) -> None:
        if operation in self._wanted:
            self._runs[operation] += 1
            if self._random.random() * self._runs[operation] < 1:  # each iteration of a loop is equally likely
                self._seen[operation] = operands

    def _check(self, operation: Operation, operands: Sequence[Any]) -> OpReport:
        known = dict(zip(operation.operands, operands, strict=True))
        self._examiner.reports.clear()
        self._examiner.run(operation, [known[v] for v in inputs(operation)])
        made = self._examiner.report(operation)
        places = self._observed.operations[operation]
        if not made.location.line and places:
            made.location = places[0]
        self.verdicts[made.verdict] += 1
        return made


def _is_checked(operation: Operation, backend: Backend) -> bool:
    """Whether an op is checked: not if it computes nothing, consists of other ops, or reaches out of the program."""
    return (
        bool(operation.operands)
        and call_attribute(operation.name) is None
        and not runs_operations(operation)
        and operation.name not in ("stablehlo.custom_call", "stablehlo.rng")
        and is_movable(operation)
        and len(inputs(operation)) == len(set(operation.operands))
        and (backend.takes != OPERATIONS or rounds(operation))
    )
