"""Values that a running program will compute, and the holders that receive them."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .work import Task


class Holder(Protocol):
    """An object that receives a value. Until then its `array` is the Deferred."""

    array: Any


class Deferred:
    """A value that a task will compute."""

    __slots__ = ("holders", "task", "value")

    def __init__(self, task: Task) -> None:
        self.task = task
        #: The array; an ErrorObject if the program failed; None while it runs.
        self.value: Any = None
        self.holders: collections.deque[Holder] = collections.deque()

    def deliver_to(self, holder: Holder) -> None:
        """Store the value in a holder when it is computed, if the `array` of the holder is still this Deferred."""
        self.holders.append(holder)
        if self.value is not None:
            self.deliver()

    def deliver(self) -> None:
        """Store the value in the holders."""
        while True:
            try:
                holder = self.holders.popleft()
            except IndexError:
                return
            # Python does not switch threads between these two steps, so a deleted buffer stays deleted.
            if holder.array is self:
                holder.array = self.value
