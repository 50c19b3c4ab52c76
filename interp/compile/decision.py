"""Decisions on how operations run, each with its reason in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ...ops.types import ElementType
from ..program import Operation
from .group import Function


@dataclasses.dataclass(frozen=True)
class Decision:
    """How an operation runs: the name of an executor of `executors/ways.py`, and the reason in words.

    otherwise: what the executor leaves to another one, as long as a table does not pay or code is not compiled.
    """

    executor: str
    reason: str
    otherwise: Decision | None = None

    def chain(self) -> Iterator[Decision]:
        """This, and what it falls back on."""
        yield self
        if self.otherwise is not None:
            yield from self.otherwise.chain()

    def __str__(self) -> str:
        return self.reason if self.otherwise is None else f"{self.reason}; until then {self.otherwise}"


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A decision, and the operations of the source that run by it, which are one group if they are several."""

    label: str  #: what the function of the group is called in listings, such as `table`
    decision: Decision
    operations: tuple[Operation, ...]


def table_of(function: Function) -> Decision:
    """The decision for a part of a group that is a table."""
    return Decision("table", f"table of {function.cases:,} entries within another group: {inputs(function)}")


def inputs(function: Function) -> str:
    """The leaves in words: two f8E4M3FN inputs."""
    counts: dict[ElementType, int] = {}
    for element in function.leaves:
        counts[element] = counts.get(element, 0) + 1
    if not counts:
        return "no input"
    parts = [f"{_counted(n)} {element} input{'s' * (n > 1)}" for element, n in counts.items()]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _counted(n: int) -> str:
    words: Sequence[str] = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[n] if n < len(words) else str(n)
