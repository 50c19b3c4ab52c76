"""What keeps a backend from having an accumulator: it forgets products, places differ, it answers twice in two ways."""

from __future__ import annotations

from ..errors import CheckFailure


class ProbeFailure(CheckFailure):
    """The backend's answers are not those of any accumulator. The message shows the operands and results."""
