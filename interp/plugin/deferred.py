"""Values that are not there yet, and what they are put into when they are."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .work import Task


class Holder(Protocol):
    """What a value is put into when it is there; until then `array` is the Deferred."""

    array: Any


class Deferred:
    """A value that a task is going to give."""

    __slots__ = ("holders", "task", "value")

    def __init__(self, task: Task) -> None:
        self.task = task
        #: The array; an ErrorObject where the program failed; None as long as it runs.
        self.value: Any = None
        self.holders: collections.deque[Holder] = collections.deque()

    def deliver_to(self, holder: Holder) -> None:
        """Put the value, when it is there, into a holder whose `array` is this, and still is then."""
        self.holders.append(holder)
        if self.value is not None:
            self.deliver()

    def deliver(self) -> None:
        """Put the value into the holders."""
        while True:
            try:
                holder = self.holders.popleft()
            except IndexError:
                return
            # Threads do not take turns between these two steps, so that what is deleted stays deleted.
            if holder.array is self:
                holder.array = self.value
