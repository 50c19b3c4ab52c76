"""A limit of steps, for programs that may never end.

A step is an op that runs, or a region or function that is entered.
"""

from __future__ import annotations

from ..ops.op import OpError


class StepsError(OpError):
    """The program has reached the limit of steps."""


class Steps:
    """Counts the steps of one run at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = most

    def restart(self) -> None:
        """Count from the start again."""
        self._left = self.most

    def take(self) -> None:
        """Count a step. Raises StepsError at the limit."""
        if self._left <= 0:
            raise StepsError(f"stopped after {self.most} steps")
        self._left -= 1
