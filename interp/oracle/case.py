"""An elementwise operation on element types: what the oracle evaluates and what fault models change."""

from __future__ import annotations

import dataclasses

import numpy as np

#: The codes of each operand, flat and of one length: an element of each goes into one result.
Operands = tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True)
class OpCase:
    """An op on types."""

    op: str  #: as StableHLO names it, without the dialect
    operands: tuple[str, ...]  #: element types
    result: str
    attributes: tuple[tuple[str, str], ...] = ()
