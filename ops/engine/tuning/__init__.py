"""Sizes and counts that decide which of several ways is taken. None of them can change a bit of a result.

A record of them travels with `Speed`, which a plan has: kernels read `speed.tuning()` when they run. A number that
decides in which order floats are summed is no tuning, and is defined where the sum is formed.
"""

from __future__ import annotations

import dataclasses

from .arrays import ArrayTuning
from .groups import GroupTuning
from .loops import LoopTuning
from .products import ProductTuning


@dataclasses.dataclass(frozen=True)
class Tuning(ArrayTuning, GroupTuning, LoopTuning, ProductTuning):
    """Thresholds and block sizes, each with what measured it. Counts are of elements unless something else is said.

    Measured on two cores of an x86-64 server with 2 MiB of second-level cache each, with numpy 2.4.
    """


DEFAULT = Tuning()
