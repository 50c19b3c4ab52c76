"""An elementwise operation on element types, as the oracle evaluates it and fault models change it."""

from __future__ import annotations

import dataclasses

import numpy as np

#: The codes of each operand, flat and of one length: one element of each contributes to one result.
Operands = tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True)
class OpCase:
    """An op on types."""

    op: str  #: StableHLO's name, without the dialect
    operands: tuple[str, ...]  #: element types
    result: str
    attributes: tuple[tuple[str, str], ...] = ()
