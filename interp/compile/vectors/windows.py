"""Windows of tensors: of slices, updates and scatters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..leaf import Shape


def runs(offsets: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Where runs of neighbours begin among offsets, and how long each is."""
    run = next((i for i in range(1, len(offsets)) if offsets[i] != offsets[0] + i), len(offsets))
    run = math.gcd(run, len(offsets))
    is_whole = all(offsets[i + j] == offsets[i] + j for i in range(0, len(offsets), run) for j in range(run))
    run = run if is_whole else 1
    return tuple(offsets[::run]), run


def is_in_order(numbers: Mapping[str, Any], mapped: Sequence[int], shape: Shape) -> bool:
    """Whether the only window of a scatter has all dimensions that it does not move along, in their order."""
    dropped = np.ravel(numbers.get("inserted_window_dims", ())).astype(int).tolist()
    window = np.ravel(numbers.get("update_window_dims", ())).astype(int).tolist()
    kept = [d for d in range(len(shape)) if d not in dropped]
    return set(dropped) <= set(mapped) and window == sorted(window) and len(window) == len(kept)
