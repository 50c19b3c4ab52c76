"""The values that processes contribute to each other and wait for, and the errors that waiting can end in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..op import OpError

if TYPE_CHECKING:
    from .parallel import Process

#: (replica_id, partition_id)
ProcessId = tuple[int, int]

#: A message lists this many processes.
_MOST_LISTED = 8


class DeadlockError(OpError):
    """Processes wait for each other, or for what never comes."""

    def __init__(self, waits_for: str, parts: Sequence[tuple[ProcessId, DeadlockError]] = ()) -> None:
        """What one process waits for; of a whole grid the error of each process that waits."""
        self.waits_for, self.parts = waits_for, tuple(parts)
        super().__init__(self.message())

    def message(self, place: Callable[[BaseException], str] = lambda _: "") -> str:
        """The message, in which `place` may add to each process where it is."""
        parts = [f"process {id} {e.waits_for}{place(e)}" for id, e in self.parts[:_MOST_LISTED]]
        more = [f"and {len(self.parts) - _MOST_LISTED} more"] if len(self.parts) > _MOST_LISTED else []
        return f"deadlock: {'; '.join([*parts, *more]) or self.waits_for}"


class StoppedError(BaseException):
    """Ends a process because another one has failed, or the user has pressed Ctrl-C. No op may catch it."""


@dataclasses.dataclass(frozen=True)
class Contribution:
    """The part of one process in a rendezvous.

    name: the name of the op.
    signature: texts that have to be equal for all members.
    values: the values that it contributes.
    combine: gives the results of each member. Takes the values of each in the order of the group, and the key of the
        rendezvous: numbers that no other rendezvous of the run has.
    """

    name: str
    signature: tuple[str, ...]
    values: tuple[Any, ...]
    combine: Callable[[list[tuple[Any, ...]], tuple[int, ...]], list[tuple[Any, ...]]]


@dataclasses.dataclass(eq=False)
class Pending:
    """Results that other processes have a part in: there now, or later.

    needs: the processes that have to act before the results are there, as far as they are known.
    take: gives the results; called once.
    """

    process: Process
    waits_for: Callable[[], str]
    is_there: Callable[[], bool]
    needs: Callable[[], Iterable[ProcessId]]
    take: Callable[[], tuple[Any, ...]]
    _taken: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...]:
        """The results. Raises DeadlockError where they can never come."""
        if self._taken is None:
            self.process.wait(self)
            self._taken = self.take()
        return self._taken


@dataclasses.dataclass(frozen=True)
class Future:
    """The result of an op that has begun and is waited for later."""

    pending: Pending
    index: int = 0

    def get(self) -> Any:
        """The value. Waits until it is there."""
        return self.pending.get()[self.index]


def type_text(value: Any) -> str:
    """The type of a value, as processes compare it."""
    return "token" if value is None else f"{value.dtype} {list(value.shape)}"


def ids_text(ids: Iterable[ProcessId]) -> str:
    """Processes as messages list them: the first few, and how many there are."""
    ids = list(ids)
    more = f", … ({len(ids)} in all)" if len(ids) > _MOST_LISTED else ""
    return ", ".join(map(str, ids[:_MOST_LISTED])) + more
