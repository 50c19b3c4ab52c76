"""The kinds of divergence."""

from __future__ import annotations

ERROR, OPEN, ACCURACY = "error", "open", "accuracy"

KINDS = {
    ERROR: "the peer is wrong",
    OPEN: "the format or the specification leaves it open",
    ACCURACY: "less accurate, which StableHLO permits",
}
