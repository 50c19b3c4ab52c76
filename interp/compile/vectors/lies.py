"""How arrays lie in memory where numpy makes a turn."""

from __future__ import annotations

import enum

import numpy as np


class Lies(enum.Enum):
    """How an array lies in memory when numpy makes the turn: what BLAS is called with depends on it."""

    WHOLE = enum.auto()  #: in row-major order without gaps
    IN_ORDER = enum.auto()  #: in that order with gaps, or repeated: what numpy computes of such arrays lies whole
    UNKNOWN = enum.auto()


def lies_of(found: np.ndarray) -> Lies:
    """How an array lies."""
    if found.flags.c_contiguous:
        return Lies.WHOLE
    strides = [s for s, n in zip(found.strides, found.shape, strict=True) if n > 1 and s]
    return Lies.IN_ORDER if strides == sorted(strides, reverse=True) and min(strides, default=0) >= 0 else Lies.UNKNOWN
