"""Runs a program op by op, with a set of its ops computed by another evaluator than the rest.

Results are cached by the op, the evaluator and the *contents* of the operands. So a second run only computes ops with
changed operands; if an error is rounded away, all later results are known.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.op import call_attribute, traits_of
from ...ops.traits import RegionSemantics
from ..diff.examiner import place_of
from ..diff.source import Source, inputs
from ..diff.walk import Values, Walk
from ..errors import LimitError
from ..program import Location, Operation, all_operations
from .evaluators import Evaluator, exact_results, to_declared


@dataclasses.dataclass(frozen=True)
class Site:
    """An op of a program, in a function reached through `calls`. In a loop it is one site for all iterations."""

    calls: tuple[Operation, ...]
    operation: Operation

    @property
    def location(self) -> Location:
        """The location of the op, or else that of the innermost call that has one."""
        return place_of(self.operation, self.calls)


#: Called for each op that runs, with its operands' values and both evaluators' results.
Observer = Callable[[Site, Sequence[Any], Sequence[Any]], None]


class Substitution:
    """Runs a program on its arguments, some ops by the evaluator `bad` and the others by `good`."""

    def __init__(
        self, source: Source, arguments: Sequence[Any], good: Evaluator, bad: Evaluator, *, iterations: int, memory: int
    ) -> None:
        """A run raises LimitError for a loop of more than `iterations`; `memory` bytes of results are kept."""
        self.source, self.evaluators, self.iterations, self._room = source, (good, bad), iterations, memory
        self._arguments = arguments
        self._kept: OrderedDict[tuple[Any, ...], list[Any]] = OrderedDict()
        bodies = (f.body for f in source.program.functions.values() if f.body is not None)
        parents = (o for body in bodies for o in all_operations(body))
        self._parents = {inner: o for o in parents for region in o.regions for inner in region.operations}

    def run(self, bad: frozenset[Site] | None, observer: Observer | None = None) -> list[Any]:
        """The results of the program with the ops of `bad` computed that way; None stands for all ops.

        With an observer every op is computed in both ways. Raises errors of `interp`.
        """
        entered = None if bad is None or observer or not self.evaluators[0].runs_whole else self._enclosing(bad)
        return _Walk(_Run(self, bad, observer), self, entered).run(self.source.function, self._arguments)

    def results(self, operation: Operation, values: Sequence[Any], is_bad: bool) -> list[Any]:
        """The results of an op by one of the evaluators, computed once for operands with the same contents."""
        key = (operation, is_bad, *map(_digest, values))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        self._kept[key] = self.evaluators[is_bad].results(operation, values)
        self._room -= sum(map(_bytes, self._kept[key]))
        while self._room < 0 and len(self._kept) > 1:
            self._room += sum(map(_bytes, self._kept.popitem(last=False)[1]))
        return self._kept[key]

    def _enclosing(self, sites: frozenset[Site]) -> set[Operation]:
        """The ops of sites and those that contain them: calls, loops and branches."""
        found: set[Operation] = set()
        for site in sites:
            for operation in (*site.calls, site.operation):
                inner: Operation | None = operation
                while inner is not None:
                    found.add(inner)
                    inner = self._parents.get(inner)
        return found


class _Run:
    """One run, as the executor of a walk."""

    def __init__(self, of: Substitution, bad: frozenset[Site] | None, observer: Observer | None) -> None:
        self.source, self._of, self._bad, self._observer = of.source, of, bad, observer
        self.calls: list[Operation] = []

    def run(self, operation: Operation, values: Sequence[Any]) -> list[Any]:
        site = Site(tuple(self.calls), operation)
        if self._observer is not None:
            self._observer(site, *(self._of.results(operation, values, is_bad) for is_bad in (False, True)))
        return self._of.results(operation, values, self._bad is None or site in self._bad)

    def here(self, operation: Operation, values: Sequence[Any]) -> list[Any]:
        return exact_results(self.source, operation, to_declared(operation, values))

    def rest(self, operation: Operation, values: Sequence[Any], iterations: int) -> list[Any]:
        del values
        raise LimitError(f"{operation.location}: {operation.name}: stopped after {iterations} iterations")


class _Walk(Walk):
    """A walk that enters only loops, branches and calls with an op to be substituted; all, if `entered` is None."""

    def __init__(self, run: _Run, of: Substitution, entered: set[Operation] | None) -> None:
        super().__init__(run, of.iterations)
        self._of, self._entered = of, entered

    def _operation(self, operation: Operation, values: Values) -> list[Any]:
        if self._entered is not None and operation not in self._entered and _is_entered(operation):
            return self._of.results(operation, [values[v] for v in inputs(operation)], False)
        return super()._operation(operation, values)


def _is_entered(operation: Operation) -> bool:
    runs = traits_of(operation.name).regions
    return call_attribute(operation.name) is not None or (
        bool(operation.regions) and runs in (RegionSemantics.LOOP, RegionSemantics.ONE)
    )


def _bytes(value: Any) -> int:
    return getattr(value, "nbytes", 0) + 200  # Python's overhead is about this much


def _digest(value: Any) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    if isinstance(value, np.ndarray):
        made.update(f"{value.dtype}{value.shape}".encode())
        made.update(value.tobytes())
    elif isinstance(value, tuple):
        for part in value:
            made.update(_digest(part))
    else:
        made.update(repr(value).encode())
    return made.digest()
