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

from ..diff.examiner import place_of
from ..diff.source import Source
from ..diff.walk import Walk
from ..errors import Error, InputError, LimitError
from ..program import Location, Operation
from .evaluators import Evaluator, results_here, to_declared
from .measures import Outcome


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
        self.source, self._arguments, self._evaluators = source, arguments, (good, bad)
        self._iterations, self._room = iterations, memory
        self._kept: OrderedDict[tuple[Any, ...], list[Any]] = OrderedDict()

    def run(self, bad: frozenset[Site] | None, observer: Observer | None = None) -> list[Any]:
        """The results of the program with the ops of `bad` computed that way; None stands for all ops.

        With an observer every op is computed in both ways. Raises errors of `interp`.
        """
        return Walk(_Run(self, bad, observer), self._iterations).run(self.source.function, self._arguments)

    def outcome(self, bad: frozenset[Site] | None, observer: Observer | None = None) -> Outcome:
        """The results of `run`, or the error of an op that ended it."""
        try:
            return self.run(bad, observer)
        except InputError:
            raise
        except Error as error:
            return error

    def results(self, operation: Operation, values: Sequence[Any], is_bad: bool) -> list[Any]:
        """The results of an op by one of the evaluators, computed once for operands with the same contents."""
        key = (operation, is_bad, *map(_contents, values))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        self._kept[key] = self._evaluators[is_bad].results(operation, values)
        self._room -= sum(map(_bytes, self._kept[key]))
        while self._room < 0 and len(self._kept) > 1:
            self._room += sum(map(_bytes, self._kept.popitem(last=False)[1]))
        return self._kept[key]


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
        return results_here(self.source, operation, to_declared(operation, values))

    def rest(self, operation: Operation, values: Sequence[Any], iterations: int) -> list[Any]:
        del values
        raise LimitError(f"{operation.location}: {operation.name}: stopped after {iterations} iterations")


def _bytes(value: Any) -> int:
    return getattr(value, "nbytes", 0) + 200  # Python's overhead is about this much


def _contents(value: Any) -> Any:
    """A key that values with the same contents share."""
    if isinstance(value, tuple):
        return tuple(map(_contents, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype, value.shape, hashlib.blake2b(value.tobytes(), digest_size=16).digest()
    return value
