"""What processes bring to each other and wait for, and the errors that waiting can end in."""

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
class Share:
    """What one process brings to a meeting."""

    name: str  #: of the op
    signature: tuple[str, ...]  #: what has to be the same for all
    values: tuple[Any, ...]
    #: Gives each member its results. Takes the values of each in the order of the group, and numbers that no other
    #: meeting of the run has.
    combine: Callable[[list[tuple[Any, ...]], tuple[int, ...]], list[tuple[Any, ...]]]


@dataclasses.dataclass(eq=False)
class Pending:
    """Results that other processes have a part in: there now, or later."""

    process: Process
    waits_for: Callable[[], str]
    is_there: Callable[[], bool]
    needs: Callable[[], Iterable[ProcessId]]  #: who has to act before it is there, as far as that is known
    take: Callable[[], tuple[Any, ...]]  #: called once
    _taken: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...]:
        """The results. Raises DeadlockError where they can never come."""
        if self._taken is None:
            self.process.wait(self)
            self._taken = self.take()
        return self._taken


@dataclasses.dataclass(frozen=True)
class Later:
    """What an op gives instead of a result that is to be waited for later."""

    pending: Pending
    index: int = 0

    def get(self) -> Any:
        """The value. Waits until it is there."""
        return self.pending.get()[self.index]


def described(value: Any) -> str:
    """The type of a value, as processes compare it."""
    return "token" if value is None else f"{value.dtype} {list(value.shape)}"


def disagreement(mine: ProcessId, share: Share, other: ProcessId, theirs: Share) -> str:
    """The message where two processes meet in different ops, or with different types."""
    if share.name != theirs.name:
        return f"process {other} has come to {theirs.name} in its place, on the same channel and with the same group"
    both = [", ".join(s.signature) for s in (share, theirs)]
    return f"process {mine} brings {both[0]}, but process {other} brings {both[1]} (expected the same)"


def channel_text(channel: int) -> str:
    """A channel as messages name it; channels of 0 and below are not the program's."""
    return f"channel {channel}, " if channel > 0 else ""


def listed(ids: Iterable[ProcessId]) -> str:
    """Processes as messages list them: the first few, and how many there are."""
    ids = list(ids)
    more = f", … ({len(ids)} in all)" if len(ids) > _MOST_LISTED else ""
    return ", ".join(map(str, ids[:_MOST_LISTED])) + more
