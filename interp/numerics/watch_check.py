"""The check of one jitted program: a sample of its ops on a backend, each on operands that the program has computed.

The program runs here, which gives each op operands and the exact result; the op then runs alone on the backend. The
work is a generator that yields the estimated cost of its next part, so that it can be continued in a later call.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ops.op import call_attribute
from ...ops.policy import Policy
from ...ops.types import TensorType
from ..backends import OPERATIONS, Backend, BackendError
from ..diff.examiner import Examiner, types_of
from ..diff.judge import rounds
from ..diff.report import OpReport
from ..diff.source import Source, inputs, is_movable
from ..judging.record import CRASH, UNSUPPORTED
from ..program import Operation
from .observe import ObservedProgram, runs_operations

#: The cost of an op's first run on a backend, with compilation: 20 to 40 ms on XLA's CPU, 2 on minihlo.
_FIRST = 0.03


@dataclasses.dataclass(frozen=True)
class Item:
    """An executed op."""

    operation: Operation
    operands: list[Any]
    results: list[Any]


class CheckedProgram:
    """A watched program: its ops, the number of checks of each kind, and the cost of checking."""

    def __init__(self, source: Source, backend: Backend, policy: Policy, memory: int) -> None:
        """`memory` limits the bytes of operands and results that are held. Raises errors of `interp`."""
        self.source, self._memory = source, memory
        self._examiner = Examiner(source, backend, policy)
        self._observed = ObservedProgram(source.program, source.function, policy, self._see)
        self._kinds = {o: (o.name, types_of(o)) for o in self._observed.operations if _is_checked(o, backend)}
        self._rounding = {o: rounds(o) for o in self._kinds}
        self._times: Counter[Any] = Counter()  #: of a kind of ops, and of an op
        self._random = np.random.default_rng(0)
        self._wanted: set[Operation] = set()
        self._seen: dict[Operation, Item] = {}
        self._runs: Counter[Operation] = Counter()
        self._cost, self._run_cost = _FIRST, 0.0
        self.verdicts: Counter[str] = Counter()

    @property
    def kinds(self) -> int:
        """The number of kinds of ops."""
        return len(set(self._kinds.values()))

    @property
    def count(self) -> int:
        """The number of ops that can be checked."""
        return len(self._kinds)

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
        items = {o: self._seen.pop(o) for o in order if o in self._seen}
        self._run_cost = time.perf_counter() - before
        self.verdicts = Counter()
        for operation, item in items.items():
            yield self._cost
            before = time.perf_counter()
            self._check(item, report)
            self._times[self._kinds[operation]] += 1
            self._times[operation] += 1
            # The largest recent cost, so that the budget holds. It decays, as ops are faster once they are compiled.
            self._cost = max(time.perf_counter() - before, self._cost * 0.95)

    def _order(self) -> list[Operation]:
        chance = dict(zip(self._kinds, self._random.random(len(self._kinds)), strict=True))
        order = sorted(self._kinds, key=lambda o: (self._times[o], chance[o]))
        first: dict[Any, Operation] = {}
        for operation in order:
            first.setdefault(self._kinds[operation], operation)
        heads = sorted(first.values(), key=lambda o: (self._check_count(o), not self._rounding[o], chance[o]))
        chosen = set(heads)
        return [*heads, *(o for o in order if o not in chosen)]

    def _check_count(self, operation: Operation) -> int:
        """The number of checks of its kind; ops that only move elements are checked a third as often."""
        return self._times[self._kinds[operation]] * (1 if self._rounding[operation] else 3)

    def _select_fitting(self, order: Sequence[Operation]) -> Iterator[Operation]:
        room = self._memory
        for operation in order:
            size = sum(_bytes(v.type) for v in (*operation.operands, *operation.results))
            if size <= room:
                room -= size
                yield operation

    def _see(self, operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        if operation not in self._wanted or any(x is None for x in operands):
            return
        self._runs[operation] += 1
        if self._random.random() * self._runs[operation] < 1:  # each iteration of a loop is equally likely
            self._seen[operation] = Item(operation, list(operands), list(results))

    def _check(self, item: Item, report: Callable[[Operation, OpReport], None]) -> None:
        operation, examiner = item.operation, self._examiner
        known = dict(zip(operation.operands, item.operands, strict=True))
        values = [known[v] for v in inputs(operation)]
        examiner.reports.clear()
        try:
            theirs = examiner.there(operation, values)
        except BackendError as error:
            if error.how == "absent":
                raise
            made = examiner.report(operation)
            made.verdict = UNSUPPORTED if error.is_lack else CRASH
            made.notes.append(str(error))
        else:
            examiner.compare(operation, values, theirs, item.results)
        made = examiner.report(operation)
        places = self._observed.operations[operation]
        if not made.location.line and places:
            made.location = places[0]
        self.verdicts[made.verdict] += 1
        if made.failed:
            report(operation, made)


def _is_checked(operation: Operation, backend: Backend) -> bool:
    """Whether an op is checked: not if it computes nothing, consists of other ops, or reaches out of the program."""
    is_made_of_others = call_attribute(operation.name) is not None or runs_operations(operation)
    is_random = operation.name in ("stablehlo.custom_call", "stablehlo.rng")
    return (
        bool(operation.operands)
        and not is_made_of_others
        and not is_random
        and is_movable(operation)
        and len(inputs(operation)) == len(set(operation.operands))
        and (backend.takes != OPERATIONS or rounds(operation))
    )


def _bytes(t: Any) -> int:
    return t.element.dtype.itemsize * int(np.prod([d or 0 for d in t.shape])) if isinstance(t, TensorType) else 0
