"""The failure of a probe: lost products, positions that differ, or answers that change."""

from __future__ import annotations

from ..errors import CheckFailure


class ProbeFailure(CheckFailure):
    """No accumulator gives the backend's answers. The message shows the operands and results."""
